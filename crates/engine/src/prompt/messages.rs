//! The conversation in a member's model request: the task, the answers that the member may know, and the turns since.

use super::markers::Markers;
use super::reminders::with_task;
use crate::coordination::{AttemptTurn, MemberAttempt, RejectedAnswer, RunState};
use althing_protocol::{Answer, Message, PlanProgress, PlanStatus, PlanTask, Purpose, Revision};
use std::fmt::Write;

pub(super) fn contribution(
    state: &RunState,
    member_index: usize,
    attempt: &MemberAttempt,
    markers: Markers<'_>,
) -> Vec<Message> {
    // If newer answers arrived before the agent's first reply, the first message shows them, and no update is sent.
    let (knows, turns) = match attempt.turns.split_first() {
        Some((AttemptTurn::Update { to, .. }, rest)) => (*to, rest),
        _ => (initially_known(attempt), attempt.turns.as_slice()),
    };
    let mut text = task(state, attempt, markers);
    if matches!(attempt.purpose, Purpose::Judge { .. }) {
        text.push_str("\n\nThe agents' current answers:\n");
        write_answers(&mut text, &state.newest_for_judge(member_index, Revision(0), knows), markers);
    }
    conversation(&text, state, member_index, turns, markers)
}

pub(super) fn presentation(
    state: &RunState,
    member_index: usize,
    attempt: &MemberAttempt,
    markers: Markers<'_>,
) -> Vec<Message> {
    let mut text = task(state, attempt, markers);
    let answers = state.newest(member_index, Revision(0), state.revision());
    text.push_str("\n\nThe agents' answers:\n");
    write_answers(&mut text, &answers, markers);
    write_vote(&mut text, state, markers);
    let own = answers.last().filter(|answer| answer.label.agent as usize == member_index + 1);
    if let Some(own) = own {
        let _ = write!(text, "\nYour own answer is {}, the last of these answers.", own.label);
    }
    conversation(&text, state, member_index, &attempt.turns, markers)
}

pub(super) fn evaluation(
    state: &RunState,
    member_index: usize,
    attempt: &MemberAttempt,
    answer: &str,
    markers: Markers<'_>,
) -> Vec<Message> {
    let mut text = task(state, attempt, markers);
    text.push_str("\n\n");
    markers.enclose(&mut text, "FINAL ANSWER", answer);
    conversation(&text, state, member_index, &attempt.turns, markers)
}

fn conversation(
    first: &str,
    state: &RunState,
    member_index: usize,
    turns: &[AttemptTurn],
    markers: Markers<'_>,
) -> Vec<Message> {
    let mut messages = vec![Message::User(first.trim_end().to_owned())];
    messages.extend(turns.iter().filter_map(|turn| message(state, member_index, turn, markers)));
    messages
}

fn initially_known(attempt: &MemberAttempt) -> Revision {
    match attempt.purpose {
        Purpose::Judge { knows, .. } => knows,
        _ => Revision(0),
    }
}

fn task(state: &RunState, attempt: &MemberAttempt, markers: Markers<'_>) -> String {
    let spec = &state.spec;
    let mut text = String::new();
    if !spec.history.is_empty() {
        text.push_str("The conversation so far:\n");
        for exchange in &spec.history {
            markers.enclose(&mut text, "user", &exchange.user);
            markers.enclose(&mut text, "assistant", &exchange.assistant);
        }
        text.push('\n');
    }
    if let Some(context) = &spec.context {
        markers.enclose(&mut text, "CONTEXT", context);
        text.push('\n');
    }
    markers.enclose(&mut text, "ORIGINAL MESSAGE", &spec.task);
    if let Some(plan) = &spec.plan {
        write_plan(&mut text, &plan.tasks, &attempt.plan, markers);
    }
    if let Some(RejectedAnswer { answer, why, .. }) = &state.previous {
        text.push_str("\nAn earlier final answer was not good enough, and everyone starts over.\n");
        markers.enclose(&mut text, "EARLIER ANSWER", answer);
        markers.enclose(&mut text, "WHAT IT LACKS", &why.reason);
        markers.enclose(&mut text, "WHAT TO DO", &why.instructions);
    }
    text.truncate(text.trim_end().len());
    text
}

/// Writes the plan with its progress at the start of the attempt.
fn write_plan(text: &mut String, tasks: &[PlanTask], progress: &[PlanProgress], markers: Markers<'_>) {
    let mut listed = String::new();
    for task in tasks {
        let known = progress.iter().find(|known| known.task == task.id);
        let status = match known.map(|known| known.status).unwrap_or_default() {
            PlanStatus::Pending => "pending",
            PlanStatus::InProgress => "in progress",
            PlanStatus::Completed => "completed",
            PlanStatus::Failed => "failed",
        };
        // Further lines of a task are indented, so that no text of a task looks like another task.
        let one = |text: &str| text.replace('\n', "\n  ");
        let _ = write!(listed, "- {} ({status}): {}", one(&task.id), one(&task.description));
        if !task.depends_on.is_empty() {
            let _ = write!(listed, " After: {}.", one(&task.depends_on.join(", ")));
        }
        if let Some(check) = &task.verification {
            let _ = write!(listed, " Check: {}", one(check));
        }
        if let Some(note) = known.and_then(|known| known.note.as_ref()) {
            let _ = write!(listed, " [{}]", one(note));
        }
        listed.push('\n');
    }
    text.push('\n');
    markers.enclose(text, "PLAN", listed.trim_end());
    text.push_str(
        "Carry out the plan, each task after those it depends on. Do not repeat completed tasks; \
         before you continue a task in progress, look at what is already done. Record the status of each task with \
         `update_plan_task` when you begin the task and when you end it.\n",
    );
}

fn write_answers(text: &mut String, answers: &[&Answer], markers: Markers<'_>) {
    for answer in answers {
        markers.enclose(text, &answer.label.to_string(), &answer.content);
    }
}

fn write_vote(text: &mut String, state: &RunState, markers: Markers<'_>) {
    let anonymous = |agent| state.find_member(agent).map_or(0, |(index, _)| index + 1);
    if state.post_vote.ballots.is_empty() {
        return;
    }
    text.push_str("\nThe votes and their reasons:\n");
    for ballot in &state.post_vote.ballots {
        markers.enclose(text, &format!("vote for agent{}", anonymous(&ballot.target)), &ballot.reason);
    }
}

fn message(
    state: &RunState,
    member_index: usize,
    turn: &AttemptTurn,
    markers: Markers<'_>,
) -> Option<Message> {
    Some(match turn {
        AttemptTurn::Snapshot => return None,
        AttemptTurn::Reply(reply) => {
            Message::Assistant { text: reply.text.clone(), tool_calls: reply.tool_calls.clone() }
        }
        AttemptTurn::ToolResult { call, content, is_error } => {
            // A tool result needs no markers: the wire format delimits it.
            Message::Tool { call: call.clone(), content: content.clone(), is_error: *is_error }
        }
        AttemptTurn::Reminder { call, text, restates_task } => {
            let content =
                if *restates_task { with_task(text, &state.spec.task, markers) } else { text.clone() };
            match call.clone() {
                Some(call) => Message::Tool { call, content, is_error: true },
                None => Message::User(content),
            }
        }
        AttemptTurn::Update { from, to } => {
            let mut text = "Newer answers of the agents:\n".to_owned();
            write_answers(&mut text, &state.newest_for_judge(member_index, *from, *to), markers);
            text.push_str("They replace the earlier answers of the same agents. Judge again.");
            Message::User(text)
        }
        AttemptTurn::TimeWarning => {
            Message::User("Your time is nearly up. Finish now with what you have.".into())
        }
    })
}
