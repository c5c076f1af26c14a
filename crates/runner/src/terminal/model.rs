//! The state of a terminal without its process: screen and transcript.

use super::emulator::Emulator;
use super::pty::TerminalSize;
use super::skim;
use super::transcript::Transcript;

pub(crate) struct TerminalModel {
    pub(crate) emulator: Emulator,
    pub(crate) transcript: Transcript,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelOutput {
    pub(crate) clean: String,
    pub(crate) answers: Vec<u8>,
}

impl TerminalModel {
    pub(crate) fn new(size: TerminalSize) -> Self {
        Self { emulator: Emulator::new(size), transcript: Transcript::default() }
    }

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

    pub(crate) fn resize(&mut self, size: TerminalSize) -> String {
        let drawn = self.emulator.resize(size);
        let mut clean = String::new();
        self.transcript.record(&drawn.left, &self.emulator, &mut clean);
        clean
    }

    pub(crate) fn text(&self) -> String {
        let rows = self.emulator.rows();
        let full = rows.iter().rposition(|row| !row.text.is_empty()).map_or(0, |last| last + 1);
        let rows = rows.get(..full).unwrap_or_default().iter().map(|row| row.text.trim_end());
        rows.collect::<Vec<_>>().join("\n")
    }
}
