//! Instructions for writing the final answer.

use crate::prompt::{PromptInput, TurnKind};
use althing_protocol::FinalAnswerStrategy;

pub(super) fn section(input: &PromptInput<'_>) -> Option<String> {
    let TurnKind::Present(strategy) = input.turn else { return None };
    let how = match strategy {
        FinalAnswerStrategy::Synthesize => {
            "Several agents have answered the original message, and you were chosen to give the final \
             answer. Combine the strongest relevant parts of all the answers below into one; resolve contradictions, leave \
             out what is weak or repeated."
        }
        FinalAnswerStrategy::WinnerPresent | FinalAnswerStrategy::WinnerReuse if input.votes => {
            "Your answer was chosen, and you give the final answer to the user. Present it at its best; include \
             valid points of the other answers and of the voters' reasons."
        }
        FinalAnswerStrategy::WinnerPresent | FinalAnswerStrategy::WinnerReuse => {
            "You give the final answer to the user. Present your answer at its best; include valid points of the \
             other answers."
        }
    };
    let acts = if input.writes {
        " If the task asks for changes in the context paths that you may write to, carry them out before you answer: \
         nothing has been changed there yet."
    } else {
        ""
    };
    let hidden = if input.votes { "agents, answers or votes" } else { "agents or answers" };
    Some(format!(
        "{how}{acts} Write the final answer itself as plain text, addressed to the user. Do not mention {hidden}."
    ))
}
