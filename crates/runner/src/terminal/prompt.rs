//! Types a prompt into a program in a terminal once the program accepts one: a bracketed paste if the program enabled
//! it, a pause, a carriage return. Nothing is typed into a dialog, whose default choice may be to quit.

use super::limits::READ_AFTER_QUIET;
use super::screen_reader::ScreenState;
use std::time::{Duration, Instant};

/// How long to wait for a program to become ready if its adapter sets no limit.
pub(crate) const READY_LIMIT: Duration = Duration::from_secs(15);
/// How long to wait after the first sign of readiness, because some programs discard input that comes too
/// early.
const SETTLE: Duration = Duration::from_millis(150);
/// The time from the moment the paste is visible to the carriage return. Some programs treat a return that follows
/// too soon as part of the paste and never submit the prompt. In Gemini CLI too soon means within 40 ms, but on a
/// busy machine even 150 ms were too soon.
const PAUSE: Duration = Duration::from_millis(600);
const UNSEEN: Duration = Duration::from_secs(2);
/// How many letters and digits of the prompt's end are searched for on the screen: few, because programs fold, wrap
/// and frame pasted text.
const TELLING: usize = 10;

#[derive(Debug)]
pub(crate) struct PromptTyper {
    text: String,
    /// Whether line breaks are replaced by spaces if the program does not support bracketed paste.
    one_line: bool,
    limit: Duration,
    stage: TypingStage,
    is_blind: bool,
    is_seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypingStage {
    /// At the time `until` the prompt is typed even if the program is still not ready, unless a dialog is open.
    Awaited {
        until: Instant,
    },
    Settling {
        until: Instant,
    },
    /// The text was pasted; the carriage return is sent at the time `until`. `before`: how many times the end of the
    /// text was on the screen before the paste. `seen`: the paste is on the screen, or is no longer waited for.
    Pasted {
        until: Instant,
        before: usize,
        seen: bool,
    },
    Typed,
}

impl PromptTyper {
    pub(crate) fn new(text: &str, one_line: bool, limit: Duration, now: Instant) -> Option<Self> {
        let text = plain(text);
        let stage = TypingStage::Awaited { until: now + limit };
        let typer = Self { text, one_line, limit, stage, is_blind: false, is_seen: false };
        (!typer.text.trim().is_empty()).then_some(typer)
    }

    /// A typer for the same text, if the text may be lost: the program was not ready when it was typed, and it was
    /// not seen on the screen.
    pub(crate) fn again(self, now: Instant) -> Option<Self> {
        let is_doubtful = self.is_blind && !self.is_seen;
        let stage = TypingStage::Awaited { until: now + self.limit };
        is_doubtful.then_some(Self { stage, is_blind: false, ..self })
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        match self.stage {
            TypingStage::Awaited { until }
            | TypingStage::Settling { until }
            | TypingStage::Pasted { until, .. } => Some(until),
            TypingStage::Typed => None,
        }
    }

    pub(crate) fn step(
        &mut self,
        state: &ScreenState,
        screen: &dyn Fn() -> String,
        brackets: bool,
        now: Instant,
    ) -> Option<Vec<u8>> {
        if let TypingStage::Pasted { before, seen: false, .. } = self.stage
            && self.occurrences(&screen()) > before
        {
            self.stage = TypingStage::Pasted { until: now + PAUSE, before, seen: true };
            self.is_seen = true;
        }
        match self.stage {
            // Nothing is typed into a dialog, and the time limit starts anew when the dialog is gone.
            TypingStage::Awaited { .. } | TypingStage::Settling { .. }
                if matches!(state, ScreenState::Asks(_)) =>
            {
                self.stage = TypingStage::Awaited { until: now + self.limit };
                None
            }
            TypingStage::Awaited { until } if *state == ScreenState::Ready || now >= until => {
                self.is_blind = *state != ScreenState::Ready;
                self.stage = TypingStage::Settling { until: if now >= until { now } else { now + SETTLE } };
                self.step(state, screen, brackets, now)
            }
            TypingStage::Settling { until } if now >= until => {
                let before = self.occurrences(&screen());
                self.stage = TypingStage::Pasted { until: now + UNSEEN, before, seen: false };
                let text = self.text.as_bytes();
                Some(match (brackets, self.one_line) {
                    (true, _) => [b"\x1b[200~", text, b"\x1b[201~"].concat(),
                    // Line breaks become spaces: a line break would submit the text before it, and the next line could
                    // be a command.
                    (false, true) => self.text.replace('\n', " ").into_bytes(),
                    (false, false) => text.to_vec(),
                })
            }
            // The carriage return must not confirm a dialog that appeared meanwhile.
            TypingStage::Pasted { until, before, .. }
                if now >= until && matches!(state, ScreenState::Asks(_)) =>
            {
                self.stage = TypingStage::Pasted { until: now + PAUSE, before, seen: true };
                None
            }
            TypingStage::Pasted { until, .. } if now >= until => {
                self.stage = TypingStage::Typed;
                Some(b"\r".to_vec())
            }
            _ => None,
        }
    }

    /// Delays the carriage return until the screen has been read after the paste.
    pub(crate) fn delay_return(&mut self, now: Instant) {
        if let TypingStage::Pasted { until, .. } = &mut self.stage {
            *until = (*until).max(now + READ_AFTER_QUIET);
        }
    }

    pub(crate) fn occurrences(&self, screen: &str) -> usize {
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        let text = letters(&self.text);
        let from = text.char_indices().rev().nth(TELLING - 1).map_or(0, |(at, _)| at);
        match text.get(from..) {
            Some(end) if !end.is_empty() => letters(screen).matches(end).count(),
            _ => 0,
        }
    }

    pub(crate) fn is_begun(&self) -> bool {
        matches!(self.stage, TypingStage::Pasted { .. } | TypingStage::Typed)
    }

    pub(crate) fn is_typed(&self) -> bool {
        self.stage == TypingStage::Typed
    }
}

/// Removes control characters other than line breaks and tabs, so that the text can neither end the paste early nor
/// send control sequences to the program. Also removes line breaks at the end.
fn plain(text: &str) -> String {
    let unix = text.replace("\r\n", "\n").replace('\r', "\n");
    unix.trim_end_matches('\n').chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::super::screen_reader::ProgramQuestion;
    use super::*;
    use althing_protocol::AskKind;

    struct Typist {
        prompt: PromptTyper,
        start: Instant,
        typed: String,
    }

    impl Typist {
        fn new(text: &str) -> Self {
            let start = Instant::now();
            Self {
                prompt: PromptTyper::new(text, true, READY_LIMIT, start).unwrap(),
                start,
                typed: String::new(),
            }
        }

        fn at(&mut self, millis: u64, state: &ScreenState) -> &mut Self {
            let screen = format!("do it?\n│ > {} │", self.typed.replace("do it", "do │\n│ it"));
            self.seeing(&screen, millis, state)
        }

        fn seeing(&mut self, screen: &str, millis: u64, state: &ScreenState) -> &mut Self {
            let now = self.start + Duration::from_millis(millis);
            let typed = self.prompt.step(state, &|| screen.to_owned(), true, now);
            self.typed += &String::from_utf8(typed.unwrap_or_default()).unwrap();
            self
        }
    }

    fn asks() -> ScreenState {
        ScreenState::Asks(ProgramQuestion {
            about: AskKind::Permission,
            text: String::new(),
            reported: String::new(),
            answers: Vec::new(),
            drawn: true,
        })
    }

    const SENT: &str = "\x1b[200~do it\x1b[201~\r";

    #[test]
    fn the_prompt_is_typed_once_no_matter_when_the_program_is_ready() {
        for ready_at in [0, 500, 14_000] {
            let mut typist = Typist::new("do it");
            for millis in (0..40_000).step_by(50) {
                let ready = millis >= ready_at && millis % 100 == 0;
                typist.at(millis, if ready { &ScreenState::Ready } else { &ScreenState::Unknown });
            }
            assert_eq!(typist.typed, SENT, "ready after {ready_at} ms");
            assert!(typist.prompt.is_typed());
        }
    }

    #[test]
    fn a_program_that_never_becomes_ready_gets_the_prompt_after_the_time_limit() {
        let mut typist = Typist::new("do it");
        typist.at(14_999, &ScreenState::Busy);
        assert_eq!(typist.typed, "");
        typist.at(15_000, &ScreenState::Busy).at(15_010, &ScreenState::Busy).at(15_609, &ScreenState::Busy);
        assert_eq!(typist.typed, "\x1b[200~do it\x1b[201~");
        typist.at(15_610, &ScreenState::Busy).at(99_000, &ScreenState::Ready);
        assert_eq!(typist.typed, SENT);
    }

    #[test]
    fn nothing_is_typed_into_a_dialog_and_the_time_limit_pauses() {
        let mut typist = Typist::new("do it");
        typist.at(0, &ScreenState::Ready).at(100, &asks()).at(16_000, &asks()).at(60_000, &asks());
        typist.at(74_999, &ScreenState::Unknown);
        assert_eq!(typist.typed, "");
        typist
            .at(75_000, &ScreenState::Unknown)
            .at(75_010, &ScreenState::Unknown)
            .at(75_610, &ScreenState::Unknown);
        assert_eq!(typist.typed, SENT);
    }

    #[test]
    fn the_return_after_the_paste_does_not_confirm_a_dialog_that_appeared_meanwhile() {
        let mut typist = Typist::new("do it");
        typist.at(0, &ScreenState::Ready).at(150, &ScreenState::Ready).at(160, &ScreenState::Ready);
        typist.at(760, &asks()).at(5_000, &asks());
        assert_eq!(typist.typed, "\x1b[200~do it\x1b[201~");
        typist.at(5_100, &ScreenState::Unknown).at(5_600, &ScreenState::Unknown);
        assert_eq!(typist.typed, SENT);
    }

    #[test]
    fn the_return_waits_until_a_slow_program_shows_the_paste() {
        let mut typist = Typist::new("do it");
        typist.at(0, &ScreenState::Ready).at(150, &ScreenState::Ready);
        // The screen from before the paste, which happens to contain the same words.
        typist.seeing("do it?\n> ", 1_000, &ScreenState::Ready).seeing(
            "do it?\n> ",
            1_900,
            &ScreenState::Ready,
        );
        assert_eq!(typist.typed, "\x1b[200~do it\x1b[201~");
        typist.at(1_950, &ScreenState::Ready).at(2_549, &ScreenState::Ready);
        assert_eq!(typist.typed, "\x1b[200~do it\x1b[201~");
        typist.at(2_550, &ScreenState::Ready);
        assert_eq!(typist.typed, SENT);
        let mut hidden = Typist::new("do it");
        hidden.seeing("", 0, &ScreenState::Ready).seeing("", 150, &ScreenState::Ready).seeing(
            "",
            2_149,
            &ScreenState::Ready,
        );
        assert_eq!(hidden.typed, "\x1b[200~do it\x1b[201~", "the paste may still appear");
        hidden.seeing("", 2_150, &ScreenState::Ready);
        assert_eq!(hidden.typed, SENT, "a program that does not echo its input gets the prompt as well");
    }

    #[test]
    fn without_bracketed_paste_an_agents_prompt_becomes_one_line_and_a_commands_input_is_unchanged() {
        for (one_line, typed) in [(true, "Task: !x !y"), (false, "Task:\n!x\n!y")] {
            let start = Instant::now();
            let mut prompt = PromptTyper::new("Task:\n!x\n!y", one_line, READY_LIMIT, start).unwrap();
            let screen = || String::new();
            let pasted = prompt.step(&ScreenState::Ready, &screen, false, start);
            let pasted = pasted.or_else(|| prompt.step(&ScreenState::Ready, &screen, false, start + SETTLE));
            assert_eq!(pasted, Some(typed.as_bytes().to_vec()));
        }
    }

    #[test]
    fn a_prompt_cannot_end_its_own_paste_and_an_empty_one_is_none() {
        let mut typist = Typist::new("a\x1b[201~\r\nrm -rf\x03\n\n");
        typist.at(0, &ScreenState::Ready).at(150, &ScreenState::Ready);
        assert_eq!(typist.typed, "\x1b[200~a[201~\nrm -rf\x1b[201~");
        assert!(PromptTyper::new(" \n\x07", true, READY_LIMIT, Instant::now()).is_none());
    }
}
