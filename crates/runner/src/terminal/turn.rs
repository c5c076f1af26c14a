//! Notices that a program in a terminal has finished its turn, so that the person can go on with it or end it. A
//! finished turn ends nothing by itself.

use super::screen_reader::{ProgramQuestion, ScreenState};
use althing_protocol::{AskKind, AskOption};
use std::time::{Duration, Instant};

/// The turn of a program that was seen working is over once the program has been ready for the next prompt for this long.
/// A shorter time is not enough: between two steps of a turn, some programs look ready for a moment.
const OVER_AFTER: Duration = Duration::from_millis(1000);
/// The time instead of [`OVER_AFTER`] for a program that was not seen working, because its turn was short or has not
/// begun yet.
const UNSEEN_OVER_AFTER: Duration = Duration::from_secs(6);

const END: &str = "end";
const TEXT: &str =
    "Your turn: the program has finished its turn. Type the next prompt in its terminal, or end it.";

#[derive(Debug)]
pub(super) struct TurnWatch {
    /// The command that makes the program exit; without it, no turn is watched.
    leave: Option<String>,
    begun: bool,
    /// Whether the program was seen working, or waiting for a person, since the prompt was sent.
    worked: bool,
    over: bool,
    ready_since: Option<Instant>,
    /// What the screen says about the program's failing model service, unless it said so in an earlier turn.
    trouble: Option<String>,
    earlier_trouble: Option<String>,
}

impl TurnWatch {
    pub(super) fn new(leave: Option<String>, has_prompt: bool, is_over: bool) -> Self {
        let begun = !has_prompt;
        Self {
            leave,
            begun,
            worked: is_over,
            over: false,
            ready_since: None,
            trouble: None,
            earlier_trouble: None,
        }
    }

    pub(super) fn prompt_sent(&mut self) {
        (self.begun, self.worked, self.over, self.ready_since) = (true, false, false, None);
    }

    /// Is told what the screen says about the program's failing model service.
    pub(super) fn see_trouble(&mut self, said: Option<&str>) {
        self.trouble = said.filter(|said| self.earlier_trouble.as_deref() != Some(said)).map(str::to_owned);
    }

    /// The state of the program, given what its screen shows: if the turn is over, the program waits for a person.
    pub(super) fn state(&mut self, shown: ScreenState, now: Instant) -> ScreenState {
        let Some(leave) = self.leave.as_ref().filter(|_| self.begun) else { return shown };
        match &shown {
            ScreenState::Ready => {
                let since = *self.ready_since.get_or_insert(now);
                self.over |= now >= since + self.over_after();
            }
            // While a person types the next prompt, the turn is still over.
            ScreenState::Unknown => self.ready_since = None,
            ScreenState::Busy | ScreenState::Asks(_) => {
                if self.over && self.trouble.is_some() {
                    self.earlier_trouble = self.trouble.take();
                }
                (self.worked, self.over, self.ready_since) = (true, false, None);
            }
        }
        if !self.over {
            return shown;
        }
        let end = AskOption { id: END.to_owned(), label: "End the program".to_owned() };
        ScreenState::Asks(ProgramQuestion {
            about: AskKind::YourTurn,
            text: match &self.trouble {
                Some(said) => format!("{TEXT} The last problem that it reported: {said}"),
                None => TEXT.to_owned(),
            },
            reported: String::new(),
            answers: vec![(end, leave.clone())],
            drawn: true,
        })
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let since = self.ready_since.filter(|_| self.begun && !self.over && self.leave.is_some())?;
        Some(since + self.over_after())
    }

    fn over_after(&self) -> Duration {
        if self.worked { OVER_AFTER } else { UNSEEN_OVER_AFTER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_over(state: &ScreenState) -> bool {
        matches!(state, ScreenState::Asks(question) if question.about == AskKind::YourTurn)
    }

    #[test]
    fn a_turn_is_over_when_the_program_is_at_rest_after_it_worked() {
        let start = Instant::now();
        let mut turn = TurnWatch::new(Some("/exit".to_owned()), true, false);
        let at =
            |turn: &mut TurnWatch, state, ms| is_over(&turn.state(state, start + Duration::from_millis(ms)));
        assert!(
            !at(&mut turn, ScreenState::Ready, 0) && !at(&mut turn, ScreenState::Ready, 60_000),
            "no prompt yet"
        );
        turn.prompt_sent();
        assert!(!at(&mut turn, ScreenState::Ready, 61_000) && !at(&mut turn, ScreenState::Busy, 62_000));
        assert!(!at(&mut turn, ScreenState::Ready, 63_000) && !at(&mut turn, ScreenState::Ready, 63_900));
        assert_eq!(turn.due(), Some(start + Duration::from_millis(64_000)));
        assert!(at(&mut turn, ScreenState::Ready, 64_000) && turn.due().is_none());
        assert!(at(&mut turn, ScreenState::Unknown, 65_000), "a person types");
        assert!(!at(&mut turn, ScreenState::Busy, 66_000), "the next turn");
        assert!(!at(&mut turn, ScreenState::Ready, 67_000) && at(&mut turn, ScreenState::Ready, 68_000));
    }

    #[test]
    fn a_turn_that_was_too_short_to_be_seen_is_over_later_and_without_an_exit_command_none_is() {
        let start = Instant::now();
        let mut turn = TurnWatch::new(Some("/exit".to_owned()), true, false);
        turn.prompt_sent();
        assert!(!is_over(&turn.state(ScreenState::Ready, start)));
        assert!(!is_over(&turn.state(ScreenState::Ready, start + OVER_AFTER)));
        assert!(is_over(&turn.state(ScreenState::Ready, start + UNSEEN_OVER_AFTER)));
        let mut unknown = TurnWatch::new(None, false, true);
        assert_eq!(unknown.state(ScreenState::Ready, start), ScreenState::Ready);
        assert_eq!(unknown.state(ScreenState::Ready, start + UNSEEN_OVER_AFTER), ScreenState::Ready);
    }
}
