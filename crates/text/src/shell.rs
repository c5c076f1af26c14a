//! Words of a shell command.

use std::borrow::Cow;

/// The text as one word of a POSIX shell command, in single quotes if needed.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("'{}'", text.replace('\'', "'\\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn every_character_with_a_meaning_is_quoted() {
        for plain in ["plain", "a/b.c-1", "agent_a", "ä"] {
            assert_eq!(shell_word(plain), plain);
        }
        for text in
            ["", "two words", "$(touch x)", "; rm -rf ~", "`id`", "a\nb", "\\", "*", "\"", "a&b", "#x"]
        {
            assert_eq!(shell_word(text), format!("'{text}'"));
        }
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
