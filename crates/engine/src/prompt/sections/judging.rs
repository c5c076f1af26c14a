//! The part of a judging agent's prompt that says how to judge the answers: when to vote, and when to improve one.

use crate::prompt::{PromptInput, TurnKind};
use althing_protocol::VotingSensitivity;

pub(super) fn section(input: &PromptInput<'_>) -> Option<String> {
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
        VotingSensitivity::Lenient => {
            "If an answer serves the request well, vote; do not polish what is good enough."
        }
        VotingSensitivity::Balanced => {
            "Vote unless something that matters to the request is wrong, missing or unclear in the best answer."
        }
        VotingSensitivity::Strict => {
            "Vote only if the best answer is excellent: check its facts, its reasoning and what it leaves out, and improve \
             it where it falls short."
        }
    };
    Some(format!("{first}\n\n{bar}"))
}
