//! The voting prompt of a judge, a section of the system prompt: how to compare the answers, by which criteria, when to
//! vote, and when to improve one.

use crate::prompt::{PromptInput, TurnKind};
use althing_protocol::VotingSensitivity;
use althing_text::sanitize;
use std::fmt::Write;

const COMPARE: &str = "Judge them in this order: is the answer correct, is it complete, does it follow the constraints of \
    the message, does it give evidence rather than style? Compare at least the two best on the points where they differ. \
    Check for yourself what the answers hinge on, above all where they contradict each other: that several agree is no \
    proof, length is no merit, and whose an answer is does not matter.";

const WITH_FILES: &str = " Look at an answer's files, not only at its words; run or open what they contain.";

const VOTE: &str = "`vote`: rank all agents, the best answer first. In the reason, name the difference that decided, and \
    what the final answer should still correct or take from another answer.";

const IMPROVE: &str = "`new_answer`, if you can give a clearly better answer: submit it whole. Keep what was right, say what \
    was wrong, and build on the best parts, or take another way where all answers share a weakness.";

pub(super) fn judge_prompt(input: &PromptInput<'_>) -> Option<String> {
    let mut text = match (input.turn, input.agents) {
        (TurnKind::Judge, 1) => {
            let mut text = "You have answered the original message; your answer is below. Check what it hinges on. If you \
                can make it clearly better, submit the whole improved answer with `new_answer`: keep what was right, and say \
                what was wrong. If it is done, say so by voting for it with `vote`."
                .to_owned();
            write_criteria(&mut text, input.criteria);
            text
        }
        (TurnKind::Judge | TurnKind::VoteOnly, _) => {
            let files = if input.has_tools { WITH_FILES } else { "" };
            let mut text = format!(
                "You are one of several agents who work on the same request. Their current answers are below under \
                 anonymous names, in no particular order; one of them may be yours.\n\n{COMPARE}{files}"
            );
            write_criteria(&mut text, input.criteria);
            if input.turn == TurnKind::VoteOnly {
                let _ = write!(text, "\n\nThen call {VOTE}");
            } else {
                let _ = write!(text, "\n\nThen call exactly one of these:\n- {VOTE}\n- {IMPROVE}");
            }
            text
        }
        (TurnKind::Answer { .. } | TurnKind::Present(_) | TurnKind::Evaluate, _) => return None,
    };
    if input.turn == TurnKind::Judge {
        text.push_str("\n\n");
        text.push_str(bar(input.sensitivity));
    }
    Some(text)
}

pub(super) fn write_criteria(text: &mut String, criteria: &[String]) {
    if criteria.is_empty() {
        return;
    }
    text.push_str("\n\nThe user's own criteria, which come first, the most important first:");
    for criterion in criteria {
        let _ = write!(text, "\n- {}", sanitize::line(criterion.trim()));
    }
}

fn bar(sensitivity: VotingSensitivity) -> &'static str {
    match sensitivity {
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
        VotingSensitivity::Roi | VotingSensitivity::RoiBalanced => {
            "Improve only if the gain is worth another round of every agent's work; otherwise vote."
        }
        VotingSensitivity::RoiConservative => {
            "Vote only if another round of every agent's work would gain almost nothing."
        }
        VotingSensitivity::RoiAggressive => {
            "Vote unless another round of every agent's work would clearly gain much."
        }
        VotingSensitivity::Sequential => {
            "Take the best answer as a draft and carry it one step further; vote once no step is left that matters."
        }
        VotingSensitivity::Adversarial => {
            "Try to refute the best answer before you vote: look for a counterexample, a wrong step, a constraint that it \
             breaks. Vote only if it withstands; otherwise improve it."
        }
        VotingSensitivity::Consistency => {
            "Look for contradictions within each answer and between the answers. Vote for an answer whose parts agree with \
             each other; improve where none does."
        }
        VotingSensitivity::Diversity => {
            "Before you vote, ask whether all answers share one approach. If another approach would do clearly better, \
             take it."
        }
        VotingSensitivity::Reflective => {
            "Before you vote, ask what you would criticize in the best answer tomorrow. If that matters to the request, \
             improve the answer."
        }
        VotingSensitivity::Checklist => {
            "List what the message demands of an answer, and check the best answer against each point. Vote only if every \
             point holds; otherwise improve it."
        }
    }
}
