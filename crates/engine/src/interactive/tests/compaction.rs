//! Compaction: what is summarized, what is preserved, and what happens if the summary fails.

use super::harness::{World, agent, chat, launches};
use althing_protocol::{
    ChatSpec, ChatState, ContextCompaction, Fact, Message, Notice, Op, Purpose, Reply, RunStatus, Seq, Usage,
    Verdict,
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
        world.user(&format!("question {n}: {}", "why ".repeat(200)));
        if purpose(&world) == Some(Purpose::Compact) {
            if n == 2 { world.fails() } else { world.says(Reply::default()) }
        }
        world.answers(&format!("reply {n}: {}", "because ".repeat(200)));
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
