//! Checks the bytes that reach the terminal.

use althing_tui::App;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

/// The first escape sequence or character that the screen may not write. Only cursor moves, text styles and the
/// visibility of the cursor are allowed; control characters, direction overrides and invisible characters are not.
pub fn foreign(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).expect("what is written is UTF-8");
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            let mut sequence = String::from("\\e");
            if chars.next() != Some('[') {
                return Some("an escape that is no control sequence".into());
            }
            let last = loop {
                match chars.next() {
                    Some(c @ ('0'..='9' | ';' | ':' | '?')) => sequence.push(c),
                    Some(last) => break last,
                    None => return Some("an unfinished sequence".into()),
                }
            };
            let ours = match last {
                'm' => !sequence.contains('?'),
                'H' => true,
                'h' | 'l' => sequence == "\\e?25",
                _ => false,
            };
            if !ours {
                return Some(format!("{sequence}{last}"));
            }
            continue;
        }
        let bidi = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}');
        let invisible =
            matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
        if c.is_control() || bidi || invisible {
            return Some(format!("U+{:04X}", u32::from(c)));
        }
    }
    None
}

/// Draws a screen with the terminal library and returns the bytes that would reach the terminal.
pub fn written(app: &mut App, width: u16, height: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let area = Rect::new(0, 0, width, height);
    let viewport = TerminalOptions { viewport: Viewport::Fixed(area) };
    let mut terminal = Terminal::with_options(CrosstermBackend::new(&mut bytes), viewport).unwrap();
    terminal
        .draw(|frame| {
            app.draw(frame.buffer_mut());
        })
        .unwrap();
    drop(terminal);
    bytes
}
