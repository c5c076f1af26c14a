//! The attributes and events of spans. Text that people, models and tools wrote becomes part of a span only through
//! this module, and only if the user asked for it. Names and ids of agents, models, tools, workflows and tasks are
//! always exported.

use super::{ContentCapture, names};
use crate::span::{Attributes, Span, Value};
use althing_protocol::{
    AgentId, AgentMode, AttemptOutcome, DecidedBy, Decision, Fact, InteractionKind, Item, Member,
    NoticeLevel, ProgramSpec, Reply, RunEnd, RunResult, RunSpec, TaskId, Usage, Verdict,
};
use serde_json::json;
use std::collections::BTreeMap;

/// The maximum length of an exported text in bytes, without the `…` that marks a truncated text.
const MAX_TEXT_BYTES: usize = 16 * 1024;

type EventData = (&'static str, Attributes);

/// The text, truncated if it is long. `None` if content is not captured.
pub(super) fn captured_text(text: &str, content: ContentCapture) -> Option<String> {
    match content {
        ContentCapture::Omit => None,
        ContentCapture::Include if text.len() <= MAX_TEXT_BYTES => Some(text.to_owned()),
        ContentCapture::Include => {
            let end = (0..=MAX_TEXT_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
            Some(format!("{}…", text.get(..end).unwrap_or_default()))
        }
    }
}

fn set_captured(span: &mut Span, key: &'static str, text: &str, content: ContentCapture) {
    if let Some(text) = captured_text(text, content) {
        span.set(key, text);
    }
}

pub(super) fn agent(span: &mut Span, member: Option<&Member>) {
    span.set("gen_ai.operation.name", "invoke_agent");
    model(span, member);
}

pub(super) fn model(span: &mut Span, member: Option<&Member>) {
    let Some(member) = member else { return };
    span.set("gen_ai.provider.name", names::provider(&member.backend));
    if !member.model.is_empty() {
        span.set("gen_ai.request.model", member.model.as_str());
    }
    span.set("gen_ai.agent.id", member.id.as_str());
    span.set("gen_ai.agent.name", member.id.as_str());
    if member.offline {
        // Marks token counts and times that do not come from a real model.
        span.set("althing.offline", true);
    }
}

pub(super) fn program(span: &mut Span, id: &TaskId, spec: &ProgramSpec) {
    if let Some(agent) = names::agent(spec) {
        span.set("gen_ai.operation.name", "invoke_agent");
        span.set("gen_ai.agent.name", agent);
        span.set("gen_ai.provider.name", names::provider(&spec.adapter));
    }
    if let Some(model) = &spec.model {
        span.set("gen_ai.request.model", model.as_str());
    }
    span.set("althing.workflow.task", names::task_name(id));
    span.set("althing.adapter", spec.adapter.as_str());
}

pub(super) fn run(span: &mut Span, spec: &RunSpec, content: ContentCapture) {
    let mode = match spec.modes.agent_mode {
        AgentMode::Multi => "multi",
        AgentMode::Single => "single",
    };
    span.set("althing.agent_mode", mode);
    span.set("althing.refinement", spec.modes.refinement);
    span.set("althing.planning", spec.modes.planning);
    let agents = spec.members.iter().map(|member| member.id.to_string()).collect();
    span.set("althing.agents", Value::Texts(agents));
    if let Some(task) = captured_text(&spec.task, content) {
        let messages = json!([{"role": "user", "parts": [{"type": "text", "content": task}]}]);
        span.set("gen_ai.input.messages", messages.to_string());
    }
}

pub(super) fn result(span: &mut Span, end: RunEnd, result: &RunResult, content: ContentCapture) {
    span.set("althing.status", result.status.as_str());
    let summary = &result.coordination_summary;
    span.set("althing.rounds", summary.rounds);
    for (key, agent) in [("althing.winner", &summary.winner), ("althing.presenter", &summary.presenter)] {
        if let Some(agent) = agent {
            span.set(key, agent.as_str());
        }
    }
    // These are not the conventional names: with those, a sum over all spans would count every model call twice, in the
    // call's own span and in the run's.
    span.set("althing.calls", result.usage.calls);
    span.set("althing.input_tokens", result.usage.input_tokens);
    span.set("althing.output_tokens", result.usage.output_tokens);
    span.set("althing.cost_usd", result.usage.cost_usd);
    match end {
        RunEnd::Answered | RunEnd::Cancelled => {}
        RunEnd::NoAnswer => span.fail("no_answer"),
        RunEnd::Limit => span.fail("limit"),
    }
    span.message = result.error.as_ref().and_then(|error| captured_text(error, content));
}

pub(super) fn usage(span: &mut Span, usage: &Usage) {
    span.set("gen_ai.usage.input_tokens", usage.input_tokens);
    span.set("gen_ai.usage.output_tokens", usage.output_tokens);
    if usage.cached_input_tokens > 0 {
        span.set("gen_ai.usage.cache_read.input_tokens", usage.cached_input_tokens);
    }
    if usage.reasoning_tokens > 0 {
        span.set("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens);
    }
    span.set("althing.cost_usd", usage.cost_usd);
    span.set("althing.calls", usage.calls);
}

pub(super) fn reply(span: &mut Span, reply: &Reply, content: ContentCapture) {
    let finish = match reply {
        Reply { cut: true, .. } => "length",
        Reply { tool_calls, .. } if !tool_calls.is_empty() => "tool_call",
        Reply { .. } => "stop",
    };
    span.set("gen_ai.response.finish_reasons", Value::Texts(vec![finish.to_owned()]));
    usage(span, &reply.usage);
    if content == ContentCapture::Omit {
        return;
    }
    let text = |kind: &str, said: &str| {
        let said = captured_text(said, content).filter(|said| !said.is_empty());
        said.map(|said| json!({"type": kind, "content": said}))
    };
    let calls = reply.tool_calls.iter().map(|call| {
        let arguments = captured_text(&call.arguments, content).unwrap_or_default();
        json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
    });
    let said = [text("reasoning", &reply.reasoning), text("text", &reply.text)];
    let parts: Vec<_> = said.into_iter().flatten().chain(calls).collect();
    let message = json!([{"role": "assistant", "parts": parts, "finish_reason": finish}]);
    span.set("gen_ai.output.messages", message.to_string());
}

pub(super) fn tool_call(span: &mut Span, arguments: &str, content: ContentCapture) {
    set_captured(span, "gen_ai.tool.call.arguments", arguments, content);
}

pub(super) fn tool_result(span: &mut Span, result: &str, is_error: bool, content: ContentCapture) {
    set_captured(span, "gen_ai.tool.call.result", result, content);
    if is_error {
        span.fail("tool_error");
    }
}

pub(super) fn outcome(span: &mut Span, outcome: &AttemptOutcome, content: ContentCapture) {
    let name = match outcome {
        AttemptOutcome::Answered => "answered",
        AttemptOutcome::Voted => "voted",
        AttemptOutcome::Abstained => "abstained",
        AttemptOutcome::Presented { .. } => "presented",
        AttemptOutcome::Evaluated { .. } => "evaluated",
        AttemptOutcome::Exited { .. } => "exited",
        AttemptOutcome::Said => "said",
        AttemptOutcome::Paused => "paused",
        AttemptOutcome::GaveUp { .. } => "gave_up",
        AttemptOutcome::Failed { .. } => "failed",
        AttemptOutcome::TimedOut => "timed_out",
        AttemptOutcome::Cancelled => "cancelled",
        AttemptOutcome::Interrupted => "interrupted",
    };
    span.set("althing.outcome", name);
    match outcome {
        AttemptOutcome::Exited { ok, exit_code, signal, error, .. } => {
            if let Some(code) = exit_code {
                span.set("process.exit.code", Value::Int((*code).into()));
            }
            if let Some(signal) = signal {
                span.set("althing.signal", Value::Int((*signal).into()));
            }
            if !ok {
                span.fail("exited");
                span.message = error.as_ref().and_then(|error| captured_text(error, content));
            }
        }
        AttemptOutcome::GaveUp { reason } => {
            span.fail("gave_up");
            span.message = captured_text(reason, content);
        }
        AttemptOutcome::Failed { error, kind, .. } => {
            span.fail(kind.map_or("_OTHER", names::failure));
            span.message = captured_text(error, content);
        }
        AttemptOutcome::TimedOut => span.fail("timeout"),
        AttemptOutcome::Interrupted => span.fail("interrupted"),
        AttemptOutcome::Answered
        | AttemptOutcome::Voted
        | AttemptOutcome::Abstained
        | AttemptOutcome::Presented { .. }
        | AttemptOutcome::Evaluated { .. }
        | AttemptOutcome::Said
        | AttemptOutcome::Paused
        | AttemptOutcome::Cancelled => {}
    }
}

/// `None` for an item that has a span of its own or is not exported.
pub(super) fn item_event(item: &Item, content: ContentCapture) -> Option<EventData> {
    let ballot = |ballot: &althing_protocol::Ballot| {
        let mut attributes: Attributes = vec![
            ("althing.voter", ballot.voter.as_str().into()),
            ("althing.target", ballot.target.as_str().into()),
        ];
        attributes
            .extend(captured_text(&ballot.reason, content).map(|reason| ("althing.reason", reason.into())));
        attributes
    };
    Some(match item {
        Item::Answer(answer) => ("althing.answer", vec![("althing.answer", answer.label.to_string().into())]),
        Item::Vote(vote) => ("althing.vote", ballot(vote)),
        Item::StaleVote(vote) => ("althing.stale_vote", ballot(vote)),
        Item::Reminder { .. } => ("althing.reminder", Attributes::new()),
        Item::TimeWarning => ("althing.time_warning", Attributes::new()),
        Item::Update { revision } => ("althing.update", vec![("althing.revision", Value::from(revision.0))]),
        Item::PlanProgress(progress) => {
            ("althing.plan_progress", vec![("althing.plan_task", progress.task.as_str().into())])
        }
        Item::Reply(_)
        | Item::Briefed(_)
        | Item::ToolResult { .. }
        | Item::WorkspaceKept { .. }
        | Item::ContextOpened { .. }
        | Item::ContextClosed { .. }
        | Item::FilesTaken { .. }
        | Item::PlanStored { .. }
        | Item::PlanOpened { .. }
        | Item::Conversation { .. }
        | Item::PromptSent { .. }
        | Item::Said { .. }
        | Item::Did { .. }
        | Item::EditProposed { .. } => return None,
    })
}

/// `None` for a fact that is not exported as an event, such as an informational notice.
pub(super) fn fact_event(fact: &Fact, content: ContentCapture) -> Option<EventData> {
    Some(match fact {
        Fact::PhaseChanged { phase } => {
            ("althing.phase", vec![("althing.phase", names::phase(*phase)?.into())])
        }
        Fact::TimerFired(timer) => ("althing.timer", vec![("althing.timer", names::timer(timer).into())]),
        Fact::InteractionOpened(interaction) => {
            let kind = match &interaction.kind {
                InteractionKind::WinnerOverride { .. } => "winner_override",
                InteractionKind::RunApproval { .. } => "run_approval",
                InteractionKind::PlanApproval { .. } => "plan_approval",
                InteractionKind::EditApproval { .. } => "edit_approval",
                InteractionKind::Budget { .. } => "budget",
                InteractionKind::Program(_) => "program",
                InteractionKind::Interrupted => "interrupted",
            };
            ("althing.asked", vec![("althing.interaction", kind.into())])
        }
        Fact::InteractionClosed { decision, .. } => {
            ("althing.decided", vec![("althing.decision", decision_name(decision).into())])
        }
        Fact::Decided(verdict) => verdict_event(verdict, content)?,
        Fact::Notice(notice) => {
            let level = match notice.level {
                NoticeLevel::Info => return None,
                NoticeLevel::Warning => "warning",
                NoticeLevel::Error => "error",
            };
            let mut attributes: Attributes = vec![("althing.level", level.into())];
            attributes.extend(captured_text(&notice.text, content).map(|text| ("althing.text", text.into())));
            ("althing.notice", attributes)
        }
        _ => return None,
    })
}

fn decision_name(decision: &Decision) -> &'static str {
    match decision {
        Decision::Continue => "continue",
        Decision::Presenter { .. } => "presenter",
        Decision::Approve { .. } => "approve",
        Decision::Reject { .. } => "reject",
        Decision::Change { .. } => "change",
        Decision::Choose { .. } => "choose",
        Decision::MovedOn => "moved_on",
    }
}

fn verdict_event(verdict: &Verdict, content: ContentCapture) -> Option<EventData> {
    Some(match verdict {
        Verdict::Winner { winner, votes, tie_break, decision, .. } => {
            let listed = |numbers: &BTreeMap<AgentId, u32>| {
                Value::Texts(numbers.iter().map(|(agent, number)| format!("{agent}={number}")).collect())
            };
            let votes = listed(votes);
            let mut attributes: Attributes = vec![
                ("althing.winner", winner.as_str().into()),
                ("althing.votes", votes),
                ("althing.tie", tie_break.is_some().into()),
            ];
            if let Some(decision) = decision {
                let rule = match decision.rule {
                    DecidedBy::Borda => "borda",
                    DecidedBy::Plurality => "plurality",
                    DecidedBy::Unanimous => "unanimous",
                    DecidedBy::OnlyCandidate => "only_candidate",
                };
                attributes.push(("althing.rule", rule.into()));
                attributes.push(("althing.points", listed(&decision.points)));
            }
            ("althing.winner", attributes)
        }
        Verdict::Override { presenter } => {
            ("althing.override", vec![("althing.presenter", presenter.as_str().into())])
        }
        Verdict::Restarted { reason, nth, .. } => {
            let mut attributes: Attributes = vec![("althing.restart", Value::from(*nth))];
            attributes.extend(captured_text(reason, content).map(|reason| ("althing.reason", reason.into())));
            ("althing.restarted", attributes)
        }
        Verdict::Compacted { tokens: (before, after), .. } => (
            "althing.compacted",
            vec![("althing.tokens_before", (*before).into()), ("althing.tokens_after", (*after).into())],
        ),
        Verdict::Finished { .. } => return None,
    })
}
