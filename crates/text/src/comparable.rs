//! The form in which a text is compared with quotations of it.

/// The text without what a quotation may change: white space, line breaks, the escapes of JSON at any depth, and what
/// tools write before a line (numbers, names of files, marks of changes and quotations). A text is quoted in another one
/// if its form is part of the other one's form. The work grows linearly with the text.
pub fn comparable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut begins_line, mut escaped) = (text, true, false);
    loop {
        if std::mem::take(&mut begins_line) {
            rest = without_line_prefix(rest);
        }
        let mut chars = rest.chars();
        let Some(mut c) = chars.next() else { return out };
        rest = chars.as_str();
        if std::mem::take(&mut escaped) {
            match c {
                'n' | 'r' => c = '\n',
                't' | 'b' | 'f' => continue,
                'u' => (c, rest) = code_unit(rest).unwrap_or((c, rest)),
                _ => {}
            }
        }
        match c {
            '\\' => escaped = true,
            '\n' | '\r' => begins_line = true,
            _ if is_kept(c) => out.push(c),
            _ => {}
        }
    }
}

fn is_kept(c: char) -> bool {
    c.is_alphanumeric() || (c.is_ascii_punctuation() && c != '\\')
}

/// The character of `\uXXXX`, and what follows. Half of a pair is no letter, so the halves are left out like the
/// character that they mean.
fn code_unit(text: &str) -> Option<(char, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let unit = u32::from_str_radix(digits, 16).ok()?;
    Some((char::from_u32(unit).unwrap_or(' '), rest))
}

fn without_line_prefix(line: &str) -> &str {
    let mut rest = without_place(line.trim_start_matches([' ', '\t']));
    loop {
        let before = rest.len();
        let is_mark = |c: char| !matches!(c, '\n' | '\r' | '\\') && (!is_kept(c) || "+->|#*/:.)".contains(c));
        rest = rest.trim_start_matches(is_mark);
        let escapes = rest.trim_start_matches('\\');
        if escapes.len() < rest.len()
            && let Some(after) = escapes.strip_prefix('t')
        {
            rest = after;
        }
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        // In `12, 13`, the number is a value.
        let is_value = after.chars().next().is_none_or(|c| c.is_alphanumeric() || "\",]}".contains(c));
        if !is_value {
            rest = after;
        }
        if rest.len() == before {
            return rest;
        }
    }
}

/// The line without `FILE:NUMBER:`.
fn without_place(line: &str) -> &str {
    let end = line.find(|c: char| c.is_whitespace() || "\"{}[]\\".contains(c)).unwrap_or(line.len());
    let word = line.get(..end).unwrap_or_default();
    let mut colons = word.match_indices(':').map(|(at, _)| at).peekable();
    while let (Some(first), Some(second)) = (colons.next(), colons.peek()) {
        let between = word.get(first + 1..*second).unwrap_or_default();
        if !between.is_empty() && between.bytes().all(|byte| byte.is_ascii_digit()) {
            return line.get(second + 1..).unwrap_or_default();
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_has_the_form_of_its_original() {
        let original = "{\"a\": \"C:\\\\new \\\"\u{e9}\\\"\\n7 x\", \"n\": [1,\n 2]}";
        let quotations = [
            original.replace("\u{e9}", "\\u00E9"),
            original.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"),
            original.replace(", ", ",\n    12\t  "),
            original.replace(", ", ",\na/b-c.md:12: "),
            original.replace(", ", ",\n+   "),
            original.replace(", ", ",\\n     12\\t9\\t"),
            original.replace("{\"a\"", "     7\t{\n     8\t \"a\""),
        ];
        for quotation in quotations {
            assert_eq!(comparable(&quotation), comparable(original), "{quotation}");
        }
        assert_eq!(comparable(original), "{\"a\":\"C:ew\"\u{e9}\"x\",\"n\":[1,2]}");
        assert_ne!(comparable("{\"a\": \"x\"}"), comparable("{\"a\": \"y\"}"));
        assert_ne!(comparable("{\"a\": \"b/c.txt\"}"), comparable("{\"a\": \"b.c/txt\"}"));
    }

    #[test]
    fn a_hostile_text_has_its_form_soon() {
        for part in ["\n", "\\", "\\n", "a:", "1:", "\n1", "\\n1:", "\\u", "\\t\n", ":1"] {
            assert!(comparable(&part.repeat(300_000)).len() <= part.len() * 300_000);
        }
    }
}
