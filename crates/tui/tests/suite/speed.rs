//! The work for a frame does not grow with the transcript, and memory stays small. How long a frame takes is measured
//! in `bench/`.

use super::support::TestScreen;
use crate::script::Script;
use althing_protocol::DeltaKind;
use crossterm::event::KeyCode;
use std::time::Duration;

fn transcript(lines: usize) -> Script {
    let mut script = Script::default();
    script.chat(true);
    for n in 0..(lines / 10) as u32 {
        script.user_sends(&format!("message {n}"));
        script.replies(n, &format!("line of an answer with `code`, number {n}\n").repeat(9));
    }
    script
}

/// How much more a frame may cost with a thousand times as many lines. If the cost grew with the lines, it would be far
/// more.
const SAME: u32 = 5;

/// The processor time of this thread, which does not grow while other programs use the machine.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("time goes forward")
}

/// The processor time of the cheapest of 60 frames, each after a change in the input.
fn frame(screen: &mut TestScreen) -> Duration {
    let mut best = Duration::MAX;
    for n in 0..60 {
        screen.press(if n % 2 == 0 { KeyCode::Char('x') } else { KeyCode::Backspace });
        let start = processor_time();
        screen.draw();
        best = best.min(processor_time().saturating_sub(start));
    }
    best
}

#[test]
fn a_frame_costs_no_more_for_a_hundred_thousand_lines_than_for_a_hundred() {
    let mut short = TestScreen::showing(&transcript(100), 160, 45);
    let mut long = TestScreen::showing(&transcript(100_000), 160, 45);
    let (quick, slow) = (frame(&mut short), frame(&mut long));
    assert!(slow < quick * SAME, "{slow:?}, with a hundred lines {quick:?}");
    for _ in 0..30 {
        long.press(KeyCode::PageUp);
    }
    let (quick, scrolled) = (frame(&mut short), frame(&mut long));
    assert!(scrolled < quick * SAME, "scrolled up: {scrolled:?}, with a hundred lines {quick:?}");
}

#[test]
fn a_frame_of_a_single_answer_of_a_hundred_thousand_lines_costs_no_more() {
    let mut script = Script::default();
    script.chat(true);
    script.replies(1, &"one line of a very long answer\n\n".repeat(50_000));
    let mut long = TestScreen::showing(&script, 160, 45);
    let mut short = TestScreen::showing(&transcript(100), 160, 45);
    let (quick, slow) = (frame(&mut short), frame(&mut long));
    assert!(slow < quick * SAME, "{slow:?}, with a hundred lines {quick:?}");
}

#[test]
fn a_stream_is_laid_out_at_its_end_only() {
    let mut script = Script::default();
    script.chat(true);
    script.turn(1);
    let mut screen = TestScreen::showing(&script, 160, 45);
    let cost = |screen: &mut TestScreen, script: &mut Script| {
        let mut best = Duration::MAX;
        for _ in 0..40 {
            script.items.clear();
            script.delta("c1", DeltaKind::Text, "some more words\n\n");
            let start = processor_time();
            screen.feed(&script.items);
            best = best.min(processor_time().saturating_sub(start));
        }
        best
    };
    let early = cost(&mut screen, &mut script);
    script.items.clear();
    script.delta("c1", DeltaKind::Text, &"a paragraph of the stream\n\n".repeat(20_000));
    screen.feed(&script.items);
    let late = cost(&mut screen, &mut script);
    assert!(late < early * SAME, "after 40,000 lines {late:?}, before {early:?}");
}

/// The processor time per piece of a streamed text that has `before` such pieces already.
fn streaming(before: usize, start: &str, piece: &str) -> Duration {
    let mut script = Script::default();
    script.chat(true);
    script.turn(1);
    let mut screen = TestScreen::showing(&script, 160, 45);
    script.items.clear();
    script.delta("c1", DeltaKind::Text, &format!("{start}{}", piece.repeat(before)));
    screen.feed(&script.items);
    let mut best = Duration::MAX;
    for _ in 0..40 {
        script.items.clear();
        script.delta("c1", DeltaKind::Text, piece);
        let start = processor_time();
        screen.feed(&script.items);
        best = best.min(processor_time().saturating_sub(start));
    }
    best
}

#[test]
fn a_streamed_block_costs_the_same_however_long_it_is() {
    for (start, piece) in [
        ("| a | b |\n|---|---|\n", "| a cell | another cell |\n"),
        ("", "words of one long paragraph that never ends "),
        ("", "- an item of a list\n"),
        ("Some steps:\n", "1. an item with a number\n"),
        ("```rust\n", "let line = of(code);\n"),
    ] {
        let (short, long) = (streaming(60, start, piece), streaming(6_000, start, piece));
        assert!(long < short * SAME, "{piece}: with 6,000 {long:?}, with 60 {short:?}");
    }
}

#[test]
fn a_hundred_thousand_lines_fit_in_sixty_megabytes() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("VmRSS: 0 kB").to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    };
    let before = resident();
    let mut screen = TestScreen::new(160, 45);
    // The items are fed in parts, as an engine does, so that folded items are not held elsewhere.
    let mut script = Script::default();
    script.chat(true);
    for n in 0..10_000 {
        script.user_sends(&format!("message {n}"));
        script.replies(n, &format!("line of an answer with `code`, number {n}\n").repeat(9));
        if n % 500 == 0 {
            screen.feed(&script.items);
            script.items.clear();
        }
    }
    screen.feed(&script.items);
    drop(script);
    for _ in 0..200 {
        screen.press(KeyCode::PageUp);
    }
    let used = resident().saturating_sub(before);
    assert!(used < 45, "{used} MB on top of {before} MB");
}
