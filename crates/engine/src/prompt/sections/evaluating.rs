//! Instructions for evaluating the final answer.

use super::judging::write_criteria;
use crate::prompt::{PromptInput, TurnKind};

pub(super) fn section(input: &PromptInput<'_>) -> Option<String> {
    let text = "Check the final answer below against the original message, as a careful reader would before it goes to the \
                user: is it correct, is it complete, does it do what was asked? If it does, call `submit`. Only if it \
                fails the request in a way that another try can fix, call `restart_orchestration`: say what it lacks, and \
                give instructions that stand on their own. A restart costs the work of every agent again.";
    (input.turn == TurnKind::Evaluate).then(|| {
        let mut text = text.to_owned();
        write_criteria(&mut text, input.criteria);
        text
    })
}
