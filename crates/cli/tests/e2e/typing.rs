//! Who gets a key in a real terminal: the input while somebody types, a box while somebody answers it, and nothing that
//! cannot be taken back before it was asked about.

use super::support::{LIMIT, althing};

const UP: &str = "\x1b[A";

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
