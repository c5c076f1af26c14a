//! How a program behaves in a terminal, as data: patterns go stale with every release of a program, so they can be
//! changed without touching code.

use althing_protocol::{AskKind, AskOption};
use serde::Deserialize;
use std::time::Duration;

/// What a program in a terminal shows, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TerminalTraits {
    /// Any of these shows that it takes a prompt.
    pub ready: Vec<Pattern>,
    /// After this long the prompt is sent anyway.
    #[serde(with = "seconds", rename = "ready_limit_seconds")]
    pub ready_limit: Option<Duration>,
    /// Any of these shows that it works.
    pub busy: Vec<Pattern>,
    /// What shows that it waits for a person; the first that matches counts.
    pub asks: Vec<AskPattern>,
    /// Whether the arguments carry the prompt, so that nothing is typed.
    pub prompt_in_args: bool,
    /// What makes it leave by itself.
    pub leave: Option<String>,
    /// A regular expression for what it said at its end, whose first group is its conversation's id.
    pub conversation: Option<String>,
}

/// A time in whole seconds.
mod seconds {
    use serde::{Deserialize, Deserializer};
    use std::time::Duration;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_secs))
    }
}

/// A regular expression (of the `regex` crate) and where it is looked for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Where.
    #[serde(default)]
    pub on: PatternTarget,
    /// The expression.
    pub regex: String,
}

impl Pattern {
    /// Looked for on the screen.
    pub fn screen(regex: &str) -> Self {
        Self { on: PatternTarget::Screen, regex: regex.to_owned() }
    }

    /// Looked for in the title.
    pub fn title(regex: &str) -> Self {
        Self { on: PatternTarget::Title, regex: regex.to_owned() }
    }
}

/// Where a pattern is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternTarget {
    /// On the rendered screen: its rows from the top, without blanks at their ends, joined by line breaks, without the
    /// blank rows at its end. So `\\z` is the last thing that can be seen.
    #[default]
    Screen,
    /// In the terminal's title.
    Title,
}

impl AskPattern {
    /// A question that this pattern shows; each answer is its id, its label and the keys that give it.
    pub fn new(about: AskKind, pattern: Pattern, answers: &[(&str, &str, &str)]) -> Self {
        let answer = |(id, label, keys): &(&str, &str, &str)| {
            (AskOption { id: (*id).to_owned(), label: (*label).to_owned() }, (*keys).to_owned())
        };
        Self { about, pattern, answers: answers.iter().map(answer).collect() }
    }
}

/// What shows that a program waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskPattern {
    /// What kind of question it is.
    pub about: AskKind,
    /// What shows it. Its group `text`, or else its first one, is the question.
    pub pattern: Pattern,
    /// Answers that can be given by name, each with the keys that give it.
    #[serde(default)]
    pub answers: Vec<(AskOption, String)>,
}
