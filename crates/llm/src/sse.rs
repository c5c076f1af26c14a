//! Parses server-sent events from bytes, however the network splits them. Existing crates neither limit the size of
//! an event nor report comments, which show that a stream is alive. What the events of a provider mean is parsed in
//! `chat/read.rs` (OpenAI-compatible), `messages/read.rs` (Anthropic), `responses/read.rs` (OpenAI) and `gemini/read.rs`.

use crate::limits::EVENT_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SseItem<'a> {
    /// The data of an event, with its lines joined by `\n`. The consumer checks the UTF-8.
    Data(&'a [u8]),
    /// A sign of life without content.
    Comment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

#[derive(Debug)]
pub(crate) struct SseReader {
    /// The incomplete line at the end of the last chunk.
    line: Vec<u8>,
    data: Vec<u8>,
    /// True also after an empty data line.
    has_data: bool,
    /// An LF right after a CR at the end of the last chunk belongs to the same line ending.
    after_cr: bool,
    /// The first line may start with a byte order mark.
    at_start: bool,
    limit: usize,
}

impl Default for SseReader {
    fn default() -> Self {
        Self::with_limit(EVENT_BYTES)
    }
}

impl SseReader {
    fn with_limit(limit: usize) -> Self {
        Self { line: Vec::new(), data: Vec::new(), has_data: false, after_cr: false, at_start: true, limit }
    }

    pub(crate) fn feed<E: From<EventTooLarge>>(
        &mut self,
        mut bytes: &[u8],
        mut on_item: impl FnMut(SseItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (head, tail) = bytes.split_at(end);
            // The most common case: a whole event in one chunk, passed on without copying.
            if let Some(rest) = tail.strip_prefix(b"\n\n")
                && let Some(data) = head.strip_prefix(b"data: ")
                && self.is_between_events()
            {
                self.check(data.len())?;
                on_item(SseItem::Data(data))?;
                bytes = rest;
                continue;
            }
            bytes = match tail {
                [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] => rest,
                [_, rest @ ..] => {
                    self.after_cr = rest.is_empty();
                    rest
                }
                [] => &[],
            };
            if self.line.is_empty() {
                self.take_line(head, &mut on_item)?;
            } else {
                self.check(head.len())?;
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                self.take_line(&line, &mut on_item)?;
                line.clear();
                self.line = line;
            }
        }
        self.check(bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Some servers omit the last line endings. The event may be truncated, so it may not parse.
    pub(crate) fn finish(mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let mut nothing = |_: SseItem<'_>| Ok::<(), EventTooLarge>(());
        if !line.is_empty() && self.take_line(&line, &mut nothing).is_err() {
            return None;
        }
        self.has_data.then_some(self.data)
    }

    fn is_between_events(&self) -> bool {
        self.line.is_empty() && !self.has_data && !self.at_start
    }

    fn check(&self, more: usize) -> Result<(), EventTooLarge> {
        if self.line.len() + self.data.len() + more > self.limit { Err(EventTooLarge) } else { Ok(()) }
    }

    fn take_line<E: From<EventTooLarge>>(
        &mut self,
        line: &[u8],
        on_item: &mut impl FnMut(SseItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut line = line;
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            if !std::mem::take(&mut self.has_data) {
                return Ok(());
            }
            let result = on_item(SseItem::Data(&self.data));
            self.data.clear();
            return result;
        }
        if line.starts_with(b":") {
            return on_item(SseItem::Comment);
        }
        // `event`, `id` and `retry` carry no information that the data lacks.
        let value = match line.strip_prefix(b"data") {
            Some([]) => &[],
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            Some(_) | None => return Ok(()),
        };
        self.check(value.len() + 1)?;
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Also contains what `finish` returns.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut reader = SseReader::default();
        let mut items = Vec::new();
        for piece in pieces {
            reader
                .feed(piece, |item| {
                    items.push(match item {
                        SseItem::Data(data) => format!("data {}", String::from_utf8_lossy(data)),
                        SseItem::Comment => "comment".to_owned(),
                    });
                    Ok::<(), EventTooLarge>(())
                })
                .unwrap();
        }
        items.extend(reader.finish().map(|data| format!("rest {}", String::from_utf8_lossy(&data))));
        items
    }

    fn whole(text: &str) -> Vec<String> {
        read([text.as_bytes()])
    }

    #[test]
    fn data_is_read_with_and_without_the_space_and_only_one_space_is_dropped() {
        assert_eq!(whole("data: a\n\ndata:b\n\ndata:  c\n\n"), ["data a", "data b", "data  c"]);
    }

    #[test]
    fn every_line_end_of_the_standard_ends_a_line() {
        assert_eq!(whole("data: a\r\n\r\ndata: b\r\rdata: c\n\n"), ["data a", "data b", "data c"]);
    }

    #[test]
    fn several_data_lines_are_one_event() {
        assert_eq!(whole("data: a\ndata\ndata: b\n\n"), ["data a\n\nb"]);
    }

    #[test]
    fn comments_are_reported_and_other_fields_are_ignored() {
        assert_eq!(
            whole(": ping\n\nevent: x\nid: 1\nretry: 5\ndatum: 1\n\ndata: a\n\n"),
            ["comment", "data a"]
        );
    }

    #[test]
    fn an_event_without_its_blank_line_is_only_the_rest() {
        assert_eq!(whole("data: a\n\ndata: [DONE]"), ["data a", "rest [DONE]"]);
        assert_eq!(whole("data: a\n"), ["rest a"]);
        assert_eq!(whole("data: a\n\n"), ["data a"]);
    }

    #[test]
    fn a_byte_order_mark_does_not_hide_the_first_event() {
        assert_eq!(whole("\u{feff}data: a\n\n"), ["data a"]);
    }

    #[test]
    fn an_event_past_the_limit_is_refused_in_one_line_or_many_and_in_any_pieces() {
        let refuse = |pieces: &[&[u8]]| {
            let mut reader = SseReader::with_limit(16);
            pieces.iter().try_for_each(|piece| reader.feed(piece, |_| Ok::<(), EventTooLarge>(())))
        };
        assert_eq!(refuse(&[b"data: 0123456789\n\n", b"data: 0123456789\n\n"]), Ok(()));
        assert_eq!(refuse(&[b"data: 0123456789abcdefghi\n\n"]), Err(EventTooLarge));
        assert_eq!(refuse(&[b"data: 01234", b"56789abcdefghij"]), Err(EventTooLarge));
        assert_eq!(refuse(&[b"data: 0123456\n", b"data: 0123456\n", b"data: 0\n"]), Err(EventTooLarge));
        assert_eq!(refuse(&[b":0123456789", b"0123456789"]), Err(EventTooLarge));
    }

    proptest! {
        #[test]
        fn any_cutting_of_the_same_bytes_gives_the_same_events(
            lines in prop::collection::vec(("(data: ?|data|: ?|event: )?[a-zäöü€😀\\\\\"{}]{0,12}", "\n|\r\n|\r|\n\n|\r\n\r\n"), 0..24),
            cuts in prop::collection::vec(0usize..600, 0..24),
        ) {
            let text: String = lines.iter().flat_map(|(line, end)| [line.as_str(), end.as_str()]).collect();
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(pieces), read([bytes]));
            prop_assert_eq!(read(bytes.chunks(1)), read([bytes]));
        }
    }
}
