//! Takes out of a program's words what could act on a terminal or deceive a reader: nothing of a program reaches a
//! person's screen but letters.

/// Whether a character may be shown.
pub(crate) fn is_shown(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter,
            // What turns the direction of writing, so that a text reads other than it is.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // What is not seen at all.
            | '\u{200b}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// One line of at most `longest` characters.
pub(crate) fn line(text: &str, longest: usize) -> String {
    let blank_for_control = |letter: char| if matches!(letter, '\n' | '\t') { ' ' } else { letter };
    text.chars().map(blank_for_control).filter(|letter| is_shown(*letter)).take(longest).collect()
}
