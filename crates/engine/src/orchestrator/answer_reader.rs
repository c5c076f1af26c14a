//! Reads the text of an answer out of the arguments of `new_answer` while they stream. This text is only shown as
//! progress; the answer itself is read from the complete arguments.

const LONGEST_KEY: usize = 64;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ReaderPosition {
    #[default]
    Between,
    Key,
    Content,
    Other,
}

#[derive(Debug, Default)]
pub(super) struct AnswerReader {
    place: ReaderPosition,
    depth: u32,
    key: String,
    /// Whether the next string is a value: a colon came after the last key.
    is_value: bool,
    /// An incomplete escape sequence, without its backslash.
    escape: Option<String>,
    /// The first half of a UTF-16 surrogate pair.
    high: Option<u16>,
}

impl AnswerReader {
    pub(super) fn read(&mut self, json: &str) -> String {
        let mut answer = String::new();
        for c in json.chars() {
            if self.place == ReaderPosition::Between {
                self.structure(c);
            } else if let Some(letter) = self.letter(c) {
                match self.place {
                    ReaderPosition::Content => answer.push(letter),
                    ReaderPosition::Key if self.key.len() < LONGEST_KEY => self.key.push(letter),
                    _ => {}
                }
            }
        }
        answer
    }

    fn structure(&mut self, c: char) {
        match c {
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            ':' => self.is_value = true,
            ',' => self.is_value = false,
            '"' => {
                self.place = match (self.depth, self.is_value) {
                    (1, false) => {
                        self.key.clear();
                        ReaderPosition::Key
                    }
                    (1, true) if self.key == "content" => ReaderPosition::Content,
                    _ => ReaderPosition::Other,
                };
            }
            _ => {}
        }
    }

    /// The character that `c` completes; None within an escape sequence and at the end of the string.
    fn letter(&mut self, c: char) -> Option<char> {
        let Some(escape) = &mut self.escape else {
            match c {
                '\\' => self.escape = Some(String::new()),
                '"' => self.place = ReaderPosition::Between,
                _ => return Some(c),
            }
            return None;
        };
        escape.push(c);
        if escape.starts_with('u') && escape.len() < 5 {
            return None;
        }
        let escape = self.escape.take()?;
        match escape.strip_prefix('u') {
            Some(hex) => self.unit(u16::from_str_radix(hex, 16).ok()?),
            None => match c {
                'n' => Some('\n'),
                't' => Some('\t'),
                'r' | 'b' | 'f' => None,
                other => Some(other),
            },
        }
    }

    fn unit(&mut self, unit: u16) -> Option<char> {
        let units = self.high.take().into_iter().chain([unit]);
        let decoded = char::decode_utf16(units).last()?.ok();
        if decoded.is_none() {
            self.high = Some(unit);
        }
        decoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, piece: usize) -> String {
        let mut reader = AnswerReader::default();
        let letters: Vec<char> = json.chars().collect();
        letters.chunks(piece).map(|piece| reader.read(&piece.iter().collect::<String>())).collect()
    }

    #[test]
    fn the_answer_is_read_however_its_arguments_are_split() {
        let content = "Use a \"CDN\"\n\tand a\\b, 日本 😀 {\"content\": 1}";
        let json = serde_json::json!({
            "conclusion": "content", "nested": {"content": "no"}, "content": content, "list": ["content", "no"]
        });
        let escaped = json.to_string().replace('日', "\\u65e5").replace('😀', "\\ud83d\\ude00");
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(read(&json.to_string(), piece), content);
            assert_eq!(read(&escaped, piece), content);
        }
    }

    #[test]
    fn arguments_that_are_no_object_contain_no_answer() {
        for json in ["", "\"content\"", "[\"content\", \"x\"]", "}}}:\"x\"", "{\"content\"", "\\u12"] {
            assert_eq!(read(json, 1), "", "{json}");
        }
    }
}
