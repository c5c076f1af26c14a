//! Truncates and sanitizes a program's text before a person sees it.

use althing_text::sanitize::is_safe;

pub(crate) fn sanitize_dialog(text: &str, longest: usize) -> String {
    // These are box-drawing characters, and block elements, which are used for scroll bars.
    let is_frame = |letter: char| matches!(letter, '\u{2500}'..='\u{259f}') || letter.is_whitespace();
    let lines = text.lines().map(|line| sanitize_line(line.trim_matches(is_frame), longest));
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n").chars().take(longest).collect()
}

pub(crate) fn sanitize_line(text: &str, longest: usize) -> String {
    let blank_for_control = |letter: char| if matches!(letter, '\n' | '\t') { ' ' } else { letter };
    text.chars().map(blank_for_control).filter(|letter| is_safe(*letter)).take(longest).collect()
}
