//! Makes untrusted text safe to print on a terminal. Characters that control the terminal, or that hide or reorder
//! other characters, are dropped or replaced.

use std::borrow::Cow;
use std::fmt::Write;

/// More combining marks on one letter would extend into the lines above and below.
const MOST_MARKS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    Keep,
    Drop,
    Replace(char),
    /// A combining mark; a letter may carry a few of them.
    Mark,
}

fn treatment(c: char) -> Treatment {
    match c {
        ' '..='~' => Treatment::Keep,
        // A control character is shown as its Unicode picture, so that it stays visible.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).map_or(Treatment::Drop, Treatment::Replace),
        '\u{7f}' => Treatment::Replace('\u{2421}'),
        '\u{80}'..='\u{9f}' => Treatment::Replace('\u{fffd}'),
        // Some terminals start a new line at line and paragraph separators.
        '\u{2028}' | '\u{2029}' => Treatment::Replace(' '),
        // These are invisible, and terminals disagree about their width.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
            Treatment::Drop
        }
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => Treatment::Drop,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => Treatment::Drop,
        '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' => Treatment::Drop,
        '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => Treatment::Drop,
        _ if unicode_width::UnicodeWidthChar::width(c) == Some(0) => Treatment::Mark,
        _ => Treatment::Keep,
    }
}

/// Whether a character can be printed unchanged.
pub fn is_safe(c: char) -> bool {
    matches!(treatment(c), Treatment::Keep | Treatment::Mark)
}

/// Whether a character is dropped before text is shown, so that nothing of it can be seen.
pub fn is_hidden(c: char) -> bool {
    c == '\r' || treatment(c) == Treatment::Drop
}

/// Sanitizes text into one line. Line feeds and tabs become spaces; carriage returns are dropped.
pub fn line(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(filter(text, |c, out| match c {
        '\n' | '\t' => {
            out.push(' ');
            true
        }
        '\r' => true,
        _ => false,
    }))
}

/// Sanitizes text of several lines. Tabs become spaces up to the next multiple of four columns; carriage returns are
/// dropped.
pub fn text(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)) {
        return Cow::Borrowed(text);
    }
    let mut column = 0_usize;
    Cow::Owned(filter(text, move |c, out| match c {
        '\n' => {
            column = 0;
            out.push('\n');
            true
        }
        '\r' => true,
        '\t' => {
            let spaces = 4 - column % 4;
            out.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
            true
        }
        _ => {
            column += 1;
            false
        }
    }))
}

/// Sanitizes text of several lines for plain output. Tabs are kept, so that a diff can still be applied; carriage
/// returns are dropped.
pub fn output(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(filter(text, |c, out| match c {
        '\n' | '\t' => {
            out.push(c);
            true
        }
        '\r' => true,
        _ => false,
    }))
}

/// Sanitizes JSON: unsafe characters become escapes, so that the value stays the same. The JSON must not contain tabs
/// and carriage returns outside strings.
pub fn json(json: &str) -> Cow<'_, str> {
    let is_kept = |c: char| c == '\n' || is_safe(c);
    if json.chars().all(is_kept) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_kept(c) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(out)
}

/// Text of several lines in which everything can be seen, for a person who has to judge it. Characters that the other
/// functions drop or blank, and those that look empty, become escapes such as `\u{200b}`; a carriage return becomes `␍`.
/// Line feeds and tabs are kept.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let (mut marks, mut is_blank) = (0, true);
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        marks = if treatment(c) == Treatment::Mark { marks + 1 } else { 0 };
        match treatment(c) {
            _ if matches!(c, '\n' | '\t') => out.push(c),
            Treatment::Replace(picture) if c.is_ascii() => out.push(picture),
            // The empty braille pattern has no dots.
            Treatment::Keep if c != '\u{2800}' => out.push(c),
            Treatment::Mark if marks <= MOST_MARKS && !is_blank => out.push(c),
            _ => out.extend(c.escape_unicode()),
        }
        is_blank = c.is_whitespace();
    }
    Cow::Owned(out)
}

/// Like [`visible`], for one line: line feeds and tabs are shown as `␊` and `␉`.
pub fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "␊").replace('\t', "␉")
}

/// Sanitizes the text of one cell of a screen. May return an empty string.
pub fn cell(text: &str) -> Cow<'_, str> {
    if let [b' '..=b'~'] = text.as_bytes() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(filter(text, |_, _| false))
}

fn filter(text: &str, mut own: impl FnMut(char, &mut String) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut marks = 0;
    for c in text.chars() {
        if own(c, &mut out) {
            marks = 0;
            continue;
        }
        match treatment(c) {
            Treatment::Keep => {
                marks = 0;
                out.push(c);
            }
            Treatment::Drop => {}
            Treatment::Replace(picture) => {
                marks = 0;
                out.push(picture);
            }
            Treatment::Mark => {
                marks += 1;
                // A mark is kept only after a character that is not white space.
                if marks <= MOST_MARKS && out.chars().next_back().is_some_and(|last| !last.is_whitespace()) {
                    out.push(c);
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_shown_as_pictures() {
        assert_eq!(line("\x1b]52;c;aGk=\x07ok"), "␛]52;c;aGk=␇ok");
        assert_eq!(line("\u{9b}31m"), "\u{fffd}31m");
        assert_eq!(text("a\r\nb\tc\x1b[2J"), "a\nb   c␛[2J");
        assert_eq!(output("a\r\nb\tc\x1b[2J"), "a\nb\tc␛[2J");
        assert_eq!(line("one\ntwo\tthree"), "one two three");
    }

    #[test]
    fn invisible_and_direction_characters_are_dropped() {
        assert_eq!(line("a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{e0041}f"), "abcdef");
        assert_eq!(line("שלום"), "שלום", "right-to-left text itself stays");
    }

    #[test]
    fn nothing_is_hidden_in_a_text_that_a_person_has_to_judge() {
        let hidden =
            "a\rb\x1b\u{85}\u{2028}\u{200b}\u{e0041}\u{3164}\u{115f}\u{1160}\u{ffa0}\u{2800}\u{fe0f}\tz\n";
        assert_eq!(
            visible(hidden),
            "a␍b␛\\u{85}\\u{2028}\\u{200b}\\u{e0041}\\u{3164}\\u{115f}\\u{1160}\\u{ffa0}\\u{2800}\\u{fe0f}\tz\n"
        );
        assert_eq!(visible("e\u{301} שלום ä"), "e\u{301} שלום ä", "ordinary text stays");
        assert_eq!(visible(&format!("e{}", "\u{301}".repeat(5))), "e\u{301}\u{301}\u{301}\\u{301}\\u{301}");
        assert_eq!(visible(" \u{301}x"), " \\u{301}x");
        assert_eq!(visible_line("a\n\tb\u{200b}"), "a␊␉b\\u{200b}");
        // The other functions leave the result unchanged.
        for c in ('\0'..=char::MAX).filter(|c| !matches!(c, '\n' | '\t')) {
            let shown = visible_line(&format!("x{c}"));
            assert_eq!(text(&shown), shown, "{c:?}");
            assert_eq!(line(&shown), shown, "{c:?}");
        }
    }

    #[test]
    fn a_letter_carries_only_a_few_marks() {
        let tower = format!("e{}", "\u{301}".repeat(50));
        assert_eq!(line(&tower).chars().count(), 1 + MOST_MARKS);
        assert_eq!(line("\u{301}x"), "x", "a mark without a letter is dropped");
    }

    #[test]
    fn unsafe_characters_in_json_become_escapes_of_the_same_value() {
        let hostile = "{\"a\":\"x\u{9b}31m\u{7f}\u{202e}y\u{61c}\u{e0041}\u{180e}é\"}";
        let shown = json(hostile);
        assert_eq!(shown, r#"{"a":"x\u009b31m\u007f\u202ey\u061c\udb40\udc41\u180eé"}"#);
        assert!(shown.chars().all(is_safe));
        assert!(matches!(json("{\"a\": 1}\n"), Cow::Borrowed(_)));
    }
}
