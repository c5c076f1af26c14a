//! The state machine of a conversation; its transitions are defined nowhere else.

use althing_protocol::ChatState::{
    self, AwaitingApproval, Chatting, Idle, ProcessingCancelled, ProcessingPartial, ProcessingResults,
    Running,
};

pub(crate) fn may_follow(from: ChatState, to: ChatState) -> bool {
    match from {
        Idle => to == Chatting,
        Chatting => matches!(to, Idle | AwaitingApproval | Running),
        AwaitingApproval => matches!(to, Chatting | Running),
        Running => matches!(to, ProcessingResults | ProcessingPartial | ProcessingCancelled),
        ProcessingResults | ProcessingPartial | ProcessingCancelled => {
            matches!(to, Idle | AwaitingApproval | Running)
        }
    }
}

/// The next state on the way to `to`. A crash may have lost state changes, so intermediate states are recorded again:
/// the log never contains a transition that is not allowed.
pub(crate) fn next_state_towards(from: ChatState, to: ChatState) -> ChatState {
    if may_follow(from, to) {
        return to;
    }
    match (from, to) {
        (Idle, _) => Chatting,
        (AwaitingApproval, Idle) => Chatting,
        (Running, _) => ProcessingCancelled,
        (_, ProcessingResults | ProcessingPartial | ProcessingCancelled) => Running,
        (_, Chatting) => AwaitingApproval,
        (_, to) => to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ChatState; 7] = [
        Idle,
        Chatting,
        AwaitingApproval,
        Running,
        ProcessingResults,
        ProcessingPartial,
        ProcessingCancelled,
    ];

    #[test]
    fn the_table_has_exactly_the_transitions_of_the_specification() {
        let processing = [ProcessingResults, ProcessingPartial, ProcessingCancelled];
        let mut arrows = vec![
            (Idle, Chatting),
            (Chatting, Idle),
            (Chatting, AwaitingApproval),
            (Chatting, Running),
            (AwaitingApproval, Chatting),
            (AwaitingApproval, Running),
        ];
        for state in processing {
            arrows.extend([(Running, state), (state, Idle), (state, AwaitingApproval), (state, Running)]);
        }
        for from in ALL {
            for to in ALL {
                assert_eq!(may_follow(from, to), arrows.contains(&(from, to)), "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn every_state_is_reachable_from_every_other_by_allowed_transitions() {
        for from in ALL {
            for to in ALL.into_iter().filter(|to| *to != from) {
                let (mut at, mut steps) = (from, 0);
                while at != to {
                    let next = next_state_towards(at, to);
                    assert!(may_follow(at, next), "{at:?} to {next:?} on the way from {from:?} to {to:?}");
                    (at, steps) = (next, steps + 1);
                    assert!(steps < 6, "{from:?} to {to:?} goes round in circles");
                }
            }
        }
    }
}
