//! Interprets a model's reply: as tool calls, an answer, a vote, the final answer, an evaluation of the final answer,
//! or an error that leads to a reminder.
//!
//! Pure: the same reply in the same state always gets the same meaning.

use super::novelty::is_new;
use super::state::{AttemptTurn, ContextState, MAX_TRIES, MemberAttempt, MemberState, RunState};
use super::subagents::{RunToolAction, is_run_tool};
use crate::tools::{self, NEW_ANSWER, PLAN_TASK, RESTART, SPAWN, SUBMIT, SubTask, VOTE};
use althing_protocol::{
    Answer, AnswerLabel, AttemptOutcome, Ballot, Fact, Item, Purpose, Reply, Restart, Revision, ToolCall,
};

/// The interpretation of a reply.
enum ReplyMeaning {
    /// The reply submits this answer.
    Answer(String),
    /// The reply votes, and the vote counts.
    Vote(Ballot),
    /// The reply votes without knowing a newer answer of an agent that it does not vote for, so the vote does not
    /// count.
    Stale(Ballot),
    /// The reply names no agent to vote for, even after a reminder.
    Abstain,
    /// The reply is the final answer.
    Present(String),
    /// The reply accepts the final answer (None), or requests a restart.
    Evaluate(Option<Restart>),
    /// The reply is invalid. Contains one error for each of its calls; if it has no calls, a single error without a
    /// call id.
    Refuse(Vec<(Option<String>, String)>),
}

/// What an attempt needs next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NextStep {
    /// A model call.
    Call,
    /// The execution of these tool calls from the attempt's last reply. The list is empty if the attempt only waits
    /// for subagents.
    Tools(Vec<ToolCall>),
    /// A snapshot of the workspace for the answer in the attempt's last reply.
    Snapshot(AnswerLabel),
    /// The context paths must become read-only again, so that the files that the presenter has changed can be listed.
    CloseContext,
    /// The start of subagents for a `spawn_subagents` call.
    Spawn {
        /// The id of the call.
        call: String,
        /// The index of the turn that contains the call.
        step: usize,
        /// The tasks to start, with their numbers within the call.
        tasks: Vec<(u32, SubTask)>,
        /// Whether the agent continues while the subagents work.
        background: bool,
    },
    /// Nothing has to run: these facts follow from the attempt's last reply and are recorded.
    Facts(Vec<Fact>),
}

/// Determines what an attempt needs next, or which facts follow from its last reply.
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
        // Every tool call needs a result before the next model call. Calls whose result a crash lost get one here.
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

/// The reminder for a presenter that has changed nothing in the writable context paths.
fn remind_to_write(state: &RunState, attempt: &MemberAttempt) -> Fact {
    let text = format!(
        "Nothing has been changed in {}. If the task asks for changes there, carry them out now; nobody else will. Then, \
         or if no change is needed, write the final answer again, as plain text.",
        state.writable_paths().join(", ")
    );
    Fact::ItemAdded { attempt: attempt.number, item: Item::Reminder { call: None, text } }
}

/// Determines what the tool calls of the last reply need next.
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

/// The calls to the agent's own tools that are in the last reply of an interrupted attempt and have no result. The
/// tools may have been executed before the interruption.
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

/// Whether a reply only calls tools of the agent or of the run, so that the agent's turn continues. A reply that also
/// answers, votes or evaluates ends the turn.
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

/// The label of a member's next answer.
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
        ReplyMeaning::Answer(content) => {
            let label = label(index, member);
            let revision = Revision(state.answers.len() as u32 + 1);
            let answer = Answer { agent: member.agent.id.clone(), label, revision, content };
            vec![item(Item::Answer(answer))]
        }
        ReplyMeaning::Vote(ballot) => vec![item(Item::Vote(ballot))],
        ReplyMeaning::Abstain => vec![ended(AttemptOutcome::Abstained)],
        ReplyMeaning::Present(text) => vec![ended(AttemptOutcome::Presented { text })],
        ReplyMeaning::Evaluate(restart) => vec![ended(AttemptOutcome::Evaluated { restart })],
        // The voter is asked again once nobody else judges (see `turns`), so that it judges all newer answers in one
        // call.
        ReplyMeaning::Stale(ballot) => vec![item(Item::StaleVote(ballot)), ended(AttemptOutcome::Voted)],
        ReplyMeaning::Refuse(errors) if attempt.faults + 1 >= MAX_TRIES => {
            let last = errors.into_iter().next().map_or_else(String::new, |(_, text)| text);
            let reason = format!(
                "did not finish its turn properly in {MAX_TRIES} tries; the problem with the last try: {last}"
            );
            vec![ended(AttemptOutcome::GaveUp { reason })]
        }
        ReplyMeaning::Refuse(errors) => {
            errors.into_iter().map(|(call, text)| item(Item::Reminder { call, text })).collect()
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
        // The last three purposes belong to other deciders and do not occur in a run.
        Purpose::Present { .. } | Purpose::Carry | Purpose::Converse | Purpose::Compact => present(reply),
        Purpose::Evaluate => evaluate(reply),
        Purpose::Answer => {
            contribute(state, member, attempt, reply, OfferedTools { answer: true, vote: false })
        }
        Purpose::Judge { may_answer, .. } => {
            // `max_new_answers_global` may have been reached after the tools were offered.
            let answer = may_answer && !state.global_cap_reached();
            contribute(state, member, attempt, reply, OfferedTools { answer, vote: true })
        }
    }
}

/// The coordination tools that the attempt was offered.
#[derive(Clone, Copy)]
struct OfferedTools {
    answer: bool,
    vote: bool,
}

impl OfferedTools {
    /// The names of the tools, for reminders.
    fn names(self) -> &'static str {
        match self {
            Self { answer: true, vote: true } => "`new_answer` or `vote`",
            Self { answer: true, vote: false } => "`new_answer`",
            Self { answer: false, .. } => "`vote`",
        }
    }
}

fn present(reply: &Reply) -> ReplyMeaning {
    if !reply.text.trim().is_empty() {
        return ReplyMeaning::Present(reply.text.clone());
    }
    // Some models call `new_answer` here, as they did before the vote. The content of that call is accepted.
    let content = reply
        .tool_calls
        .iter()
        .rev()
        .find(|call| call.name == NEW_ANSWER)
        .and_then(|call| tools::answer(call).ok());
    match content {
        Some(content) => ReplyMeaning::Present(content),
        None => refuse_all(reply, "Write the final answer as plain text, without calling a tool."),
    }
}

/// Interprets an evaluation. A reply without a tool call accepts the answer, so that a run does not start over by
/// mistake.
fn evaluate(reply: &Reply) -> ReplyMeaning {
    let last = |name: &str| reply.tool_calls.iter().rev().find(|call| call.name == name);
    match (last(SUBMIT), last(RESTART)) {
        (Some(_), Some(_)) => {
            refuse_all(reply, "You called both `submit` and `restart_orchestration`. Call one of them, once.")
        }
        (Some(_), None) => ReplyMeaning::Evaluate(None),
        (None, Some(call)) => match tools::restart(call) {
            Ok(restart) => ReplyMeaning::Evaluate(Some(restart)),
            Err(problem) => refuse_all(reply, &problem),
        },
        (None, None) if reply.tool_calls.is_empty() => ReplyMeaning::Evaluate(None),
        (None, None) => {
            refuse_all(reply, "There is no such tool. Finish by calling `submit` or `restart_orchestration`.")
        }
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
            refuse_all(reply, "You both answered and voted. Do one of the two: call one tool, once.")
        }
        (Some(_), None) if !offered.answer => {
            refuse_all(reply, "No further answers are taken from you. Vote for the best answer with `vote`.")
        }
        (Some(call), None) => match tools::answer(call) {
            Ok(content) => answer(state, member, attempt, reply, content, offered),
            Err(problem) => refuse_all(reply, &problem),
        },
        (None, Some(call)) => vote(state, member, attempt, reply, call, offered),
        (None, None)
            if reply.tool_calls.is_empty() && accepts_plain_text(state) && !reply.text.trim().is_empty() =>
        {
            ReplyMeaning::Answer(reply.text.clone())
        }
        // Some models write text instead of calling tools. If the attempt already had a reminder of any kind, the text
        // counts as the answer or, if the agent could vote, as an abstention.
        (None, None) if writes_only_text(attempt, reply) => match offered {
            OfferedTools { vote: true, .. } => ReplyMeaning::Abstain,
            OfferedTools { vote: false, .. } => {
                answer(state, member, attempt, reply, reply.text.clone(), offered)
            }
        },
        (None, None) if reply.tool_calls.is_empty() => refuse_all(
            reply,
            &format!("Your turn ends only with a tool call. Finish now by calling {}.", offered.names()),
        ),
        (None, None) => refuse_all(
            reply,
            &format!("There is no such tool. Finish your turn by calling {}.", offered.names()),
        ),
    }
}

/// Whether a plain text reply counts as an answer: only in a quick run of a single agent, where nobody votes.
fn accepts_plain_text(state: &RunState) -> bool {
    state.spec.rules.skip_voting && state.members.len() == 1
}

/// Whether a reply is plain text although its agent has already got a reminder in this attempt.
fn writes_only_text(attempt: &MemberAttempt, reply: &Reply) -> bool {
    reply.tool_calls.is_empty() && !reply.text.trim().is_empty() && attempt.faults > 0
}

/// Checks an answer against those that its author knows.
fn answer(
    state: &RunState,
    member: &MemberState,
    attempt: &MemberAttempt,
    reply: &Reply,
    content: String,
    offered: OfferedTools,
) -> ReplyMeaning {
    // The answer is compared only with answers that the agent knows. Two agents that reach the same answer
    // independently have not copied each other, so both answers are stored.
    let known = |answer: &&Answer| answer.revision <= attempt.knows || answer.agent == member.agent.id;
    let current = state.answers.iter().skip(state.discarded.0 as usize);
    let hint = if offered.vote { ", or vote for it" } else { "" };
    let known: Vec<&Answer> = current.filter(known).collect();
    if let Some(same) = known.iter().find(|answer| answer.content.trim() == content.trim()) {
        return refuse_all(
            reply,
            &format!("Not stored: this repeats {} word for word. Improve on that answer{hint}.", same.label),
        );
    }
    let novelty = state.spec.rules.answer_novelty;
    if let Some(close) = known.iter().find(|answer| !is_new(novelty, &content, &answer.content)) {
        return refuse_all(
            reply,
            &format!("Not stored: this is too close to {}. Say something new{hint}.", close.label),
        );
    }
    ReplyMeaning::Answer(content)
}

fn vote(
    state: &RunState,
    member: &MemberState,
    attempt: &MemberAttempt,
    reply: &Reply,
    call: &ToolCall,
    offered: OfferedTools,
) -> ReplyMeaning {
    if !offered.vote {
        return refuse_all(reply, "There is nothing to vote on yet. Give your own answer with `new_answer`.");
    }
    let (target, reason) = match tools::vote(call) {
        Ok(vote) => vote,
        Err(problem) => return refuse_all(reply, &problem),
    };
    let candidates = state.candidates(attempt.knows);
    let Some(target) = candidates.iter().find(|&&index| target == format!("agent{}", index + 1)) else {
        let names: Vec<String> = candidates.iter().map(|index| format!("agent{}", index + 1)).collect();
        return refuse_all(
            reply,
            &format!("`{target}` is not an agent you can vote for. Choose one of: {}.", names.join(", ")),
        );
    };
    let Some(target) = state.members.get(*target) else {
        return refuse_all(reply, "There is nobody to vote for.");
    };
    let ballot = Ballot { voter: member.agent.id.clone(), target: target.agent.id.clone(), reason };
    if state.is_overtaken(&ballot, attempt.knows) {
        ReplyMeaning::Stale(ballot)
    } else {
        ReplyMeaning::Vote(ballot)
    }
}

/// Refuses a reply with the same error for each of its calls, or one error if it has no calls.
fn refuse_all(reply: &Reply, text: &str) -> ReplyMeaning {
    if reply.tool_calls.is_empty() {
        return ReplyMeaning::Refuse(vec![(None, text.to_owned())]);
    }
    ReplyMeaning::Refuse(
        reply.tool_calls.iter().map(|call| (Some(call.id.clone()), text.to_owned())).collect(),
    )
}
