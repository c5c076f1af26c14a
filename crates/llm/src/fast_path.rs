//! A fast path that reads stream frames without parsing them. Most frames of a stream differ only in a short text. The
//! fast path stores the bytes before and after the text of a frame that was parsed. If a later frame begins and ends
//! with these bytes, everything between them is its text, provided that there are no quotes, backslashes and control
//! characters between them.

#[derive(Debug, Default)]
pub(crate) struct FastPath {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl FastPath {
    pub(crate) fn text<'a>(&self, frame: &'a [u8]) -> Option<&'a str> {
        let text = frame.strip_prefix(self.before.as_slice())?.strip_suffix(self.after.as_slice())?;
        let plain = !self.before.is_empty() && text.iter().all(|b| !matches!(b, b'"' | b'\\' | 0..=0x1f));
        if plain { std::str::from_utf8(text).ok() } else { None }
    }

    /// `text` must be borrowed from `frame`, which contains nothing else to read.
    pub(crate) fn learn(&mut self, frame: &[u8], text: &str) {
        // Unescaped text is borrowed from the frame, so its offset is the difference of the two pointers.
        let Some(start) = (text.as_ptr() as usize).checked_sub(frame.as_ptr() as usize) else { return };
        let (Some(before), Some(after)) = (frame.get(..start), frame.get(start + text.len()..)) else {
            return;
        };
        if before.ends_with(b"\"") && after.starts_with(b"\"") {
            before.clone_into(&mut self.before);
            after.clone_into(&mut self.after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned() -> FastPath {
        let frame = br#"{"id":"x","delta":{"content":"one"},"end":null}"#;
        let mut fast_path = FastPath::default();
        fast_path.learn(frame, std::str::from_utf8(&frame[30..33]).unwrap());
        fast_path
    }

    #[test]
    fn only_the_same_envelope_around_plain_text_is_taken() {
        let fast_path = learned();
        assert_eq!(fast_path.text(br#"{"id":"x","delta":{"content":"two"},"end":null}"#), Some("two"));
        assert_eq!(
            fast_path.text("{\"id\":\"x\",\"delta\":{\"content\":\"zwölf 🦀\"},\"end\":null}".as_bytes()),
            Some("zwölf 🦀")
        );
        for other in [
            r#"{"id":"y","delta":{"content":"two"},"end":null}"#,
            r#"{"id":"x","delta":{"content":"two"},"end":true}"#,
            r#"{"id":"x","delta":{"content":"a\nb"},"end":null}"#,
            r#"{"id":"x","delta":{"content":"a","more":"b"},"end":null}"#,
            "{\"id\":\"x\",\"delta\":{\"content\":\"a\nb\"},\"end\":null}",
            r#"{"id":"x","delta":{"content":"#,
        ] {
            assert_eq!(fast_path.text(other.as_bytes()), None, "{other}");
        }
        assert_eq!(
            fast_path.text(b"{\"id\":\"x\",\"delta\":{\"content\":\"\xff\"},\"end\":null}"),
            None,
            "not UTF-8"
        );
    }

    #[test]
    fn nothing_is_read_before_an_envelope_is_learned_from_the_frame_itself() {
        assert_eq!(FastPath::default().text(b"plain"), None);
        let mut fast_path = FastPath::default();
        fast_path.learn(br#"{"content":"one"}"#, "from elsewhere");
        assert_eq!(fast_path.text(br#"{"content":"one"}"#), None);
    }
}
