//! The countdown of a run's override window, which a person can pause.

use super::Coordination;
use althing_protocol::{InteractionId, Millis, Timestamp};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Countdown {
    /// The time left at `since`.
    left: Millis,
    since: Timestamp,
    is_paused: bool,
}

impl Countdown {
    pub(super) fn new(left: Millis, since: Timestamp) -> Self {
        Self { left, since, is_paused: false }
    }

    fn pause(&mut self, pauses: bool, at: Timestamp) {
        if !self.is_paused {
            self.left = self.left.minus(at.since(self.since));
        }
        (self.since, self.is_paused) = (at, pauses);
    }

    /// The time that was left when the countdown last started or continued; None while it is paused.
    pub(super) fn left(&self) -> Option<Millis> {
        (!self.is_paused).then_some(self.left)
    }
}

impl Coordination {
    pub(super) fn pause_countdown(&mut self, interaction: &InteractionId, pauses: bool, at: Timestamp) {
        if self.has_open_question(interaction)
            && let Some(countdown) = &mut self.countdown
        {
            countdown.pause(pauses, at);
        }
    }

    /// The countdown starts again in full on a resume, because nobody saw it in the meantime.
    pub(super) fn restart_countdown(&mut self, at: Timestamp) {
        let countdown = self.interaction.as_ref().and_then(|open| open.countdown);
        self.countdown = countdown.map(|left| Countdown::new(left, at));
    }
}
