//! Terminal behavior of the built binary (rows of docs/reliability.md): the terminal is restored in every case (S9),
//! and every size works (S10). Only the chosen colors and characters are used, and there is a mode without a screen.

use std::time::Instant;

use althing_testkit::process::{Signal, wait_for_event};
use althing_testkit::{Terminal, Tmux, vt100, wait};

use super::support::{LIMIT, althing, ensure, in_parallel, of_type, run, wait_for_reply_to_hello};

fn offline() -> Terminal {
    let mut terminal = althing().arg("--offline").terminal(100, 30);
    ready(&mut terminal);
    terminal
}

fn ready(terminal: &mut Terminal) {
    terminal.wait_for("Type a message...", LIMIT);
    assert!(!terminal.is_cooked(), "keys come one by one");
}

#[track_caller]
fn assert_terminal_restored(terminal: &Terminal) {
    let last = |raw: &str, sequence: &str| raw.rfind(sequence);
    let switches =
        ["1049", "1000", "1006", "2004"].map(|mode| (format!("\x1b[?{mode}h"), format!("\x1b[?{mode}l")));
    let cursor = [("\x1b[?25l".to_owned(), "\x1b[?25h".to_owned())];
    // The last output may not have arrived yet.
    wait::until(LIMIT, || {
        let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
        switches
            .iter()
            .chain(&cursor)
            .all(|(on, off)| last(&raw, on).is_some() && last(&raw, on) < last(&raw, off))
            // A synchronized frame that was started must be ended, or the terminal would hold back what follows.
            && last(&raw, "\x1b[?2026h") <= last(&raw, "\x1b[?2026l")
    });
    assert!(terminal.is_cooked(), "the terminal's own modes are as they were");
}

#[test]
fn every_ending_signal_restores_the_terminal_and_the_session_can_be_resumed() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let althing = althing();
        let mut terminal = althing.new_command().arg("--offline").terminal(100, 30);
        ready(&mut terminal);
        terminal.keys("hello\r");
        wait_for_reply_to_hello(&terminal);
        terminal.signal(signal);
        assert_eq!(terminal.wait(LIMIT), 4, "{signal:?}");
        assert_terminal_restored(&terminal);
        assert!(terminal.screen().contains("resume with `althing --session"), "{}", terminal.screen());

        let mut terminal = althing.new_command().args(["resume"]).terminal(100, 30);
        terminal.wait_for("hello", LIMIT);
        terminal.keys("\x04");
        assert_eq!(terminal.wait(LIMIT), 0);
        assert_terminal_restored(&terminal);
    }
}

fn drive_until_failpoint(terminal: &mut Terminal, failpoint: &str) {
    const FAILPOINT: &str = "failpoint";
    let shown = |terminal: &Terminal, text: &str| {
        let screen = terminal.wait_until(LIMIT, &format!("{failpoint}: {text}"), |screen| {
            screen.contains(text) || screen.contains(FAILPOINT)
        });
        !screen.contains(FAILPOINT)
    };
    if !shown(terminal, "Type a message...") {
        return;
    }
    let special = [("completion", "@"), ("editor", "\x18"), ("background", "\x18")];
    if let Some((_, keys)) = special.iter().find(|(name, _)| *name == failpoint) {
        terminal.keys(keys);
        return;
    }
    for word in "Compare three ways to cache HTTP responses".split_inclusive(' ') {
        terminal.keys(word);
        if !shown(terminal, word.trim()) {
            return;
        }
    }
    terminal.keys("\r");
    if shown(terminal, "Launch this run?") {
        terminal.keys("\r");
    }
}

// Row S9 of docs/reliability.md: panics while drawing, folding events, reading keys, running the editor, in the feed,
// the session, an agent's environment and other threads.
#[test]
fn a_panic_anywhere_restores_the_terminal_and_shows_a_readable_message() {
    // The first three facts come before the screen; the others come with the message and its run.
    let facts = (4..=10).map(|nth| format!("fact:{nth}"));
    let screen =
        ["view:4", "view:6", "view:8", "update:1", "update:6", "feed:2", "feed:6", "keys:1", "keys:4"];
    let others = ["screen", "thread", "session", "completion", "editor", "background", "workplace"];
    let places: Vec<String> = screen.into_iter().chain(others).map(str::to_owned).chain(facts).collect();
    assert!(places.len() >= 20);
    in_parallel(3, places, |failpoint| {
        let althing = althing();
        let command = althing
            .new_command()
            .arg("--offline")
            .env("ALTHING_TEST_PANIC", &failpoint)
            .env("EDITOR", "true");
        let mut terminal = command.terminal(100, 30);
        // The session to resume must be on disk first.
        wait_for_event(&althing.state_dir(), LIMIT, |event| event["type"] == "status_changed");
        drive_until_failpoint(&mut terminal, &failpoint);
        ensure(terminal.wait(LIMIT) != 0, || format!("{failpoint}: it went on"))?;
        assert_terminal_restored(&terminal);
        let screen = terminal.screen();
        let name = failpoint.split(':').next().unwrap();
        ensure(screen.contains(&format!("failpoint {name}")), || format!("{failpoint}: {screen}"))?;
        // The session can be resumed, and Ctrl+C twice leaves it, even while the question about the run is open.
        let mut terminal = althing.new_command().args(["resume", "--offline"]).terminal(100, 30);
        ready(&mut terminal);
        terminal.keys("\x03\x03");
        ensure(terminal.wait(LIMIT) == 0, || format!("{failpoint}: the session is not left"))
    });
}

#[test]
fn it_suspends_and_continues_with_the_shells_job_control() {
    for by_key in [false, true] {
        let mut terminal = offline();
        terminal.keys("half a message");
        terminal.wait_for("half a message", LIMIT);
        if by_key {
            terminal.keys("\x1a");
        } else {
            terminal.signal(Signal::TSTP);
        }
        terminal.wait_stopped(LIMIT);
        assert_terminal_restored(&terminal);
        terminal.signal(Signal::CONT);
        terminal.wait_for("half a message", LIMIT);
        terminal.wait_until(LIMIT, "raw keys again", |_| !terminal.is_cooked());
        terminal.keys(" and the rest");
        terminal.wait_for("half a message and the rest", LIMIT);
        terminal.signal(Signal::TERM);
        assert_eq!(terminal.wait(LIMIT), 4);
        assert_terminal_restored(&terminal);
    }
}

/// Althing in tmux under a shell with job control, with an editor that runs this script after it has shown its file.
fn in_editor(script: &str) -> Tmux {
    let althing = althing();
    let editor = althing.file("editor", format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let command = althing.new_command().arg("--offline").env("EDITOR", editor.to_str().unwrap());
    let mut tmux = command.tmux(80, 24).expect("tmux is installed");
    tmux.wait_for("Type a message...", LIMIT);
    tmux.text("a message").press("C-x");
    tmux.wait_for("the editor waits", LIMIT);
    tmux
}

#[test]
fn the_shell_returns_if_the_editor_is_suspended_and_continues_it() {
    let by_key = "echo the editor waits; read -r line; echo \"$line\" >\"$1\"";
    // An editor that suspends only itself.
    let itself = "echo the editor waits; read -r line; kill -STOP $$; read -r line; echo \"$line\" >\"$1\"";
    for (script, how) in [(by_key, "C-z"), (itself, "Enter")] {
        let mut tmux = in_editor(script);
        for times in 1..=2 {
            if times == 1 || how == "C-z" {
                tmux.press(how);
                tmux.wait_until(LIMIT, "the shell", |screen| screen.matches("exit code").count() == times);
                tmux.text("fg").press("Enter");
                tmux.wait_for("fg", LIMIT);
            }
        }
        tmux.text("written in the editor").press("Enter");
        tmux.wait_for("› written in the editor", LIMIT);
    }
}

#[test]
fn the_keys_that_interrupt_an_editor_do_not_end_the_session() {
    let survives = "trap 'echo interrupted' INT QUIT; echo the editor waits
while ! grep -q written \"$1\"; do read -r line && echo \"$line\" >\"$1\"; done";
    for key in ["C-c", "C-\\"] {
        let mut tmux = in_editor(survives);
        tmux.press(key);
        tmux.wait_for("interrupted", LIMIT);
        tmux.text("written in the editor").press("Enter");
        tmux.wait_for("› written in the editor", LIMIT);
        // An editor that the key ends.
        let mut tmux = in_editor("echo the editor waits; read -r line");
        tmux.press(key);
        let screen = tmux.wait_for("editor ended with signal", LIMIT);
        assert!(screen.contains("› a message"), "{screen}");
        tmux.text(" and more");
        tmux.wait_for("› a message and more", LIMIT);
    }
}

fn frames(terminal: &Terminal) -> usize {
    let (raw, begun) = (terminal.raw(), b"\x1b[?2026h");
    raw.windows(begun.len()).filter(|bytes| bytes == begun).count()
}

#[test]
fn many_resizes_end_in_the_same_frame_as_a_fresh_screen() {
    let mut terminal = offline();
    terminal.keys("Compare three ways to cache HTTP responses\r");
    terminal.wait_for("Launch this run?", LIMIT);
    terminal.keys("\r");
    let mut seed = 99_u64;
    let (begin, drawn) = (Instant::now(), frames(&terminal));
    for _ in 0..1000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (cols, rows) = ((seed >> 33) % 501, (seed >> 17) % 201);
        terminal.resize(u16::try_from(cols).unwrap(), u16::try_from(rows).unwrap());
    }
    terminal.resize(100, 120);
    terminal.wait_for("Press Ctrl+O to override, Enter to continue", LIMIT);
    // One more frame is allowed, because a frame was due at the start.
    let most = begin.elapsed().as_millis() * 60 / 1000 + 1;
    let frames = frames(&terminal) - drawn;
    assert!(frames as u128 <= most, "{frames} frames in {:?}", begin.elapsed());
    terminal.keys("\r");
    let stormed = terminal.wait_until(LIMIT, "the end of the run", |screen| {
        let over = ["Status: Idle", "Complete ✓", "replace the weakest part", "enter send"];
        over.iter().all(|text| screen.contains(text)) && !screen.contains("The vote")
    });
    terminal.keys("\x0c");
    terminal.keys("x");
    let fresh = terminal.wait_for("› x", LIMIT);
    let above =
        |screen: &str| screen.lines().take(114).map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(above(&stormed), above(&fresh));
}

#[test]
fn the_largest_terminal_size_works() {
    let mut terminal = althing().arg("--offline").terminal(500, 200);
    ready(&mut terminal);
    terminal.keys("hello\r");
    wait_for_reply_to_hello(&terminal);
}

#[test]
fn no_color_means_no_color_and_ascii_mode_is_pure_ascii() {
    let mut terminal = althing().arg("--offline").env("NO_COLOR", "1").env("LC_ALL", "C").terminal(100, 140);
    ready(&mut terminal);
    terminal.keys("Compare three ways to cache HTTP responses\r");
    terminal.wait_for("Launch this run?", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("Press Ctrl+O to override, Enter to continue", LIMIT);
    terminal.keys("\r");
    let screen = terminal.wait_for("Complete", LIMIT);
    assert!(screen.is_ascii(), "{screen}");
    let colored = terminal.with_screen(|screen| {
        let cells = (0..80).flat_map(|row| (0..100).map(move |col| (row, col)));
        let mut colors = cells.filter_map(|(row, col)| screen.cell(row, col)).map(vt100::Cell::fgcolor);
        colors.any(|color| color != vt100::Color::Default)
    });
    assert!(!colored, "no letter has a color");
}

#[test]
fn in_plain_mode_questions_are_asked_and_answered_as_lines() {
    for (name, value) in [("ALTHING_PLAIN", "1"), ("TERM", "dumb")] {
        let althing = althing();
        let command = althing.new_command().arg("--offline").env(name, value);
        let mut terminal = command.terminal(120, 60);
        terminal.wait_for("Write a message and press Enter", LIMIT);
        terminal.keys("hello\r");
        terminal.wait_for("Althing: ", LIMIT);
        terminal.keys("Compare three ways to cache HTTP responses\r");
        terminal.wait_for("Question: launch this run?", LIMIT);
        terminal.keys("/approve\r");
        terminal.wait_for("won the vote. Write /approve to keep the winner", LIMIT);
        terminal.keys("/present two\r");
        terminal.wait_for("Complete", LIMIT);
        terminal.keys("/quit\r");
        assert_eq!(terminal.wait(LIMIT), 0);
        assert!(!terminal.raw().contains(&0x1b), "nothing moves, nothing is drawn over");
        let events = althing.events();
        let presented = of_type(&events, "decided");
        assert!(presented.iter().any(|event| event.to_string().contains("override")), "{presented:?}");
    }
}

#[test]
fn without_a_terminal_the_output_is_lines() {
    let output = run(&althing(), &["--offline", "hello"]).expect_code(0);
    assert!(!output.stdout.contains('\x1b') && !output.stderr.contains('\x1b'), "{output:?}");
}
