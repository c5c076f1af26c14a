//! Reminders for an agent whose reply did not end its turn as required. A small model that reads only "finish your
//! turn" forgets the task, so a reminder shows the task again and ends with the one thing to do next.

use super::markers::{Markers, enclose_alone};
use crate::summary::excerpt;
use althing_text::fnv1a;

/// The maximum size of the task in a reminder. The first message has the whole task.
const MAX_TASK_BYTES: usize = 1500;

pub(crate) const ANSWER: &str = "Finish now by calling `new_answer` with your complete answer to the original message. If \
    you cannot call tools, write that answer, and nothing else, as text.";

pub(crate) const ANSWER_IN_TEXT: &str = "Now write your complete answer to the original message, as text.";

pub(crate) const JUDGE: &str = "Finish now by calling `new_answer` or `vote`: `vote` for the best answer, or `new_answer` \
    with a complete answer to the original message that is better than all of them.";

pub(crate) const VOTE_ONLY: &str =
    "Finish now by calling `vote` for the best answer to the original message.";

pub(crate) const PRESENT: &str =
    "Now write the complete final answer to the original message, as text, without calling a tool.";

pub(crate) const EVALUATE: &str = "Finish now by calling `submit` if the final answer is a good answer to the original \
    message, or `restart_orchestration` if it is not.";

/// `reason` is the predicate of a sentence about the answer.
pub(crate) fn weak_answer(reason: &str, improves: bool) -> String {
    let whole = if improves {
        "An improved answer replaces your earlier one: it must contain everything that should remain, also code, and \
         stand on its own."
    } else {
        "An answer must stand on its own."
    };
    format!("Not stored: this {reason}. {whole}")
}

pub(super) fn with_task(text: &str, task: &str, markers: Markers<'_>) -> String {
    let mut shown = "The original message again:\n".to_owned();
    let task = excerpt(task, MAX_TASK_BYTES, "the first message has the whole text");
    markers.enclose(&mut shown, "ORIGINAL MESSAGE", &task);
    shown.push_str(text);
    shown
}

pub(crate) fn with_user_message(text: &str, message: &str) -> String {
    let mut shown = "The user's message again:\n".to_owned();
    let excerpt = excerpt(message, MAX_TASK_BYTES, "the whole message is above");
    enclose_alone(&mut shown, fnv1a(message), "user", &excerpt);
    shown.push_str(text);
    shown
}
