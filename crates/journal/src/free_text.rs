//! The free text of events: what people, models and programs wrote. It is the only part of an event in which values are
//! masked that somebody else chose (see `Masker::mask_free_text`). Everything else decides what Althing does, or lists
//! what it did: commands, arguments, variables, paths, ids, prompts and settings of a config. It is not listed here, so
//! that a new field is no free text until somebody says so.

use althing_protocol::{
    AttemptOutcome, Ballot, ChatSpec, Decision, DecisionReport, Exchange, Fact, Item, LaunchRun, Op, PlanRun,
    Reply, Restart, RunResult, RunSpec, TaskSpec, ToolCall, Verdict,
};
use serde_json::Value;

/// The tools of a run whose arguments are text for people and other agents, and these arguments. The arguments of all
/// other tools are acted upon.
const TEXT_ARGUMENTS: &[(&str, &[&str])] = &[
    ("new_answer", &["content", "conclusion"]),
    ("vote", &["reason"]),
    ("restart_orchestration", &["reason", "instructions"]),
    ("update_plan_task", &["note"]),
];

/// What is done with each text.
pub(crate) type Change<'a> = &'a mut dyn FnMut(&mut String);

pub(crate) fn each_text(fact: &mut Fact, change: Change<'_>) {
    match fact {
        Fact::SessionOpened(opened) => {
            change(&mut opened.goal);
            opened.op.iter_mut().for_each(|op| op_texts(op, change));
        }
        Fact::OpAccepted { op, .. } => op_texts(op, change),
        Fact::TaskCreated { spec, .. } => match spec {
            TaskSpec::Run(spec) => run_texts(spec, change),
            TaskSpec::Chat(spec) => chat_texts(spec, change),
            TaskSpec::Workflow(_) | TaskSpec::Program(_) | TaskSpec::Work { .. } => {}
        },
        Fact::StatusChanged { why, .. } => optional(why, change),
        Fact::AttemptEnded { outcome, .. } => outcome_texts(outcome, change),
        Fact::ItemAdded { item, .. } => item_texts(item, change),
        Fact::InteractionClosed { decision, .. } => decision_texts(decision, change),
        Fact::Decided(verdict) => verdict_texts(verdict, change),
        Fact::Notice(notice) => {
            change(&mut notice.text);
            optional(&mut notice.hint, change);
        }
        Fact::SessionClosed {}
        | Fact::AttemptStarted { .. }
        | Fact::InteractionOpened(_)
        | Fact::PhaseChanged { .. }
        | Fact::TimerFired(_) => {}
    }
}

fn optional(text: &mut Option<String>, change: Change<'_>) {
    text.iter_mut().for_each(change);
}

fn op_texts(op: &mut Op, change: Change<'_>) {
    match op {
        Op::StartRun { spec } => run_texts(spec, change),
        Op::StartChat { spec } => chat_texts(spec, change),
        Op::SendMessage { text, .. } => change(text),
        Op::Answer { decision, .. } => decision_texts(decision, change),
        Op::StartWorkflow { .. }
        | Op::Unqueue { .. }
        | Op::Pin { .. }
        | Op::Compact
        | Op::SetModes { .. }
        | Op::Input { .. }
        | Op::Resize { .. }
        | Op::Retry { .. }
        | Op::PauseCountdown { .. }
        | Op::Cancel { .. }
        | Op::StopReply
        | Op::Resume
        | Op::Shutdown => {}
    }
}

fn run_texts(spec: &mut RunSpec, change: Change<'_>) {
    change(&mut spec.task);
    optional(&mut spec.context, change);
    exchange_texts(&mut spec.history, change);
    if let Some(plan) = &mut spec.plan {
        plan_texts(plan, change);
    }
    spec.execution.iter_mut().for_each(|spec| run_texts(spec, change));
}

fn chat_texts(spec: &mut ChatSpec, change: Change<'_>) {
    exchange_texts(&mut spec.history, change);
}

fn exchange_texts(history: &mut [Exchange], change: Change<'_>) {
    for exchange in history {
        change(&mut exchange.user);
        change(&mut exchange.assistant);
    }
}

fn plan_texts(plan: &mut PlanRun, change: Change<'_>) {
    for task in &mut plan.tasks {
        change(&mut task.description);
        optional(&mut task.verification, change);
    }
    plan.progress.iter_mut().for_each(|progress| optional(&mut progress.note, change));
    optional(&mut plan.additions, change);
}

fn outcome_texts(outcome: &mut AttemptOutcome, change: Change<'_>) {
    match outcome {
        AttemptOutcome::Presented { text, rejected } => {
            change(text);
            optional(rejected, change);
        }
        AttemptOutcome::Evaluated { restart: Some(Restart { reason, instructions }) } => {
            change(reason);
            change(instructions);
        }
        AttemptOutcome::Exited { output, error, hint, .. } => {
            change(output);
            optional(error, change);
            optional(hint, change);
        }
        AttemptOutcome::GaveUp { reason } => change(reason),
        AttemptOutcome::Failed { error, hint, .. } => {
            change(error);
            optional(hint, change);
        }
        AttemptOutcome::Evaluated { restart: None }
        | AttemptOutcome::Answered
        | AttemptOutcome::Voted
        | AttemptOutcome::Said
        | AttemptOutcome::Paused
        | AttemptOutcome::Abstained
        | AttemptOutcome::TimedOut
        | AttemptOutcome::Cancelled
        | AttemptOutcome::Interrupted => {}
    }
}

fn item_texts(item: &mut Item, change: Change<'_>) {
    match item {
        Item::Reply(reply) => reply_texts(reply, change),
        Item::Briefed(briefing) => change(&mut briefing.system),
        Item::ToolResult { content: text, .. } | Item::Reminder { text, .. } | Item::Said { text } => {
            change(text);
        }
        Item::EditProposed { preview, .. } => {
            preview.files.iter_mut().for_each(|file| change(&mut file.diff));
        }
        Item::ContextClosed { error, .. }
        | Item::WorkspaceKept { error }
        | Item::ContextOpened { error }
        | Item::FilesTaken { error, .. }
        | Item::PlanStored { error, .. } => optional(error, change),
        Item::PlanProgress(progress) => optional(&mut progress.note, change),
        Item::PlanOpened { plan, error } => {
            if let Some(plan) = plan {
                plan_texts(plan, change);
            }
            optional(error, change);
        }
        Item::PromptSent { text, error } => {
            change(text);
            optional(error, change);
        }
        Item::Did { detail, result, .. } => {
            change(detail);
            optional(result, change);
        }
        Item::Answer(answer) => {
            change(&mut answer.content);
            optional(&mut answer.conclusion, change);
        }
        Item::Vote(ballot) | Item::StaleVote(ballot) => change(&mut ballot.reason),
        Item::Update { .. } | Item::TimeWarning | Item::Conversation { .. } => {}
    }
}

fn reply_texts(reply: &mut Reply, change: Change<'_>) {
    change(&mut reply.text);
    change(&mut reply.reasoning);
    optional(&mut reply.native, change);
    reply.tool_calls.iter_mut().for_each(|call| argument_texts(call, change));
}

fn argument_texts(call: &mut ToolCall, change: Change<'_>) {
    let Some((_, texts)) = TEXT_ARGUMENTS.iter().find(|(tool, _)| *tool == call.name) else { return };
    let Ok(Value::Object(mut arguments)) = serde_json::from_str(&call.arguments) else {
        // Such a call is refused.
        return change(&mut call.arguments);
    };
    let mut has_changed = false;
    for name in *texts {
        if let Some(Value::String(text)) = arguments.get_mut(*name) {
            let before = text.clone();
            change(text);
            has_changed |= *text != before;
        }
    }
    if has_changed {
        call.arguments = Value::Object(arguments).to_string();
    }
}

fn decision_texts(decision: &mut Decision, change: Change<'_>) {
    match decision {
        Decision::Approve { edited, instructions, .. } => {
            if let Some(launch) = edited {
                launch_texts(launch, change);
            }
            optional(instructions, change);
        }
        Decision::Reject { reason } => optional(reason, change),
        Decision::Change { text } => change(text),
        Decision::Continue | Decision::Presenter { .. } | Decision::Choose { .. } | Decision::MovedOn => {}
    }
}

fn launch_texts(launch: &mut LaunchRun, change: Change<'_>) {
    change(&mut launch.task);
    optional(&mut launch.context, change);
}

fn verdict_texts(verdict: &mut Verdict, change: Change<'_>) {
    match verdict {
        Verdict::Winner { ballots, tie_break, decision, .. } => {
            ballot_texts(ballots, change);
            optional(tie_break, change);
            if let Some(decision) = decision {
                report_texts(decision, change);
            }
        }
        Verdict::Restarted { reason, instructions, .. } => {
            change(reason);
            change(instructions);
        }
        Verdict::Compacted { summary, markers, .. } => {
            change(summary);
            markers.iter_mut().for_each(change);
        }
        Verdict::Finished { result, .. } => result_texts(result, change),
        Verdict::Override { .. } => {}
    }
}

fn ballot_texts(ballots: &mut [Ballot], change: Change<'_>) {
    for ballot in ballots.iter_mut() {
        change(&mut ballot.reason);
    }
}

fn report_texts(report: &mut DecisionReport, change: Change<'_>) {
    change(&mut report.explanation);
}

fn result_texts(result: &mut RunResult, change: Change<'_>) {
    change(&mut result.task);
    optional(&mut result.final_answer, change);
    optional(&mut result.error, change);
    let summary = &mut result.coordination_summary;
    ballot_texts(&mut summary.ballots, change);
    if let Some(decision) = &mut summary.decision {
        report_texts(decision, change);
    }
    summary.agents.iter_mut().for_each(|agent| optional(&mut agent.error, change));
}
