//! Makes untrusted text harmless for a terminal: what would act on it is dropped, what is text stays.

/// A text with line ends and tabs, and nothing else that a terminal would obey.
pub fn clean_text(text: &str) -> String {
    text.chars().filter(|&c| c == '\n' || c == '\t' || !acts(c)).collect()
}

/// The same on one line.
pub fn clean_line(text: &str) -> String {
    let spaced = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
    spaced.filter(|&c| !acts(c)).collect()
}

/// Control characters (C0, DEL, C1), and the format characters that turn or hide what stands beside them.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let hostile = "a\x1b]52;c;aGk=\x07b\x1b[2Jc\u{9b}31md\u{202e}e\r\x08f\u{200b}g\n\th";
        assert_eq!(clean_text(hostile), "a]52;c;aGk=b[2Jc31mdefg\n\th");
        assert_eq!(clean_line("one\ntwo\tthree\u{7}"), "one two three");
    }
}
