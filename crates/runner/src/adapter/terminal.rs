//! Screen patterns of CLI agents in a terminal, as data that users can replace when a new release makes them
//! obsolete.

use althing_protocol::{AskKind, AskOption};
use serde::Deserialize;
use std::time::Duration;

/// Patterns and limits for reading one program's screen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TerminalTraits {
    /// Any match shows that the program accepts a prompt.
    pub ready: Vec<Pattern>,
    /// After this time the prompt is typed even if no `ready` pattern matched, unless a question is on the screen.
    /// `None` means 15 seconds.
    #[serde(with = "seconds", rename = "ready_limit_seconds")]
    pub ready_limit: Option<Duration>,
    /// Any match shows that the program is working.
    pub busy: Vec<Pattern>,
    /// Patterns for what the program says about its failing model service. The group `text`, or else the first group,
    /// is told to the user.
    pub troubles: Vec<Pattern>,
    /// Patterns that show that the program waits for a person. A match on the screen takes precedence over one in the
    /// title; otherwise the first match wins.
    pub asks: Vec<AskPattern>,
    /// Whether the arguments contain the prompt, so that nothing is typed.
    pub prompt_in_args: bool,
    /// The command that makes the program exit by itself, typed when a person ends the program. Only a program with
    /// this command is reported when it has finished a turn.
    pub leave: Option<String>,
    /// A regular expression for the program's final output. The first group of its last match is the conversation's
    /// id.
    pub conversation: Option<String>,
}

mod seconds {
    use serde::{Deserialize, Deserializer};
    use std::time::Duration;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_secs))
    }
}

/// A regular expression (syntax of the `regex` crate) and what it is matched against.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// What the expression is matched against; the screen by default.
    #[serde(default)]
    pub on: PatternTarget,
    /// The expression. It may span lines, with the flags `m` and `s`.
    pub regex: String,
}

impl Pattern {
    /// A pattern for the rendered screen.
    pub fn screen(regex: &str) -> Self {
        Self { on: PatternTarget::Screen, regex: regex.to_owned() }
    }

    /// A pattern for the terminal's title.
    pub fn title(regex: &str) -> Self {
        Self { on: PatternTarget::Title, regex: regex.to_owned() }
    }
}

/// What a pattern is matched against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternTarget {
    /// The rows of the rendered screen from the top, joined by line breaks. Blanks at the end of a row and blank rows
    /// at the end of the screen are left out.
    #[default]
    Screen,
    /// The terminal's title.
    Title,
}

impl AskPattern {
    /// `answers` holds the id, the label and the keys of each answer.
    pub fn new(about: AskKind, pattern: Pattern, answers: &[(&str, &str, &str)]) -> Self {
        let answer = |(id, label, keys): &(&str, &str, &str)| {
            (AskOption { id: (*id).to_owned(), label: (*label).to_owned() }, (*keys).to_owned())
        };
        let answers = answers.iter().map(answer).collect();
        Self { about, pattern, options: None, most_rows: None, answers }
    }

    /// The same question with a list of options at the end of the screen (see [`AskPattern::options`]).
    #[must_use]
    pub fn with_options(self, options: &str) -> Self {
        Self { options: Some(options.to_owned()), ..self }
    }

    /// The same question in a box of limited height (see [`AskPattern::most_rows`]).
    #[must_use]
    pub fn with_most_rows(self, rows: usize) -> Self {
        Self { most_rows: Some(rows), ..self }
    }
}

/// Recognizes that a program waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskPattern {
    /// The kind of question.
    pub about: AskKind,
    /// The group `text`, or else the first group, is the text of the question. Without a group, it is the whole match
    /// for a screen pattern, and a fixed text of ours for a title pattern.
    ///
    /// If there are `answers`, the text is everything from the beginning of that group to the end of the screen (or to
    /// the `options`). So the group must begin where the dialog begins, and the pattern must not match if that place
    /// may have scrolled off.
    pub pattern: Pattern,
    /// The options and what else is below the question, from the beginning of a row to the end of the screen. They are
    /// not part of the text, and `pattern` is matched against the rows above them. Without a match, nothing is asked.
    /// If several beginnings match, the lowest one counts.
    #[serde(default)]
    pub options: Option<String>,
    /// The number of rows of the question with which it may continue out of sight, because its box grows no further.
    #[serde(default)]
    pub most_rows: Option<usize>,
    /// Answers that can be given by id, each with the keys to type. A question that the program shortened has no
    /// answers. Keys that begin with the return key count only while the option with that label is highlighted.
    /// Patterns for titles have no answers.
    #[serde(default)]
    pub answers: Vec<(AskOption, String)>,
}
