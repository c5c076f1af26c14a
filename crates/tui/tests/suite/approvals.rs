//! Approving, editing and rejecting runs and plans.

use super::support::{HostWithPaths, TestScreen, options};
use crate::script::{self, START, Script, team};
use althing_protocol::{
    AgentId, AgentMode, ChatState, Decision, Event, Fact, FeedItem, InteractionKind, KnownCosts, LaunchRun,
    Modes, Notice, NoticeLevel, Op, PathGrant, Permission, Price, Proposal, Seq,
};
use althing_tui::Effect;
use crossterm::event::{Event as TerminalEvent, KeyCode};
use std::sync::Arc;

fn asked() -> TestScreen {
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Build phase 1");
    script.turn(1);
    script.approval();
    TestScreen::showing(&script, 100, 30)
}

fn decision(screen: &TestScreen) -> &Decision {
    match screen.ops.last() {
        Some(Op::Answer { decision, .. }) => decision,
        other => panic!("nothing was answered: {other:?}"),
    }
}

fn approved() -> Decision {
    Decision::Approve { digest: Some("d1g3st".into()), edited: None, instructions: None }
}

// spec: interactive/run-approval-flow/approval-required
#[test]
fn the_modal_shows_task_context_agents_and_three_buttons() {
    let screen = asked();
    for text in [
        "Launch this run?",
        "Task      Execute phase 1: replace JWT issue and verify with Paseto",
        "Context   plan auth, phase 1 of 3; keep the public API; tests must pass",
        "Agents    gem gemini-2.5-flash · gpt gpt-5-mini · cc Claude Code",
        "May write ./my-app, by the presenter after the vote",
        "Approve",
        "Edit",
        "Cancel",
    ] {
        assert!(screen.shows(text), "{text} in\n{}", screen.text());
    }
    assert!(screen.shows("Status: Awaiting approval"));
}

// spec: design/approval/shortcut
#[test]
fn a_single_key_approves_exactly_what_was_shown() {
    for key in [KeyCode::Enter, KeyCode::Char('a')] {
        let mut screen = asked();
        screen.press(key);
        screen.wait(if key == KeyCode::Enter { 0 } else { 1000 });
        assert_eq!(*decision(&screen), approved());
        assert!(!screen.shows("Launch this run?"), "the answer closes the question at once");
    }
    let mut screen = asked();
    screen.click("Approve");
    assert_eq!(*decision(&screen), approved());
}

#[test]
fn esc_and_cancel_refuse_the_run() {
    let mut screen = asked();
    screen.press(KeyCode::Esc);
    assert_eq!(*decision(&screen), Decision::Reject { reason: None });
    let mut screen = asked();
    screen.click("Cancel");
    assert_eq!(*decision(&screen), Decision::Reject { reason: None });
}

#[test]
fn an_edited_run_is_approved_with_what_the_user_wrote() {
    let mut screen = asked();
    screen.click("Edit");
    screen.write(", carefully");
    screen.press(KeyCode::Tab);
    screen.write("; no new crates");
    screen.press(KeyCode::Enter);
    screen.press_alone('m');
    assert!(screen.shows("Single: ‹gem› gpt cc · Refine"));
    screen.press(KeyCode::Enter);
    let Decision::Approve { digest, edited: Some(edited), .. } = decision(&screen) else {
        panic!("{:?}", screen.ops)
    };
    let before = Script::proposal().launch;
    let expected = LaunchRun {
        task: format!("{}, carefully", before.task),
        context: before.context.clone().map(|text| format!("{text}; no new crates")),
        agent_mode: Some(AgentMode::Single),
        agents: Some(vec!["gem".into()]),
        ..before
    };
    assert_eq!(**edited, expected);
    assert_eq!(digest.as_deref(), Some("d1g3st"));
}

#[test]
fn a_question_does_not_take_the_keys_of_someone_who_is_typing() {
    let mut script = Script::default();
    script.chat(true);
    let mut screen = TestScreen::showing(&script, 100, 30);
    screen.write("and also the doc");
    script.items.clear();
    script.approval();
    screen.feed(&script.items);
    assert!(screen.shows("Launch this run?"));
    screen.write("s");
    screen.press(KeyCode::Enter);
    assert!(matches!(screen.ops.last(), Some(Op::SendMessage { text, .. }) if text == "and also the docs"));
    screen.now = althing_protocol::Timestamp(screen.now.0 + 2_000);
    screen.press(KeyCode::Enter);
    assert_eq!(*decision(&screen), approved());
}

#[test]
fn a_plan_is_approved_with_more_instructions() {
    let plan = || {
        let mut script = Script::default();
        script.chat(true);
        script.plan_approval();
        TestScreen::showing(&script, 100, 30)
    };
    let mut screen = plan();
    assert!(screen.shows("Plan: auth · 3 tasks"));
    assert!(screen.shows("1 Add pasetors, keep jsonwebtoken · verify: cargo test -p auth"));
    screen.press(KeyCode::Tab);
    screen.write("also update the docs");
    screen.press(KeyCode::Enter);
    let instructions = Some("also update the docs".to_owned());
    assert_eq!(*decision(&screen), Decision::Approve { digest: None, edited: None, instructions });

    let mut screen = plan();
    screen.press_alone('c');
    screen.write("fewer tasks");
    screen.press(KeyCode::Enter);
    assert_eq!(*decision(&screen), Decision::Change { text: "fewer tasks".into() });

    let mut screen = plan();
    screen.press(KeyCode::Enter);
    assert_eq!(*decision(&screen), Decision::Approve { digest: None, edited: None, instructions: None });

    let mut screen = plan();
    screen.press(KeyCode::Esc);
    assert_eq!(*decision(&screen), Decision::Reject { reason: None });
}

/// A dialog for a proposal whose launch names the agent mode and all agents, as a resolved launch does.
fn asked_about(change: impl FnOnce(&mut Proposal)) -> TestScreen {
    let mut proposal = Script::proposal();
    proposal.launch.agent_mode = Some(AgentMode::Multi);
    proposal.launch.agents = Some(team().into_iter().map(|member| member.id).collect());
    change(&mut proposal);
    let mut script = Script::default();
    script.chat(true);
    script.state(ChatState::AwaitingApproval);
    script.asks(Some("c1"), "i-run", InteractionKind::RunApproval { proposal: Box::new(proposal) }, None);
    TestScreen::showing(&script, 100, 30)
}

fn edited(screen: &TestScreen) -> LaunchRun {
    match decision(screen) {
        Decision::Approve { edited: Some(edited), .. } => (**edited).clone(),
        other => panic!("nothing was edited: {other:?}"),
    }
}

fn ids(names: &[&str]) -> Vec<AgentId> {
    names.iter().map(|name| AgentId::from(*name)).collect()
}

#[test]
fn the_dialog_shows_what_the_run_may_cost_and_the_estimate_follows_the_chosen_agents() {
    let price = Price { input_per_million: 10.0, output_per_million: 10.0, cached_input_per_million: None };
    let prices = ["gem", "gpt"].map(|id| (AgentId::from(id), price)).into();
    let costs = KnownCosts { prices, ..KnownCosts::default() };
    let mut screen = asked_about(|proposal| proposal.costs = Some(Box::new(costs)));
    assert!(screen.shows("Cost      about ") && screen.shows("plus "), "{}", screen.text());
    assert!(screen.shows("(price unknown)"), "{}", screen.text());
    screen.press_alone('m');
    assert!(screen.shows("Cost      about ") && !screen.shows("unknown"), "gem alone:\n{}", screen.text());
    let old = asked_about(|_| {});
    assert!(!old.shows("Cost "), "{}", old.text());
}

#[test]
fn every_agent_can_be_chosen_to_work_alone_and_the_agents_line_follows() {
    let lines = ["Agents    gem gemini-2.5-flash", "Agents    gpt gpt-5-mini", "Agents    cc Claude Code"];
    for (steps, (name, line)) in ["gem", "gpt", "cc"].into_iter().zip(lines).enumerate() {
        for by_arrow in [false, true] {
            let mut screen = asked_about(|_| {});
            screen.press_alone('m');
            for _ in 0..steps {
                if by_arrow { screen.press(KeyCode::Right) } else { screen.press_alone('m') }
            }
            assert!(screen.shows(&format!("‹{name}›")) && screen.shows(line), "{}", screen.text());
            assert!(!screen.shows(" · cc") && !screen.shows("gem gemini-2.5-flash ·"), "{}", screen.text());
            assert!(screen.shows(&format!("./my-app, by {name}")), "{}", screen.text());
            screen.press(KeyCode::Enter);
            let edited = edited(&screen);
            assert_eq!((edited.agent_mode, edited.agents), (Some(AgentMode::Single), Some(ids(&[name]))));
        }
    }
    let mut screen = asked_about(|_| {});
    screen.press_alone('m');
    screen.press(KeyCode::Left);
    assert!(screen.shows("Single: gem gpt ‹cc›"), "the arrows go round:\n{}", screen.text());
    screen.press_alone('m');
    screen.press(KeyCode::Enter);
    assert_eq!(*decision(&screen), approved(), "after the last one it is as it was proposed");
}

#[test]
fn prompts_for_agents_that_take_no_part_are_dropped() {
    let with_words = |proposal: &mut Proposal| {
        let words = [("gem", "be brief"), ("cc", "be thorough")];
        proposal.launch.agent_system_prompts =
            words.into_iter().map(|(id, text)| (id.into(), text.into())).collect();
    };
    let mut screen = asked_about(with_words);
    screen.press_alone('m');
    screen.press(KeyCode::Enter);
    let prompts: Vec<AgentId> = edited(&screen).agent_system_prompts.into_keys().collect();
    assert_eq!(prompts, ids(&["gem"]));
    let mut screen = asked_about(with_words);
    screen.press_alone('m');
    screen.press(KeyCode::Right);
    screen.press(KeyCode::Enter);
    assert!(edited(&screen).agent_system_prompts.is_empty());
}

#[test]
fn a_run_that_was_proposed_for_one_agent_can_be_given_to_another_or_to_the_whole_team() {
    let single = |proposal: &mut Proposal| {
        proposal.members.retain(|member| member.id.as_str() == "gpt");
        proposal.modes = Modes { agent_mode: AgentMode::Single, refinement: false, planning: false };
        proposal.launch.agent_mode = Some(AgentMode::Single);
        proposal.launch.agents = Some(ids(&["gpt"]));
    };
    let mut screen = asked_about(single);
    assert!(screen.shows("Single: gem ‹gpt› cc") && screen.shows("Agents    gpt gpt-5-mini"));
    screen.press_alone('m');
    screen.press(KeyCode::Enter);
    assert_eq!(edited(&screen).agents, Some(ids(&["cc"])));
    let mut screen = asked_about(single);
    screen.press_alone('m');
    screen.press_alone('m');
    assert!(screen.shows("Agents    gem gemini-2.5-flash · gpt gpt-5-mini · cc Claude Code"));
    screen.press(KeyCode::Enter);
    assert_eq!((edited(&screen).agent_mode, edited(&screen).agents), (Some(AgentMode::Multi), None));
}

#[test]
fn a_path_that_the_person_types_into_the_task_is_granted_and_shown() {
    let typed = |text: &str| {
        let mut script = Script::default();
        script.chat(true);
        script.approval();
        let mut screen = TestScreen::with_host(options(), Arc::new(HostWithPaths), 100, 30);
        screen.feed(&script.items);
        screen.press_alone('e');
        screen.write(text);
        screen.press(KeyCode::Enter);
        screen.wait(2_000);
        screen
    };
    let grants = |screen: &mut TestScreen| {
        screen.press(KeyCode::Enter);
        edited(screen).context_paths
    };
    let path = |permission: Permission| PathGrant { path: "/data/notes".into(), permission };
    let mut screen = typed(" in @/data/notes:w");
    assert!(screen.shows("May write ./my-app, /data/notes"), "{}", screen.text());
    assert_eq!(grants(&mut screen), [path(Permission::Write)]);
    assert!(edited(&screen).task.ends_with(" in /data/notes"), "{}", edited(&screen).task);
    let mut screen = typed(" as in @/data/notes");
    assert!(screen.shows("Reads     /data/notes"), "{}", screen.text());
    assert_eq!(grants(&mut screen), [path(Permission::Read)]);
    // Without its path in the text, the grant is gone.
    let mut screen = typed(" in @/data/notes:w");
    screen.press_alone('e');
    screen.control('w');
    screen.press(KeyCode::Enter);
    screen.wait(2_000);
    assert!(!screen.shows("/data/notes"), "{}", screen.text());
    assert!(grants(&mut screen).is_empty());
}

#[test]
fn a_path_in_a_pasted_text_is_granted_neither_in_a_message_nor_in_a_run() {
    let pasted = "the log says @/data/notes:w and @/data/notes, mail me@/data/notes";
    let defused = "the log says \\@/data/notes:w and \\@/data/notes, mail me@/data/notes";
    let sent = |screen: &TestScreen| match screen.ops.last() {
        Some(Op::SendMessage { text, grants, .. }) => (text.clone(), grants.len()),
        other => panic!("{other:?}"),
    };
    let long = |text: &str| format!("{}{text}", "a line\n".repeat(300));
    for (pasted, defused) in [(pasted.to_owned(), defused.to_owned()), (long(pasted), long(defused))] {
        let mut screen = TestScreen::with_host(options(), Arc::new(HostWithPaths), 100, 30);
        let mut script = Script::default();
        script.chat(true);
        screen.feed(&script.items);
        screen.send(TerminalEvent::Paste(pasted.replace('@', "@\u{1}")));
        assert!(screen.shows("a pasted @path gives no access"), "{}", screen.text());
        screen.wait(2_000);
        screen.press(KeyCode::Enter);
        assert_eq!(sent(&screen), (defused.clone(), 0));
        screen.press(KeyCode::Up);
        screen.press(KeyCode::Enter);
        assert_eq!(sent(&screen), (defused, 0), "a message that is sent again");
    }
    let mut screen = TestScreen::with_host(options(), Arc::new(HostWithPaths), 100, 30);
    let mut script = Script::default();
    script.chat(true);
    script.asks(
        Some("c1"),
        "i-run",
        InteractionKind::RunApproval { proposal: Box::new(Script::proposal()) },
        None,
    );
    screen.feed(&script.items);
    screen.press_alone('e');
    screen.send(TerminalEvent::Paste(format!(" {pasted}")));
    screen.press(KeyCode::Enter);
    screen.wait(2_000);
    screen.press(KeyCode::Enter);
    assert!(edited(&screen).context_paths.is_empty());
}

#[test]
fn what_an_agent_writes_into_the_task_like_a_mention_grants_nothing_when_the_person_edits_the_task() {
    let mut proposal = Script::proposal();
    proposal.launch.task = "Tidy @/data/notes:w".into();
    let mut script = Script::default();
    script.chat(true);
    script.asks(Some("c1"), "i-run", InteractionKind::RunApproval { proposal: Box::new(proposal) }, None);
    let mut screen = TestScreen::with_host(options(), Arc::new(HostWithPaths), 100, 30);
    screen.feed(&script.items);
    screen.press_alone('e');
    screen.write(" now");
    screen.press(KeyCode::Enter);
    screen.wait(2_000);
    screen.press(KeyCode::Enter);
    assert!(edited(&screen).context_paths.is_empty());
    assert_eq!(edited(&screen).task, "Tidy @/data/notes:w now");
}

#[test]
fn the_fields_of_a_plan_say_that_a_path_grants_nothing_there() {
    for letter in ['i', 'c'] {
        let mut script = Script::default();
        script.chat(true);
        script.plan_approval();
        let mut screen = TestScreen::with_host(options(), Arc::new(HostWithPaths), 100, 30);
        screen.feed(&script.items);
        screen.press_alone(letter);
        screen.write("write @/data/notes:w too");
        screen.press(KeyCode::Enter);
        assert_eq!(screen.ops.len(), 1);
        assert!(screen.shows("@/data/notes:w gives no access here"), "{}", screen.text());
    }
}

#[test]
fn a_rejected_answer_reopens_the_box_unchanged_with_the_reason() {
    let mut script = Script::default();
    script.chat(true);
    script.approval();
    let opened = script.seq;
    let mut screen = TestScreen::showing(&script, 100, 30);
    screen.press_alone('m');
    screen.press(KeyCode::Enter);
    assert!(!screen.shows("Launch this run?"));
    let refusal = |cause: u64, text: &str| {
        let text = format!("not taken: {text}");
        let fact = Fact::Notice(Notice { level: NoticeLevel::Warning, text, hint: None });
        FeedItem::Event(Arc::new(Event {
            seq: Seq(opened + cause),
            at: START,
            task: None,
            cause: (cause > 1).then_some(Seq(opened)),
            fact,
        }))
    };
    screen.feed(&[refusal(1, "something else")]);
    assert!(!screen.shows("Launch this run?"), "another notice opens nothing:\n{}", screen.text());
    screen.feed(&[refusal(2, "this agent is gone")]);
    assert!(screen.shows("Launch this run?") && screen.shows("not taken: this agent is gone"));
    assert!(screen.shows("Single: ‹gem› gpt cc"), "what was chosen is kept:\n{}", screen.text());
    screen.press_alone('m');
    screen.press(KeyCode::Enter);
    assert_eq!(screen.ops.len(), 2, "it can be answered again");
    assert_eq!(edited(&screen).agents, Some(ids(&["gpt"])));
}

type OpenBox = (&'static str, fn(&mut Script));

/// Every dialog that opens by itself.
fn boxes() -> [OpenBox; 3] {
    let budget = |script: &mut Script| {
        let kind = InteractionKind::Budget {
            spent_micro_usd: 5_040_000,
            budget_micro_usd: 5_000_000,
            raised_micro_usd: Some(10_040_000),
        };
        script.asks(Some("c1"), "i-budget", kind, None);
    };
    [("run", Script::approval), ("plan", Script::plan_approval), ("budget", budget)]
}

fn boxed(open: fn(&mut Script)) -> TestScreen {
    let mut script = Script::default();
    script.chat(true);
    open(&mut script);
    TestScreen::showing(&script, 100, 30)
}

#[test]
fn text_typed_while_a_box_is_open_goes_to_the_input_and_answers_nothing() {
    for (name, open) in boxes() {
        for letter in '!'..='~' {
            // The waits before the first key and after each key, in milliseconds.
            for (before, between) in [(0, 0), (60_000, 100), (60_000, 900)] {
                // At the slow speed, only letters that answer are tested: a shortcut that only changes the dialog acts
                // after half a second, before the next letter.
                if between == 900 && letter != 'a' && !(letter == 'c' && name != "plan") {
                    continue;
                }
                let mut screen = boxed(open);
                let shown = screen.app.modal.clone();
                screen.wait(before);
                let text = format!("{letter}nd then");
                for letter in text.chars() {
                    screen.press(KeyCode::Char(letter));
                    screen.wait(between);
                }
                screen.wait(5_000);
                assert_eq!(screen.app.input.text(), text, "{name}");
                // The user may be told that something waits.
                let tells = |effect: &Effect| {
                    matches!(effect, Effect::Bell | Effect::Notify(_) | Effect::NotifyUser(_))
                };
                assert!(
                    screen.ops.is_empty() && screen.effects.iter().all(tells),
                    "{name}, {text}: {:?}",
                    screen.effects
                );
                assert_eq!(screen.app.modal, shown, "{name}, {text}: the box is as it was");
            }
        }
    }
}

// spec: interactive/run-approval-flow/approval-required
#[test]
fn keys_pressed_before_the_box_was_drawn_do_not_answer_it() {
    for (name, open) in boxes() {
        for key in [KeyCode::Enter, KeyCode::Esc, KeyCode::Char('a'), KeyCode::Char('c')] {
            let mut screen = boxed(open);
            screen.app.box_is_unseen = true;
            screen.press(key);
            screen.wait(5_000);
            assert!(screen.ops.is_empty(), "{name} {key:?}: {:?}", screen.ops);
            let typed = if let KeyCode::Char(letter) = key { letter.to_string() } else { String::new() };
            assert_eq!(screen.app.input.text(), typed, "{name}: letters are typed");
        }
        let mut screen = boxed(open);
        screen.press(KeyCode::Enter);
        assert!(matches!(decision(&screen), Decision::Approve { .. }), "{name}");
    }
}

/// Presses a key as a keyboard repeats it while it is held down: again after 660 ms, then every 40 ms.
fn hold(screen: &mut TestScreen, key: KeyCode, millis: u64) {
    screen.press(key);
    screen.wait(660);
    for _ in 0..millis / 40 {
        screen.press(key);
        screen.wait(40);
    }
}

#[test]
fn a_key_held_down_since_before_the_box_appeared_never_answers_it() {
    for (name, open) in boxes() {
        for key in [KeyCode::Enter, KeyCode::Esc] {
            let mut script = Script::default();
            script.chat(true);
            let mut screen = TestScreen::showing(&script, 100, 30);
            screen.write("go on");
            screen.press(KeyCode::Enter);
            screen.ops.clear();
            hold(&mut screen, key, 400);
            script.items.clear();
            open(&mut script);
            screen.feed_at_once(&script.items);
            hold(&mut screen, key, 20_000);
            assert!(screen.ops.is_empty(), "{name} {key:?}: {:?}", screen.ops);
            assert!(screen.app.modal.is_some(), "{name} {key:?}");
            assert!(screen.shows("press it again"), "{name} {key:?}:\n{}", screen.text());
            screen.wait(1000);
            screen.press(key);
            let rejects = key == KeyCode::Esc;
            assert_eq!(matches!(decision(&screen), Decision::Reject { .. }), rejects, "{name} {key:?}");
        }
    }
}

#[test]
fn clicks_that_began_before_the_box_appeared_do_not_approve_it() {
    let mut script = Script::default();
    script.chat(true);
    let mut screen = TestScreen::showing(&script, 100, 30);
    screen.click("Status");
    script.items.clear();
    script.approval();
    screen.feed_at_once(&script.items);
    for _ in 0..20 {
        screen.click("Approve");
        screen.wait(250);
    }
    assert!(screen.ops.is_empty(), "{:?}", screen.ops);
    assert!(screen.shows("click again"), "{}", screen.text());
    screen.wait(1000);
    screen.click("Approve");
    assert!(matches!(decision(&screen), Decision::Approve { .. }));
}

#[test]
fn a_key_that_sent_a_message_edited_a_field_or_answered_a_box_does_not_answer_another_while_held() {
    // The Enter that sends a message while the dialog is open.
    let mut screen = asked();
    screen.write("wait");
    hold(&mut screen, KeyCode::Enter, 5_000);
    assert!(matches!(screen.ops.as_slice(), [Op::SendMessage { .. }]), "{:?}", screen.ops);
    // The Enter that ends the editing of the task.
    let mut screen = asked();
    screen.press_alone('e');
    screen.write(" well");
    hold(&mut screen, KeyCode::Enter, 5_000);
    assert!(screen.ops.is_empty(), "{:?}", screen.ops);
    // The Enter that answers another dialog.
    let mut script = Script::default();
    script.chat(true);
    script.approval();
    let mut screen = TestScreen::showing(&script, 100, 30);
    hold(&mut screen, KeyCode::Enter, 400);
    assert_eq!(*decision(&screen), approved());
    script.items.clear();
    script.plan_approval();
    screen.feed_at_once(&script.items);
    hold(&mut screen, KeyCode::Enter, 5_000);
    assert_eq!(screen.ops.len(), 1, "{:?}", screen.ops);
}

#[test]
fn an_answering_letter_waits_a_second_and_the_box_shows_a_note() {
    for (name, open) in boxes() {
        let mut screen = boxed(open);
        screen.press(KeyCode::Char('a'));
        assert!(screen.shows("approves in a second"), "{name}:\n{}", screen.text());
        screen.wait(999);
        assert!(screen.ops.is_empty(), "{name}");
        screen.wait(1);
        assert!(matches!(decision(&screen), Decision::Approve { .. }), "{name}");
        let mut screen = boxed(open);
        screen.press(KeyCode::Char('a'));
        screen.press(KeyCode::Backspace);
        screen.wait(5_000);
        assert!(screen.ops.is_empty() && screen.app.input.is_empty(), "{name}: it was taken back");
        let mut screen = boxed(open);
        screen.control('a');
        screen.alt('a');
        screen.wait(5_000);
        assert!(screen.ops.is_empty(), "{name}: together with Ctrl or Alt it is another key");
    }
}

#[test]
fn a_letter_whose_box_is_gone_is_typed() {
    let mut script = Script::default();
    script.chat(true);
    script.approval();
    let mut screen = TestScreen::showing(&script, 100, 30);
    screen.press(KeyCode::Char('a'));
    script.items.clear();
    script.answered("i-run", Decision::Reject { reason: None });
    screen.feed(&script.items);
    screen.wait(1000);
    assert!(screen.ops.is_empty());
    assert_eq!(screen.app.input.text(), "a");
}

#[test]
fn a_paste_while_a_box_is_open_is_kept_in_the_input() {
    for (name, open) in boxes() {
        let mut screen = boxed(open);
        screen.send(TerminalEvent::Paste("a line\nand another".into()));
        assert_eq!(screen.app.input.text(), "a line\nand another", "{name}");
        screen.press_alone('a');
        assert_eq!(screen.app.input.text(), "a line\nand anothera", "{name}: the input has the keys now");
        assert!(screen.ops.is_empty() && screen.shows("enter sends your message"), "{name}");
        screen.control('c');
        assert!(screen.app.input.is_empty() && screen.ops.is_empty(), "{name}: Ctrl+C clears it");
        screen.press_alone('a');
        assert!(matches!(decision(&screen), Decision::Approve { .. }), "{name}");
    }
}

#[test]
fn a_click_on_a_button_answers_even_with_text_in_the_input() {
    let mut screen = asked();
    screen.write("a draft");
    screen.click("Approve");
    assert_eq!(*decision(&screen), approved());
    assert_eq!(screen.app.input.text(), "a draft");
}

#[test]
fn keys_for_a_text_that_is_read_do_not_answer_a_box_that_just_came() {
    let mut script = script::conversation();
    let mut screen = TestScreen::showing(&script, 100, 30);
    screen.enter_run();
    screen.wait(5_000);
    screen.press(KeyCode::Char('n'));
    script.items.clear();
    script.approval();
    screen.feed(&script.items);
    assert!(screen.shows("Launch this run?"));
    screen.press(KeyCode::Char('c'));
    screen.press(KeyCode::Char('a'));
    assert!(screen.ops.is_empty());
    screen.wait(1000);
    screen.press_alone('a');
    assert_eq!(*decision(&screen), approved());
}
