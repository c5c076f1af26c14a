//! A terminal without its processes: what was drawn, what was said, and what is to be typed back.

use super::emulator::Emulator;
use super::pty::Size;
use super::skim;
use super::transcript::Transcript;

/// The screen and the transcript of one program.
pub(crate) struct Model {
    pub(crate) emulator: Emulator,
    pub(crate) transcript: Transcript,
}

/// What came of a piece of output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Finished lines.
    pub(crate) clean: String,
    /// To be typed back to the program.
    pub(crate) answers: Vec<u8>,
}

impl Model {
    pub(crate) fn new(size: Size) -> Self {
        Self { emulator: Emulator::new(size), transcript: Transcript::default() }
    }

    /// Takes in what the program wrote.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Taken {
        let mut taken = Taken::default();
        let rows = self.emulator.size().rows;
        match skim::split(bytes, rows, self.emulator.scrolls_plainly()) {
            Some(parts) => {
                self.draw(parts.first, &mut taken);
                self.transcript.skipped(&parts, &mut taken.clean);
                self.draw(&parts.colours, &mut taken);
                self.draw(parts.last, &mut taken);
            }
            None => self.draw(bytes, &mut taken),
        }
        taken
    }

    fn draw(&mut self, bytes: &[u8], taken: &mut Taken) {
        let mut fed = self.emulator.feed(bytes);
        taken.answers.append(&mut fed.answers);
        self.transcript.after(&fed.left, &self.emulator, &mut taken.clean);
    }

    /// Changes the size; gives the lines that left by it.
    pub(crate) fn resize(&mut self, size: Size) -> String {
        let fed = self.emulator.resize(size);
        let mut clean = String::new();
        self.transcript.after(&fed.left, &self.emulator, &mut clean);
        clean
    }

    /// The screen as text, without the blank rows at its end: what patterns are looked for in.
    pub(crate) fn text(&self) -> String {
        let rows = self.emulator.rows();
        let full = rows.iter().rposition(|row| !row.text.is_empty()).map_or(0, |last| last + 1);
        let rows = rows.get(..full).unwrap_or_default().iter().map(|row| row.text.trim_end());
        rows.collect::<Vec<_>>().join("\n")
    }
}
