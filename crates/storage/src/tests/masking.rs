//! S6: known secrets never reach a file, in whatever form they turn up, and masking never breaks an event.

use super::{event, id, manager, opened, run_spec, session};
use crate::Masker;
use crate::sim::SimDisk;
use althing_protocol::{
    Event, Fact, Item, Journal, Member, Notice, NoticeLevel, Reply, RunSpec, TaskSpec, ToolCall,
};
use proptest::prelude::{Strategy, prop};
use std::borrow::Cow;
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

fn in_json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Every form in which a canary could stand in a file.
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
fn escapes_that_other_writers_choose_are_known_too() {
    let masker = Masker::new(["path/like+base64==", "ünïcode-🦀"]);
    assert_eq!(masker.mask_text(r#"{"k":"path\/like+base64=="}"#), r#"{"k":"[secret]"}"#);
    assert_eq!(masker.mask_text(r#"{"k":"\u00fcn\u00efcode-\ud83e\udd80"}"#), r#"{"k":"[secret]"}"#);
}

#[test]
fn values_that_overlap_leave_no_end_of_either() {
    let masker = Masker::new(["abcdef", "abcdefghi", "defghijkl", "uvwxyz"]);
    assert_eq!(masker.mask_text("-abcdefghijkl-abcdefghi-abcdef-"), "-[secret]-[secret]-[secret]-");
    assert_eq!(masker.mask_text("uvwxyzuvwxyz"), "[secret][secret]");
}

#[test]
fn short_values_and_the_space_around_values_are_left_out() {
    let masker = Masker::new(["12345", "", "   ", " sk-secret\n"]);
    assert_eq!(masker.mask_text("12345 sk-secret 12345"), "12345 [secret] 12345");
    assert_eq!(Masker::new(["x"; 3]).mask_text("xxx"), "xxx");
    assert_eq!(format!("{masker:?}"), "Masker(…)");
}

/// Events that carry a text wherever an event can carry one.
fn carriers(text: &str) -> Vec<Arc<Event>> {
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
        hands: false,
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
fn no_canary_reaches_the_log_however_it_comes() {
    for canary in CANARIES {
        let disk = SimDisk::new(0);
        let mut writer = manager(&disk).create(&id()).unwrap();
        let masked: Vec<_> = carriers(&format!("x{canary}y"))
            .into_iter()
            .map(|event| Arc::new(masker().mask_event((*event).clone())))
            .collect();
        writer.append(&masked).unwrap();
        let log = String::from_utf8(disk.peek(&super::log_path()).unwrap()).unwrap();
        assert_eq!(leaks(&log), Vec::<String>::new(), "{canary:?}");
        assert_eq!(masked, carriers("x[secret]y"), "{canary:?}");
    }
}

#[test]
fn an_event_without_secrets_comes_back_as_it_was() {
    for event in session(40) {
        assert_eq!(masker().mask_event((*event).clone()), *event);
    }
}

#[test]
fn a_secret_that_is_also_one_of_our_own_words_breaks_no_event() {
    let words =
        ["openai", "session_opened", "running", "r1.a1.a2", "2026-1", "item_added", "agent1", "new_answer"];
    let masker = Masker::new(words);
    for event in session(40).into_iter().chain(carriers("my key is openai")) {
        let after = masker.mask_event((*event).clone());
        assert_eq!((after.seq, &after.task, after.at), (event.seq, &event.task, event.at));
        let type_of = |e: &Event| e.to_json().split("\"type\":").nth(1).unwrap()[..12].to_owned();
        assert_eq!(type_of(&after), type_of(&event));
    }
    let after = masker.mask_event((*carriers("my key is openai")[3]).clone());
    assert_eq!(after, *carriers("my key is [secret]")[3]);
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
fn a_stream_can_tell_what_may_be_the_beginning_of_a_secret() {
    let masker = Masker::new(["sk-canary-0123", "other-secret"]);
    assert_eq!(masker.unfinished("the key is sk-can"), "sk-can".len());
    assert_eq!(masker.unfinished("the key is sk-canary-0123"), 0, "whole ones are masked, not held back");
    assert_eq!(
        masker.unfinished("anothe"),
        "othe".len(),
        "it may be the beginning of a word that ends in a secret"
    );
    assert_eq!(masker.unfinished("an othes"), "s".len());
    assert_eq!(masker.unfinished("s and o"), 1);
    assert_eq!(Masker::default().unfinished("sk-can"), 0);
}
