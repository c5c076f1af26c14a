//! Syntax highlighting of keywords, literals and comments. One small scanner serves all languages, because a grammar
//! per language would cost megabytes and milliseconds.

use crate::line::Line;
use crate::theme::Tone;

const KEYWORDS: &[&str] = &[
    "abstract",
    "and",
    "as",
    "async",
    "await",
    "begin",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "crate",
    "def",
    "default",
    "defer",
    "del",
    "delete",
    "do",
    "done",
    "elif",
    "else",
    "end",
    "enum",
    "esac",
    "except",
    "export",
    "extends",
    "extern",
    "false",
    "False",
    "fi",
    "final",
    "finally",
    "fn",
    "for",
    "foreach",
    "from",
    "func",
    "function",
    "go",
    "goto",
    "if",
    "impl",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "is",
    "lambda",
    "let",
    "local",
    "loop",
    "match",
    "mod",
    "module",
    "move",
    "mut",
    "namespace",
    "new",
    "nil",
    "None",
    "not",
    "null",
    "or",
    "package",
    "pass",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "ref",
    "return",
    "self",
    "Self",
    "static",
    "struct",
    "super",
    "switch",
    "then",
    "this",
    "throw",
    "trait",
    "true",
    "True",
    "try",
    "type",
    "typeof",
    "union",
    "unsafe",
    "use",
    "using",
    "var",
    "void",
    "where",
    "while",
    "with",
    "yield",
    "SELECT",
    "FROM",
    "WHERE",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "TABLE",
    "JOIN",
    "INTO",
    "VALUES",
    "SET",
];

fn comment_marks(language: &str) -> &'static [&'static str] {
    match language {
        "py" | "python" | "sh" | "bash" | "zsh" | "shell" | "yaml" | "yml" | "toml" | "ruby" | "rb"
        | "perl" | "make" | "makefile" | "dockerfile" | "ini" | "conf" => &["#"],
        "sql" | "lua" | "haskell" | "hs" | "ada" => &["--"],
        "json" | "text" | "txt" | "markdown" | "md" | "" => &[],
        "lisp" | "clojure" | "scheme" => &[";"],
        _ => &["//"],
    }
}

pub fn code(language: &str, text: &str) -> Line {
    let mut line = Line::default();
    if language == "diff" || language == "patch" {
        let tone = match text.as_bytes().first() {
            Some(b'+') => Tone::Added,
            Some(b'-') => Tone::Removed,
            Some(b'@') => Tone::Accent,
            _ => Tone::Plain,
        };
        line.push(tone, text);
        return line;
    }
    let plain = matches!(language, "" | "text" | "txt" | "console" | "output");
    let marks = comment_marks(language);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if plain {
            line.push(Tone::Plain, rest);
            break;
        }
        if marks.iter().any(|mark| rest.starts_with(mark)) {
            line.push(Tone::Comment, rest);
            break;
        }
        let (tone, length) = match first {
            '"' | '`' => (Tone::Literal, quoted(rest, first)),
            '\'' if quoted(rest, first) > 1 => (Tone::Literal, quoted(rest, first)),
            c if c.is_alphabetic() || c == '_' => {
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let word = rest.get(..length).unwrap_or_default();
                (if KEYWORDS.contains(&word) { Tone::Keyword } else { Tone::Plain }, length)
            }
            c if c.is_ascii_digit() => {
                let length = rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
                    .unwrap_or(rest.len());
                (Tone::Literal, length)
            }
            c => (Tone::Plain, c.len_utf8()),
        };
        let (piece, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        line.push(tone, piece);
        rest = after;
    }
    line
}

/// The length of the quoted text at the start, with both quotes; 1 if the closing quote is missing.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_texts_and_comments_are_told_apart() {
        let line = code("rust", "let a = \"x\"; // why");
        let tones: Vec<(Tone, &str)> = line.pieces.iter().map(|(tone, text)| (*tone, &**text)).collect();
        let expected = [
            (Tone::Keyword, "let"),
            (Tone::Plain, " a = "),
            (Tone::Literal, "\"x\""),
            (Tone::Plain, "; "),
            (Tone::Comment, "// why"),
        ];
        assert_eq!(tones, expected);
        assert_eq!(code("rust", "&'a str").text(), "&'a str");
    }
}
