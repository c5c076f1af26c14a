//! Which running model calls have sent something, and the timers that run only while a call is silent (stragglers).

use super::effects::EffectId;
use super::session::Session;
use crate::decider::{EffectKey, SilenceTimer, WantedEffects};
use althing_protocol::{Delta, Millis, TaskId, Timer};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Default)]
pub(super) struct SpokenCalls(Arc<Mutex<HashSet<EffectId>>>);

impl SpokenCalls {
    /// Notes that a call has sent something. Retries and waits for a rate limit do not count. A wait for a local server
    /// counts: a slow machine may work silently for minutes, and the backend's own limits apply.
    pub(super) fn hear(&self, id: &EffectId, delta: &Delta<'_>) {
        if !matches!(delta, Delta::Retry { .. } | Delta::RateLimited { .. }) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        }
    }

    pub(super) fn keep(&self, is_running: impl Fn(&EffectId) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(is_running);
    }

    fn has_spoken(&self, id: &EffectId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

impl Session {
    /// The timers that should run for a task: all wanted ones, without the silence timer if its call has sent
    /// something.
    pub(super) fn timers_of(&self, owner: &TaskId, wanted: &WantedEffects) -> Vec<(Timer, Millis)> {
        let silent = wanted.silence_timer.iter().filter(|timer| self.is_silent(owner, timer));
        let silent = silent.map(|timer| (timer.timer.clone(), timer.after));
        wanted.timers.iter().cloned().chain(silent).collect()
    }

    /// The timer of a silent call does not count if the call has sent something meanwhile, or if the timer is no longer
    /// wanted.
    pub(super) fn counts(&self, owner: &TaskId, timer: &Timer) -> bool {
        if !matches!(timer, Timer::Straggler { .. }) {
            return true;
        }
        let wanted = self.deciders.get(owner).and_then(|decider| decider.wanted().silence_timer);
        wanted.is_some_and(|wanted| wanted.timer == *timer && self.is_silent(owner, &wanted))
    }

    fn is_silent(&self, owner: &TaskId, timer: &SilenceTimer) -> bool {
        let id = EffectId { owner: owner.clone(), key: EffectKey::Call(timer.call) };
        !self.effects.spoken.has_spoken(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decider::CallKey;
    use std::time::Duration;

    #[test]
    fn a_call_has_spoken_once_it_sends_text_reasoning_or_a_tool_call_but_not_while_it_retries() {
        let id = |attempt| {
            let key = EffectKey::Call(CallKey { member_index: 0, attempt, step: 0 });
            EffectId { owner: "r1".into(), key }
        };
        let spoken = SpokenCalls::default();
        spoken.hear(&id(1), &Delta::RateLimited { after: Duration::from_secs(42), reason: "429" });
        assert!(!spoken.has_spoken(&id(1)));
        for (attempt, delta) in (1..).zip([Delta::Text("a"), Delta::Reasoning("b"), Delta::ToolCall("c")]) {
            spoken.hear(&id(attempt), &delta);
            assert!(spoken.has_spoken(&id(attempt)));
        }
        spoken.keep(|running| *running == id(2));
        assert_eq!([1, 2, 3].map(|attempt| spoken.has_spoken(&id(attempt))), [false, true, false]);
    }
}
