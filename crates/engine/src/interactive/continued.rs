//! The history of a session for a run or a conversation that continues the session.

use super::InteractiveSession;
use super::history::{MAX_HISTORY, bounded};
use althing_protocol::{Event, Exchange, Fact, Op, Seq, SessionOpened, TaskSpec, Verdict};
use std::sync::Arc;

/// Why a session cannot be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NothingToContinue {
    /// The run is not over: it was interrupted and can be resumed, or it is still running.
    Interrupted,
    /// The run is over, and has no answer.
    NoAnswer,
    /// Nothing was said in the conversation.
    Empty,
    /// The session is a workflow, or its log does not say what it is.
    NotAConversation,
}

/// The history of a session: of a conversation, what was said; of a run, what it continued, its task and its final
/// answer.
pub fn session_history(events: &[Arc<Event>]) -> Result<Vec<Exchange>, NothingToContinue> {
    let Some(Fact::SessionOpened(opened)) = events.first().map(|event| &event.fact) else {
        return Err(NothingToContinue::NotAConversation);
    };
    match &opened.op {
        Some(Op::StartChat { .. }) => conversation(opened, events),
        Some(Op::StartRun { spec }) => {
            let answer = events.iter().rev().find_map(|event| match (&event.fact, &event.task) {
                (Fact::Decided(Verdict::Finished { result, .. }), Some(task)) if !task.is_subtask() => {
                    result.final_answer.clone()
                }
                _ => None,
            });
            let is_over = events.iter().any(|event| matches!(event.fact, Fact::SessionClosed {}));
            let assistant = match answer {
                Some(answer) if is_over => answer,
                None if is_over => return Err(NothingToContinue::NoAnswer),
                _ => return Err(NothingToContinue::Interrupted),
            };
            let mut history = spec.history.clone();
            history.push(Exchange { user: spec.task.clone(), assistant });
            let whole = format!("the whole text is in the log of session {}", opened.session);
            Ok(bounded(history, MAX_HISTORY, &whole))
        }
        _ => Err(NothingToContinue::NotAConversation),
    }
}

fn conversation(opened: &SessionOpened, events: &[Arc<Event>]) -> Result<Vec<Exchange>, NothingToContinue> {
    let history = fold(opened, events, |_| false).map(|conversation| conversation.history());
    history.filter(|history| !history.is_empty()).ok_or(NothingToContinue::Empty)
}

/// What was said in a conversation before the turn of one of its messages, for a branch that starts there. `None` if
/// the session is not a conversation, or has no turn of this message.
pub fn history_before(events: &[Arc<Event>], message: Seq) -> Option<Vec<Exchange>> {
    let Some(Fact::SessionOpened(opened)) = events.first().map(|event| &event.fact) else { return None };
    let has_begun = |conversation: &InteractiveSession| {
        let turn = conversation.turn.as_ref();
        turn.and_then(|turn| turn.message.as_ref()).is_some_and(|begun| begun.seq == message)
    };
    let conversation = fold(opened, events, has_begun)?;
    has_begun(&conversation).then(|| conversation.history())
}

/// Folds the events of a conversation up to the first state that satisfies `until`. `None` if the session is not a
/// conversation.
fn fold(
    opened: &SessionOpened,
    events: &[Arc<Event>],
    until: impl Fn(&InteractiveSession) -> bool,
) -> Option<InteractiveSession> {
    let mut conversation = None;
    for event in events {
        match (&event.fact, &mut conversation) {
            (Fact::TaskCreated { id, spec: TaskSpec::Chat(spec), .. }, None) => {
                let session = opened.session.clone();
                conversation = Some(InteractiveSession::new(session, id.clone(), (**spec).clone()));
            }
            (_, Some(conversation)) => conversation.apply(event),
            (_, None) => {}
        }
        if conversation.as_ref().is_some_and(&until) {
            break;
        }
    }
    conversation
}

/// The exchanges that a conversation inherits. They are part of every request, so they may take only a quarter of the
/// compaction threshold.
pub fn inherited_history(exchanges: Vec<Exchange>, compaction_threshold: Option<u64>) -> Vec<Exchange> {
    let room = compaction_threshold.unwrap_or(MAX_HISTORY) / 4;
    bounded(exchanges, room, "the whole text is in the log of the session that this one continues")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_history_keeps_the_newest_exchanges_and_sums_up_the_others() {
        let exchange = |n: usize| Exchange {
            user: format!("Question {n}. {}", "more ".repeat(200)),
            assistant: format!("Answer {n}. {}", "more ".repeat(200)),
        };
        let all: Vec<_> = (1..=10).map(exchange).collect();
        assert_eq!(bounded(all.clone(), MAX_HISTORY, "elsewhere"), all, "everything fits");
        let short = inherited_history(all.clone(), Some(8_000));
        assert!(short.len() > 2 && short.len() < all.len(), "{}", short.len());
        assert_eq!(short.last(), all.last());
        assert!(
            short[0].user.contains("older messages") && short[0].assistant.contains("Question 1."),
            "{short:?}"
        );
    }
}
