//! Truncates texts and marks what is missing.

/// Truncates a text to at most `most` characters, the last of which is then `…` (even if `most` is 0).
pub fn truncate_chars(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Truncates a text to at most `most` bytes of whole characters; `…` follows a truncated text.
pub fn truncate_bytes(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", text.get(..text.floor_char_boundary(most)).unwrap_or_default())
}

/// The first `head` and the last `tail` bytes, rounded to whole characters, with a note in between that is given the
/// number of bytes left out. A text of at most `head + tail` bytes is unchanged.
pub fn head_and_tail(text: &str, head: usize, tail: usize, note: impl FnOnce(usize) -> String) -> String {
    if text.len() <= head + tail {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(head);
    let tail = text.ceil_char_boundary(text.len() - tail);
    let (first, last) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    format!("{first}{}{last}", note(tail - head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_and_the_mark_is_one_of_them() {
        assert_eq!(truncate_chars("größer", 6), "größer");
        assert_eq!(truncate_chars("größer", 4), "grö…");
        assert_eq!(truncate_chars("x", 0), "…");
    }

    #[test]
    fn bytes_are_never_cut_inside_a_character() {
        assert_eq!(truncate_bytes("größer", 3), "gr…");
        assert_eq!(truncate_bytes("größer", 8), "größer");
    }

    #[test]
    fn the_middle_is_left_out_and_counted() {
        let cut = head_and_tail("0123456789", 3, 2, |missing| format!("[{missing}]"));
        assert_eq!(cut, "012[5]89");
        assert_eq!(head_and_tail("ääää", 3, 3, |missing| format!("[{missing}]")), "ä[4]ä");
        assert_eq!(head_and_tail("short", 3, 2, |_| String::new()), "short");
    }
}
