//! A straggler is an agent whose model call has sent nothing while all other agents are done. The run does not wait for
//! it for longer than `straggler_wait`. If two agents are slow, neither is a straggler.

use super::Coordination;
use super::interpret_reply::{self, NextStep};
use super::state::MemberState;
use crate::decider::{CallKey, SilenceTimer};
use althing_protocol::{Notice, NoticeLevel, Phase, Timer};

impl Coordination {
    /// The timer for the call of the only busy agent. None without `straggler_wait`, after the vote, while agents wait
    /// for first answers or for other judges, if the busy agent is not in a model call, and if no idle agent has an
    /// answer.
    pub(super) fn straggler_timer(&self) -> Option<SilenceTimer> {
        let state = &self.state;
        let after = state.spec.rules.straggler_wait?;
        let deliberating = matches!(self.phase, Phase::Answering | Phase::Voting);
        let too_early = state.waits_for_all_first_answers() && !state.first_answers_are_in();
        if !deliberating || too_early || state.someone_waits() {
            return None;
        }
        let is_idle = |member: &MemberState| member.attempt.is_none() && member.suspended.is_none();
        let goes_on = |member: &MemberState| is_idle(member) && member.is_live() && member.has_answered();
        let mut busy = state.members.iter().enumerate().filter(|(_, member)| !is_idle(member));
        let ((index, member), None) = (busy.next()?, busy.next()) else { return None };
        let attempt = member.attempt.as_ref().filter(|attempt| !attempt.is_over())?;
        let in_call = interpret_reply::next_step(state, index, member, attempt) == NextStep::Call;
        if !in_call || !state.members.iter().any(goes_on) {
            return None;
        }
        let call = CallKey { member_index: index, attempt: attempt.number, step: attempt.turns.len() };
        let agent = member.agent.id.clone();
        let timer = Timer::Straggler { agent, attempt: call.attempt, step: call.step };
        Some(SilenceTimer { timer, after, call })
    }

    pub(super) fn straggler_notice(&self, member: &MemberState) -> Notice {
        let wait = self.state.spec.rules.straggler_wait.unwrap_or_default();
        let text = format!(
            "{} sent nothing for {wait} while all others were done; the run goes on without it",
            member.agent.id
        );
        let hint =
            "`orchestrator.coordination.straggler_wait_seconds` in the config changes this wait".to_owned();
        Notice { level: NoticeLevel::Warning, text, hint: Some(hint) }
    }
}
