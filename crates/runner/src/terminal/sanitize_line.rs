//! Truncates and sanitizes a program's text before a person sees it.

use althing_text::sanitize::is_safe;

/// One line of at most `longest` characters.
pub(crate) fn sanitize_line(text: &str, longest: usize) -> String {
    let blank_for_control = |letter: char| if matches!(letter, '\n' | '\t') { ' ' } else { letter };
    text.chars().map(blank_for_control).filter(|letter| is_safe(*letter)).take(longest).collect()
}
