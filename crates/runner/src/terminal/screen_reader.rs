//! Determines a program's state from its terminal: accepting a prompt, working, or waiting for input from a person, for example
//! with a permission question or another dialog, which are recognized by the patterns of the program's adapter
//! (`asks`).
//!
//! If the program itself reports that it is working or blocked (OSC 7501), this is trusted more than the patterns for
//! its screen and its title. A report that it is idle, done or failed is trusted less: it counts only if no pattern
//! shows a dialog or work.

use super::dialog::{DialogReader, compile};
use super::model::TerminalModel;
use super::status::ProgramState;
use crate::adapter::{Pattern, PatternTarget, TerminalTraits};
use althing_protocol::{AskKind, AskOption};
use regex::Regex;

const LONGEST_TROUBLE: usize = 500;

#[derive(Debug)]
pub(crate) struct ScreenReader {
    ready: Vec<(PatternTarget, Regex)>,
    busy: Vec<(PatternTarget, Regex)>,
    asks: Vec<CompiledAsk>,
    troubles: Vec<(PatternTarget, Regex)>,
    conversation: Option<Regex>,
}

#[derive(Debug)]
struct CompiledAsk {
    about: AskKind,
    on: PatternTarget,
    dialog: DialogReader,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScreenState {
    Asks(ProgramQuestion),
    Ready,
    Busy,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramQuestion {
    pub(crate) about: AskKind,
    pub(crate) text: String,
    /// The message of a reported status, with which the text begins; empty if there is none.
    pub(crate) reported: String,
    pub(crate) answers: Vec<(AskOption, String)>,
    /// Whether the question is on the screen; a status may be reported before the question is drawn.
    pub(crate) drawn: bool,
}

impl ProgramQuestion {
    /// A dialog on the screen does not become a new question because the program reports a status for it. Any other
    /// change makes it a new one, because a person may have read only the text before, and what a program asks about
    /// may be chosen by its model.
    pub(crate) fn is_same(&self, before: &Self) -> bool {
        let is_drawn_alike = self.drawn && self.drawn_text() == before.drawn_text();
        self.drawn == before.drawn
            && self.answers == before.answers
            && (self.text == before.text || is_drawn_alike)
    }

    fn drawn_text(&self) -> &str {
        self.text.strip_prefix(&self.reported).unwrap_or(&self.text).trim_start_matches('\n')
    }
}

impl ScreenReader {
    pub(crate) fn new(traits: &TerminalTraits) -> Result<Self, String> {
        let one = |pattern: &Pattern| Ok((pattern.on, compile(&pattern.regex)?));
        let all = |patterns: &[Pattern]| patterns.iter().map(one).collect::<Result<Vec<_>, String>>();
        let asks = traits.asks.iter().map(|ask| {
            Ok(CompiledAsk { about: ask.about, on: ask.pattern.on, dialog: DialogReader::new(ask)? })
        });
        Ok(Self {
            ready: all(&traits.ready)?,
            busy: all(&traits.busy)?,
            asks: asks.collect::<Result<_, String>>()?,
            troubles: all(&traits.troubles)?,
            conversation: traits.conversation.as_deref().map(compile).transpose()?,
        })
    }

    pub(crate) fn read(&self, model: &TerminalModel) -> ScreenState {
        let status = model.emulator.status();
        let state = status.map(|status| status.state);
        if state == Some(ProgramState::Working) {
            return ScreenState::Busy;
        }
        let (screen, title) = (model.text(), model.emulator.title());
        let drawn = self.drawn_question(&screen, model);
        if let Some(status) = status.filter(|status| status.state == ProgramState::Blocked) {
            let drawn = drawn.unwrap_or(ProgramQuestion {
                about: status.kind,
                text: default_question(status.kind).to_owned(),
                reported: String::new(),
                answers: Vec::new(),
                drawn: false,
            });
            let about = if status.kind == AskKind::Other { drawn.about } else { status.kind };
            let (text, reported) = match (drawn.drawn, status.message.as_str()) {
                (_, "") => (drawn.text, ""),
                (true, message) if !drawn.text.contains(message) => {
                    (format!("{message}\n{}", drawn.text), message)
                }
                (true, _) => (drawn.text, ""),
                (false, message) => (message.to_owned(), ""),
            };
            return ScreenState::Asks(ProgramQuestion {
                about,
                text,
                reported: reported.to_owned(),
                ..drawn
            });
        }
        if let Some(titled) = self.titled_question(title) {
            return ScreenState::Asks(drawn.unwrap_or(titled));
        }
        if let Some(drawn) = drawn {
            return ScreenState::Asks(drawn);
        }
        let shows = |patterns: &[(PatternTarget, Regex)]| {
            patterns.iter().any(|(on, regex)| match on {
                PatternTarget::Screen => regex.is_match(&screen),
                PatternTarget::Title => regex.is_match(title),
            })
        };
        if shows(&self.busy) {
            ScreenState::Busy
        } else if matches!(state, Some(ProgramState::Idle | ProgramState::Done | ProgramState::Error))
            || shows(&self.ready)
        {
            ScreenState::Ready
        } else {
            ScreenState::Unknown
        }
    }

    /// What the program says last about its failing model service.
    pub(crate) fn trouble(&self, model: &TerminalModel) -> Option<String> {
        if self.troubles.is_empty() {
            return None;
        }
        let screen = model.text();
        let said = self.troubles.iter().find_map(|(on, regex)| {
            let text = match on {
                PatternTarget::Screen => &screen,
                PatternTarget::Title => model.emulator.title(),
            };
            let found = regex.captures_iter(text).last()?;
            let words = found.name("text").or_else(|| found.get(1)).or_else(|| found.get(0))?;
            Some(words.as_str().split_whitespace().collect::<Vec<_>>().join(" "))
        })?;
        Some(super::sanitize_line::sanitize_line(&said, LONGEST_TROUBLE)).filter(|said| !said.is_empty())
    }

    pub(crate) fn conversation(&self, text: &str) -> Option<String> {
        let found = self.conversation.as_ref()?.captures_iter(text).last()?;
        Some(found.get(1)?.as_str().to_owned())
    }

    fn drawn_question(&self, screen: &str, model: &TerminalModel) -> Option<ProgramQuestion> {
        self.asks.iter().filter(|ask| ask.on == PatternTarget::Screen).find_map(|ask| {
            let found = ask.dialog.find(screen, model)?;
            Some(ProgramQuestion {
                about: ask.about,
                text: found.text,
                reported: String::new(),
                answers: found.answers,
                drawn: true,
            })
        })
    }

    /// A question of which only the title tells. It has no answers, because what it permits is not shown.
    fn titled_question(&self, title: &str) -> Option<ProgramQuestion> {
        self.asks.iter().filter(|ask| ask.on == PatternTarget::Title).find_map(|ask| {
            let text = ask.dialog.words(title, default_question(ask.about))?;
            Some(ProgramQuestion {
                about: ask.about,
                text,
                reported: String::new(),
                answers: Vec::new(),
                drawn: false,
            })
        })
    }
}

fn default_question(about: AskKind) -> &'static str {
    match about {
        AskKind::Permission => "The program is asking for permission.",
        AskKind::Question => "The program is waiting for an answer.",
        AskKind::Auth => "The program is waiting for you to sign in.",
        AskKind::Password => "The program is waiting for a password.",
        AskKind::YourTurn => "Your turn: the program has finished its turn.",
        AskKind::Other => "The program is waiting for you.",
    }
}
