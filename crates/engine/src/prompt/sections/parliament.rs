//! How a run works and what a good answer contains, for an agent that should answer.

use crate::prompt::{PromptInput, TurnKind};

const GOOD_ANSWER: &str = "Nobody can be asked: where the message is unclear, take the likeliest reading and say so. Check \
    the facts, calculations and steps that your answer hinges on; say what you assume and what you could not check. Do \
    everything that the message asks, in the form that it asks for, and nothing that it does not need.";

const WITH_FILES: &str =
    "Run or open what you made before you answer, and list the files that belong to your answer.";

/// Ways to approach a task, for teams whose members would think alike otherwise.
const APPROACHES: [&str; 8] = [
    "Derive your answer step by step from first principles.",
    "Look first for what could make the obvious answer wrong; then answer.",
    "Begin with concrete examples or small cases; then generalize.",
    "Start from the result that is asked for, and work backwards.",
    "Use two different methods, the second to check the first.",
    "Look for the simplest solution that meets every requirement.",
    "Question what the message takes for granted; then answer.",
    "Think as the person who has to use or maintain the result.",
];

pub(super) fn section(input: &PromptInput<'_>) -> Option<String> {
    let alone = input.agents == 1;
    let mut text = match (input.turn, alone) {
        (TurnKind::Answer { tool: false }, _) => "Answer the original message.".to_owned(),
        (TurnKind::Answer { tool: true }, true) => {
            "Work on the original message as well as you can, then submit your complete answer by calling `new_answer`. \
             It must stand on its own: nobody sees what you write outside the tool call."
                .to_owned()
        }
        (TurnKind::Answer { tool: true }, false) => {
            let later = if input.votes { "; later the answers are compared" } else { "" };
            format!(
                "You are one of several agents who work on the same request independently{later}. Work on the original \
                 message as well as you can, then submit your complete answer by calling `new_answer`. It must stand on \
                 its own: nobody sees what you write outside the tool call."
            )
        }
        (TurnKind::Judge | TurnKind::VoteOnly | TurnKind::Present(_) | TurnKind::Evaluate, _) => return None,
    };
    text.push_str("\n\n");
    text.push_str(GOOD_ANSWER);
    if input.has_tools {
        text.push(' ');
        text.push_str(WITH_FILES);
    }
    if let Some(approach) =
        input.approach.filter(|_| !alone).and_then(|nth| APPROACHES.iter().cycle().nth(nth))
    {
        text.push_str("\n\n");
        text.push_str(approach);
    }
    Some(text)
}
