//! What should be under way, given the state: the agent's model call, or its tools.

use super::InteractiveSession;
use super::rules::Next;
use super::state::Shortening;
use crate::decider::{CallKey, Chore, ChoreKind, Wanted};
use althing_protocol::Purpose;

impl InteractiveSession {
    /// What should be under way. The agent has the only seat.
    pub fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::default();
        let Some(turn) = self.turn.as_ref().filter(|turn| !turn.direct && !turn.is_stopping()) else {
            return wanted;
        };
        let Some(attempt) = turn.attempt.as_ref().filter(|attempt| !attempt.cut_off && !self.halted) else {
            return wanted;
        };
        let number = attempt.number;
        if attempt.purpose == Purpose::Compact {
            if !matches!(turn.shortening, Shortening::Summed(_) | Shortening::Over) {
                wanted.calls.push(CallKey { seat: 0, attempt: number, step: 0 });
            }
            return wanted;
        }
        match self.next(turn, attempt) {
            Next::Call => wanted.calls.push(CallKey { seat: 0, attempt: number, step: turn.steps.len() }),
            Next::Tools(calls) => wanted.chores.extend(calls.into_iter().map(|call| Chore {
                seat: 0,
                attempt: number,
                kind: ChoreKind::Tool(call),
            })),
            Next::Wait | Next::Facts(_) => {}
        }
        wanted
    }
}
