//! Snapshots of the screens and of most modals at 80×24 and 160×45.

use super::support::{TestScreen, options};
use crate::script::{self, Script};
use althing_protocol::{
    Decision, EditPreview, Fact, FileChange, FileDiff, InteractionKind, ModeChoice, Progress, RunEnd,
    RunStatus, Screen as ProgramScreen, ScreenCell, ScreenColor, Seq, TaskStatus,
};
use althing_tui::{Effect, TuiExit, TuiOptions, Welcome};
use crossterm::event::KeyCode;

const SIZES: [(u16, u16); 2] = [(80, 24), (160, 45)];

fn snapshot(name: &str, scene: impl Fn(&mut TestScreen)) {
    snapshot_with(name, options, scene);
}

fn snapshot_with(name: &str, options: impl Fn() -> TuiOptions, scene: impl Fn(&mut TestScreen)) {
    for (width, height) in SIZES {
        let mut screen = TestScreen::with(options(), width, height);
        scene(&mut screen);
        screen.draw();
        insta::assert_snapshot!(format!("{name}-{width}x{height}"), screen.text());
    }
}

fn vote() -> Script {
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Replace JWT");
    script.turn(1);
    script.state(althing_protocol::ChatState::Running);
    script.run("r1", Some("c1"), "Replace JWT with Paseto");
    script.all_answer("r1");
    script.vote("r1");
    script
}

#[test]
fn the_conversation_shows_words_cards_and_what_is_queued() {
    snapshot("conversation", |screen| screen.feed(&script::conversation().items));
}

#[test]
fn a_new_conversation_shows_no_activity() {
    snapshot("empty", |screen| {
        let mut script = Script::default();
        script.chat(true);
        screen.feed(&script.items);
    });
}

#[test]
fn a_run_without_an_agent_to_talk_to_ends_in_its_final_answer() {
    snapshot("direct", |screen| {
        let mut script = Script::default();
        script.chat(false);
        script.user_sends("Replace JWT with Paseto");
        script.state(althing_protocol::ChatState::Chatting);
        script.state(althing_protocol::ChatState::Running);
        script.run("r1", Some("c1"), "Replace JWT with Paseto");
        script.all_answer("r1");
        script.vote("r1");
        let mut result = Script::result("r1", "Replace JWT with Paseto", RunStatus::Completed);
        result.context_path_writes = Script::writes(2);
        script.finishes("r1", result, RunEnd::Answered);
        screen.feed(&script.items);
    });
}

#[test]
fn a_run_opens_into_tabs_a_timeline_and_the_votes() {
    snapshot("run", |screen| {
        let mut script = vote();
        script.items.truncate(script.items.len() - 3);
        screen.feed(&script.items);
        screen.enter_run();
        screen.press(KeyCode::Right);
    });
}

#[test]
fn a_finished_run_opens_at_its_final_answer() {
    snapshot("run-final", |screen| {
        let mut script = vote();
        let mut result = Script::result("r1", "Replace JWT with Paseto", RunStatus::Completed);
        result.context_path_writes = Script::writes(2);
        script.finishes("r1", result, RunEnd::Answered);
        screen.feed(&script.items);
        screen.control('r');
    });
}

#[test]
fn answers_are_compared_line_by_line() {
    snapshot("diff", |screen| {
        let mut script = vote();
        script.answers(
            "r1",
            1,
            2,
            4,
            "Use pasetors with v4.local tokens; rotate keys weekly.\n\nKeep tests.",
        );
        screen.feed(&script.items);
        screen.enter_run();
        screen.press(KeyCode::Char('d'));
    });
}

#[test]
fn a_tool_call_opens_into_its_arguments_and_result() {
    snapshot("tool", |screen| {
        screen.feed(&vote().items);
        screen.enter_run();
        screen.press(KeyCode::Home);
        screen.press(KeyCode::Char('/'));
        screen.write("jwt::encode");
        screen.press(KeyCode::Enter);
        screen.press(KeyCode::Enter);
    });
}

#[test]
fn the_vote_is_shown_above_the_input() {
    snapshot("vote", |screen| {
        let mut script = vote();
        script.now = althing_protocol::Timestamp(screen.now.0 - 6_000);
        script.override_window("r1");
        screen.feed_at_once(&script.items);
    });
}

#[test]
fn another_presenter_is_chosen_from_everyone_who_answered() {
    snapshot("override", |screen| {
        let mut script = vote();
        script.override_window("r1");
        screen.feed_at_once(&script.items);
        screen.control('o');
        screen.press(KeyCode::Down);
    });
}

#[test]
fn a_run_waits_for_approval() {
    snapshot("approval", |screen| {
        let mut script = Script::default();
        script.chat(true);
        script.user_sends("Build phase 1");
        script.turn(1);
        script.approval();
        screen.feed(&script.items);
    });
}

#[test]
fn a_run_is_edited_before_it_is_approved() {
    snapshot("approval-edit", |screen| {
        let mut script = Script::default();
        script.chat(true);
        script.approval();
        screen.feed(&script.items);
        screen.press_alone('e');
        screen.write(", carefully");
    });
}

#[test]
fn a_plan_waits_for_approval() {
    snapshot("plan", |screen| {
        let mut script = Script::default();
        script.chat(true);
        script.plan_approval();
        screen.feed(&script.items);
        screen.press(KeyCode::Tab);
        screen.write("also update the docs");
    });
}

#[test]
fn an_executing_plan_shows_its_directory() {
    snapshot("executing", |screen| {
        let mut script = Script::default();
        script.chat(true);
        script.plan_approval();
        script.answered("i-plan", Decision::Approve { digest: None, edited: None, instructions: None });
        script.run("r1", Some("c1"), "Carry out the plan auth");
        screen.feed(&script.items);
    });
}

#[test]
fn the_budget_is_asked_about() {
    snapshot("budget", |screen| {
        let mut script = Script::default();
        script.chat(true);
        let kind = InteractionKind::Budget {
            spent_micro_usd: 5_040_000,
            budget_micro_usd: 5_000_000,
            raised_micro_usd: Some(10_040_000),
        };
        script.asks(Some("c1"), "i-budget", kind, None);
        screen.feed(&script.items);
    });
}

#[test]
fn the_tasks_panel_says_what_waits() {
    snapshot("tasks", |screen| {
        let mut script = Script::default();
        script.workflow();
        script.program_asks("w1.ask");
        screen.feed(&script.items);
        screen.control('t');
    });
}

#[test]
fn a_workflow_shows_its_stages_and_tasks() {
    let options = || TuiOptions {
        workflow: true,
        notes: vec![
            "notes.yaml has changed; the session goes on with the workflow it was started with".into(),
        ],
        ..options()
    };
    snapshot_with("workflow", options, |screen| {
        let mut script = Script::default();
        script.workflow();
        script.program_asks("w1.ask");
        screen.now = script.now;
        screen.feed(&script.items);
    });
}

#[test]
fn a_workflow_that_is_over_says_how_it_ended() {
    snapshot_with(
        "workflow-over",
        || TuiOptions { workflow: true, ..options() },
        |screen| {
            let mut script = Script::default();
            script.workflow();
            let why = Some("it exited with 3: no network. Try again once there is one".into());
            script.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Failed, why });
            script.fact(Some("w1"), Fact::StatusChanged { status: TaskStatus::Failed, why: None });
            script.fact(None, Fact::SessionClosed {});
            screen.feed(&script.items);
        },
    );
}

#[test]
fn a_recording_of_a_workflow_is_left_like_one_that_is_over() {
    let options = || TuiOptions { workflow: true, replay: true, ..options() };
    let mut script = Script::default();
    script.workflow();
    let mut screen = TestScreen::with(options(), 80, 24);
    screen.feed(&script.items);
    assert!(screen.rows()[0].contains("Replay") && screen.shows("q leave"), "{}", screen.text());
    screen.press(KeyCode::Char('q'));
    assert!(screen.effects.contains(&Effect::Leave(TuiExit::Quit)));
}

#[test]
fn commands_are_completed_from_a_list() {
    snapshot("completion", |screen| {
        let mut script = Script::default();
        script.chat(true);
        screen.feed(&script.items);
        screen.write("/");
        screen.press(KeyCode::Down);
    });
}

#[test]
fn an_answer_is_read_whole() {
    snapshot("answer", |screen| {
        let mut script = vote();
        let text = "# Paseto\n\n| step | risk |\n|---|---|\n| add | low |\n| remove | some |\n\n\
            ```rust\nfn issue(key: &Key) -> Token {\n    Token::v4(key)\n}\n```\n\nSee [the notes](https://paseto.io).";
        script.answers("r1", 1, 2, 4, text);
        screen.feed(&script.items);
        screen.enter_run();
        screen.press(KeyCode::End);
        screen.press(KeyCode::Enter);
    });
}

#[test]
fn stopping_a_run_is_asked_about() {
    snapshot("confirm", |screen| {
        screen.feed(&vote().items);
        screen.enter_run();
        screen.press(KeyCode::Char('x'));
    });
}

#[test]
fn a_disk_error_is_shown_above_the_input() {
    snapshot("stalled", |screen| {
        let mut script = script::conversation();
        let (reason, hint) = ("no space left on device".to_owned(), Some("Make room.".to_owned()));
        script.pass(Progress::Stalled { after: Seq(script.seq), reason, hint });
        screen.feed(&script.items);
    });
}

#[test]
fn a_program_asks_for_permission() {
    snapshot("program", |screen| {
        let mut script = Script::default();
        script.workflow();
        script.program_asks("w1.ask");
        screen.feed(&script.items);
        screen.control('t');
        screen.press(KeyCode::Char('a'));
    });
}

#[test]
fn a_program_without_a_terminal_shows_what_it_did() {
    snapshot("task", |screen| {
        let mut script = Script::default();
        script.workflow();
        screen.feed(&script.items);
        screen.control('t');
        screen.press(KeyCode::Up);
        screen.press(KeyCode::Enter);
    });
}

#[test]
fn an_interrupted_program_is_asked_about() {
    snapshot("interrupted", |screen| {
        let mut script = Script::default();
        script.workflow();
        script.asks(Some("w1.ask"), "i-cut", InteractionKind::Interrupted, None);
        screen.feed(&script.items);
        screen.control('t');
        screen.press(KeyCode::Char('a'));
    });
}

#[test]
fn an_attached_program_has_the_screen_but_the_last_line() {
    snapshot("attached", |screen| {
        let mut script = Script::default();
        script.workflow();
        screen.feed(&script.items);
        screen.control('t');
        screen.press(KeyCode::Down);
        screen.press(KeyCode::Enter);
        let cells = |text: &str| {
            let cell = |c: char| ScreenCell {
                text: c.to_string(),
                fg: ScreenColor::Indexed(2),
                ..ScreenCell::default()
            };
            text.chars().map(cell).collect::<Vec<_>>()
        };
        screen.app.show_attached(Some(ProgramScreen {
            cols: 80,
            rows: vec![cells("gemini"), cells("> Review the notes with me"), cells("  1. Yes  2. No")],
            cursor: Some((2, 3)),
            ..ProgramScreen::default()
        }));
    });
}

#[test]
fn the_first_start_says_what_was_found() {
    let options = || TuiOptions {
        welcome: Some(Welcome {
            found: vec![
                "ANTHROPIC_API_KEY".into(),
                "claude 2.1".into(),
                "codex 0.166".into(),
                "Ollama with 3 models".into(),
            ],
            missing: vec!["OPENAI_API_KEY".into(), "GEMINI_API_KEY".into()],
        }),
        ..options()
    };
    snapshot_with("welcome", options, |_| {});
}

#[test]
fn sessions_projects_and_themes_are_picked_from_a_list() {
    for command in ["sessions", "projects", "theme"] {
        snapshot(command, |screen| {
            let mut script = Script::default();
            script.chat(true);
            screen.feed(&script.items);
            screen.send_line(&format!("/{command}"));
            screen.press(KeyCode::Down);
        });
    }
}

#[test]
fn help_cost_and_agents_are_commands() {
    for command in ["help", "cost", "agents"] {
        snapshot(command, |screen| {
            screen.feed(&script::conversation().items);
            screen.send_line(&format!("/{command}"));
        });
    }
}

#[test]
fn problems_of_the_config_are_shown_first() {
    let problem =
        "althing.yaml:7:3: unknown key `modle`\n  7 |   modle: gpt-5\n    |   ^^^^^ did you mean `model`?";
    let options = || TuiOptions { problems: vec![problem.into()], ..options() };
    snapshot_with("problems", options, |_| {});
}

#[test]
fn single_agent_mode_shows_who_works() {
    snapshot("single", |screen| {
        let mut script = Script::default();
        script.chat(true);
        screen.feed(&script.items);
        screen.alt('a');
        screen.alt('2');
    });
}

#[test]
fn plan_mode_says_so_twice() {
    let options =
        || TuiOptions { modes: ModeChoice { planning: Some(true), ..ModeChoice::default() }, ..options() };
    snapshot_with("plan-mode", options, |screen| {
        let mut script = Script::default();
        script.chat(true);
        screen.feed(&script.items);
    });
}

#[test]
fn changes_of_files_and_what_was_found_are_asked_about_at_every_size() {
    for (width, height) in [(40, 12), (80, 24), (160, 45)] {
        let mut script = Script::default();
        script.chat(true);
        let file = FileDiff {
            path: "src/token.rs".into(),
            change: FileChange::Modified,
            added: 1,
            removed: 1,
            diff: "@@ -1,3 +1,3 @@\n fn issue(key: &Key) -> Token {\n-    Token::v2(key)\n+    Token::v4(key)\n }\n"
                .into(),
            omitted: 0,
            note: None,
        };
        let preview = EditPreview {
            project: "/home/me/my-app".into(),
            files: vec![file],
            ask: true,
            digest: "d".into(),
        };
        script.asks(Some("c1"), "i-edit", InteractionKind::EditApproval { call: "c".into(), preview }, None);
        let screen = TestScreen::showing(&script, width, height);
        insta::assert_snapshot!(format!("edit-{width}x{height}"), screen.text());
        let mut screen = TestScreen::new(width, height);
        screen.app.ask_trust(vec![
            "/home/me/my-app/althing.yaml was found in this directory, not named by you. It would do this:"
                .into(),
            "start the program /home/me/my-app/tools/search".into(),
            "send messages to http://localhost:11434".into(),
        ]);
        screen.draw();
        insta::assert_snapshot!(format!("trust-{width}x{height}"), screen.text());
    }
}

#[test]
fn a_small_screen_is_a_size_too() {
    let mut screen = TestScreen::showing(&script::conversation(), 40, 12);
    screen.draw();
    insta::assert_snapshot!("conversation-40x12", screen.text());
    let mut screen = TestScreen::showing(&vote(), 40, 12);
    screen.control('r');
    insta::assert_snapshot!("run-40x12", screen.text());
    let mut script = Script::default();
    script.chat(true);
    script.approval();
    let screen = TestScreen::showing(&script, 40, 12);
    insta::assert_snapshot!("approval-40x12", screen.text());
}

#[test]
fn without_unicode_everything_is_ascii() {
    let mut screen = TestScreen::with(TuiOptions { ascii: true, ..options() }, 80, 24);
    let mut script = script::conversation();
    script.user_sends("日本語 and ✓");
    screen.feed(&script.items);
    assert!(screen.text().is_ascii(), "{}", screen.text());
    insta::assert_snapshot!("ascii", screen.text());
}
