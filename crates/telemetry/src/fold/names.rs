//! Maps Althing's terms to the names of OpenTelemetry's semantic conventions.

use althing_protocol::{
    AGENT_KINDS, AgentKind, BackendErrorKind, Phase, ProgramSpec, Purpose, TaskId, TaskStatus, Timer,
};

/// The `gen_ai.provider.name` of a `backend.type` or an adapter. A type or adapter without a conventional name keeps
/// its own.
pub(super) fn provider(kind: &str) -> &str {
    if let Some(vendor) = vendor(AGENT_KINDS, kind) {
        return vendor;
    }
    match kind {
        "claude" => "anthropic",
        "gemini" => "gcp.gemini",
        "azure_openai" => "azure.ai.openai",
        "grok" => "x_ai",
        "moonshot" => "moonshot_ai",
        other => other,
    }
}

fn vendor(kinds: &[AgentKind], name: &str) -> Option<&'static str> {
    kinds.iter().find(|row| [row.kind, row.adapter].contains(&name)).map(|row| row.vendor)
}

pub(super) fn program(id: &TaskId, spec: &ProgramSpec) -> String {
    match agent(spec) {
        Some(agent) => format!("invoke_agent {agent}"),
        None => format!("execute_task {}", task_name(id)),
    }
}

/// The agent that a program runs as: its agent in the config, or else its adapter. `None` for the user's own command.
pub(super) fn agent(spec: &ProgramSpec) -> Option<&str> {
    let named = spec.agent.as_ref().map(althing_protocol::AgentId::as_str);
    named.or_else(|| Some(spec.adapter.as_str()).filter(|adapter| *adapter != "command"))
}

pub(super) fn task_name(id: &TaskId) -> &str {
    id.as_str().rsplit('.').next().unwrap_or_default()
}

/// A tool name that is safe to export. A model can write any text as a tool name, so a name that is longer than 64
/// bytes or contains unusual characters becomes `unknown`.
pub(super) fn tool(name: &str) -> &str {
    let fine = |c: char| c.is_ascii_alphanumeric() || "_-./:".contains(c);
    if name.len() <= 64 && name.chars().all(fine) { name } else { "unknown" }
}

pub(super) fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Answer => "answer",
        Purpose::Judge { .. } => "judge",
        Purpose::Carry => "carry",
        Purpose::Converse => "converse",
        Purpose::Compact => "compact",
        Purpose::Present { .. } => "present",
        Purpose::Evaluate => "evaluate",
    }
}

pub(super) fn status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Pending => "pending",
        TaskStatus::Running => "running",
        TaskStatus::WaitingForUser => "waiting_for_user",
        TaskStatus::Done => "done",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
        TaskStatus::Interrupted => "interrupted",
    }
}

pub(super) fn failure(kind: BackendErrorKind) -> &'static str {
    match kind {
        BackendErrorKind::Auth => "auth",
        BackendErrorKind::NotFound => "not_found",
        BackendErrorKind::BadRequest => "bad_request",
        BackendErrorKind::RateLimited => "rate_limited",
        BackendErrorKind::Server => "server",
        BackendErrorKind::Connect => "connect",
        BackendErrorKind::Cut => "cut",
        BackendErrorKind::Timeout => "timeout",
        BackendErrorKind::Protocol => "protocol",
        BackendErrorKind::TooLarge => "too_large",
        BackendErrorKind::Empty => "empty",
        BackendErrorKind::CostLimit => "cost_limit",
    }
}

/// `None` for the end, and for the phases of a conversation, which are visible as spans.
pub(super) fn phase(phase: Phase) -> Option<String> {
    Some(match phase {
        Phase::Answering => "answering".to_owned(),
        Phase::Voting => "voting".to_owned(),
        Phase::OverrideWindow => "override_window".to_owned(),
        Phase::Presenting => "presenting".to_owned(),
        Phase::Stage(n) => format!("stage_{}", n + 1),
        Phase::Done | Phase::Chat(_) => return None,
    })
}

pub(super) fn timer(timer: &Timer) -> &'static str {
    match timer {
        Timer::Orchestrator => "orchestrator",
        Timer::FirstAnswers { .. } => "first_answers",
        Timer::RoundSoft { .. } => "round_soft",
        Timer::RoundHard { .. } => "round_hard",
        Timer::Straggler { .. } => "straggler",
        Timer::OverrideWindow => "override_window",
        Timer::Task { .. } => "task",
    }
}

#[cfg(test)]
mod tests {
    use super::{AGENT_KINDS, AgentKind, provider, vendor};

    #[test]
    fn the_provider_of_a_cli_agent_is_the_vendor_in_its_row() {
        let known = ["claude_code", "codex", "gemini_cli", "opencode"].map(provider);
        assert_eq!(known, ["anthropic", "openai", "gcp.gemini", "opencode"]);
        for row in AGENT_KINDS {
            assert_eq!([row.kind, row.adapter].map(provider), [row.vendor; 2]);
        }
        let new = [AgentKind { kind: "toy_cli", adapter: "toy", vendor: "toys", ..AGENT_KINDS[0] }];
        assert_eq!(
            ["toy_cli", "toy", "claude_code"].map(|name| vendor(&new, name)),
            [Some("toys"), Some("toys"), None]
        );
    }
}
