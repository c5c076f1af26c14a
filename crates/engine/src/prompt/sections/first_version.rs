//! The instructions of the first version of the prompts, word for word; new runs do not use them. A run that was
//! started with them keeps them when it is resumed, and its requests can be rebuilt from its log.

use crate::prompt::{PromptInput, TurnKind};
use althing_protocol::{FinalAnswerStrategy, VotingSensitivity};

pub(super) fn answering(input: &PromptInput<'_>) -> Option<String> {
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

pub(super) fn judging(input: &PromptInput<'_>) -> Option<String> {
    let alone = input.agents == 1;
    let first = match (input.turn, alone) {
        (TurnKind::Judge, true) => {
            "You have answered the original message; your answer is below. If you can make it clearly better, submit \
             the whole improved answer with `new_answer`. If it is done, say so by voting for it with `vote`."
        }
        (TurnKind::Judge, false) => {
            "You are one of several agents who work on the same request. The answers so far are below under anonymous \
             names; one of them may be yours. Judge them by how well they serve the original message: whether they are \
             correct, complete and clear, not whose they are. Then do exactly one of two things: vote for the best \
             answer with `vote`, or, if you can give a clearly better one that builds on the best parts, submit it \
             whole with `new_answer`."
        }
        (TurnKind::VoteOnly, _) => {
            "You are one of several agents who work on the same request. The answers are below under anonymous names; \
             one of them may be yours. Judge them by how well they serve the original message: whether they are correct, \
             complete and clear, not whose they are. Then vote for the best one with `vote`."
        }
        (TurnKind::Answer { .. } | TurnKind::Present(_) | TurnKind::Evaluate, _) => return None,
    };
    let bar = match input.sensitivity {
        _ if input.turn == TurnKind::VoteOnly => return Some(first.to_owned()),
        VotingSensitivity::Lenient | VotingSensitivity::RoiAggressive => {
            "If an answer serves the request well, vote; do not polish what is good enough."
        }
        VotingSensitivity::Strict
        | VotingSensitivity::RoiConservative
        | VotingSensitivity::Adversarial
        | VotingSensitivity::Checklist => {
            "Vote only if the best answer is excellent: check its facts, its reasoning and what it leaves out, and improve \
             it where it falls short."
        }
        _ => {
            "Vote unless something that matters to the request is wrong, missing or unclear in the best answer."
        }
    };
    Some(format!("{first}\n\n{bar}"))
}

pub(super) fn presenting(input: &PromptInput<'_>) -> Option<String> {
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
