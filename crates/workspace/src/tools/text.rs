//! The text of a tool's result: limited in size, with a note at the end about what is left out.

/// The maximum size of a tool's result in bytes, including the note at its end.
pub(crate) const RESULT_CAP: usize = 64 << 10;
/// The space reserved for the note, in bytes.
const NOTE: usize = 512;
/// The maximum length of a line from a file, in bytes; longer lines are cut.
pub(crate) const LINE_CAP: usize = 2000;

#[derive(Default)]
pub(crate) struct CappedText {
    text: String,
}

impl CappedText {
    pub(crate) fn line(&mut self, line: &str) -> bool {
        if self.text.len() + line.len() + 1 > RESULT_CAP - NOTE {
            return false;
        }
        self.text.push_str(line);
        self.text.push('\n');
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn end(mut self, note: &str) -> String {
        if !note.is_empty() {
            self.text.push_str(note);
            self.text.push('\n');
        }
        self.text
    }
}

pub(crate) fn shown_line(bytes: &[u8], whole: u64) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    let cut = text.floor_char_boundary(LINE_CAP);
    if cut == text.len() && whole <= bytes.len() as u64 {
        return text.to_owned();
    }
    format!("{} … [line of {whole} bytes, cut]", text.get(..cut).unwrap_or(text))
}

pub(crate) fn binary_kind(head: &[u8]) -> Option<&'static str> {
    const KNOWN: &[(&[u8], &str)] = &[
        (b"\x89PNG", "PNG image"),
        (b"\xff\xd8\xff", "JPEG image"),
        (b"GIF8", "GIF image"),
        (b"%PDF", "PDF document"),
        (b"PK\x03\x04", "ZIP archive (also docx, xlsx, jar)"),
        (b"\x1f\x8b", "gzip data"),
        (b"\x7fELF", "ELF program or library"),
        (b"SQLite format 3\0", "SQLite database"),
        (b"\x00asm", "WebAssembly module"),
    ];
    let known = KNOWN.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, kind)| *kind);
    known.or_else(|| head.contains(&0).then_some("unknown format"))
}
