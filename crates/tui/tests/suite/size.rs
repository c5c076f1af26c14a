//! Any size of the screen, and any resize.

use super::support::{TestScreen, options};
use crate::script::{self, Script};
use althing_protocol::DeltaKind;
use althing_tui::{TuiOptions, Welcome};
use crossterm::event::KeyCode;

#[test]
fn a_storm_of_sizes_while_text_streams_ends_in_a_clean_screen() {
    let mut script = script::conversation();
    let mut screen = TestScreen::showing(&script, 80, 24);
    let mut seed = 12_345_u64;
    for n in 0..1000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (width, height) = ((seed >> 33) % 501, (seed >> 17) % 201);
        script.items.clear();
        script.delta("r2.a1", DeltaKind::Text, "more **words** and\n\n");
        for item in &script.items {
            screen.app.apply(item);
        }
        match n % 7 {
            0 => screen.control('r'),
            1 => screen.press(KeyCode::Esc),
            2 => screen.control('t'),
            3 => screen.press(KeyCode::Esc),
            4 => screen.control('g'),
            5 => screen.press(KeyCode::Esc),
            _ => screen.press(KeyCode::PageUp),
        }
        screen.resize(width as u16, height as u16);
    }
    screen.resize(100, 30);
    for _ in 0..20 {
        screen.press(KeyCode::Esc);
    }
    screen.press(KeyCode::Esc);
    let stormed = screen.text();
    let mut fresh = TestScreen::with(options(), 100, 30);
    let mut all = script::conversation();
    for _ in 0..1000 {
        all.delta("r2.a1", DeltaKind::Text, "more **words** and\n\n");
    }
    fresh.feed(&all.items);
    assert_eq!(stormed, fresh.text(), "the last frame equals a fresh one");
}

#[test]
fn every_screen_can_be_drawn_at_every_small_size() {
    let mut vote = Script::default();
    vote.chat(true);
    vote.run("r1", Some("c1"), "Replace JWT");
    vote.all_answer("r1");
    vote.vote("r1");
    vote.override_window("r1");
    vote.plan_approval();
    for width in (0..64).step_by(3) {
        for height in 0..16 {
            let mut screen = TestScreen::showing(&vote, 80, 24);
            screen.resize(width, height);
            screen.press(KeyCode::Tab);
            screen.write("words for the plan");
            screen.press(KeyCode::Enter);
            screen.control('o');
            screen.press(KeyCode::Esc);
            screen.control('r');
            screen.press(KeyCode::Enter);
        }
    }
}

#[test]
fn at_forty_by_twelve_the_bar_shrinks_to_letters_and_cards_to_a_line() {
    let screen = TestScreen::showing(&script::conversation(), 40, 12);
    assert!(screen.shows("p M R I"), "{}", screen.text());
    assert!(screen.rows()[0].contains("Project: my-app") && screen.rows()[0].contains("Status: Running"));
    assert!(screen.shows("Run: Execute phase 1") && !screen.shows("3 agents · round"));
    assert!(screen.shows("Type a message..."));
}

#[test]
fn a_wide_screen_puts_the_run_beside_the_conversation() {
    let mut screen = TestScreen::showing(&script::conversation(), 200, 50);
    screen.control('r');
    assert!(screen.shows("Type a message...") && screen.shows("‹ esc   Run: Execute phase 1"));
}

#[test]
fn the_welcome_shows_what_can_be_chosen_at_every_size() {
    let missing =
        ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "claude", "codex", "gemini", "Ollama"];
    let welcome = Welcome { found: Vec::new(), missing: missing.map(str::to_owned).to_vec() };
    for (width, height) in [(40, 12), (60, 14), (80, 24), (160, 45)] {
        let options = TuiOptions { welcome: Some(welcome.clone()), ..options() };
        let mut screen = TestScreen::with(options, width, height);
        for choice in
            ["start with what was found", "try it with the offline", "first write a config", "what is this"]
        {
            assert!(screen.shows(&format!("› {choice}")), "{width}x{height}: {choice}\n{}", screen.text());
            screen.press(KeyCode::Down);
        }
        assert!(screen.shows("enter take") && !screen.shows("enter send"), "{}", screen.text());
        screen.write("hello");
        assert!(screen.shows("enter send"), "{}", screen.text());
    }
}
