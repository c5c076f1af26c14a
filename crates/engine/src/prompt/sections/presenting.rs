//! Instructions for writing the final answer.

use crate::prompt::{PromptInput, TurnKind};
use althing_protocol::FinalAnswerStrategy;

pub(super) fn section(input: &PromptInput<'_>) -> Option<String> {
    let TurnKind::Present(strategy) = input.turn else { return None };
    let how = match strategy {
        FinalAnswerStrategy::Synthesize => {
            "Several agents have answered the original message, and you were chosen to give the final \
             answer. Combine the strongest relevant parts of all the answers below into one: resolve contradictions by \
             checking, not by counting, and leave out what is weak or repeated."
        }
        FinalAnswerStrategy::WinnerPresent | FinalAnswerStrategy::WinnerReuse if input.votes => {
            "Your answer was chosen, and you give the final answer to the user. Keep what it was chosen for. Change only \
             what is wrong, missing or unclear, where the voters' reasons or the other answers are right about that."
        }
        FinalAnswerStrategy::WinnerPresent | FinalAnswerStrategy::WinnerReuse => {
            "You give the final answer to the user: yours. Change only what is wrong, missing or unclear in it, where the \
             other answers are right about that."
        }
    };
    let acts = if input.writes {
        " If the task asks for changes in the context paths that you may write to, carry them out before you answer: \
         nothing has been changed there yet."
    } else {
        ""
    };
    let opens = if input.has_tools { " Run or open what you made before you answer." } else { "" };
    let hidden = if input.votes { "agents, answers or votes" } else { "agents or answers" };
    Some(format!(
        "{how}{acts}{opens} Write the final answer itself, without a tool call, addressed to the user, in Markdown where it \
         helps. Do not mention {hidden}."
    ))
}
