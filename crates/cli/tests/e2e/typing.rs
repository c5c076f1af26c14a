//! Who gets a key in a real terminal: the input while somebody types, a box while somebody answers it, and nothing that
//! cannot be taken back before it was asked about.

use althing_testkit::process::wait_for_event;

use super::support::{LIMIT, althing, bare};

const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";

#[test]
fn a_message_that_is_opened_shows_its_own_text() {
    let mut terminal = althing().arg("--offline").terminal(100, 40);
    terminal.wait_for("Type a message...", LIMIT);
    for word in ["first", "second", "third"] {
        terminal.keys(&format!("hello {word}\r"));
        terminal.wait_for(&format!("You wrote: \"hello {word}\""), LIMIT);
        terminal.wait_for("Status: Idle", LIMIT);
    }
    terminal.keys("\t");
    terminal.wait_for("esc back", LIMIT);
    // From the newest reply upwards: message, reply, message, …
    for word in ["third", "second", "first"] {
        terminal.keys(UP).keys("\r");
        let screen = terminal.wait_for("‹ esc   You", LIMIT);
        assert!(screen.contains(&format!("hello {word}")), "{word}:\n{screen}");
        assert_eq!(screen.matches("hello").count(), 1, "{screen}");
        terminal.keys("\x1b");
        terminal.wait_gone("‹ esc   You", LIMIT);
        terminal.keys(UP);
    }
}

#[test]
fn what_is_typed_on_the_first_screen_is_kept_letter_by_letter() {
    for text in ["compare a and b", "open the config", "? what is this", "1 2 3"] {
        let althing = bare();
        let mut terminal = althing.terminal(100, 30);
        terminal.wait_for("Welcome to Althing", LIMIT);
        terminal.keys(text);
        terminal.wait_for(&format!("› {text}"), LIMIT);
        assert!(!althing.work_dir().join("althing.yaml").exists(), "{text} wrote a config");
        terminal.keys("\r");
        wait_for_event(&althing.state_dir(), LIMIT, |event| event["data"]["op"]["text"] == text);
    }
}

#[test]
fn the_choices_of_the_first_screen_are_taken_with_arrows_and_enter() {
    let althing = bare();
    let mut terminal = althing.terminal(100, 30);
    terminal.wait_for("write a config here first", LIMIT);
    terminal.keys(DOWN);
    terminal.wait_for("› try it with the offline model", LIMIT);
    terminal.keys(DOWN);
    terminal.wait_for("› write a config here first", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("using /", LIMIT);
    assert!(althing.work_dir().join("althing.yaml").is_file());
}
