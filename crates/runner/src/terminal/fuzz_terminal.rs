//! What fuzzing needs of the inside: a terminal that any bytes can be written to, without a program behind it.
//!
//! Behind the feature `fuzzing`; never part of the product.

use super::model::TerminalModel;
use super::pty::TerminalSize;
use super::screen_reader::{ScreenReader, ScreenState};
use crate::adapter::Adapters;
use althing_protocol::Screen;

/// A terminal without its program.
pub struct FuzzTerminal(TerminalModel);

impl std::fmt::Debug for FuzzTerminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FuzzTerminal").finish_non_exhaustive()
    }
}

impl FuzzTerminal {
    /// A terminal of this size, or the nearest that works.
    pub fn new(cols: u16, rows: u16) -> Self {
        Self(TerminalModel::new(TerminalSize::clamped(cols, rows)))
    }

    /// Takes in what a program wrote; gives the lines that it finished, and what is typed back to it.
    pub fn feed(&mut self, bytes: &[u8]) -> (String, Vec<u8>) {
        let output = self.0.feed(bytes);
        (output.clean, output.answers)
    }

    /// Changes its size; gives the lines that left by it.
    pub fn resize(&mut self, cols: u16, rows: u16) -> String {
        self.0.resize(TerminalSize::clamped(cols, rows))
    }

    /// What is on it once the program rests: lines that were not told yet.
    pub fn at_rest(&mut self) -> String {
        self.0.transcript.at_rest(&self.0.emulator)
    }

    /// The lines that are kept of what it said.
    pub fn history(&self) -> Vec<String> {
        self.0.transcript.lines().map(str::to_owned).collect()
    }

    /// The screen as those who attach get it.
    pub fn screen(&self) -> Screen {
        self.0.emulator.snapshot()
    }

    /// The screen as text.
    pub fn text(&self) -> String {
        self.0.text()
    }

    /// What it asks a person, as these read it.
    pub fn asks(&self, readers: &ScreenReaders) -> Vec<String> {
        let states = readers.0.iter().map(|reader| reader.read(&self.0));
        let questions = states.filter_map(|state| match state {
            ScreenState::Asks(question) => Some(question.text),
            ScreenState::Ready | ScreenState::Busy | ScreenState::Unknown => None,
        });
        questions.collect()
    }
}

/// What reads the screens of the programs that we know.
#[derive(Debug)]
pub struct ScreenReaders(Vec<ScreenReader>);

impl ScreenReaders {
    /// By the patterns of every built-in adapter. The error says which pattern is none.
    pub fn built_in() -> Result<Self, String> {
        let adapters = Adapters::default();
        adapters
            .all()
            .map(|adapter| ScreenReader::new(&adapter.terminal()))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}
