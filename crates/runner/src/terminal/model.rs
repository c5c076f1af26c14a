//! A terminal without its processes: what was drawn, what was said, and what is to be typed back.

use super::emulator::Emulator;
use super::pty::TerminalSize;
use super::skim;
use super::transcript::Transcript;

/// The screen and the transcript of one program.
pub(crate) struct TerminalModel {
    pub(crate) emulator: Emulator,
    pub(crate) transcript: Transcript,
}

/// What came of a piece of output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelOutput {
    /// Finished lines.
    pub(crate) clean: String,
    /// To be typed back to the program.
    pub(crate) answers: Vec<u8>,
}

impl TerminalModel {
    pub(crate) fn new(size: TerminalSize) -> Self {
        Self { emulator: Emulator::new(size), transcript: Transcript::default() }
    }

    /// Takes in what the program wrote.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> ModelOutput {
        let mut output = ModelOutput::default();
        let rows = self.emulator.size().rows;
        match skim::split(bytes, rows, self.emulator.scrolls_plainly()) {
            Some(parts) => {
                self.draw(parts.first, &mut output);
                self.transcript.add_skipped(&parts, &mut output.clean);
                self.draw(&parts.colors, &mut output);
                self.draw(parts.last, &mut output);
            }
            None => self.draw(bytes, &mut output),
        }
        output
    }

    fn draw(&mut self, bytes: &[u8], output: &mut ModelOutput) {
        let mut drawn = self.emulator.feed(bytes);
        output.answers.append(&mut drawn.answers);
        self.transcript.record(&drawn.left, &self.emulator, &mut output.clean);
    }

    /// Changes the size; gives the lines that left by it.
    pub(crate) fn resize(&mut self, size: TerminalSize) -> String {
        let drawn = self.emulator.resize(size);
        let mut clean = String::new();
        self.transcript.record(&drawn.left, &self.emulator, &mut clean);
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
