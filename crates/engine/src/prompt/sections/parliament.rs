//! How a run works, for an agent that should answer.

use crate::prompt::{PromptInput, TurnKind};

pub(super) fn section(input: &PromptInput<'_>) -> Option<String> {
    let alone = input.agents == 1;
    let text = match (input.turn, alone) {
        (TurnKind::Answer { tool: false }, _) => "Answer the original message completely and directly.",
        (TurnKind::Answer { tool: true }, true) => {
            "Work on the original message as well as you can, then submit your complete answer by calling `new_answer`. \
             The answer must stand on its own: nobody sees what you write outside the tool call."
        }
        (TurnKind::Answer { tool: true }, false) => {
            "You are one of several agents who work on the same request independently. Work on the original message as \
             well as you can, then submit your complete answer by calling `new_answer`. The answer must stand on its \
             own: nobody sees what you write outside the tool call."
        }
        (TurnKind::Judge | TurnKind::VoteOnly | TurnKind::Present(_) | TurnKind::Evaluate, _) => return None,
    };
    let judged_later = input.votes && !alone && input.turn == TurnKind::Answer { tool: true };
    Some(if judged_later {
        format!("{text} Later you will see the other agents' answers.")
    } else {
        text.to_owned()
    })
}
