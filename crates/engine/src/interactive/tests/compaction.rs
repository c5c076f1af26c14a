//! Tests of compaction: what is summarized, what is preserved, and what happens if the summary fails.

use super::harness::{World, agent, chat, launches};
use crate::SideTaskKind;
use crate::coordination::tests::harness::call;
use althing_protocol::{
    ChatSpec, ChatState, ContextCompaction, Fact, Item, Message, Notice, Op, Purpose, Reply, RunStatus, Seq,
    TaskId, Usage, Verdict,
};
use serde_json::json;

fn short(threshold_tokens: u64, preserve_recent: u32) -> ChatSpec {
    let mut agent = agent();
    agent.require_approval = false;
    agent.compaction = ContextCompaction { enabled: true, threshold_tokens, preserve_recent };
    ChatSpec { agent: Some(agent), ..chat() }
}

fn purpose(world: &World) -> Option<Purpose> {
    world.log.iter().rev().find_map(|event| match event.fact {
        Fact::AttemptStarted { purpose, .. } => Some(purpose),
        _ => None,
    })
}

fn exchange(world: &mut World, n: usize) {
    world.user(&format!("question {n}: {}", "why ".repeat(20)));
    if purpose(world) == Some(Purpose::Compact) {
        world.answers(&format!("summary {n}"));
    }
    world.answers(&format!("reply {n}: {}", "because ".repeat(20)));
}

fn shown(world: &World) -> String {
    format!("{:#?}", world.request().messages)
}

fn compactions(world: &World) -> Vec<(Seq, Vec<Seq>, (u64, u64))> {
    let found = world.log.iter().filter_map(|event| match &event.fact {
        Fact::Decided(Verdict::Compacted { up_to, kept, tokens, .. }) => {
            Some((*up_to, kept.clone(), *tokens))
        }
        _ => None,
    });
    found.collect()
}

// spec: interactive/interactive-session-lifecycle/session-context-compaction
// spec: design/compaction/pinned
#[test]
fn past_the_threshold_older_turns_are_summarized_and_goal_pins_markers_and_the_newest_stay() {
    let mut world = World::new(short(2000, 2));
    world.user("The goal: port the parser, keeping src/parser/mod.rs small");
    world.answers("We decided: no new dependencies.");
    let pinned = world.user("Never touch the lexer");
    world.answers("Understood.");
    world.op(Op::Pin { message: Some(pinned) });
    world.user("Build it");
    world.says(launches(json!({"task": "build the parser"})));
    world.run_ends(RunStatus::Completed);
    world.answers("Built.");
    for n in 0..12 {
        exchange(&mut world, n);
    }
    let compactions = compactions(&world);
    assert!(!compactions.is_empty(), "{}", world.story());
    for (_, kept, (before, after)) in &compactions {
        assert!(before > after && *before > 2000, "{before} {after}");
        assert!(kept.contains(&pinned), "{kept:?}");
    }
    world.user("And now?");
    if purpose(&world) == Some(Purpose::Compact) {
        world.answers("the last summary");
    }
    let shown = shown(&world);
    for kept in [
        "The goal: port the parser, keeping src/parser/mod.rs small",
        "Never touch the lexer",
        "We decided: no new dependencies.",
        "src/parser/mod.rs",
        "run s1.r1 (completed): build the parser [/logs/r1]",
        "summary",
        "question 11",
        "reply 11",
        "question 10",
        "And now?",
    ] {
        assert!(shown.contains(kept), "{kept} is lost:\n{shown}");
    }
    assert!(!shown.contains("question 3:"), "the older turns are gone");
    assert!(world.chat.token_count() < 2500, "{}", world.chat.token_count());
}

#[test]
fn a_failed_summary_changes_nothing_and_is_reported() {
    let mut world = World::new(short(500, 1));
    for n in 0..3 {
        world.user(&format!("question {n}: {}", "why ".repeat(20)));
        if purpose(&world) == Some(Purpose::Compact) {
            if n == 2 { world.fails() } else { world.says(Reply::default()) }
        }
        world.answers(&format!("reply {n}: {}", "because ".repeat(20)));
    }
    assert!(compactions(&world).is_empty());
    let notices: Vec<&Notice> = world
        .log
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::Notice(notice) => Some(notice),
            _ => None,
        })
        .collect();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(
        notices[0].text.contains("HTTP 500") && notices[0].text.contains("continues unchanged"),
        "{notices:?}"
    );
    world.user("Still there?");
    world.answers("a summary");
    assert_eq!(compactions(&world).len(), 1, "the next turn tries again");
    assert!(shown(&world).contains("Still there?"));
}

#[test]
fn the_user_can_request_a_compaction_which_resets_the_backends_own_conversation() {
    let mut world = World::new(short(1_000_000, 1));
    for n in 0..3 {
        world.user(&format!("question {n}"));
        world.says(Reply { text: format!("reply {n}"), native: Some("n1".into()), ..Reply::default() });
    }
    world.op(Op::Compact);
    assert_eq!((world.chat.state(), purpose(&world)), (ChatState::Chatting, Some(Purpose::Compact)));
    let request = world.request();
    assert!(!world.chat.is_conversing(), "a summary needs no tools");
    assert!(request.tools.is_empty() && request.call_context.unwrap().native.is_none());
    let Some(Message::User(text)) = request.messages.first() else { panic!("{:?}", request.messages) };
    assert!(
        text.contains("question 0") && text.contains("reply 1") && !text.contains("question 2"),
        "{text}"
    );
    world.answers("All about numbers.");
    assert_eq!(world.chat.state(), ChatState::Idle);
    assert!(world.chat.refusal_of(&Op::Compact).is_some(), "nothing is left to shorten");
    world.user("Next");
    assert_eq!(world.request().call_context.unwrap().native, None);
    assert!(shown(&world).contains("All about numbers."));
}

#[test]
fn the_providers_token_count_overrides_the_estimate() {
    let mut world = World::new(short(1000, 1));
    let counted = |input_tokens| Usage { input_tokens, output_tokens: 10, calls: 1, ..Usage::default() };
    for n in 0..2 {
        world.user(&format!("question {n}"));
        world.says(Reply { text: format!("reply {n}"), usage: counted(100), ..Reply::default() });
    }
    assert_eq!(world.chat.token_count(), 110);
    world.user("more");
    assert_eq!(
        purpose(&world),
        Some(Purpose::Converse),
        "its prompt is longer than our estimate would have it"
    );
    world.says(Reply { text: "reply".into(), usage: counted(5000), ..Reply::default() });
    world.user("and more");
    assert_eq!(purpose(&world), Some(Purpose::Compact));
}

#[test]
fn the_incremental_estimate_equals_a_full_recount() {
    let mut world = World::new(short(1_000_000, 1));
    for n in 0..5 {
        exchange(&mut world, n);
    }
    world.user("Build it");
    world.says(launches(json!({"task": "build"})));
    world.run_ends(RunStatus::Completed);
    let request = world.request();
    let whole = crate::interactive::tokens::estimate_messages(&request.messages);
    let base_prompt = world.chat.token_count() - whole;
    world.answers("Built.");
    world.user("And now?");
    let whole = crate::interactive::tokens::estimate_messages(&world.request().messages);
    assert_eq!(world.chat.token_count(), base_prompt + whole, "the same as if all of it were counted again");
}

#[test]
fn nothing_is_summarized_if_compaction_is_disabled() {
    let mut spec = short(1, 0);
    spec.agent.as_mut().unwrap().compaction.enabled = false;
    let mut world = World::new(spec);
    for n in 0..5 {
        exchange(&mut world, n);
    }
    assert!(compactions(&world).is_empty());
}

#[test]
fn three_hundred_turns_with_twenty_runs_keep_goal_pins_and_newest_through_crashes() {
    let mut rng = fastrand::Rng::with_seed(6);
    let mut world = World::new(short(8000, 10));
    world.user("The goal is a bridge over the river");
    world.answers("Yes.");
    let pin = world.user("It must carry trains");
    world.answers("It will.");
    world.op(Op::Pin { message: Some(pin) });
    for n in 0..300 {
        world.user(&format!("question {n}: {}", "about the piers ".repeat(8)));
        let mut launched = n % 15 != 0;
        for _ in 0..8 {
            if world.chat.state() == ChatState::Idle {
                break;
            }
            if rng.u8(0..4) == 0 {
                let left = rng.usize(1..=world.last_batch());
                world.crashes(left);
            }
            if world.chat.current_run().is_some() {
                world.run_ends(RunStatus::Completed);
            } else if world.chat.wanted().calls.is_empty() {
                world.settle();
            } else if purpose(&world) == Some(Purpose::Compact) {
                world.answers("So far so good.");
            } else if launched || world.chat.runs().len() > n / 15 {
                world.answers(&format!("reply {n}: {}", "about the arches ".repeat(8)));
            } else {
                launched = true;
                world.says(launches(json!({"task": format!("compute {n}")})));
            }
        }
        assert_eq!(world.chat.state(), ChatState::Idle, "{n}");
    }
    assert_eq!(world.runs().len(), 20, "no run is launched twice");
    world.user("Well?");
    if purpose(&world) == Some(Purpose::Compact) {
        world.answers("So far so good.");
    }
    let shown = shown(&world);
    for kept in [
        "The goal is a bridge over the river",
        "It must carry trains",
        "question 299",
        "question 290",
        "s1.r20",
    ] {
        assert!(shown.contains(kept), "{kept} is lost:\n{shown}");
    }
    assert!(world.chat.token_count() < 9000, "{}", world.chat.token_count());
    assert!(!compactions(&world).is_empty());
}

fn long(name: &str, tokens: usize) -> String {
    format!("{name} {}", "x".repeat(tokens * 4 - name.len() - 1))
}

fn tool_step(world: &mut World, name: &str, tokens: usize) {
    let mut tool_call = call("read_file", "{}");
    tool_call.id = format!("call-{name}");
    let reply = Reply { text: format!("I read {name}."), tool_calls: vec![tool_call], ..Reply::default() };
    world.says(reply);
    let side_task = world.chat.wanted().side_tasks.pop().unwrap();
    let SideTaskKind::Tool(tool_call) = side_task.kind else { panic!("a tool") };
    let item = Item::ToolResult { call: tool_call.id, content: long(name, tokens), is_error: false };
    world.happens(TaskId::chat(), Fact::ItemAdded { attempt: side_task.attempt, item });
}

fn check_pairs(world: &World) {
    let mut open: Vec<String> = Vec::new();
    for message in world.request().messages {
        match message {
            Message::Tool { call, .. } => {
                let at = open.iter().position(|id| *id == call).expect("a result has a call");
                open.remove(at);
            }
            Message::User(_) => assert!(open.is_empty()),
            Message::Assistant { tool_calls, .. } => {
                assert!(open.is_empty());
                open.extend(tool_calls.into_iter().map(|call| call.id));
            }
        }
    }
    assert!(open.is_empty());
}

fn replaced(world: &World) -> Vec<(u32, u32)> {
    let found = world.log.iter().filter_map(|event| match &event.fact {
        Fact::Decided(Verdict::Compacted { exchanges, steps, .. }) => Some((*exchanges, *steps)),
        _ => None,
    });
    found.collect()
}

// spec: interactive/interactive-session-lifecycle/session-context-compaction
#[test]
fn fewer_exchanges_are_preserved_if_a_few_are_too_long() {
    // The sizes of the exchanges in tokens, and how many of the exchanges are replaced before the next reply begins.
    let table: [(&[usize], u32); 6] = [
        (&[2_000, 2_000, 2_000], 0),
        (&[100, 25_000], 2),
        (&[25_000], 1),
        (&[9_000, 9_000, 9_000], 2),
        (&[15_000, 500, 500, 15_000, 500], 4),
        (&[1_000, 1_000, 1_000, 17_000, 500, 500], 4),
    ];
    for (sizes, expected) in table {
        let mut world = World::new(short(20_000, 10));
        for (n, tokens) in sizes.iter().enumerate() {
            world.user(&format!("question {n}"));
            if purpose(&world) == Some(Purpose::Compact) {
                world.answers("an earlier summary");
            }
            world.answers(&long(&format!("answer-{n}"), *tokens));
        }
        let earlier: u32 = replaced(&world).iter().map(|(exchanges, _)| exchanges).sum();
        world.user("And now?");
        if expected > earlier {
            assert_eq!(purpose(&world), Some(Purpose::Compact), "{sizes:?}");
            world.answers("THE SUMMARY");
        }
        let total: u32 = replaced(&world).iter().map(|(exchanges, _)| exchanges).sum();
        assert_eq!(total, expected, "{sizes:?}");
        assert!(world.chat.token_count() <= 20_000, "{sizes:?}: {}", world.chat.token_count());
        let shown = shown(&world);
        assert!(
            shown.contains("question 0") && shown.contains("And now?"),
            "the goal and the current message"
        );
    }
}

// spec: interactive/interactive-session-lifecycle/session-context-compaction
// spec: design/compaction/pinned
#[test]
fn a_long_turn_is_compacted_before_its_next_call() {
    let mut world = World::new(short(20_000, 10));
    world.user("The goal: a bridge");
    world.answers("Yes.");
    let pinned = world.user("It must be blue");
    world.answers("It will be.");
    world.op(Op::Pin { message: Some(pinned) });
    world.user("Read everything");
    tool_step(&mut world, "first", 6_500);
    // The agent's own words can be pinned while it works.
    let said = world.log.iter().rev().find_map(|event| match &event.fact {
        Fact::ItemAdded { item: Item::Reply(_), .. } => Some(event.seq),
        _ => None,
    });
    world.op(Op::Pin { message: said });
    tool_step(&mut world, "second", 6_500);
    assert!(compactions(&world).is_empty() && world.chat.is_conversing());
    tool_step(&mut world, "third", 6_500);
    assert_eq!(purpose(&world), Some(Purpose::Compact), "{}", world.story());
    let request = world.request();
    assert!(request.tools.is_empty());
    let text = format!("{:?}", request.messages);
    for part in [
        "It must be blue",
        "The assistant is working on this message now:",
        "I read first.",
        "[called read_file]",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.contains("I read third."), "the newest step is not summarized");
    world.answers("THE SUMMARY");
    assert_eq!(replaced(&world), [(2, 2)]);
    assert!(world.chat.is_conversing(), "the reply continues");
    check_pairs(&world);
    let text = shown(&world);
    for kept in [
        "THE SUMMARY",
        ">\\nThe goal: a bridge\\n<end of first user message ",
        ">\\nIt must be blue\\n<end of user ",
        ">\\nI read first.",
        "Read everything\\n\\n[Your first steps for this message are part of the summary above.]",
        "I read third.",
    ] {
        assert!(text.contains(kept), "{kept} is missing:\n{text}");
    }
    assert!(
        !text.contains("I read second.") && text.contains(&long("third", 6_500)),
        "the newest step is whole"
    );
    let (before, after) = compactions(&world)[0].2;
    assert!(before > 20_000 && after < 12_000, "{before} {after}");
    // The turn goes on and is compacted once more.
    tool_step(&mut world, "fourth", 6_500);
    tool_step(&mut world, "fifth", 6_500);
    assert_eq!(purpose(&world), Some(Purpose::Compact));
    world.answers("THE SECOND SUMMARY");
    assert_eq!(replaced(&world), [(2, 2), (0, 2)]);
    check_pairs(&world);
    world.answers("All is read.");
    assert_eq!(world.chat.state(), ChatState::Idle);
    assert_eq!(world.folded(), world.chat);
    world.user("And?");
    let text = shown(&world);
    for kept in
        ["THE SECOND SUMMARY", "The goal: a bridge", "It must be blue", "I read first.", "All is read."]
    {
        assert!(text.contains(kept), "{kept} is missing:\n{text}");
    }
}

#[test]
fn a_summary_that_fails_within_a_turn_is_reported_and_tried_again_only_after_growth() {
    let mut world = World::new(short(20_000, 10));
    world.user("Read everything");
    for name in ["first", "second", "third", "fourth"] {
        tool_step(&mut world, name, 4_000);
    }
    tool_step(&mut world, "fifth", 4_000);
    assert_eq!(purpose(&world), Some(Purpose::Compact));
    world.fails();
    let notices =
        |world: &World| world.log.iter().filter(|event| matches!(event.fact, Fact::Notice(_))).count();
    assert_eq!((notices(&world), world.chat.is_conversing()), (1, true));
    tool_step(&mut world, "small", 100);
    assert!(world.chat.is_conversing() && notices(&world) == 1, "the turn continues unchanged");
    check_pairs(&world);
    tool_step(&mut world, "large", 5_000);
    assert_eq!(purpose(&world), Some(Purpose::Compact), "the conversation has grown");
    world.answers("THE SUMMARY");
    assert_eq!(replaced(&world).len(), 1);
    world.answers("Done.");
    assert_eq!(world.chat.state(), ChatState::Idle);
}

#[test]
fn the_limit_on_replies_of_a_turn_counts_those_that_were_replaced() {
    let mut world = World::new(short(20_000, 10));
    world.user("Read everything");
    let mut steps = 0;
    while world.chat.state() != ChatState::Idle {
        if purpose(&world) == Some(Purpose::Compact) {
            world.answers("THE SUMMARY");
        } else {
            tool_step(&mut world, &format!("part-{steps}"), 3_000);
            steps += 1;
        }
        assert!(steps <= 200, "the turn does not end");
    }
    assert_eq!(steps, 200);
    assert!(replaced(&world).len() > 10);
}

#[test]
fn a_turn_resumes_from_any_prefix_of_a_compaction_and_repeats_no_tool_call() {
    let mut whole = World::new(short(20_000, 1));
    whole.user("The goal");
    whole.answers("Yes.");
    whole.user("Read everything");
    for name in ["first", "second", "third", "fourth"] {
        tool_step(&mut whole, name, 5_500);
    }
    assert_eq!(purpose(&whole), Some(Purpose::Compact));
    whole.answers("THE SUMMARY");
    tool_step(&mut whole, "fifth", 100);
    whole.answers("All is read.");
    let started = whole.log.iter().position(|event| matches!(&event.fact, Fact::ItemAdded { item: Item::Reply(reply), .. } if reply.text.contains("first")));
    for cut in started.unwrap()..whole.log.len() {
        let mut world = whole.clone();
        world.log.truncate(cut);
        world.chat = world.folded();
        world.op(Op::Resume);
        for _ in 0..20 {
            let wanted = world.chat.wanted();
            if let Some(side_task) = wanted.side_tasks.into_iter().next() {
                let SideTaskKind::Tool(call) = side_task.kind else { panic!("a tool") };
                let item = Item::ToolResult { call: call.id, content: long("again", 5_500), is_error: false };
                world.happens(TaskId::chat(), Fact::ItemAdded { attempt: side_task.attempt, item });
            } else if !wanted.calls.is_empty() {
                let compacts = !world.chat.is_conversing();
                check_pairs(&world);
                world.answers(if compacts { "A SUMMARY" } else { "The end." });
            }
        }
        assert_eq!(world.chat.state(), ChatState::Idle, "cut at {cut}\n{}", world.story());
        assert_eq!(world.folded(), world.chat, "cut at {cut}");
        let (mut open, mut ended) = (0, 0);
        for event in &world.log {
            match &event.fact {
                Fact::AttemptStarted { .. } => open += 1,
                Fact::AttemptEnded { .. } => ended += 1,
                _ => {}
            }
            assert!(open - ended <= 1, "two attempts at once, cut at {cut}");
        }
        assert_eq!(open, ended, "cut at {cut}");
    }
}

#[test]
fn a_compaction_recorded_by_an_older_version_folds_as_before() {
    let mut world = World::new(short(1_000_000, 1));
    for n in 0..3 {
        world.user(&format!("question {n}"));
        world.answers(&format!("reply {n}"));
    }
    world.op(Op::Compact);
    world.answers("THE SUMMARY");
    let event = world.log.iter_mut().find(|event| matches!(event.fact, Fact::Decided(_))).unwrap();
    let mut line = serde_json::to_value(&*event).unwrap();
    let data = line["data"].as_object_mut().unwrap();
    assert!(data.remove("exchanges").is_some() && data.remove("steps").is_some(), "{line}");
    *event = serde_json::from_value(line).unwrap();
    assert_eq!(world.folded(), world.chat);
}
