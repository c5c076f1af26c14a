//! The effects that a conversation wants in its current state: a model call, or tool calls.

use super::InteractiveSession;
use super::rules::NextTurnStep;
use super::state::CompactionStep;
use crate::decider::{CallKey, SideTask, WantedEffects};
use althing_protocol::Purpose;

impl InteractiveSession {
    /// The effects that should be running now. The chat agent is the only member, with index 0.
    pub fn wanted(&self) -> WantedEffects {
        let mut wanted = WantedEffects::default();
        let Some(turn) = self.turn.as_ref().filter(|turn| !turn.direct && !turn.is_stopping()) else {
            return wanted;
        };
        let Some(attempt) = turn.attempt.as_ref().filter(|attempt| !attempt.interrupted && !self.halted)
        else {
            return wanted;
        };
        let number = attempt.number;
        if attempt.purpose == Purpose::Compact {
            if !matches!(turn.compaction, CompactionStep::Summarized(_) | CompactionStep::Finished { .. }) {
                wanted.calls.push(CallKey { member_index: 0, attempt: number, step: 0 });
            }
            return wanted;
        }
        match self.next(turn, attempt) {
            NextTurnStep::Call => {
                wanted.calls.push(CallKey { member_index: 0, attempt: number, step: turn.steps.len() })
            }
            NextTurnStep::Tools(kinds) => wanted.side_tasks.extend(kinds.into_iter().map(|kind| SideTask {
                member_index: 0,
                attempt: number,
                kind,
            })),
            NextTurnStep::Wait | NextTurnStep::Facts(_) => {}
        }
        wanted
    }
}
