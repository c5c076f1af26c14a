//! A program's terminal inside ours: encoding of keys and pastes. The program's screen is drawn cell by cell; its
//! output never reaches our terminal directly.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Ctrl+] detaches. Terminals send the same byte for Ctrl+], Ctrl+5 and the control character 0x1D.
pub fn detaches(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    (control && matches!(key.code, KeyCode::Char(']' | '5'))) || key.code == KeyCode::Char('\u{1d}')
}

pub fn encode(key: KeyEvent, application_cursor: bool) -> Vec<u8> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let alt = key.modifiers.contains(KeyModifiers::ALT);
    let shift = key.modifiers.contains(KeyModifiers::SHIFT);
    let modifier = 1 + u8::from(shift) + 2 * u8::from(alt) + 4 * u8::from(control);
    let cursor = |letter: char| match (modifier, application_cursor) {
        (1, true) => format!("\x1bO{letter}"),
        (1, false) => format!("\x1b[{letter}"),
        _ => format!("\x1b[1;{modifier}{letter}"),
    };
    let tilde = |number: u8| match modifier {
        1 => format!("\x1b[{number}~"),
        _ => format!("\x1b[{number};{modifier}~"),
    };
    let escaped = |text: String| if alt { format!("\x1b{text}") } else { text };
    let text = match key.code {
        KeyCode::Char(c) if control => match c.to_ascii_lowercase() {
            letter @ 'a'..='z' => escaped(char::from(letter as u8 & 0x1f).to_string()),
            ' ' | '@' | '2' => escaped("\0".into()),
            '[' | '3' => escaped("\x1b".into()),
            '\\' | '4' => escaped("\x1c".into()),
            '^' | '6' => escaped("\x1e".into()),
            '_' | '7' | '/' => escaped("\x1f".into()),
            '8' | '?' => escaped("\x7f".into()),
            other => escaped(other.to_string()),
        },
        KeyCode::Char(c) => escaped(c.to_string()),
        KeyCode::Enter => escaped("\r".into()),
        KeyCode::Backspace => escaped("\x7f".into()),
        KeyCode::Tab => "\t".into(),
        KeyCode::BackTab => "\x1b[Z".into(),
        KeyCode::Esc => "\x1b".into(),
        KeyCode::Up => cursor('A'),
        KeyCode::Down => cursor('B'),
        KeyCode::Right => cursor('C'),
        KeyCode::Left => cursor('D'),
        KeyCode::Home => cursor('H'),
        KeyCode::End => cursor('F'),
        KeyCode::Insert => tilde(2),
        KeyCode::Delete => tilde(3),
        KeyCode::PageUp => tilde(5),
        KeyCode::PageDown => tilde(6),
        KeyCode::F(n @ 1..=4) => {
            let letter = char::from(b'P' + n - 1);
            if modifier == 1 { format!("\x1bO{letter}") } else { format!("\x1b[1;{modifier}{letter}") }
        }
        KeyCode::F(5) => tilde(15),
        KeyCode::F(n @ 6..=10) => tilde(11 + n),
        KeyCode::F(n @ 11..=12) => tilde(12 + n),
        _ => String::new(),
    };
    text.into_bytes()
}

/// The bytes of a paste. In a bracketed paste, escape characters are removed, so that an end marker in the pasted text
/// cannot end the paste.
pub fn paste(text: &str, bracketed: bool) -> Vec<u8> {
    let text = text.replace("\r\n", "\r").replace('\n', "\r");
    if bracketed {
        format!("\x1b[200~{}\x1b[201~", text.replace('\x1b', "")).into_bytes()
    } else {
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode, modifiers: KeyModifiers) -> KeyEvent {
        KeyEvent::new(code, modifiers)
    }

    #[test]
    fn keys_become_the_bytes_that_terminals_send() {
        let none = KeyModifiers::NONE;
        let cases = [
            (key(KeyCode::Char('a'), none), "a"),
            (key(KeyCode::Char('c'), KeyModifiers::CONTROL), "\x03"),
            (key(KeyCode::Char('x'), KeyModifiers::ALT), "\x1bx"),
            (key(KeyCode::Enter, none), "\r"),
            (key(KeyCode::Up, none), "\x1b[A"),
            (key(KeyCode::Up, KeyModifiers::SHIFT), "\x1b[1;2A"),
            (key(KeyCode::Delete, none), "\x1b[3~"),
            (key(KeyCode::F(1), none), "\x1bOP"),
            (key(KeyCode::F(12), none), "\x1b[24~"),
            (key(KeyCode::F(6), none), "\x1b[17~"),
        ];
        for (key, expected) in cases {
            assert_eq!(String::from_utf8(encode(key, false)).unwrap(), expected, "{key:?}");
        }
        assert_eq!(encode(key(KeyCode::Up, none), true), b"\x1bOA");
    }

    #[test]
    fn the_detach_key_is_known_in_every_spelling() {
        assert!(detaches(key(KeyCode::Char(']'), KeyModifiers::CONTROL)));
        assert!(detaches(key(KeyCode::Char('5'), KeyModifiers::CONTROL)));
        assert!(!detaches(key(KeyCode::Char(']'), KeyModifiers::NONE)));
    }

    #[test]
    fn a_paste_cannot_end_itself() {
        assert_eq!(paste("a\x1b[201~b\nc", true), b"\x1b[200~a[201~b\rc\x1b[201~");
        assert_eq!(paste("a\nb", false), b"a\rb");
    }
}
