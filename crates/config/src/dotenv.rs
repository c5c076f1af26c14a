//! Reads the text of a `.env` file: `NAME=value` lines, with or without `export`, quotes and comments. Lines that it
//! does not understand are skipped, because the file is shared with other programs.

/// The variables, in order. A name that is set twice is in the list twice.
pub fn parse_dotenv(text: &str) -> Vec<(String, String)> {
    dotenv_assignments(text).into_iter().filter(|(name, _)| is_name(name)).collect()
}

/// Everything in the form `NAME=value`, also with a name that no variable can have: another program may accept it, so
/// its value may be a secret.
pub fn dotenv_assignments(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while !rest.is_empty() {
        let line_end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(line_end);
        rest = after;
        let line = line.trim_start();
        let line = line.strip_prefix("export").filter(|line| line.starts_with([' ', '\t'])).unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else { continue };
        let name = name.trim();
        if name.is_empty() || name.starts_with('#') {
            continue;
        }
        let value = value.trim_start_matches([' ', '\t']);
        let value = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let whole = format!("{}{after}", value.get(1..).unwrap_or_default());
                match quoted(&whole, quote) {
                    // In a line that is no variable, the quote may be a quotation mark in a text.
                    Some((value, _)) if !is_name(name) => value,
                    Some((value, used)) => {
                        let over = used.saturating_sub(value_length(line));
                        rest = skip_line(after, over);
                        value
                    }
                    None => unquoted(value),
                }
            }
            _ => unquoted(value),
        };
        found.push((name.to_owned(), value));
    }
    found
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

fn unquoted(value: &str) -> String {
    let value = value.split('\n').next().unwrap_or_default();
    let comment = value.char_indices().find(|(at, c)| {
        *c == '#' && value.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with([' ', '\t']))
    });
    let end = comment.map_or(value.len(), |(at, _)| at);
    value.get(..end).unwrap_or_default().trim().to_owned()
}

fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, c)) = letters.next() {
        match c {
            c if c == quote => return Some((value, at + 1)),
            '\\' if quote == '"' => match letters.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                other @ ('"' | '\\' | '$') => value.push(other),
                other => value.extend(['\\', other]),
            },
            c => value.push(c),
        }
    }
    None
}

fn value_length(line: &str) -> usize {
    let value = line.split_once('=').map_or("", |(_, value)| value);
    value.trim_start_matches([' ', '\t']).len().saturating_sub(1)
}

/// `text` begins after the line with the variable's name, and its first `bytes` bytes belong to the value (0 if the
/// value ends on the line with the name). Returns the text after the line on which the value ends.
fn skip_line(text: &str, bytes: usize) -> &str {
    if bytes == 0 {
        return text;
    }
    let rest = text.get(bytes..).unwrap_or_default();
    rest.find('\n').and_then(|at| rest.get(at + 1..)).unwrap_or_default()
}
