//! The strings that every front end shows for states, outcomes, modes and amounts.

use althing_protocol::{
    AgentMode, AttemptOutcome, ChatState, FileChange, FileWrite, LaunchRun, Millis, Modes, NoticeLevel,
    Phase, PlanStatus, Proposal, Purpose, RunResult, RunStatus, SessionState, TaskStatus, Usage,
};
use althing_text::{count, short_number};

pub fn task_status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Pending => "pending",
        TaskStatus::Running => "running",
        TaskStatus::WaitingForUser => "waits for you",
        TaskStatus::Done => "done ✓",
        TaskStatus::Failed => "failed ✗",
        TaskStatus::Cancelled => "cancelled",
        TaskStatus::Interrupted => "interrupted",
    }
}

/// The status of a program that has finished its turn, and waits for the next prompt or for its end.
pub const YOUR_TURN: &str = "your turn";

pub fn run_status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Completed => "Complete ✓",
        RunStatus::Partial => "Partial",
        RunStatus::Cancelled => "Cancelled",
        RunStatus::Failed => "Failed ✗",
    }
}

pub fn unfinished_run_status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Done => run_status(RunStatus::Completed),
        TaskStatus::Failed => run_status(RunStatus::Failed),
        TaskStatus::Cancelled => run_status(RunStatus::Cancelled),
        TaskStatus::Interrupted => "Interrupted",
        TaskStatus::WaitingForUser => "Waits for you",
        TaskStatus::Pending | TaskStatus::Running => "Running...",
    }
}

/// The status of a session that no process runs at the moment.
pub fn session_state(state: SessionState) -> &'static str {
    match state {
        SessionState::Done => "done",
        SessionState::Failed => "failed",
        SessionState::Cancelled => "cancelled",
        SessionState::Idle => "idle",
        _ => "interrupted",
    }
}

pub fn chat_state(state: ChatState) -> &'static str {
    match state {
        ChatState::Idle => "Idle",
        ChatState::Chatting => "Chatting",
        ChatState::AwaitingApproval => "Awaiting approval",
        ChatState::Running => "Running",
        ChatState::ProcessingResults => "Processing results",
        ChatState::ProcessingPartial => "Processing partial results",
        ChatState::ProcessingCancelled => "Processing a cancelled run",
    }
}

pub fn phase(phase: Option<Phase>) -> &'static str {
    match phase {
        Some(Phase::Answering) => "answering",
        Some(Phase::Voting) => "voting",
        Some(Phase::OverrideWindow) => "vote is over",
        Some(Phase::Presenting) => "presenting",
        Some(Phase::Done) => "done",
        Some(Phase::Stage(_) | Phase::Chat(_)) | None => "starting",
    }
}

pub fn activity(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Answer => "answering",
        Purpose::Judge { may_answer: true, .. } => "judging",
        Purpose::Judge { may_answer: false, .. } => "voting",
        Purpose::Present { .. } => "presenting",
        Purpose::Evaluate => "evaluating",
        Purpose::Carry => "working",
        Purpose::Converse => "talking",
        Purpose::Compact => "summarizing",
    }
}

/// How an attempt ended; None for an answer, because the answer itself is shown.
pub fn outcome(outcome: &AttemptOutcome) -> Option<String> {
    Some(match outcome {
        AttemptOutcome::Answered => return None,
        AttemptOutcome::Voted => "voted".into(),
        AttemptOutcome::Abstained => "abstained: its reply named no agent to vote for".into(),
        AttemptOutcome::Presented { rejected: None, .. } => "presented".into(),
        AttemptOutcome::Presented { rejected: Some(reason), .. } => {
            format!("presented a text that is not used: it {reason}")
        }
        AttemptOutcome::Evaluated { restart: None } => "accepts the final answer".into(),
        AttemptOutcome::Evaluated { restart: Some(restart) } => {
            format!("asks to restart: {}", restart.reason)
        }
        AttemptOutcome::Said | AttemptOutcome::Exited { ok: true, .. } => "done".into(),
        AttemptOutcome::Exited { error, hint, .. } => {
            let error = error.as_deref().unwrap_or("no reason given");
            with_hint(format!("failed: {error}"), hint.as_deref())
        }
        AttemptOutcome::GaveUp { reason } => format!("dropped out: {reason}"),
        AttemptOutcome::Failed { error, hint, .. } => with_hint(format!("failed: {error}"), hint.as_deref()),
        AttemptOutcome::TimedOut => "dropped out: its time limit passed".into(),
        AttemptOutcome::Cancelled => "stopped".into(),
        AttemptOutcome::Paused => "paused for a compaction".into(),
        AttemptOutcome::Interrupted => "interrupted".into(),
    })
}

/// What a compaction replaced. Logs of 0.1 do not say what.
pub fn compaction(exchanges: u32, steps: u32, (before, after): (u64, u64)) -> String {
    let parts = [count(exchanges.into(), "exchange"), count(steps.into(), "step")];
    let replaced = [exchanges, steps].into_iter().zip(parts).filter(|(number, _)| *number > 0);
    let replaced: Vec<String> = replaced.map(|(_, part)| part).collect();
    let what = if replaced.is_empty() { "the older part".to_owned() } else { replaced.join(" and ") };
    format!("the conversation was compacted from {before} to {after} tokens: a summary replaces {what}")
}

pub fn plan_status(status: PlanStatus) -> &'static str {
    match status {
        PlanStatus::Pending => "not started",
        PlanStatus::InProgress => "in progress",
        PlanStatus::Completed => task_status(TaskStatus::Done),
        PlanStatus::Failed => task_status(TaskStatus::Failed),
    }
}

pub fn notice_level(level: NoticeLevel) -> &'static str {
    match level {
        NoticeLevel::Info => "note",
        NoticeLevel::Warning => "warning",
        NoticeLevel::Error => "error",
    }
}

pub fn with_hint(text: String, hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!("{text} ({hint})"),
        None => text,
    }
}

/// A summary of a finished run, such as `3 agents · 2 rounds · 4m12s`.
pub fn run_summary(run: &crate::RunView, result: &RunResult) -> String {
    let rounds = count(result.coordination_summary.rounds.into(), "round");
    format!("{} · {rounds} · {}", run.agents_label(), result.duration)
}

/// A live duration under a minute is shown in whole seconds, so that it does not flicker.
pub fn elapsed(time: Millis, live: bool) -> String {
    if live && time.0 < 60_000 { format!("{}s", time.0 / 1000) } else { time.to_string() }
}

pub fn modes(modes: Modes) -> String {
    let plan = if modes.planning { "Plan · " } else { "" };
    let single = modes.agent_mode != AgentMode::Multi;
    format!("{plan}{} · {}", agent_mode(single), refinement(modes.refinement))
}

pub fn proposed_modes(proposal: &Proposal) -> String {
    let executes = proposal.launch.execute_after_planning && proposal.modes.planning;
    format!("{}{}", modes(proposal.modes), if executes { " · then execute" } else { "" })
}

pub fn added_prompts(launch: &LaunchRun) -> String {
    let prompts = launch.agent_system_prompts.iter().map(|(agent, text)| format!("{agent}: {text}"));
    prompts.collect::<Vec<_>>().join("\n")
}

pub fn changed_rules(launch: &LaunchRun) -> String {
    let rules = launch.coordination_overrides.iter().map(|(key, value)| format!("{key}: {value}"));
    rules.collect::<Vec<_>>().join(", ")
}

pub fn agent_mode(single: bool) -> &'static str {
    if single { "Single" } else { "Multi" }
}

pub fn refinement(on: bool) -> &'static str {
    if on { "Refine" } else { "Quick" }
}

/// Tokens and cost; a cost that is not known is called unknown.
pub fn tokens(usage: &Usage) -> String {
    let tokens = short_number(usage.input_tokens.saturating_add(usage.output_tokens));
    match (usage.cost_usd > 0.0, usage.unpriced_calls > 0) {
        (true, false) => format!("{tokens} tokens · ${:.4}", usage.cost_usd),
        (true, true) => format!("{tokens} tokens · ${:.4} + unknown", usage.cost_usd),
        (false, true) => format!("{tokens} tokens · cost unknown"),
        (false, false) => format!("{tokens} tokens"),
    }
}

pub fn money(usd: f64) -> String {
    if usd >= 0.01 {
        format!("${usd:.2}")
    } else if usd > 0.0 {
        "under $0.01".into()
    } else {
        "$0".into()
    }
}

/// An amount given in millionths of a US dollar; whole dollars are shown without cents.
pub fn micro_money(micro: u64) -> String {
    let usd = micro as f64 / 1e6;
    if usd.fract().abs() < f64::EPSILON { format!("${usd:.0}") } else { money(usd) }
}

pub fn file_write(write: &FileWrite) -> String {
    let change = match write.change {
        FileChange::New => "new",
        FileChange::Modified => "modified",
        FileChange::Deleted => "deleted",
    };
    let note = write.note.as_ref().map(|note| format!("; {note}")).unwrap_or_default();
    format!("{} ({change}{note})", write.path)
}
