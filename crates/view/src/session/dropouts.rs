//! The agents of a run that dropped out, in a few words: how many, and why.

use super::RunView;
use althing_protocol::{AttemptOutcome, BackendErrorKind};
use althing_text::count;

/// Why an attempt failed, in one or two words; None if it did not fail.
pub(super) fn reason(outcome: &AttemptOutcome) -> Option<&'static str> {
    Some(match outcome {
        AttemptOutcome::Failed { kind, .. } => match kind {
            Some(BackendErrorKind::Auth) => "bad key",
            Some(BackendErrorKind::NotFound) => "not found",
            Some(BackendErrorKind::BadRequest) => "request refused",
            Some(BackendErrorKind::RateLimited) => "rate limit",
            Some(BackendErrorKind::Server) => "server error",
            Some(BackendErrorKind::Connect) => "no connection",
            Some(BackendErrorKind::Cut) => "connection lost",
            Some(BackendErrorKind::Timeout) => "no reply in time",
            Some(BackendErrorKind::Protocol) => "unreadable reply",
            Some(BackendErrorKind::TooLarge) => "reply too large",
            Some(BackendErrorKind::Empty) => "empty reply",
            Some(BackendErrorKind::CostLimit) => "cost limit",
            None => "failed",
        },
        AttemptOutcome::GaveUp { .. } => "gave up",
        AttemptOutcome::TimedOut => "timed out",
        AttemptOutcome::Exited { ok: false, .. } => "program failed",
        _ => return None,
    })
}

impl RunView {
    /// How many agents took part and why others dropped out, such as `3 agents`, or `1 of 4 agents · 3 out: bad key,
    /// rate limit`.
    pub fn agents_label(&self) -> String {
        let all = self.agents.len();
        let out = || self.agents.iter().filter(|agent| agent.dropped_out);
        if out().count() == 0 {
            return count(all as u64, "agent");
        }
        let mut reasons: Vec<&str> = Vec::new();
        for agent in out() {
            let reason = agent.failure.unwrap_or("failed");
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        let lost = out().count();
        format!("{} of {} · {lost} out: {}", all - lost, count(all as u64, "agent"), reasons.join(", "))
    }
}
