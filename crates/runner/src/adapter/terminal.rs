//! How a program behaves in a terminal, as data: patterns go stale with every release of a program, so they can be
//! changed without touching code.

use althing_protocol::{AskKind, AskOption};
use std::time::Duration;

/// What a program in a terminal shows, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalTraits {
    /// Any of these shows that it takes a prompt.
    pub ready: Vec<Pattern>,
    /// After this long the prompt is sent anyway.
    pub ready_limit: Option<Duration>,
    /// Any of these shows that it works.
    pub busy: Vec<Pattern>,
    /// What shows that it waits for a person; the first that matches counts.
    pub asks: Vec<AskPattern>,
    /// Whether the arguments carry the prompt, so that nothing is typed.
    pub prompt_in_args: bool,
    /// What makes it leave by itself.
    pub leave: Option<String>,
}

/// A regular expression and where it is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Where.
    pub on: Where,
    /// The expression.
    pub regex: String,
}

impl Pattern {
    /// Looked for on the screen.
    pub fn screen(regex: &str) -> Self {
        Self { on: Where::Screen, regex: regex.to_owned() }
    }

    /// Looked for in the title.
    pub fn title(regex: &str) -> Self {
        Self { on: Where::Title, regex: regex.to_owned() }
    }
}

/// Where a pattern is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// On the rendered screen, line by line.
    Screen,
    /// In the terminal's title.
    Title,
}

/// What shows that a program waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskPattern {
    /// What kind of question it is.
    pub about: AskKind,
    /// What shows it.
    pub pattern: Pattern,
    /// Answers that can be given by name, each with the keys that give it.
    pub answers: Vec<(AskOption, String)>,
}
