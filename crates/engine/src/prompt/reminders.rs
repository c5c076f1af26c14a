//! Reminders: what an agent is told if its reply did not end its turn as required.
//!
//! A small model that reads only "finish your turn" answers the reminder and forgets the task. So every reminder shows
//! the task again and ends with the one thing to do next.

use super::markers::{Markers, enclose_alone};
use crate::summary::excerpt;
use althing_text::fnv1a;

/// The maximum size of the task in a reminder, in bytes. The first message has the whole task.
const MAX_TASK_BYTES: usize = 1500;

/// What to do next, for an agent that answers.
pub(crate) const ANSWER: &str = "Finish now by calling `new_answer` with your complete answer to the original message. If \
    you cannot call tools, write that answer, and nothing else, as text.";

/// What to do next, for an agent that answers and has no tool for it.
pub(crate) const ANSWER_IN_TEXT: &str = "Now write your complete answer to the original message, as text.";

/// What to do next, for an agent that judges and may improve an answer.
pub(crate) const JUDGE: &str = "Finish now by calling `new_answer` or `vote`: `vote` for the best answer, or `new_answer` \
    with a complete answer to the original message that is better than all of them.";

/// What to do next, for an agent that can only vote.
pub(crate) const VOTE_ONLY: &str =
    "Finish now by calling `vote` for the best answer to the original message.";

/// What to do next, for an agent that presents.
pub(crate) const PRESENT: &str =
    "Now write the complete final answer to the original message, as text, without calling a tool.";

/// What to do next, for an agent that evaluates the final answer.
pub(crate) const EVALUATE: &str = "Finish now by calling `submit` if the final answer is a good answer to the original \
    message, or `restart_orchestration` if it is not.";

/// What is wrong with an answer that is not stored. `reason` is the predicate of a sentence about the answer.
pub(crate) fn weak_answer(reason: &str, improves: bool) -> String {
    let whole = if improves {
        "An improved answer replaces your earlier one: it must contain everything that should remain, also code, and \
         stand on its own."
    } else {
        "An answer must stand on its own."
    };
    format!("Not stored: this {reason}. {whole}")
}

/// A reminder as the agent reads it: the task again, then what is wrong and what to do.
pub(super) fn with_task(text: &str, task: &str, markers: Markers<'_>) -> String {
    let mut shown = "The original message again:\n".to_owned();
    let task = excerpt(task, MAX_TASK_BYTES, "the first message has the whole text");
    markers.enclose(&mut shown, "ORIGINAL MESSAGE", &task);
    shown.push_str(text);
    shown
}

/// A reminder in a conversation, as the chat agent reads it: the user's message again, then what is wrong and what to
/// do.
pub(crate) fn with_user_message(text: &str, message: &str) -> String {
    let mut shown = "The user's message again:\n".to_owned();
    let excerpt = excerpt(message, MAX_TASK_BYTES, "the whole message is above");
    enclose_alone(&mut shown, fnv1a(message), "user", &excerpt);
    shown.push_str(text);
    shown
}
