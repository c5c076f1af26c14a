//! Row S6 of docs/reliability.md: known secrets never reach a file in any form, and masking never breaks an event.

use super::{event, id, manager, opened, run_spec, session};
use crate::search::Search;
use crate::{Masker, MaskingStream};
use althing_disk::sim::SimDisk;
use althing_protocol::{
    AgentId, Ask, AskKind, AskOption, AttemptOutcome, BackendErrorKind, Briefing, Decision, Event, Fact,
    Interaction, InteractionKind, Item, Journal, LaunchRun, MaskStream, Member, Modes, Notice, NoticeLevel,
    Op, Origin, PathGrant, Permission, PlanProgress, PlanRef, PlanRun, PlanStatus, PlanTask, Proposal, Reply,
    RunSpec, SubagentOf, TaskSpec, ToolCall, ToolSpec, Usage,
};
use proptest::prelude::{Strategy, prop};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

const CANARIES: [&str; 8] = [
    "sk-canary-0123456789abcdef",
    "with \"quotes\" and \\ slashes",
    "line\nbreak\tand tab",
    "ünïcode-🦀-schlüssel",
    "path/like+base64==",
    "\\nstarts-with-an-escape",
    "ends-with-a-backslash\\",
    "control\u{1}\u{7f}chars",
];

fn masker() -> Masker {
    Masker::new(CANARIES)
}

fn broken() -> Masker {
    Masker::with_search(CANARIES, |_| Search::Failed)
}

#[test]
fn a_masker_without_a_search_masks_every_text() {
    assert!(masker().is_searchable() && !broken().is_searchable());
    assert_eq!(broken().mask_text("nothing secret"), "[secret]");
    assert_eq!(broken().mask_text(""), "");
    let item = Fact::ItemAdded { attempt: 1, item: Item::Said { text: CANARIES[0].into() } };
    let masked = broken().mask_event((*event(1, Some("r1.a1"), item)).clone());
    assert_eq!(masked.fact, Fact::ItemAdded { attempt: 1, item: Item::Said { text: "[secret]".into() } });
    let mut stream = MaskingStream::new(Arc::new(broken()));
    let mut out = stream.push(b"nothing ").to_vec();
    out.extend_from_slice(stream.push(CANARIES[0].as_bytes()));
    out.extend_from_slice(stream.finish());
    let shown = String::from_utf8(out).unwrap();
    assert_eq!(shown.replace("[secret]", ""), "", "{shown}");
}

fn json_of(event: &Event) -> String {
    serde_json::to_string(event).unwrap()
}

fn in_json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn leaks(text: &str) -> Vec<String> {
    let forms = |canary: &str| {
        let once = in_json(canary).trim_matches('"').to_owned();
        [canary.to_owned(), in_json(&once).trim_matches('"').to_owned(), once]
    };
    CANARIES.iter().flat_map(|c| forms(c)).filter(|form| text.contains(form)).collect()
}

#[test]
fn a_text_loses_its_secrets_and_nothing_else() {
    for canary in CANARIES {
        let text = format!("before {canary} after {canary}");
        assert_eq!(masker().mask_text(&text), "before [secret] after [secret]", "{canary:?}");
        let nested = format!("{{\"key\": {}}}", in_json(canary));
        assert_eq!(masker().mask_text(&nested), "{\"key\": \"[secret]\"}", "{canary:?}");
    }
    let other = masker();
    let clean = other.mask_text("nothing to hide");
    assert!(matches!(clean, Cow::Borrowed("nothing to hide")));
}

#[test]
fn other_json_escapes_of_a_secret_are_masked() {
    let masker = Masker::new(["path/like+base64==", "ünïcode-🦀"]);
    assert_eq!(masker.mask_text(r#"{"k":"path\/like+base64=="}"#), r#"{"k":"[secret]"}"#);
    assert_eq!(masker.mask_text(r#"{"k":"\u00fcn\u00efcode-\ud83e\udd80"}"#), r#"{"k":"[secret]"}"#);
}

#[test]
fn overlapping_secrets_are_masked_completely() {
    let masker = Masker::new(["abcdef", "abcdefghi", "defghijkl", "uvwxyz"]);
    assert_eq!(masker.mask_text("-abcdefghijkl-abcdefghi-abcdef-"), "-[secret]-[secret]-[secret]-");
    assert_eq!(masker.mask_text("uvwxyzuvwxyz"), "[secret][secret]");
}

#[test]
fn short_values_are_ignored_and_white_space_is_trimmed() {
    let masker = Masker::new(["12345", "", "   ", " sk-secret\n"]);
    assert_eq!(masker.mask_text("12345 sk-secret 12345"), "12345 [secret] 12345");
    assert_eq!(Masker::new(["x"; 3]).mask_text("xxx"), "xxx");
    assert_eq!(format!("{masker:?}"), "Masker(…)");
}

pub(super) fn carriers(text: &str) -> Vec<Arc<Event>> {
    let arguments = format!("{{\"content\":{}}}", in_json(text));
    let call = ToolCall { id: "c1".into(), name: "new_answer".into(), arguments };
    let reply =
        Reply { text: text.into(), reasoning: text.into(), tool_calls: vec![call], ..Reply::default() };
    let member = Member {
        id: "alice".into(),
        backend: "openai".into(),
        model: "m".into(),
        offline: false,
        system_message: Some(text.into()),
        voting_sensitivity: None,
        has_tools: false,
    };
    let TaskSpec::Run(spec) = run_spec(text) else { unreachable!() };
    let spec =
        TaskSpec::Run(Box::new(RunSpec { members: vec![member], context: Some(text.into()), ..*spec }));
    let mut head = opened();
    if let Fact::SessionOpened(head) = &mut head {
        text.clone_into(&mut head.goal);
        text.clone_into(&mut head.config_text);
    }
    let facts = [
        head,
        Fact::TaskCreated { id: "r1".into(), parent: None, spec },
        Fact::ItemAdded { attempt: 1, item: Item::Reply(reply) },
        Fact::Notice(Notice { level: NoticeLevel::Error, text: text.into(), hint: Some(text.into()) }),
    ];
    (1..).zip(facts).map(|(n, fact)| event(n, Some("r1"), fact)).collect()
}

#[test]
fn no_canary_reaches_the_log_in_any_form() {
    let masker = masker();
    for canary in CANARIES {
        let disk = SimDisk::new(0);
        let mut writer = manager(&disk).create(&id()).unwrap();
        let masked: Vec<_> = carriers(&format!("x{canary}y"))
            .into_iter()
            .map(|event| Arc::new(masker.mask_event((*event).clone())))
            .collect();
        writer.append(&masked).unwrap();
        let log = String::from_utf8(disk.peek(&super::log_path()).unwrap()).unwrap();
        assert_eq!(leaks(&log), Vec::<String>::new(), "{canary:?}");
        assert_eq!(masked, carriers("x[secret]y"), "{canary:?}");
    }
}

#[test]
fn an_event_without_secrets_is_unchanged() {
    let masker = masker();
    for event in session(40) {
        assert_eq!(masker.mask_event((*event).clone()), *event);
    }
}

#[test]
fn a_secret_that_equals_a_format_word_breaks_no_event() {
    let words =
        ["openai", "session_opened", "running", "r1.a1.a2", "2026-1", "item_added", "agent1", "new_answer"];
    let masker = Masker::new(words);
    for event in session(40).into_iter().chain(carriers("my key is openai")) {
        let after = masker.mask_event((*event).clone());
        assert_eq!((after.seq, &after.task, after.at), (event.seq, &event.task, event.at));
        let type_of = |e: &Event| json_of(e).split("\"type\":").nth(1).unwrap()[..12].to_owned();
        assert_eq!(type_of(&after), type_of(&event));
    }
    let after = masker.mask_event((*carriers("my key is openai")[3]).clone());
    assert_eq!(after, *carriers("my key is [secret]")[3]);
}

fn briefed(text: &str) -> Item {
    let parameters = json!({"type": text, "properties": {text: {"enum": [text], "default": {text: text}}}});
    let tool = ToolSpec { name: text.into(), description: text.into(), parameters };
    let replaced_paths = vec![(text.into(), text.into())];
    Item::Briefed(Briefing { system: text.into(), tools: vec![tool], replaced_paths })
}

pub(super) fn named_by_others(text: &str) -> Vec<Arc<Event>> {
    let call = |id: &str| ToolCall { id: id.into(), name: text.into(), arguments: "{}".into() };
    let reply =
        Reply { tool_calls: vec![call(text), call("c2")], native: Some(text.into()), ..Reply::default() };
    let overrides = json!({text: {"id": text, "kind": text}});
    let launch = LaunchRun {
        task: text.into(),
        agents: Some(vec![AgentId::new(text)]),
        context_paths: vec![PathGrant { path: text.into(), permission: Permission::Write }],
        agent_system_prompts: BTreeMap::from([(AgentId::new(text), text.to_owned())]),
        coordination_overrides: overrides.as_object().cloned().unwrap_or_default(),
        ..LaunchRun::default()
    };
    let proposal = Proposal {
        launch,
        members: Vec::new(),
        modes: Modes::default(),
        chosen: vec![text.into()],
        may_read: vec![text.into()],
        may_write: vec![text.into()],
        costs: None,
        not_signed_in: BTreeMap::from([(AgentId::new("a"), text.to_owned())]),
        digest: "0".repeat(64),
    };
    let option = AskOption { id: text.into(), label: text.into() };
    let ask =
        Ask { about: AskKind::Question, text: text.into(), options: vec![option], native: Some(text.into()) };
    let asked = |kind| Fact::InteractionOpened(Interaction { id: "i1".into(), kind, countdown: None });
    let TaskSpec::Run(spec) = run_spec(text) else { unreachable!() };
    let task = PlanTask {
        id: text.into(),
        description: text.into(),
        depends_on: vec![text.into()],
        verification: Some(text.into()),
    };
    let plan = PlanRef { id: "p1".into(), path: text.into() };
    let plan = PlanRun { plan, tasks: vec![task], progress: Vec::new(), additions: Some(text.into()) };
    let of = SubagentOf {
        work: "r1.a1".into(),
        attempt: 1,
        step: 0,
        call: text.into(),
        nth: 1,
        background: false,
        workspace: Some(text.into()),
    };
    let stored = Item::PlanStored { plan: Some(plan.plan.clone()), error: Some(text.into()) };
    let opened = Item::PlanOpened { plan: Some(plan.clone()), error: Some(text.into()) };
    let execution = Some(Box::new((*spec).clone()));
    let spec = RunSpec { plan: Some(plan), execution, subagent_of: Some(of), ..*spec };
    let progress = PlanProgress { task: text.into(), status: PlanStatus::Completed, note: Some(text.into()) };
    let items = [
        Item::Reply(reply),
        briefed(text),
        Item::ToolResult { call: text.into(), content: text.into(), is_error: false },
        Item::Reminder { call: Some(text.into()), text: text.into(), restates_task: true },
        Item::Conversation { id: text.into() },
        Item::PlanProgress(progress),
        stored,
        opened,
        Item::PromptSent { text: text.into(), error: Some(text.into()) },
        Item::Did { tool: text.into(), detail: text.into(), result: Some(text.into()), is_error: true },
        Item::WorkspaceKept { error: Some(text.into()) },
    ];
    let decision = Decision::Choose { option: text.into() };
    let outcome = AttemptOutcome::Failed {
        error: text.into(),
        hint: Some(text.into()),
        kind: Some(BackendErrorKind::Auth),
    };
    let mut facts = vec![
        asked(InteractionKind::RunApproval { proposal: Box::new(proposal) }),
        asked(InteractionKind::Program(ask)),
        Fact::InteractionClosed { id: "i1".into(), decision },
        Fact::TaskCreated { id: "r2".into(), parent: Some("r1".into()), spec: TaskSpec::Run(Box::new(spec)) },
        Fact::AttemptEnded { attempt: 1, outcome, usage: Usage::default(), call: None },
        Fact::accepted(Op::Cancel { task: "w1.build".into() }, Origin::User),
    ];
    facts.extend(items.map(|item| Fact::ItemAdded { attempt: 1, item }));
    (1..).zip(facts).map(|(n, fact)| event(n, Some("r1"), fact)).collect()
}

pub(super) fn texts(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(n, value)| texts(value, &format!("{at}/{n}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| texts(value, &format!("{at}/{name}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_our_id(place: &str) -> bool {
    let place = place.replace(|c: char| c.is_ascii_digit(), "");
    let ends = |ends: &[&str]| ends.iter().any(|end| place.ends_with(end));
    let places =
        ["/task", "/data/id", "/data/op/task", "/data/parent", "/data/session", "/data/config_digest"];
    places.contains(&place.as_str())
        || ends(&["/members//id", "/members//backend", "/members//model", "/plan/id", "/subagent_of/work"])
        || ends(&["/spec/agent", "/item/agent", "/proposal/digest"])
}

#[test]
fn every_text_of_every_fact_is_masked_but_for_our_own_ids() {
    let (canary, masker) = (CANARIES[0], masker());
    let events = session(40).into_iter().chain(carriers("plain")).chain(named_by_others("plain"));
    let mut tried = 0;
    for event in events {
        let json: Value = serde_json::from_str(&json_of(&event)).unwrap();
        let mut places = Vec::new();
        texts(&json, "", &mut places);
        for place in places {
            let mut json = json.clone();
            *json.pointer_mut(&place).unwrap() = format!("x{canary}").into();
            // A field that does not accept every string cannot contain a secret.
            let Ok(event) = serde_json::from_value::<Event>(json.clone()) else { continue };
            tried += 1;
            let masked = json_of(&masker.mask_event(event.clone()));
            assert_eq!(leaks(&masked).is_empty(), !is_our_id(&place), "{place} in {json}");
        }
    }
    assert!(tried > 150, "{tried}");
    for event in named_by_others(canary) {
        let masked = json_of(&masker.mask_event((*event).clone()));
        assert_eq!(leaks(&masked), Vec::<String>::new(), "{masked}");
    }
}

#[test]
fn secrets_in_keys_of_foreign_objects_are_masked_and_every_value_stays() {
    let with_keys = |keys: [&str; 6]| {
        let fields: serde_json::Map<String, Value> =
            keys.into_iter().zip(1..).map(|(key, n)| (key.to_owned(), Value::from(n))).collect();
        let parameters = json!({"type": "object", "properties": fields});
        let tool = ToolSpec { name: "t".into(), description: "d".into(), parameters };
        let briefing = Briefing { system: "s".into(), tools: vec![tool], replaced_paths: Vec::new() };
        (*event(1, Some("r1.a1"), Fact::ItemAdded { attempt: 1, item: Item::Briefed(briefing) })).clone()
    };
    let (one, two) = (format!("x {}", CANARIES[0]), format!("x {}", CANARIES[1]));
    let masked =
        masker().mask_event(with_keys([&one, &two, "x [secret]-2", CANARIES[2], CANARIES[3], "path"]));
    let Fact::ItemAdded { item: Item::Briefed(briefing), .. } = masked.fact else { unreachable!() };
    let properties = briefing.tools[0].parameters["properties"].as_object().unwrap();
    let mut found: Vec<(&str, i64)> =
        properties.iter().map(|(key, n)| (key.as_str(), n.as_i64().unwrap())).collect();
    let keys: Vec<&str> = properties.keys().map(String::as_str).collect();
    assert!(keys.contains(&"x [secret]-2") && keys.contains(&"x [secret]-3"), "{keys:?}");
    assert!(
        keys.contains(&"[secret]") && keys.contains(&"[secret]-2") && keys.contains(&"x [secret]"),
        "{keys:?}"
    );
    found.sort_by_key(|(_, n)| *n);
    assert_eq!(found.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!((found[2], found[5]), (("x [secret]-2", 3), ("path", 6)), "other keys stay");
}

#[test]
fn masked_call_ids_stay_distinct_and_valid_for_providers() {
    let call = |id: &str| ToolCall { id: id.into(), name: CANARIES[0].into(), arguments: "{}".into() };
    let ids = [CANARIES[0], CANARIES[3], "c1", CANARIES[4], "secret", "call-sk-canary-0123456789abcdef-1"];
    let reply = Reply { tool_calls: ids.map(call).to_vec(), ..Reply::default() };
    let item = Fact::ItemAdded { attempt: 1, item: Item::Reply(reply) };
    let masked = masker().mask_event((*event(1, Some("r1.a1"), item)).clone());
    let Fact::ItemAdded { item: Item::Reply(reply), .. } = masked.fact else { unreachable!() };
    let (ids, names): (Vec<_>, Vec<_>) =
        reply.tool_calls.into_iter().map(|call| (call.id, call.name)).unzip();
    assert_eq!(ids, ["secret", "secret-2", "c1", "secret-3", "secret-4", "call-secret-1"]);
    assert!(names.iter().all(|name| name == "secret"), "{names:?}");
}

#[test]
fn a_secret_that_equals_a_format_word_does_not_unmask_other_secrets() {
    let masker = Masker::new(["permission", "write_only", "sk-canary-0123456789abcdef"]);
    for event in named_by_others("sk-canary-0123456789abcdef") {
        let masked = json_of(&masker.mask_event((*event).clone()));
        assert_eq!(leaks(&masked), Vec::<String>::new(), "{masked}");
    }
    // If the word `run_approval` were masked, the event could not be read back.
    let json = json_of(&named_by_others("plain")[0]).replace("\"write\"", "\"read\"");
    let masker = Masker::new(["chosen", "read_x", "run_approval", "sk-canary-0123456789abcdef"]);
    let json = json.replace("\"task\":\"plain\"", "\"task\":\"sk-canary-0123456789abcdef\"");
    let masked = json_of(&masker.mask_event(serde_json::from_str(&json).unwrap()));
    assert!(masked.contains("run_approval") && leaks(&masked).is_empty(), "{masked}");
}

#[test]
fn encoded_secrets_are_masked_at_any_offset() {
    let secret = "sk-canary/01?environment";
    let masker = Masker::new([secret]);
    for (text, masked) in [
        // In base64: the secret alone, after one other byte, and after two (with three spellings of a slash).
        ("c2stY2FuYXJ5LzAxP2Vudmlyb25tZW50.", "[secret]."),
        ("eHNrLWNhbmFyeS8wMT9lbnZpcm9ubWVudA==", "eH[secret]=="),
        ("eHlzay1jYW5hcnkvMDE/ZW52aXJvbm1lbnQh", "eHl[secret]h"),
        ("eHlzay1jYW5hcnkvMDE_ZW52aXJvbm1lbnQh", "eHl[secret]h"),
        (r"eHlzay1jYW5hcnkvMDE\/ZW52aXJvbm1lbnQh", "eHl[secret]h"),
        ("<736b2d63616e6172792f30313f656e7669726f6e6d656e74>", "<[secret]>"),
        ("<736B2D63616E6172792F30313F656E7669726F6E6D656E74>", "<[secret]>"),
        ("?key=sk-canary%2F01%3Fenvironment&x=1", "?key=[secret]&x=1"),
        ("?key=sk-canary%2f01%3fenvironment&x=1", "?key=[secret]&x=1"),
    ] {
        assert_eq!(masker.mask_text(text), masked, "{text}");
    }
    // The secret in base32, with zero to four other bytes before it: everything is masked except the characters at its
    // edges that also encode other bytes.
    for text in [
        "ONVS2Y3BNZQXE6JPGAYT6ZLOOZUXE33ONVSW45BBEE======",
        "PBZWWLLDMFXGC4TZF4YDCP3FNZ3GS4TPNZWWK3TUEEQQ====",
        "PB4XG2ZNMNQW4YLSPEXTAMJ7MVXHM2LSN5XG2ZLOOQQSC===",
        "PB4XU43LFVRWC3TBOJ4S6MBRH5SW45TJOJXW43LFNZ2CCII=",
        "O54HS6TTNMWWGYLOMFZHSLZQGE7WK3TWNFZG63TNMVXHIIJB",
    ] {
        for text in [text.to_owned(), text.to_lowercase()] {
            let masked = masker.mask_text(&text).into_owned();
            assert!(masked.contains("[secret]") && masked.len() <= "[secret]".len() + 12, "{text}: {masked}");
        }
    }
    let every = |write: fn(char) -> String| secret.chars().map(write).collect::<String>();
    for text in [
        every(|c| format!("\\u{:04x}", u32::from(c))),
        every(|c| format!("\\u{:04X}", u32::from(c))),
        every(|c| format!("\\x{:02x}", u32::from(c))),
        every(|c| format!("%{:02X}", u32::from(c))),
        every(|c| format!("&#{};", u32::from(c))),
        every(|c| format!("&#x{:X};", u32::from(c))),
    ] {
        assert_eq!(masker.mask_text(&format!("<{text}>")), "<[secret]>", "{text}");
    }
    assert_eq!(Masker::new(["a<b>&\"c'd"]).mask_text("x a&lt;b&gt;&amp;&quot;c&#39;d"), "x [secret]");
    assert_eq!(Masker::new(["a b+c/d e"]).mask_text("q=a+b%2Bc%2Fd+e"), "q=[secret]");
    assert_eq!(
        Masker::new(["abcdef"]).mask_text("YWJjZGVm 616263646566"),
        "YWJjZGVm 616263646566",
        "too short"
    );
}

proptest::proptest! {
    #[test]
    fn masking_any_value_in_any_text_leaves_no_trace_of_it(
        value in "[a-zA-Z \\\\\"\n\tä🦀/]{6,20}".prop_filter("long enough", |v| v.trim().len() >= 6),
        around in prop::collection::vec("[0-9]{0,12}", 2),
    ) {
        let value = value.trim();
        let masker = Masker::new([value]);
        let text = format!("{}{value}{}", around[0], around[1]);
        let masked = format!("{}[secret]{}", around[0], around[1]);
        proptest::prop_assert_eq!(masker.mask_text(&text), masked.as_str());
        for (event, expected) in carriers(&text).into_iter().zip(carriers(&masked)) {
            proptest::prop_assert_eq!(masker.mask_event((*event).clone()), (*expected).clone());
        }
    }
}

#[test]
fn characters_that_are_not_shown_hide_no_secret() {
    let masker = Masker::new(["sk-canary-0123", "other\u{200b}secret"]);
    for between in ["\u{200b}", "\r", "\u{2060}\u{feff}", "\u{e0041}"] {
        let hidden: Vec<String> = "sk-canary-0123".chars().map(String::from).collect();
        let text = format!("ä{between}<{}>{between}ö", hidden.join(between));
        let masked = format!("ä{between}<[secret]>{between}ö");
        assert_eq!(masker.mask_text(&text), masked, "{between:?}");
        // Not for a carriage return: in the JSON arguments of a call it is written as `\r`, which is visible.
        let events = carriers(&text).into_iter().zip(carriers(&masked)).filter(|_| between != "\r");
        for (event, expected) in events {
            assert_eq!(masker.mask_event((*event).clone()), *expected, "{between:?}");
        }
    }
    assert_eq!(masker.mask_text("other\u{200b}secret"), "[secret]", "a secret may contain them itself");
    assert_eq!(masker.mask_text("no\u{200b}thing\r\n"), "no\u{200b}thing\r\n");
}

#[test]
fn the_possible_start_of_a_secret_is_held_back() {
    let masker = Masker::new(["sk-canary-0123", "other-secret"]);
    assert_eq!(masker.unfinished("the key is sk-can"), "sk-can".len());
    let masked = masker.mask_text("the key is sk-canary-0123");
    assert_eq!(masker.unfinished(&masked), 0, "whole ones are masked, not held back");
    assert_eq!(
        masker.unfinished("anothe"),
        "othe".len(),
        "it may be the beginning of a word that ends in a secret"
    );
    assert_eq!(masker.unfinished("an othes"), "s".len());
    assert_eq!(masker.unfinished("s and o"), 1);
    assert_eq!(Masker::default().unfinished("sk-can"), 0);
    for hidden in ["\u{200b}", "\r", "\u{e0041}"] {
        let begun = format!("s{hidden}k{hidden}-c{hidden}");
        assert_eq!(masker.unfinished(&format!("the key{hidden} is {begun}")), begun.len(), "{hidden:?}");
        assert_eq!(masker.unfinished(&format!("the key{hidden}")), 0, "{hidden:?}");
    }
}

#[test]
fn a_flood_of_hidden_characters_is_not_held_back() {
    let masker = Masker::new(["sk-canary-0123"]);
    for hidden in ["\u{200b}", "\r"] {
        let many = |count: usize| format!("sk-can{}", hidden.repeat(count / hidden.len()));
        assert_eq!(masker.unfinished(&many(9_000)), many(9_000).len(), "{hidden:?}");
        assert_eq!(masker.unfinished(&many(90_000)), 0, "{hidden:?}");
    }
}
