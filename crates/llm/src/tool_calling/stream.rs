//! What is shown of a reply while it streams, if its calls are written as text. Of a JSON reply, only the tool's name
//! and readable arguments are shown; other text is shown until something begins that may be a written call.

use althing_protocol::{Delta, DeltaSink};

/// The readable arguments, and the text of a reply without a call.
const SHOWN: &[&str] = &["content", "text", "reason"];

/// A line with such a beginning may be a written call.
const MARKERS: &[&str] =
    &["{", "```json", "```tool", "<tool", "<function", "<|tool", "<|python_tag|>", "[TOOL_CALLS]", "[{"];

#[derive(Debug)]
pub(crate) enum CallStream {
    Json(JsonView),
    Text(TextView),
}

impl CallStream {
    pub(crate) fn of_schema() -> Self {
        Self::Json(JsonView::default())
    }

    pub(crate) fn of_text() -> Self {
        Self::Text(TextView::default())
    }

    pub(crate) fn pass(&mut self, delta: Delta<'_>, on_delta: &mut DeltaSink<'_>) {
        let Delta::Text(more) = delta else {
            on_delta(delta);
            return;
        };
        match self {
            Self::Json(view) => view.add(more, on_delta),
            Self::Text(view) => view.add(more, on_delta),
        }
    }

    pub(crate) fn readable(self) -> Option<String> {
        match self {
            Self::Json(view) => Some(view.shown),
            Self::Text(_) => None,
        }
    }
}

/// Finds the readable parts of `{"name": …, "arguments": {…}}` or `{"text": …}` while the JSON arrives.
#[derive(Debug, Default)]
pub(crate) struct JsonView {
    shown: String,
    depth: usize,
    /// The current keys at depth 1 and at depth 2.
    keys: [String; 2],
    in_string: bool,
    is_value: bool,
    after_colon: bool,
    text: String,
    escape: Escape,
}

#[derive(Debug, Default)]
enum Escape {
    #[default]
    None,
    Backslash,
    /// The hexadecimal digits so far of `\u`, and the high surrogate before it.
    Unicode(String, Option<u32>),
    Half(u32),
    HalfBackslash(u32),
}

impl JsonView {
    fn add(&mut self, more: &str, on_delta: &mut DeltaSink<'_>) {
        let from = self.shown.len();
        for c in more.chars() {
            if self.in_string {
                self.string_character(c, on_delta);
            } else {
                self.outside(c);
            }
        }
        if let Some(new) = self.shown.get(from..).filter(|new| !new.is_empty()) {
            on_delta(Delta::Text(new));
        }
    }

    fn outside(&mut self, c: char) {
        match c {
            '"' => {
                self.in_string = true;
                self.is_value = std::mem::take(&mut self.after_colon);
                self.text.clear();
            }
            ':' => self.after_colon = true,
            '{' | '[' => {
                self.depth += 1;
                self.after_colon = false;
            }
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            ',' => self.after_colon = false,
            _ => {}
        }
    }

    fn string_character(&mut self, c: char, on_delta: &mut DeltaSink<'_>) {
        match std::mem::take(&mut self.escape) {
            Escape::None if c == '"' => {
                self.in_string = false;
                self.string_ended(on_delta);
            }
            Escape::None if c == '\\' => self.escape = Escape::Backslash,
            Escape::None => self.character(c),
            Escape::Half(high) if c == '\\' => self.escape = Escape::HalfBackslash(high),
            Escape::Backslash if c == 'u' => self.escape = Escape::Unicode(String::new(), None),
            Escape::HalfBackslash(high) if c == 'u' => {
                self.escape = Escape::Unicode(String::new(), Some(high))
            }
            Escape::Backslash => self.character(match c {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' | 'f' => ' ',
                other => other,
            }),
            Escape::Half(_) => {
                self.character(char::REPLACEMENT_CHARACTER);
                self.string_character(c, on_delta);
            }
            Escape::HalfBackslash(_) => {
                self.character(char::REPLACEMENT_CHARACTER);
                self.escape = Escape::Backslash;
                self.string_character(c, on_delta);
            }
            Escape::Unicode(mut digits, high) => {
                digits.push(c);
                if digits.len() < 4 {
                    self.escape = Escape::Unicode(digits, high);
                    return;
                }
                let code = u32::from_str_radix(&digits, 16).unwrap_or(0xfffd);
                match (high, code) {
                    (None, 0xd800..=0xdbff) => self.escape = Escape::Half(code),
                    (Some(high), 0xdc00..=0xdfff) => {
                        let whole = 0x10000 + ((high - 0xd800) << 10) + (code - 0xdc00);
                        self.character(char::from_u32(whole).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    _ => self.character(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)),
                }
            }
        }
    }

    fn character(&mut self, c: char) {
        if self.is_value && self.is_shown() {
            self.shown.push(c);
        } else {
            self.text.push(c);
        }
    }

    fn is_shown(&self) -> bool {
        let [outer, inner] = &self.keys;
        match self.depth {
            1 => outer == "text",
            2 => outer == "arguments" && SHOWN.contains(&inner.as_str()),
            _ => false,
        }
    }

    fn string_ended(&mut self, on_delta: &mut DeltaSink<'_>) {
        let text = std::mem::take(&mut self.text);
        if self.is_value {
            if self.depth == 1 && self.keys.first().is_some_and(|key| key == "name") {
                on_delta(Delta::ToolCall(&text));
            }
        } else if let Some(key) = self.depth.checked_sub(1).and_then(|at| self.keys.get_mut(at)) {
            *key = text;
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct TextView {
    /// The current line, if it is not clear yet whether it begins a call.
    held: String,
    is_shown: bool,
    in_fence: bool,
    /// Something began that may be a call. Nothing is shown after that.
    is_over: bool,
}

impl TextView {
    fn add(&mut self, more: &str, on_delta: &mut DeltaSink<'_>) {
        if self.is_over {
            return;
        }
        let mut out = String::new();
        for piece in more.split_inclusive('\n') {
            if self.is_shown {
                out.push_str(piece);
                self.is_shown = !piece.ends_with('\n');
                continue;
            }
            self.held.push_str(piece);
            let line = self.held.trim_start();
            let is_complete = self.held.ends_with('\n');
            if !self.in_fence && MARKERS.iter().any(|marker| line.starts_with(marker)) {
                self.is_over = true;
                break;
            }
            let may_become = |marker: &&str| marker.starts_with(line);
            if !is_complete
                && (line.is_empty()
                    || "```".starts_with(line)
                    || (!self.in_fence && MARKERS.iter().any(may_become)))
            {
                continue;
            }
            self.in_fence ^= line.starts_with("```");
            out.push_str(&self.held);
            self.held.clear();
            self.is_shown = !is_complete;
        }
        if !out.is_empty() {
            on_delta(Delta::Text(&out));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(mut stream: CallStream, text: &str, size: usize) -> (String, Vec<String>) {
        let (mut out, mut tools) = (String::new(), Vec::new());
        let mut sink = |delta: Delta<'_>| match delta {
            Delta::Text(more) => out.push_str(more),
            Delta::ToolCall(name) => tools.push(name.to_owned()),
            _ => {}
        };
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size) {
            let piece: String = piece.iter().collect();
            let mut on_delta: DeltaSink<'_> = &mut sink;
            stream.pass(Delta::Text(&piece), &mut on_delta);
        }
        (out, tools)
    }

    #[test]
    fn of_a_schema_reply_only_the_tool_and_the_readable_arguments_are_shown() {
        let text = r#"{"name": "new_answer", "arguments": {"content": "a\n\"b\" \u00e9\ud83d\ude00 {x}", "list": ["no"], "n": 1}}"#;
        for size in 1..40 {
            let wanted = ("a\n\"b\" é😀 {x}".to_owned(), vec!["new_answer".to_owned()]);
            assert_eq!(shown(CallStream::of_schema(), text, size), wanted, "pieces of {size}");
            let text = shown(CallStream::of_schema(), r#"{"text": "Hello"}"#, size);
            assert_eq!(text, ("Hello".to_owned(), Vec::new()));
        }
    }

    #[test]
    fn text_is_shown_until_a_call_may_begin_and_code_is_shown() {
        let table = [
            ("Plain text\nin lines.", "Plain text\nin lines."),
            ("I vote.\n```json\n{\"name\": \"vote\"}\n```", "I vote.\n"),
            ("<tool_call>\n{}</tool_call>", ""),
            ("{\"name\": 1}", ""),
            ("Code:\n```rust\n{\n    x\n}\n```\nEnd.\n{", "Code:\n```rust\n{\n    x\n}\n```\nEnd.\n"),
            ("a < b\n< c", "a < b\n< c"),
        ];
        for (text, wanted) in table {
            for size in 1..30 {
                assert_eq!(shown(CallStream::of_text(), text, size).0, wanted, "pieces of {size}: {text}");
            }
        }
    }
}
