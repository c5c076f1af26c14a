//! Names of files in texts of several lines.

use crate::sanitize;
use std::borrow::Cow;
use std::fmt::Write;

/// The name or path in one line in which everything can be seen. A name with line breaks, other control characters or
/// invisible characters, or one that begins with a quotation mark, is put in quotation marks with escapes, so that
/// nobody can forge a line of a list with the name of a file.
pub fn quoted_name(name: &str) -> Cow<'_, str> {
    if !name.starts_with('"') && sanitize::visible_line(name) == name {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len() + 8);
    out.push('"');
    for c in name.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '"' | '\\' => out.extend(['\\', c]),
            c if sanitize::visible_line(c.encode_utf8(&mut [0; 4])) == *c.encode_utf8(&mut [0; 4]) => {
                out.push(c)
            }
            c => {
                let _ = write!(out, "{}", c.escape_unicode());
            }
        }
    }
    out.push('"');
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::quoted_name;

    #[test]
    fn no_name_is_more_than_one_visible_line() {
        for plain in ["a.txt", "with space", "ä.rs", "src/it's.rs", "e\u{301}"] {
            assert_eq!(quoted_name(plain), plain);
        }
        let table = [
            ("a\nb (5 bytes)", r#""a\nb (5 bytes)""#),
            ("\u{1b}[2J\r\t", r#""\u{1b}[2J\r\t""#),
            ("a\u{202e}b\u{200b}\u{2028}", r#""a\u{202e}b\u{200b}\u{2028}""#),
            (r#""a\nb""#, r#""\"a\\nb\"""#),
        ];
        for (name, expected) in table {
            assert_eq!(quoted_name(name), expected);
        }
    }
}
