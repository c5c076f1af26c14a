//! Compares the code in two texts.

use std::collections::HashSet;

/// Fenced code with fewer lines and fewer bytes than these counts as an illustration.
const MIN_LINES: usize = 3;
const MIN_BYTES: usize = 120;
/// Code with at least this many lines also counts as lost if only a fraction of it remains.
const MIN_LINES_TO_SHRINK: usize = 8;

const NO_CODE: [&str; 7] = ["text", "txt", "plain", "plaintext", "output", "markdown", "md"];

#[derive(Default)]
struct FencedCode {
    /// Lines with at least two letters or digits; runs of whitespace are replaced by single spaces.
    lines: Vec<String>,
    bytes: usize,
}

/// Returns the fence at the start of a line, and what follows the fence.
fn fence(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    (length >= 3).then(|| line.split_at(length))
}

/// Pairs each line with whether it is inside a code block. Fence lines, and blocks whose language is in `NO_CODE`, are
/// left out.
fn lines(text: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    let mut open: Option<(&str, bool)> = None;
    for line in text.lines() {
        match (open, fence(line)) {
            (Some((mark, _)), Some((closing, rest)))
                if closing.starts_with(mark) && rest.trim().is_empty() =>
            {
                open = None;
            }
            (None, Some((mark, info))) => {
                let language = info.split([' ', '{', ',']).next().unwrap_or_default().to_lowercase();
                open = Some((mark, !NO_CODE.contains(&language.trim())));
            }
            (Some((_, is_code)), _) => found.extend(is_code.then_some((line, true))),
            (None, None) => found.push((line, false)),
        }
    }
    found
}

fn with_single_spaces(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn fenced(text: &str) -> FencedCode {
    let mut code = FencedCode::default();
    for (line, _) in lines(text).into_iter().filter(|(_, is_code)| *is_code) {
        let line = with_single_spaces(line);
        if line.chars().filter(|c| c.is_alphanumeric()).count() >= 2 {
            code.bytes += line.len();
            code.lines.push(line);
        }
    }
    code
}

pub(super) fn has_fenced(text: &str) -> bool {
    !fenced(text).lines.is_empty()
}

/// The text without code, be it in fences, between backticks or in lines that look like code.
pub(super) fn prose(text: &str) -> String {
    let without = without_code(text);
    without.lines().filter(|line| !looks_like_code(line)).flat_map(|line| [line, "\n"]).collect()
}

pub(super) fn without_code(text: &str) -> String {
    let mut prose = String::new();
    let mut open = false;
    for line in text.lines() {
        if fence(line).is_some() {
            open = !open;
        } else if !open {
            let outside = line.split('`').step_by(2);
            prose.extend(outside.flat_map(|part| [part, " "]));
            prose.push('\n');
        }
    }
    prose
}

/// Whether the text has none, or only a fraction, of the basis's fenced code. Code outside fences counts as kept, and
/// so does rewritten code.
pub(super) fn is_lost(basis: &str, text: &str) -> bool {
    let old = fenced(basis);
    if old.lines.len() < MIN_LINES && old.bytes < MIN_BYTES {
        return false;
    }
    let illustrates = old.bytes * 5 < basis.len() && text.len() * 2 >= basis.len();
    if illustrates {
        return false;
    }
    let new = fenced(text);
    let inline = text.split('`').skip(1).step_by(2).map(with_single_spaces);
    let present: HashSet<String> = text.lines().map(with_single_spaces).chain(inline).collect();
    let kept = old.lines.iter().filter(|line| present.contains(*line)).count();
    let unfenced =
        lines(text).into_iter().filter(|(line, is_code)| !is_code && looks_like_code(line)).count();
    if new.lines.is_empty() {
        kept * 4 < old.lines.len() && unfenced < (old.lines.len() / 4).max(2)
    } else {
        old.lines.len() >= MIN_LINES_TO_SHRINK
            && new.bytes * 6 < old.bytes
            && kept * 6 < old.lines.len()
            && unfenced * 4 < old.lines.len()
    }
}

fn looks_like_code(line: &str) -> bool {
    const STARTS: [&str; 44] = [
        "def ",
        "class ",
        "import ",
        "from ",
        "return",
        "fn ",
        "let ",
        "const ",
        "var ",
        "pub ",
        "use ",
        "impl ",
        "struct ",
        "enum ",
        "match ",
        "if ",
        "elif ",
        "else",
        "for ",
        "while ",
        "function ",
        "async ",
        "await ",
        "public ",
        "private ",
        "static ",
        "void ",
        "int ",
        "#include",
        "#!",
        "package ",
        "func ",
        "SELECT ",
        "INSERT ",
        "CREATE ",
        "$ ",
        "@",
        "//",
        "print(",
        "console.",
        "echo ",
        "sudo ",
        "\"",
        "{",
    ];
    const ENDS: [&str; 5] = [";", "{", "}", "},", ")"];
    const PARTS: [&str; 8] = ["()", " = ", " == ", "::", "->", "=>", " += ", " != "];
    let line = line.trim();
    STARTS.iter().any(|start| line.starts_with(start))
        || ENDS.iter().any(|end| line.ends_with(end))
        || PARTS.iter().any(|part| line.contains(part))
}
