//! The conversation in a real terminal, as people use it every day: queued messages, stopping a reply, reading the
//! final answer as it is written, searching, and habits that people bring from other programs.

use althing_testkit::wait::holds_within;
use althing_testkit::{Action, Althing, Gate, Parliament, Reply, Script, Terminal, vt100, wait};
use serde_json::json;
use std::collections::BTreeSet;

use super::support::{Fixture, LIMIT, Team, althing, items, of_type};

const OVERRIDE_HINT: &str = "Press Ctrl+O to override, Enter to continue";
const UP: &str = "\x1b[A";
const TAB: &str = "\t";

#[track_caller]
fn row(screen: &str, text: &str) -> usize {
    screen.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("no `{text}`:\n{screen}"))
}

fn conversation(script: impl Into<Script>, rules: impl FnOnce(Team) -> Team) -> Fixture {
    let fixture = Fixture::new(2, script);
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let team = Team::on(&base, 2).rule("interactive_mode", json!({"backend": backend}));
    fixture.althing.file("team.yaml", rules(team).text());
    fixture
}

fn opened(fixture: &Fixture, cols: u16, rows: u16) -> Terminal {
    let terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(cols, rows);
    terminal.wait_for("Type a message...", LIMIT);
    terminal
}

fn ops(althing: &Althing, kind: &str) -> usize {
    let events = althing.events();
    of_type(&events, "op_accepted").iter().filter(|event| event["data"]["op"]["op"] == kind).count()
}

#[test]
fn an_opened_message_or_timeline_entry_shows_its_own_text() {
    let script = Script::parliament()
        .on("talker")
        .each(["first reply", "second reply", "third reply"].map(Reply::text));
    let fixture = conversation(script, |team| team);
    let mut terminal = opened(&fixture, 100, 30);
    for (message, reply) in [("one", "first reply"), ("two", "second reply"), ("three", "third reply")] {
        terminal.keys(message).keys("\r");
        terminal.wait_for(reply, LIMIT);
    }
    terminal.wait_for("Status: Idle", LIMIT);
    terminal.keys(TAB);
    terminal.wait_for("p pin", LIMIT);
    for text in ["third reply", "three", "second reply", "two", "first reply", "one"] {
        terminal.keys_at_once("\r");
        let screen = terminal.wait_for("‹ esc", LIMIT);
        assert!(screen.lines().nth(2).is_some_and(|line| line.contains(text)), "{text}:\n{screen}");
        terminal.keys_at_once("\x1b");
        terminal.wait_gone("‹ esc", LIMIT);
        terminal.keys_at_once(UP);
    }
}

#[test]
fn messages_wait_above_the_input_and_enter_the_conversation_when_their_turn_comes() {
    let gate = Gate::new();
    let slow = Reply::empty().text_chunks(["Here is the slow answer", " and here its end."]);
    let script = Script::parliament()
        .on("talker")
        .nth(0, Action::gated(slow, &gate))
        .on("talker")
        .nth(1, Reply::text("Answer to the later one."));
    let fixture = conversation(script, |team| team);
    let mut terminal = opened(&fixture, 100, 30);
    terminal.keys("begin\r");
    gate.wait_waiting_blocking(1, LIMIT);
    gate.release(1);
    terminal.wait_for("Here is the slow answer", LIMIT);
    terminal.keys("a message too early\r");
    let screen = terminal.wait_for("queued, delivered after this turn", LIMIT);
    assert!(row(&screen, "a message too early") > row(&screen, "Here is the slow answer"), "{screen}");

    terminal.keys(UP);
    terminal.wait_for("enter edits", LIMIT);
    terminal.keys("\r");
    terminal.wait_gone("queued, delivered", LIMIT);
    terminal.wait_for("› a message too early", LIMIT);
    terminal.keys(", changed\r");
    let screen = terminal.wait_for("queued, delivered after this turn", LIMIT);
    assert!(screen.contains("a message too early, changed"), "{screen}");
    gate.release_all();
    let screen = terminal.wait_for("Answer to the later one.", LIMIT);
    let places = ["begin", "and here its end.", "a message too early, changed", "Answer to the later one."];
    let rows: Vec<usize> = places.iter().map(|text| row(&screen, text)).collect();
    assert!(rows.is_sorted() && !screen.contains("queued"), "{rows:?}\n{screen}");
    assert_eq!(fixture.server.request_count(), 2);
}

#[test]
fn every_queued_message_can_be_changed_or_removed() {
    let gate = Gate::before_headers();
    let script = Script::parliament()
        .on("talker")
        .nth(0, Action::gated(Reply::text("The slow answer."), &gate))
        .on("talker")
        .always(Reply::text("Read."));
    let fixture = conversation(script, |team| team);
    let mut terminal = opened(&fixture, 100, 30);
    terminal.keys("begin\r");
    gate.wait_waiting_blocking(1, LIMIT);
    for text in ["message one", "message two", "message three"] {
        terminal.keys(text).keys("\r");
        terminal.wait_for(&format!("   {text}"), LIMIT);
    }
    terminal.keys(UP).keys(UP);
    terminal.wait_for(" › message two", LIMIT);
    terminal.keys("\x1b[3~");
    terminal.wait_gone("message two", LIMIT);
    terminal.wait_for(" › message one", LIMIT);
    terminal.keys("\r");
    terminal.wait_for(" › message one", LIMIT);
    terminal.keys(", changed\r");
    terminal.wait_for("   message one, changed", LIMIT);
    gate.release_all();
    terminal.wait_until(LIMIT, "both replies", |screen| screen.matches("Read.").count() == 2);
    let last = fixture.server.requests().pop().unwrap().messages().to_vec();
    let said: Vec<String> =
        last.iter().filter(|message| message["role"] == "user").map(ToString::to_string).collect();
    let said = said.join("\n");
    assert!(said.contains("message three") && said.contains("message one, changed"), "{said}");
    assert!(!said.contains("message two"), "{said}");
}

#[test]
fn esc_stops_a_reply_and_the_transcript_says_so() {
    let gate = Gate::new();
    let slow = Reply::empty().text_chunks(["The first words", " and the last."]);
    let script = Script::parliament()
        .on("talker")
        .nth(0, Action::gated(slow, &gate))
        .on("talker")
        .always(Reply::text("Understood."));
    let fixture = conversation(script, |team| team);
    let mut terminal = opened(&fixture, 100, 30);
    terminal.keys("begin\r");
    gate.wait_waiting_blocking(1, LIMIT);
    terminal.wait_until(LIMIT, "the time", |screen| {
        screen.lines().any(|line| line.contains("thinking 1 s") && line.contains("esc stops"))
    });
    gate.release(1);
    terminal.wait_until(LIMIT, "the tokens", |screen| {
        screen.lines().any(|line| line.contains("writing ") && line.contains("~4 tokens · esc stops"))
    });
    terminal.keys("\x1b");
    let screen = terminal.wait_for("stopped by you", LIMIT);
    assert!(screen.contains("The first words") && !screen.contains("esc stops"), "{screen}");
    terminal.wait_for("Status: Idle", LIMIT);
    terminal.keys("go on\r");
    let screen = terminal.wait_for("Understood.", LIMIT);
    assert!(row(&screen, "stopped by you") < row(&screen, "Understood."), "it stays:\n{screen}");
    assert_eq!(ops(&fixture.althing, "stop_reply"), 1);
}

#[test]
fn esc_never_stops_a_run_and_a_rejected_run_leaves_a_card() {
    let althing = althing();
    let mut terminal = althing.new_command().arg("--offline").terminal(100, 40);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("Compare three ways to cache").keys("\r");
    let screen = terminal.wait_for("Cancel esc", LIMIT);
    assert!(screen.contains("enter approve · esc reject"), "the hints are those of the box:\n{screen}");
    terminal.keys("\x1b");
    let screen = terminal.wait_for("Not started", LIMIT);
    assert!(screen.contains("▸ Run: Compare three ways to cache"), "{screen}");
    terminal.wait_for("Status: Idle", LIMIT);

    terminal.keys("Compare three ways to cache").keys("\r");
    terminal.wait_for("Cancel esc", LIMIT);
    terminal.keys("\r");
    terminal.wait_for(OVERRIDE_HINT, LIMIT);
    terminal.keys("\x1b");
    terminal.keys("\x1b");
    terminal.keys("\r");
    terminal.wait_for("Status: Idle", LIMIT);
    // The answer has moved the card out of view: Ctrl+R opens the run.
    terminal.keys("\x12");
    terminal.wait_for("Complete ✓", LIMIT);
    assert_eq!((ops(&althing, "cancel"), ops(&althing, "stop_reply")), (0, 0));
}

#[test]
fn the_final_answer_streams_into_the_conversation_under_the_card_of_its_run() {
    let gate = Gate::new();
    let presentation = Reply::empty().text_chunks(["Use a CDN for everything", " that does not change."]);
    let launch = Reply::call("launch_run", &json!({"task": "Compare caches"}));
    // The agents have tools for answers and votes; the presenter has not.
    let presents = gate.clone();
    let script = Script::from_fn(move |request| {
        let tools = request.tool_names();
        if tools.iter().any(|tool| matches!(*tool, "new_answer" | "vote")) {
            Action::from(Parliament::default().reply(request))
        } else {
            Action::gated(presentation.clone(), &presents)
        }
    });
    let script = script.on("talker").nth(0, launch).on("talker").always(Reply::text("The summary."));
    let fixture =
        conversation(script, |team| team.rule("coordination", json!({"override_window_seconds": 0})));
    let mut terminal = opened(&fixture, 100, 40);
    terminal.keys("compare caches\r");
    terminal.wait_for("Cancel esc", LIMIT);
    terminal.keys("\r");
    gate.wait_waiting_blocking(1, LIMIT);
    gate.release(1);
    let screen = terminal.wait_until(LIMIT, "the beginning of the answer", |screen| {
        screen.lines().any(|line| line.starts_with("   Use a CDN for everything"))
    });
    assert!(screen.contains("Running...") && screen.contains("presents"), "{screen}");
    assert!(row(&screen, "Run: Compare caches") < row(&screen, "   Use a CDN"), "{screen}");
    gate.release_all();
    let screen = terminal.wait_for("The summary.", LIMIT);
    let places = ["Complete ✓", "that does not change.", "The summary."];
    let rows: Vec<usize> = places.iter().map(|text| row(&screen, text)).collect();
    assert!(rows.is_sorted(), "{rows:?}\n{screen}");
    assert_eq!(screen.matches("Use a CDN for everything").count(), 1, "{screen}");
}

#[test]
fn the_card_of_a_run_shows_what_each_agent_is_writing() {
    let gate = Gate::new();
    let answer = Reply::new_answer("Use a CDN for static files\n\nand nothing else").fragments(4);
    let launch = Reply::call("launch_run", &json!({"task": "Compare caches"}));
    let script = Script::parliament()
        .on("model-a")
        .nth(0, Action::gated(answer, &gate))
        .on("talker")
        .nth(0, launch)
        .on("talker")
        .always(Reply::text("The summary."));
    let fixture = conversation(script, |team| team);
    let mut terminal = opened(&fixture, 100, 40);
    terminal.keys("compare caches\r");
    terminal.wait_for("Cancel esc", LIMIT);
    terminal.keys("\r");
    gate.wait_waiting_blocking(1, LIMIT);
    gate.release(3);
    terminal.wait_until(LIMIT, "what the agent writes", |screen| {
        screen.lines().any(|line| line.starts_with("   a ") && line.contains("writing: Use a CDN for"))
    });
    gate.release_all();
    terminal.wait_for(OVERRIDE_HINT, LIMIT);
    terminal.keys("\r").wait_for("Complete ✓", LIMIT);
    let events = fixture.althing.events();
    assert!(items(&events, "answer").iter().any(|item| item.to_string().contains("and nothing else")));
}

#[test]
fn a_search_highlights_the_words_jumps_and_counts() {
    let long = |n: usize| {
        let line = |line: usize| match line {
            20 => format!("the needle of reply {n}\n\n"),
            39 => format!("the end of reply {n}\n\n"),
            _ => format!("hay {line}\n\n"),
        };
        (0..40).map(line).collect::<String>()
    };
    for (cols, rows) in [(80, 24), (160, 45)] {
        let script = Script::parliament().on("talker").each([long(1), long(2), long(3)].map(Reply::text));
        let fixture = conversation(script, |team| team);
        let mut terminal = opened(&fixture, cols, rows);
        for n in 1..=3 {
            terminal.keys(&format!("question {n}\r"));
            terminal.wait_until(LIMIT, "the reply", |screen| {
                screen.contains(&format!("the end of reply {n}")) && screen.contains("Status: Idle")
            });
        }
        terminal.keys("/find NEEDLE\r");
        terminal.wait_for("needle: 3 of 3", LIMIT);
        let screen = terminal.wait_for("the needle of reply 3", LIMIT);
        // A narrow screen has no room for all hints.
        let hints = if cols < 100 { "n next · esc ends" } else { "n next · N previous" };
        assert!(screen.contains(hints), "{screen}");
        let (column, line) = terminal.find("needle of reply").unwrap();
        let highlighted = |column: u16| {
            terminal.with_screen(|screen| screen.cell(line, column).is_some_and(vt100::Cell::inverse))
        };
        assert!(highlighted(column) && highlighted(column + 5));
        assert!(!highlighted(column - 1) && !highlighted(column + 7), "only the words");
        terminal.keys("N");
        terminal.wait_for("the needle of reply 2", LIMIT);
        terminal.wait_for("needle: 2 of 3", LIMIT);
        terminal.keys("n");
        terminal.wait_for("the needle of reply 3", LIMIT);
        terminal.keys("n");
        terminal.wait_for("the needle of reply 1", LIMIT);
        terminal.keys("\x1b");
        terminal.wait_gone("needle: 1 of 3", LIMIT);
        terminal.keys("/find straw\r");
        terminal.wait_for("nothing matches: straw", LIMIT);
        terminal.keys("\x04");
        assert_eq!(terminal.wait(LIMIT), 0);
    }
}

#[test]
fn the_progress_of_a_plan_is_pinned_above_the_input() {
    let althing = althing();
    let mut terminal = althing.new_command().arg("--offline").terminal(120, 45);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("\x1b[Z");
    terminal.wait_for("Describe what to plan...", LIMIT);
    terminal.keys("Write a tool that counts words\r");
    terminal.wait_for(OVERRIDE_HINT, LIMIT);
    terminal.keys("\r");
    let screen = terminal.wait_for("Add instructions", LIMIT);
    assert!(screen.contains("Plan: Write a tool that counts words"), "the goal is the title:\n{screen}");
    assert!(screen.contains("after ") && screen.contains("verify: "), "{screen}");
    terminal.keys("\r");
    terminal.wait_for("Executing Plan", LIMIT);
    terminal.wait_for(" of 3 ✓", LIMIT);
}

#[test]
fn commands_that_people_know_from_other_programs_exist_or_are_explained() {
    let althing = althing();
    let mut terminal = althing.new_command().arg("--offline").terminal(120, 40);
    terminal.wait_for("Type a message...", LIMIT);
    for (command, shown) in [
        ("/model", "--model"),
        ("/usage", "Cost so far"),
        ("/copy", "there is nothing to copy yet"),
        ("/permissions", "you approve each run"),
        ("/login", "API key"),
        ("/mouse off", "mouse off"),
        ("/resume", "there is no other conversation to open"),
    ] {
        terminal.keys(command);
        terminal.wait_for(&format!("› {command}"), LIMIT);
        terminal.keys("\r");
        // Esc closes a dialog. Without a dialog, Esc and the next slash would be read as Alt+/.
        if terminal.wait_for(shown, LIMIT).contains("esc close") {
            terminal.keys("\x1b");
            terminal.wait_gone("esc close", LIMIT);
        }
    }
    let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
    assert!(raw.contains("\x1b[?1006l"), "the mouse was given back");
    // Letters in order find a command; a command that was only guessed does not act by itself.
    terminal.keys("/cst");
    terminal.wait_for("/cost", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("/cst is not a command", LIMIT);
    // The session that `/clear` leaves is empty, so its directory may be deleted.
    let sessions = || -> BTreeSet<_> {
        let dir = std::fs::read_dir(althing.state_dir().join("sessions"));
        dir.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
    };
    let before = sessions();
    terminal.keys("/clear\r");
    terminal.wait_until(LIMIT, "a new session", |_| !sessions().is_subset(&before));
}

#[test]
fn a_long_paste_is_folded_sent_whole_and_can_be_edited() {
    let script = Script::parliament().on("talker").always(Reply::text("Read."));
    let fixture = conversation(script, |team| team);
    let editor = fixture.althing.file("editor", "#!/bin/sh\nsed -i 's/^line 300$/the last line/' \"$1\"\n");
    std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let command = fixture.althing.new_command().args(["--config", "team.yaml"]);
    let mut terminal = command.env("EDITOR", editor.to_str().unwrap()).terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    let lines: Vec<String> = (1..=300).map(|n| format!("line {n}")).collect();
    let paste = format!("\x1b[200~{}\x1b[201~", lines.join("\r"));
    terminal.keys("See ");
    terminal.keys(&paste);
    let screen = terminal.wait_for("› See [Pasted 300 lines]", LIMIT);
    assert!(!screen.contains("line 300"), "{screen}");
    // Backspace removes the whole paste, and undo brings it back.
    terminal.keys("\x7f");
    terminal.wait_gone("[Pasted", LIMIT);
    terminal.keys("\x1f");
    terminal.wait_for("› See [Pasted 300 lines]", LIMIT);
    terminal.keys(" please");
    terminal.wait_for("[Pasted 300 lines] please", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("Read.", LIMIT);
    let sent = |at: usize| fixture.server.requests()[at].messages().last().unwrap().to_string();
    let whole = format!("See {} please", lines.join("\\n"));
    assert!(sent(0).contains(&whole), "{}", sent(0));
    // The editor shows and changes the whole text.
    terminal.wait_for("Status: Idle", LIMIT);
    terminal.keys(&paste);
    terminal.wait_for("› [Pasted 300 lines]", LIMIT);
    terminal.keys("\x18");
    terminal.wait_for("the last line", LIMIT);
    terminal.keys("\r");
    wait::until(LIMIT, || fixture.server.request_count() == 2);
    assert!(sent(1).contains("line 299\\nthe last line"), "{}", sent(1));
}

#[test]
fn removed_and_cleared_text_comes_back() {
    let althing = althing();
    let mut terminal = althing.new_command().arg("--offline").terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("one two three");
    terminal.keys("\x17");
    terminal.wait_until(LIMIT, "a word less", |screen| {
        screen.contains("› one two") && !screen.contains("two three")
    });
    // Ctrl+Y inserts what was removed; Alt+D removes the next word; Ctrl+_ takes edits back.
    terminal.keys("\x19");
    terminal.wait_for("› one two three", LIMIT);
    terminal.keys("\x01\x1bd");
    terminal.wait_for("›  two three", LIMIT);
    terminal.keys("\x1f");
    terminal.wait_for("› one two three", LIMIT);
    terminal.keys("\x03");
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("\x1f");
    terminal.wait_for("› one two three", LIMIT);
}

#[test]
fn dragging_copies_what_it_marks() {
    let script = Script::parliament().on("talker").always(Reply::text("copy these words please"));
    let fixture = conversation(script, |team| team);
    let mut terminal = opened(&fixture, 100, 30);
    terminal.keys("hello\r");
    terminal.wait_for("copy these words please", LIMIT);
    terminal.wait_for("Status: Idle", LIMIT);
    let (column, line) = terminal.find("these words").unwrap();
    let (from, to, line) = (column + 1, column + 11, line + 1);
    terminal.keys(&format!("\x1b[<0;{from};{line}M"));
    terminal.keys(&format!("\x1b[<32;{to};{line}M"));
    terminal.keys(&format!("\x1b[<0;{to};{line}m"));
    terminal.wait_for("copied", LIMIT);
    let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
    // The base64 of "these words", for the clipboard.
    assert!(raw.contains("\x1b]52;c;dGhlc2Ugd29yZHM=\x07"), "the clipboard has the words");
    assert!(!terminal.screen().contains("‹ esc"), "dragging opens nothing:\n{}", terminal.screen());
    terminal.click(column, line - 1);
    terminal.wait_for("‹ esc", LIMIT);
}

#[test]
fn the_vote_says_how_to_override_it_at_forty_columns() {
    let althing = althing();
    let mut terminal = althing.new_command().arg("--offline").terminal(40, 14);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("Compare three caches").keys("\r");
    terminal.wait_until(LIMIT, "the vote", |screen| {
        // A narrow dialog has several pages, so the screen shows only one of these words.
        screen.contains("Cancel") || screen.contains("Approve")
    });
    for _ in 0..3 {
        terminal.keys("\x1b[6~");
    }
    terminal.keys("\r");
    let screen = terminal.wait_until(LIMIT, "the vote", |screen| screen.contains("Press Ctrl+O"));
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Press Ctrl+O to override, Enter to") && words.contains("continue"), "{screen}");
}

#[test]
fn empty_sessions_are_not_offered_for_resuming() {
    let althing = althing();
    let mut terminal = althing.new_command().arg("--offline").terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("a real question\r");
    terminal.wait_for("You wrote: \"a real question\"", LIMIT);
    terminal.wait_for("Status: Idle", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
    for _ in 0..2 {
        let mut terminal = althing.new_command().arg("--offline").terminal(100, 30);
        terminal.wait_for("Type a message...", LIMIT);
        terminal.keys("\x04");
        assert_eq!(terminal.wait(LIMIT), 0);
    }
    let mut terminal = althing.new_command().arg("--offline").terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("/resume\r");
    let screen = terminal.wait_for("┌ Sessions", LIMIT);
    assert!(screen.contains("a real question") && !screen.contains("› conversation"), "{screen}");
    assert!(!screen.lines().any(|line| line.contains("│   conversation")), "{screen}");
}

#[test]
fn plain_lines_list_their_own_commands_and_take_yes_and_no() {
    let althing = althing();
    let mut terminal = althing.new_command().arg("--offline").env("ALTHING_PLAIN", "1").terminal(120, 50);
    terminal.wait_for("Write a message", LIMIT);
    terminal.keys("/help\r");
    // The last line of the list.
    let screen = terminal.wait_for("/type TEXT: type into", LIMIT);
    assert!(screen.contains("/quit: leave") && screen.contains("/approve, yes:"), "{screen}");
    assert!(!screen.contains("/theme"), "{screen}");
    for command in ["/theme", "/continue", "/search", "/editor", "/resume", "/models"] {
        terminal.keys(&format!("{command}\r"));
        terminal.wait_for(&format!("{command} works only on the screen"), LIMIT);
    }
    terminal.keys("Compare three ways to cache\r");
    terminal.wait_for("launch this run?", LIMIT);
    terminal.keys("no\r");
    terminal.wait_for("Not started: rejected", LIMIT);
}

#[test]
fn the_theme_follows_the_background_that_the_terminal_reports() {
    let (dark, light) = (vt100::Color::Idx(6), vt100::Color::Idx(4));
    let name_color = |terminal: &Terminal| {
        let (column, line) = terminal.find("Althing")?;
        terminal.with_screen(|screen| screen.cell(line, column).map(vt100::Cell::fgcolor))
    };
    for (variable, value, asks) in
        [("A", "", true), ("ALTHING_THEME", "dark", false), ("COLORFGBG", "15;0", false)]
    {
        let althing = althing();
        let mut terminal = althing.new_command().arg("--offline").env(variable, value).terminal(100, 30);
        terminal.wait_for("Type a message...", LIMIT);
        assert_eq!(name_color(&terminal), Some(dark));
        let query = b"\x1b]11;?";
        assert_eq!(terminal.raw().windows(query.len()).any(|part| part == query), asks, "{variable}");
        terminal.keys("bef").wait_for("bef", LIMIT);
        if asks {
            terminal.keys_at_once("\x1b]11;rgb:fdfd/f6f6/e3e3\x1b\\");
        }
        // The terminal's reply changes the colors, and does not appear in the input.
        terminal.keys("ore").wait_for("before", LIMIT);
        let expected = if asks { light } else { dark };
        assert!(
            holds_within(LIMIT, || name_color(&terminal) == Some(expected)),
            "{:?}",
            name_color(&terminal)
        );
    }
}
