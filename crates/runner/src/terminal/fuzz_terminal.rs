//! A terminal without a program, to which fuzzing can write arbitrary bytes. Only with the feature `fuzzing`.

use super::model::TerminalModel;
use super::pty::TerminalSize;
use super::screen_reader::{ScreenReader, ScreenState};
use crate::adapter::Adapters;
use althing_protocol::Screen;

/// An emulated terminal without a program.
pub struct FuzzTerminal(TerminalModel);

impl std::fmt::Debug for FuzzTerminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FuzzTerminal").finish_non_exhaustive()
    }
}

impl FuzzTerminal {
    /// A terminal of this size, clamped to a valid one.
    pub fn new(cols: u16, rows: u16) -> Self {
        Self(TerminalModel::new(TerminalSize::clamped(cols, rows)))
    }

    /// Processes output; returns the completed lines and the replies to the program.
    pub fn feed(&mut self, bytes: &[u8]) -> (String, Vec<u8>) {
        let output = self.0.feed(bytes);
        (output.clean, output.answers)
    }

    /// Resizes the terminal; returns the lines that scrolled off.
    pub fn resize(&mut self, cols: u16, rows: u16) -> String {
        self.0.resize(TerminalSize::clamped(cols, rows))
    }

    /// Acts as if the program paused its output. If the program draws on the screen, returns the lines that were not
    /// there at the last pause.
    pub fn at_rest(&mut self) -> String {
        self.0.transcript.at_rest(&self.0.emulator)
    }

    /// The lines that the transcript keeps.
    pub fn history(&self) -> Vec<String> {
        self.0.transcript.lines().map(str::to_owned).collect()
    }

    /// The screen as attached users see it.
    pub fn screen(&self) -> Screen {
        self.0.emulator.snapshot()
    }

    /// The screen as text.
    pub fn text(&self) -> String {
        self.0.text()
    }

    /// The questions that these readers see on the screen.
    pub fn asks(&self, readers: &ScreenReaders) -> Vec<String> {
        let states = readers.0.iter().map(|reader| reader.read(&self.0));
        let questions = states.filter_map(|state| match state {
            ScreenState::Asks(question) => Some(question.text),
            ScreenState::Ready | ScreenState::Busy | ScreenState::Unknown => None,
        });
        questions.collect()
    }
}

/// The screen readers of the built-in adapters.
#[derive(Debug)]
pub struct ScreenReaders(Vec<ScreenReader>);

impl ScreenReaders {
    /// Makes the screen readers. The error names the invalid pattern.
    pub fn built_in() -> Result<Self, String> {
        let adapters = Adapters::default();
        adapters
            .all()
            .map(|adapter| ScreenReader::new(&adapter.terminal()))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}
