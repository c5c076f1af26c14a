//! The conversation in a member's model request: the task, the answers that the member may know, and the turns since.

use crate::coordination::{AttemptTurn, MemberAttempt, RejectedAnswer, RunState};
use althing_protocol::{Answer, Message, PlanProgress, PlanStatus, PlanTask, Purpose, Revision};
use std::fmt::Write;

/// The conversation of an agent that answers or judges.
pub(super) fn contribution(state: &RunState, member_index: usize, attempt: &MemberAttempt) -> Vec<Message> {
    // If an update comes before the first reply, the first message shows the newer answers instead.
    let (knows, turns) = match attempt.turns.split_first() {
        Some((AttemptTurn::Update { to, .. }, rest)) => (*to, rest),
        _ => (initially_known(attempt), attempt.turns.as_slice()),
    };
    let mut text = task(state, attempt);
    if matches!(attempt.purpose, Purpose::Judge { .. }) {
        text.push_str("\n\n<CURRENT ANSWERS from the agents>\n");
        write_answers(&mut text, &state.newest(member_index, Revision(0), knows));
        text.push_str("<END OF CURRENT ANSWERS>");
    }
    let mut messages = vec![Message::User(text)];
    messages.extend(turns.iter().filter_map(|turn| message(state, member_index, turn)));
    messages
}

/// The conversation of the presenter.
pub(super) fn presentation(state: &RunState, member_index: usize, attempt: &MemberAttempt) -> Vec<Message> {
    let mut text = task(state, attempt);
    let answers = state.newest(member_index, Revision(0), state.revision());
    text.push_str("\n\n<ANSWERS from the agents>\n");
    write_answers(&mut text, &answers);
    text.push_str("<END OF ANSWERS>");
    write_vote(&mut text, state);
    let own = answers.last().filter(|answer| answer.label.agent as usize == member_index + 1);
    if let Some(own) = own {
        let _ = write!(text, "\n\nYour own answer is {}, the last of these answers.", own.label);
    }
    let mut messages = vec![Message::User(text)];
    messages.extend(attempt.turns.iter().filter_map(|turn| message(state, member_index, turn)));
    messages
}

/// The conversation of the agent that evaluates the final answer.
pub(super) fn evaluation(
    state: &RunState,
    member_index: usize,
    attempt: &MemberAttempt,
    answer: &str,
) -> Vec<Message> {
    let mut text = task(state, attempt);
    let _ = write!(text, "\n\n<FINAL ANSWER>\n{answer}\n<END OF FINAL ANSWER>");
    let mut messages = vec![Message::User(text)];
    messages.extend(attempt.turns.iter().filter_map(|turn| message(state, member_index, turn)));
    messages
}

fn initially_known(attempt: &MemberAttempt) -> Revision {
    match attempt.purpose {
        Purpose::Judge { knows, .. } => knows,
        _ => Revision(0),
    }
}

fn task(state: &RunState, attempt: &MemberAttempt) -> String {
    let spec = &state.spec;
    let mut text = String::new();
    if !spec.history.is_empty() {
        text.push_str("<CONVERSATION HISTORY>\n");
        for exchange in &spec.history {
            let _ = writeln!(text, "User: {}\nAssistant: {}", exchange.user, exchange.assistant);
        }
        text.push_str("<END OF CONVERSATION HISTORY>\n\n");
    }
    if let Some(context) = &spec.context {
        let _ = write!(text, "<CONTEXT>\n{context}\n<END OF CONTEXT>\n\n");
    }
    let _ = write!(text, "<ORIGINAL MESSAGE>\n{}\n<END OF ORIGINAL MESSAGE>", spec.task);
    if let Some(plan) = &spec.plan {
        write_plan(&mut text, &plan.tasks, &attempt.plan);
    }
    if let Some(RejectedAnswer { answer, why, .. }) = &state.previous {
        let _ = write!(
            text,
            "\n\n<PREVIOUS ATTEMPT FEEDBACK>\nAn earlier final answer was not good enough, and everyone starts over.\n\
             What it lacks: {}\nWhat to do: {}\n<EARLIER ANSWER>\n{answer}\n<END OF EARLIER ANSWER>\n\
             <END OF PREVIOUS ATTEMPT FEEDBACK>",
            why.reason, why.instructions
        );
    }
    text
}

/// Writes the plan with the progress that was recorded when the attempt began, so that completed tasks are not
/// repeated.
fn write_plan(text: &mut String, tasks: &[PlanTask], progress: &[PlanProgress]) {
    text.push_str("\n\n<PLAN>\n");
    for task in tasks {
        let known = progress.iter().find(|known| known.task == task.id);
        let status = match known.map(|known| known.status).unwrap_or_default() {
            PlanStatus::Pending => "pending",
            PlanStatus::InProgress => "in progress",
            PlanStatus::Completed => "completed",
            PlanStatus::Failed => "failed",
        };
        let _ = write!(text, "- {} ({status}): {}", task.id, task.description);
        if !task.depends_on.is_empty() {
            let _ = write!(text, " After: {}.", task.depends_on.join(", "));
        }
        if let Some(check) = &task.verification {
            let _ = write!(text, " Check: {check}");
        }
        if let Some(note) = known.and_then(|known| known.note.as_ref()) {
            let _ = write!(text, " [{note}]");
        }
        text.push('\n');
    }
    text.push_str(
        "<END OF PLAN>\nCarry out the plan, each task after those it depends on. Do not repeat completed tasks; \
         before you continue a task in progress, look at what is already done. Record the status of each task with \
         `update_plan_task` when you begin the task and when you end it.",
    );
}

fn write_answers(text: &mut String, answers: &[&Answer]) {
    for answer in answers {
        let _ = writeln!(text, "<{0}>\n{1}\n<end of {0}>", answer.label, answer.content);
    }
}

fn write_vote(text: &mut String, state: &RunState) {
    let anonymous = |agent| state.find_member(agent).map_or(0, |(index, _)| index + 1);
    if state.post_vote.ballots.is_empty() {
        return;
    }
    text.push_str("\n\n<VOTES>\n");
    for ballot in &state.post_vote.ballots {
        let _ = writeln!(text, "for agent{}: {}", anonymous(&ballot.target), ballot.reason);
    }
    text.push_str("<END OF VOTES>");
}

fn message(state: &RunState, member_index: usize, turn: &AttemptTurn) -> Option<Message> {
    Some(match turn {
        AttemptTurn::Snapshot => return None,
        AttemptTurn::Reply(reply) => {
            Message::Assistant { text: reply.text.clone(), tool_calls: reply.tool_calls.clone() }
        }
        AttemptTurn::ToolResult { call, content, is_error } => {
            Message::Tool { call: call.clone(), content: content.clone(), is_error: *is_error }
        }
        AttemptTurn::Reminder { call: Some(call), text } => {
            Message::Tool { call: call.clone(), content: text.clone(), is_error: true }
        }
        AttemptTurn::Reminder { call: None, text } => Message::User(text.clone()),
        AttemptTurn::Update { from, to } => {
            let mut text = "<NEWER ANSWERS from the agents>\n".to_owned();
            write_answers(&mut text, &state.newest(member_index, *from, *to));
            text.push_str(
                "<END OF NEWER ANSWERS>\nThey replace the earlier answers of the same agents. Judge again.",
            );
            Message::User(text)
        }
        AttemptTurn::TimeWarning => {
            Message::User("Your time is nearly up. Finish now with what you have.".into())
        }
    })
}
