//! Interprets a model's reply as tool calls, an answer, a vote, a presentation, an evaluation, or an error that leads
//! to a reminder. Pure.

mod contributions;

use self::contributions::{answer, vote};
use super::answer_checks::Weakness;
use super::state::{AttemptTurn, ContextState, MAX_TRIES, MemberAttempt, MemberState, RunState};
use super::subagents::{RunToolAction, is_run_tool};
use crate::prompt::reminders;
use crate::tools::{self, NEW_ANSWER, PLAN_TASK, RESTART, SPAWN, SUBMIT, SubTask, Submission, VOTE};
use althing_protocol::{
    Answer, AnswerLabel, AttemptOutcome, Ballot, Fact, Item, Purpose, Reply, Restart, Revision, ToolCall,
};

enum ReplyMeaning {
    Answer(Submission),
    Vote(Ballot),
    /// The voter did not know a newer answer of an agent that it does not vote for, so the vote does not count.
    Stale(Ballot),
    /// A judge replied with text only, even after a reminder.
    Abstain,
    Present(String),
    PresentNothing,
    /// An evaluation; None accepts the final answer.
    Evaluate(Option<Restart>),
    /// The reply is invalid: one error per tool call or, if it has no calls, one error without a call id.
    Refuse(Vec<(Option<String>, String)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NextStep {
    Call,
    /// Tool calls of the last reply that must run. Empty while the attempt only waits for subagents.
    Tools(Vec<ToolCall>),
    Snapshot(AnswerLabel),
    /// The context paths must become read-only again, so that the presenter's changes can be listed.
    CloseContext,
    Spawn {
        call: String,
        step: usize,
        /// The tasks, with their numbers within the call.
        tasks: Vec<(u32, SubTask)>,
        background: bool,
    },
    /// Nothing has to run; these facts are recorded.
    Facts(Vec<Fact>),
}

pub(crate) fn next_step(
    state: &RunState,
    index: usize,
    member: &MemberState,
    attempt: &MemberAttempt,
) -> NextStep {
    let Some((reply, since)) = attempt.last_reply() else { return NextStep::Call };
    let number = attempt.number;
    if let Some(outcome) = attempt.pending_outcome.clone() {
        return NextStep::Facts(vec![Fact::AttemptEnded {
            attempt: number,
            outcome,
            usage: attempt.usage,
            call: None,
        }]);
    }
    let uses_tools = uses_tools(state, member, attempt, reply);
    let refuses_tools = uses_tools && state.has_too_many_calls(member);
    if uses_tools && !refuses_tools {
        let step = attempt.turns.len() - since.len() - 1;
        return route_tool_calls(state, index, member, attempt, step);
    }
    if attempt.is_reply_processed() {
        // Every tool call needs a result before the next model call.
        let unanswered = attempt.open_calls().into_iter().map(|call| {
            let content = "Ignored.".to_owned();
            Fact::ItemAdded {
                attempt: number,
                item: Item::ToolResult { call: call.id.clone(), content, is_error: true },
            }
        });
        let unanswered: Vec<Fact> = unanswered.collect();
        return if unanswered.is_empty() { NextStep::Call } else { NextStep::Facts(unanswered) };
    }
    let meaning = if refuses_tools {
        refuse_all(reply, &state.too_many_calls())
    } else {
        interpret_reply(state, member, attempt, reply)
    };
    let is_presenting = matches!(attempt.purpose, Purpose::Present { .. });
    let has_snapshot = since.contains(&AttemptTurn::Snapshot) || !member.agent.has_tools;
    match meaning {
        ReplyMeaning::Answer(_) if !has_snapshot => NextStep::Snapshot(label(index, member)),
        ReplyMeaning::Present(_) if is_presenting && member.context == ContextState::Open => {
            NextStep::CloseContext
        }
        ReplyMeaning::Present(_)
            if attempt.is_presentation_without_writes()
                && !attempt.reminded_to_write
                && !state.writable_paths().is_empty() =>
        {
            NextStep::Facts(vec![remind_to_write(state, attempt)])
        }
        meaning => NextStep::Facts(facts(state, index, member, attempt, meaning)),
    }
}

fn remind_to_write(state: &RunState, attempt: &MemberAttempt) -> Fact {
    let text = format!(
        "Nothing has been changed in {}. If the task asks for changes there, carry them out now; nobody else will. Then, \
         or if no change is needed, write the final answer again, as plain text.",
        state.writable_paths().join(", ")
    );
    let item = Item::Reminder { call: None, text, restates_task: true };
    Fact::ItemAdded { attempt: attempt.number, item }
}

fn route_tool_calls(
    state: &RunState,
    index: usize,
    member: &MemberState,
    attempt: &MemberAttempt,
    step: usize,
) -> NextStep {
    let open = attempt.open_calls();
    if open.is_empty() {
        return NextStep::Call;
    }
    let result = |call: &ToolCall, content: String, is_error| Fact::ItemAdded {
        attempt: attempt.number,
        item: Item::ToolResult { call: call.id.clone(), content, is_error },
    };
    let (mut facts, mut to_run) = (Vec::new(), Vec::new());
    for call in open {
        if call.name == PLAN_TASK && is_run_tool(state, attempt, call) {
            facts.extend(state.update_plan(member, attempt, call));
            continue;
        }
        let action = match state.may_spawn(attempt.purpose).filter(|_| is_run_tool(state, attempt, call)) {
            Some(settings) if call.name == SPAWN => state.spawn(&settings, (index, attempt), step, call),
            Some(_) => state.wait((index, attempt), step),
            None if member.agent.has_tools => {
                to_run.push(call.clone());
                continue;
            }
            None => RunToolAction::Result(format!("There is no tool `{}`.", call.name), true),
        };
        match action {
            RunToolAction::Result(content, is_error) => facts.push(result(call, content, is_error)),
            RunToolAction::Start(tasks, background) => {
                return NextStep::Spawn { call: call.id.clone(), step, tasks, background };
            }
            RunToolAction::Wait => {}
        }
    }
    if facts.is_empty() { NextStep::Tools(to_run) } else { NextStep::Facts(facts) }
}

/// Open calls of tools in the agent's environment (not the run's own tools). They may have taken effect before the
/// interruption.
pub(crate) fn interrupted_calls<'a>(
    state: &RunState,
    member: &MemberState,
    attempt: &'a MemberAttempt,
) -> Vec<&'a ToolCall> {
    let Some((reply, _)) = attempt.last_reply() else { return Vec::new() };
    if attempt.pending_outcome.is_some()
        || !member.agent.has_tools
        || state.has_too_many_calls(member)
        || !uses_tools(state, member, attempt, reply)
    {
        return Vec::new();
    }
    attempt.open_calls().into_iter().filter(|call| !is_run_tool(state, attempt, call)).collect()
}

/// Whether the reply calls tools and ends no turn: a reply that also answers, votes or evaluates is not a tool reply.
fn uses_tools(state: &RunState, member: &MemberState, attempt: &MemberAttempt, reply: &Reply) -> bool {
    let evaluating = attempt.purpose == Purpose::Evaluate;
    let coordinates = |call: &ToolCall| match call.name.as_str() {
        NEW_ANSWER | VOTE => true,
        SUBMIT | RESTART => evaluating,
        _ => false,
    };
    let has_tools =
        member.agent.has_tools || reply.tool_calls.iter().any(|call| is_run_tool(state, attempt, call));
    has_tools && !reply.tool_calls.is_empty() && !reply.tool_calls.iter().any(coordinates)
}

fn label(index: usize, member: &MemberState) -> AnswerLabel {
    AnswerLabel { agent: index as u32 + 1, nth: member.given() + 1 }
}

fn facts(
    state: &RunState,
    index: usize,
    member: &MemberState,
    attempt: &MemberAttempt,
    meaning: ReplyMeaning,
) -> Vec<Fact> {
    let number = attempt.number;
    let item = |item| Fact::ItemAdded { attempt: number, item };
    let ended = |outcome| Fact::AttemptEnded { attempt: number, outcome, usage: attempt.usage, call: None };
    match meaning {
        ReplyMeaning::Answer(Submission { content, conclusion }) => {
            let label = label(index, member);
            let revision = Revision(state.answers.len() as u32 + 1);
            let conclusion = conclusion.filter(|_| state.spec.compares_conclusions());
            let answer = Answer { agent: member.agent.id.clone(), label, revision, content, conclusion };
            vec![item(Item::Answer(answer))]
        }
        ReplyMeaning::Vote(ballot) => vec![item(Item::Vote(ballot))],
        ReplyMeaning::Abstain => vec![ended(AttemptOutcome::Abstained)],
        ReplyMeaning::Present(text) => {
            let weakness = state.weakness_of_presentation(member, &text);
            let rejected = weakness.map(|weakness| weakness.reason().to_owned());
            vec![ended(AttemptOutcome::Presented { text, rejected })]
        }
        ReplyMeaning::PresentNothing => {
            let rejected = Some(Weakness::Empty.reason().to_owned());
            vec![ended(AttemptOutcome::Presented { text: String::new(), rejected })]
        }
        ReplyMeaning::Evaluate(restart) => vec![ended(AttemptOutcome::Evaluated { restart })],
        // The voter is asked again once nobody else judges, or after `first_answer_wait`, so that it judges all newer
        // answers in one call.
        ReplyMeaning::Stale(ballot) => vec![item(Item::StaleVote(ballot)), ended(AttemptOutcome::Voted)],
        ReplyMeaning::Refuse(errors) if attempt.faults + 1 >= MAX_TRIES => {
            let last = errors.into_iter().next().map_or_else(String::new, |(_, text)| text);
            let reason = format!(
                "did not finish its turn properly in {MAX_TRIES} tries; the problem with the last try: {last}"
            );
            vec![ended(AttemptOutcome::GaveUp { reason })]
        }
        ReplyMeaning::Refuse(errors) => {
            let last = errors.len().saturating_sub(1);
            let reminder = |(n, (call, mut text)): (usize, (_, String))| {
                let restates_task = n == last;
                if restates_task {
                    text = format!("{text} {}", next_action(state, attempt));
                }
                item(Item::Reminder { call, text, restates_task })
            };
            errors.into_iter().enumerate().map(reminder).collect()
        }
    }
}

fn interpret_reply(
    state: &RunState,
    member: &MemberState,
    attempt: &MemberAttempt,
    reply: &Reply,
) -> ReplyMeaning {
    match attempt.purpose {
        // `Carry`, `Converse` and `Compact` do not occur in runs.
        Purpose::Present { .. } | Purpose::Carry | Purpose::Converse | Purpose::Compact => {
            present(attempt, reply)
        }
        Purpose::Evaluate => evaluate(reply),
        Purpose::Answer | Purpose::Judge { .. } => {
            contribute(state, member, attempt, reply, OfferedTools::of(state, attempt))
        }
    }
}

fn next_action(state: &RunState, attempt: &MemberAttempt) -> &'static str {
    match attempt.purpose {
        Purpose::Present { .. } | Purpose::Carry | Purpose::Converse | Purpose::Compact => reminders::PRESENT,
        Purpose::Evaluate => reminders::EVALUATE,
        Purpose::Answer if accepts_plain_text(state) => reminders::ANSWER_IN_TEXT,
        Purpose::Answer | Purpose::Judge { .. } => match OfferedTools::of(state, attempt) {
            OfferedTools { answer: true, vote: true } => reminders::JUDGE,
            OfferedTools { answer: true, vote: false } => reminders::ANSWER,
            OfferedTools { answer: false, .. } => reminders::VOTE_ONLY,
        },
    }
}

#[derive(Clone, Copy)]
struct OfferedTools {
    answer: bool,
    vote: bool,
}

impl OfferedTools {
    fn of(state: &RunState, attempt: &MemberAttempt) -> Self {
        match attempt.purpose {
            // `max_new_answers_global` may have been reached after the tools were offered.
            Purpose::Judge { may_answer, .. } => {
                Self { answer: may_answer && !state.global_cap_reached(), vote: true }
            }
            _ => Self { answer: true, vote: false },
        }
    }
}

fn present(attempt: &MemberAttempt, reply: &Reply) -> ReplyMeaning {
    if !reply.text.trim().is_empty() {
        return ReplyMeaning::Present(reply.text.clone());
    }
    // Some models call `new_answer` instead of writing text, as they did before the vote.
    let content = reply
        .tool_calls
        .iter()
        .rev()
        .find(|call| call.name == NEW_ANSWER)
        .and_then(|call| tools::answer(call).ok());
    match content {
        Some(submission) => ReplyMeaning::Present(submission.content),
        None if attempt.faults > 0 => ReplyMeaning::PresentNothing,
        None if reply.tool_calls.is_empty() => refuse_all(reply, "Your reply was empty."),
        None => refuse_all(reply, "You called a tool that is not offered, and wrote nothing."),
    }
}

/// A reply without a tool call accepts the answer, so that a run does not start over by mistake.
fn evaluate(reply: &Reply) -> ReplyMeaning {
    let last = |name: &str| reply.tool_calls.iter().rev().find(|call| call.name == name);
    match (last(SUBMIT), last(RESTART)) {
        (Some(_), Some(_)) => {
            refuse_all(reply, "You called both `submit` and `restart_orchestration`, so neither counts.")
        }
        (Some(_), None) => ReplyMeaning::Evaluate(None),
        (None, Some(call)) => match tools::restart(call) {
            Ok(restart) => ReplyMeaning::Evaluate(Some(restart)),
            Err(problem) => refuse_all(reply, &problem),
        },
        (None, None) if reply.tool_calls.is_empty() => ReplyMeaning::Evaluate(None),
        (None, None) => refuse_all(reply, "There is no such tool."),
    }
}

fn contribute(
    state: &RunState,
    member: &MemberState,
    attempt: &MemberAttempt,
    reply: &Reply,
    offered: OfferedTools,
) -> ReplyMeaning {
    let last = |name: &str| reply.tool_calls.iter().rev().find(|call| call.name == name);
    match (last(NEW_ANSWER), last(VOTE)) {
        (Some(_), Some(_)) => {
            refuse_all(reply, "You both answered and voted, so neither counts. Do one of the two.")
        }
        (Some(_), None) if !offered.answer => refuse_all(reply, "No further answers are taken from you."),
        (Some(call), None) => match tools::answer(call) {
            Ok(submission) => answer(state, member, attempt, reply, submission, offered),
            Err(problem) => refuse_all(reply, &problem),
        },
        (None, Some(call)) => vote(state, member, attempt, reply, call, offered),
        (None, None)
            if reply.tool_calls.is_empty() && accepts_plain_text(state) && !reply.text.trim().is_empty() =>
        {
            ReplyMeaning::Answer(Submission::of_text(&reply.text))
        }
        // Some models write text instead of calling tools. After a reminder of any kind, the text counts as an answer
        // or, if the agent could vote, as an abstention.
        (None, None) if writes_only_text(attempt, reply) => {
            if offered.vote {
                return ReplyMeaning::Abstain;
            }
            let text = state.plain_text_answer(attempt, &reply.text);
            answer(state, member, attempt, reply, Submission::of_text(&text), offered)
        }
        (None, None) if reply.tool_calls.is_empty() && reply.text.trim().is_empty() => {
            refuse_all(reply, "Your reply was empty.")
        }
        (None, None) if reply.tool_calls.is_empty() => {
            refuse_all(reply, "Your turn ends only with a tool call.")
        }
        (None, None) => refuse_all(reply, "There is no such tool."),
    }
}

/// Whether an agent may answer in plain text: only in a quick run of a single agent, because nobody votes there.
fn accepts_plain_text(state: &RunState) -> bool {
    state.spec.rules.skip_voting && state.members.len() == 1
}

fn writes_only_text(attempt: &MemberAttempt, reply: &Reply) -> bool {
    reply.tool_calls.is_empty() && !reply.text.trim().is_empty() && attempt.faults > 0
}

fn refuse_all(reply: &Reply, text: &str) -> ReplyMeaning {
    if reply.tool_calls.is_empty() {
        return ReplyMeaning::Refuse(vec![(None, text.to_owned())]);
    }
    ReplyMeaning::Refuse(
        reply.tool_calls.iter().map(|call| (Some(call.id.clone()), text.to_owned())).collect(),
    )
}
