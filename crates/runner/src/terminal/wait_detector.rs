//! Finds out that a program in a terminal waits for input from a person although no pattern says so (patterns: `screen_reader.rs`): a program in the
//! foreground sleeps until something is typed, the screen does not change, and the text at the cursor asks something.

use super::emulator::CursorView;
use super::prompt_text::{Prompt, Shown, shown};
use super::pty::{Pty, TerminalModes};
use super::screen_reader::ScreenState;
use crate::kernel::{TerminalRead, TerminalReader};
use althing_protocol::AskKind;
use std::time::{Duration, Instant};

/// The times of the looks, counted from the last output or input. After these, there is a look every [`LATER`].
const LOOKS: [Duration; 6] = [
    Duration::from_millis(150),
    Duration::from_millis(450),
    Duration::from_millis(900),
    Duration::from_millis(1_500),
    Duration::from_millis(3_000),
    Duration::from_millis(5_000),
];
const LATER: Duration = Duration::from_secs(5);
/// The time between looks while a question is open. Each look shows whether the program still waits for the answer.
const WHILE_OPEN: Duration = Duration::from_secs(1);
/// How long a program that only reads from the terminal must have slept before it counts as waiting.
const READS_FOR: Duration = Duration::from_millis(250);
/// How long a program that also waits for other things, and may be working, must have slept. It is longer than a
/// second, because many working programs wake up every second to show the time.
const POLLS_FOR: Duration = Duration::from_millis(1_200);

pub(crate) trait TerminalSigns {
    fn modes(&self) -> Option<TerminalModes>;
    fn reader(&self) -> TerminalRead;
}

impl TerminalSigns for Pty {
    fn modes(&self) -> Option<TerminalModes> {
        Self::modes(self)
    }

    fn reader(&self) -> TerminalRead {
        Self::reader(self)
    }
}

#[derive(Debug)]
pub(crate) struct WaitDetector {
    /// Whether any question counts. If not, the program's own patterns decide, and besides them only a request for a
    /// password (typed without echo) counts.
    any_question: bool,
    quiet: Option<(Instant, u32)>,
    next: Option<Instant>,
    waiting: Option<(TerminalReader, Instant)>,
    open: Option<Prompt>,
    misses: u32,
}

impl WaitDetector {
    pub(crate) fn new(any_question: bool) -> Self {
        Self { any_question, quiet: None, next: None, waiting: None, open: None, misses: 0 }
    }

    pub(crate) fn stirred(&mut self, now: Instant) {
        self.quiet = Some((now, 0));
        self.next = LOOKS.first().map(|after| now + *after);
        self.waiting = None;
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the state after the screen has changed; `by_patterns` is the state that the patterns found. An open
    /// question stays while it is on the screen, unless the patterns found that the program is busy or ready; a
    /// question for a password stays even then. If `any_question` is set, a question that a pattern found on the screen is checked,
    /// unless the program reports its own status (`is_reported`).
    pub(crate) fn drawn(
        &mut self,
        by_patterns: ScreenState,
        is_reported: bool,
        view: &dyn Fn() -> CursorView,
        signs: &impl TerminalSigns,
    ) -> ScreenState {
        if let Some(open) = &self.open {
            let is_password = open.question.about == AskKind::Password;
            let may_stay = is_password || !matches!(by_patterns, ScreenState::Busy | ScreenState::Ready);
            if may_stay && open.is_still_in(&view()) {
                return ScreenState::Asks(open.question.clone());
            }
            self.open = None;
        }
        match &by_patterns {
            ScreenState::Asks(asked) if self.any_question && asked.drawn && !is_reported => {
                self.checked(by_patterns, &view(), signs)
            }
            _ => by_patterns,
        }
    }

    /// Checks a question that a pattern found. If no program reads from the terminal, the question does not count: the
    /// screen only quotes a question, or the program gets its answer from a pipe.
    fn checked(
        &mut self,
        by_patterns: ScreenState,
        view: &CursorView,
        signs: &impl TerminalSigns,
    ) -> ScreenState {
        match signs.reader() {
            TerminalRead::Unseen => by_patterns,
            TerminalRead::None => ScreenState::Unknown,
            TerminalRead::By(reader) => {
                let modes = signs.modes().unwrap_or_default();
                if let Shown::Question(prompt) = shown(view, modes, Some(&reader)) {
                    let question = prompt.question.clone();
                    (self.open, self.misses) = (Some(prompt), 0);
                    return ScreenState::Asks(question);
                }
                by_patterns
            }
        }
    }

    /// Checks whether the program waits; `None` if the state stays. `prompt_is_due` says that the task's prompt has
    /// not been typed yet: the prompt is the answer to the first question that neither has fixed answers nor asks for
    /// a password.
    pub(crate) fn look(
        &mut self,
        by_patterns: &ScreenState,
        view: &dyn Fn() -> CursorView,
        signs: &impl TerminalSigns,
        prompt_is_due: bool,
        now: Instant,
    ) -> Option<ScreenState> {
        self.schedule(now);
        let modes = signs.modes()?;
        let is_hidden = modes.lines && !modes.echo;
        let may_ask = match by_patterns {
            ScreenState::Unknown => is_hidden || self.any_question,
            ScreenState::Asks(_) => self.any_question,
            ScreenState::Busy => is_hidden,
            ScreenState::Ready => false,
        };
        if self.open.is_none() && !may_ask {
            return None;
        }
        let read = signs.reader();
        if self.open.is_some() {
            return self.look_again(&read, modes);
        }
        let reader = match &read {
            TerminalRead::By(reader) => Some(reader),
            TerminalRead::None => {
                self.waiting = None;
                return None;
            }
            TerminalRead::Unseen => None,
        };
        if !self.has_waited(reader, now) {
            return None;
        }
        match shown(&view(), modes, reader) {
            Shown::Question(prompt) => {
                let is_plain =
                    prompt.question.answers.is_empty() && prompt.question.about != AskKind::Password;
                if prompt_is_due && is_plain {
                    return Some(ScreenState::Ready);
                }
                let question = prompt.question.clone();
                (self.open, self.misses) = (Some(prompt), 0);
                self.next = Some(now + WHILE_OPEN);
                Some(ScreenState::Asks(question))
            }
            Shown::Turn if self.any_question => Some(ScreenState::Ready),
            // A pattern had found the question before the program began to wait for the answer.
            _ if matches!(by_patterns, ScreenState::Asks(_)) => Some(by_patterns.clone()),
            _ => None,
        }
    }

    fn look_again(&mut self, read: &TerminalRead, modes: TerminalModes) -> Option<ScreenState> {
        let is_password = self.open.as_ref().is_some_and(|open| open.question.about == AskKind::Password);
        let waits = match read {
            TerminalRead::By(_) => true,
            TerminalRead::None => false,
            TerminalRead::Unseen => !is_password || !modes.echo,
        };
        self.misses = if waits { 0 } else { self.misses + 1 };
        if self.misses < 2 {
            return None;
        }
        self.open = None;
        Some(ScreenState::Unknown)
    }

    /// Whether the thread has slept long enough. If the system does not show what the program does, its terminal must
    /// have been quiet as long as for a program that polls.
    fn has_waited(&mut self, reader: Option<&TerminalReader>, now: Instant) -> bool {
        let Some(reader) = reader else {
            return self.quiet.is_some_and(|(since, _)| now >= since + POLLS_FOR);
        };
        let slept = if reader.blocks { READS_FOR } else { POLLS_FOR };
        match &self.waiting {
            Some((known, since)) if known == reader => now >= *since + slept,
            _ => {
                self.waiting = Some((reader.clone(), now));
                false
            }
        }
    }

    fn schedule(&mut self, now: Instant) {
        let Some((since, looks)) = &mut self.quiet else {
            self.next = None;
            return;
        };
        *looks += 1;
        let after = LOOKS.get(*looks as usize).map(|after| *since + *after);
        let usual = after.filter(|at| *at > now).unwrap_or(now + LATER);
        self.next = Some(if self.open.is_some() { usual.min(now + WHILE_OPEN) } else { usual });
    }
}
