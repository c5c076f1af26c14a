//! Finds quoted texts that span several lines, so that an error about an unclosed quote can point to the opening
//! quote. YAML lets a forgotten quote end at the next quote of its kind, often many lines below, and the parser
//! reports the error there.

/// A quoted text that does not end on the line where it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quote {
    pub(crate) start: usize,
    pub(crate) end: Option<usize>,
}

/// The text may be invalid YAML, so the result is a guess.
pub(crate) fn over_several_lines(text: &str) -> Vec<Quote> {
    let mut found = Vec::new();
    let mut open: Option<(char, usize)> = None;
    // The indentation of the line whose value is a block (`|` or `>`); deeper lines are its text.
    let mut block: Option<usize> = None;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let indentation = line.len() - line.trim_start_matches(' ').len();
        let is_blank = line.trim().is_empty();
        if open.is_none() && block.is_some_and(|parent| is_blank || indentation > parent) {
            offset += line.len();
            continue;
        }
        block = None;
        let opened_before = open.is_some();
        let mut opened_here = false;
        let (mut previous, mut skipped) = (' ', false);
        let mut chars = line.char_indices().peekable();
        while let Some((index, c)) = chars.next() {
            let at = offset + index;
            if std::mem::take(&mut skipped) {
                continue;
            }
            match open {
                Some(('"', _)) if c == '\\' => skipped = true,
                Some(('\'', _)) if c == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                    skipped = true;
                }
                Some((quote, start)) if c == quote => {
                    if opened_before && !opened_here {
                        found.push(Quote { start, end: Some(at) });
                    }
                    open = None;
                }
                Some(_) => {}
                None if c == '#' && previous.is_whitespace() => break,
                // In the middle of a plain text, a quote is an ordinary character.
                None if matches!(c, '"' | '\'') && starts_value(line, index) => {
                    (open, opened_here) = (Some((c, at)), true);
                }
                None => {}
            }
            previous = c;
        }
        if open.is_none() && opens_block(line) {
            block = Some(indentation);
        }
        offset += line.len();
    }
    found.extend(open.map(|(_, start)| Quote { start, end: None }));
    found
}

fn starts_value(line: &str, index: usize) -> bool {
    let before = line.get(..index).unwrap_or_default();
    let trimmed = before.trim_end();
    match trimmed.chars().last() {
        None | Some('[' | '{' | ',') => true,
        Some(':' | '-' | '?') => trimmed.len() < before.len() || before.ends_with(':'),
        Some(_) => false,
    }
}

fn opens_block(line: &str) -> bool {
    let line = line.split(" #").next().unwrap_or_default().trim_end();
    let value = line.rsplit(' ').next().unwrap_or_default();
    let mut chars = value.chars();
    line.contains(' ')
        && matches!(chars.next(), Some('|' | '>'))
        && chars.all(|c| matches!(c, '+' | '-') || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quotes_that_go_on_after_their_line_are_found() {
        let closed = "a: \"x\"\nb: 'it''s'\nc: don't\nd: |\n  say \"no\n# \"comment\ne: {f: \"g\", h: 'i'}\n";
        assert_eq!(over_several_lines(closed), []);
        let open = "a: \"x\nb: 1\n";
        assert_eq!(over_several_lines(open), [Quote { start: 3, end: None }]);
        let next = "a: 'x\nb: 'y'\n";
        assert_eq!(over_several_lines(next)[0], Quote { start: 3, end: Some(9) });
        let escaped = "a: \"x \\\" y\"\nb: \"z\n";
        assert_eq!(over_several_lines(escaped).len(), 1);
    }
}
