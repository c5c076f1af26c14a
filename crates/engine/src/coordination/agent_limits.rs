//! Limits of a run: answers and tool calls of each agent, model calls of the run. An agent that reached a limit stays
//! in the run: it can still vote, and its answers remain candidates. Logs of 0.1 record no such limits, so none apply
//! to them.

use super::state::{MemberState, RunState};
use super::{Consequence, Coordination};
use crate::tools::{NEW_ANSWER, RESTART, SUBMIT, VOTE};
use althing_protocol::{Fact, Notice, NoticeLevel};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentLimit {
    Answers(u32),
    ToolCalls(u32),
}

/// Coordination tools end an agent's turn and are not counted as tool calls.
pub(super) fn is_coordination_tool(name: &str) -> bool {
    [NEW_ANSWER, VOTE, SUBMIT, RESTART].contains(&name)
}

impl AgentLimit {
    fn notice(self, member: &MemberState) -> Notice {
        let agent = &member.agent.id;
        let (text, key) = match self {
            Self::Answers(most) => (
                format!("{agent} has given {most} answers, the most per agent; now it can only vote"),
                "answers_per_agent",
            ),
            Self::ToolCalls(most) => (
                format!("{agent} has used up its {most} tool calls; further calls are refused"),
                "tool_calls_per_agent",
            ),
        };
        let hint = Some(format!("`orchestrator.limits.{key}` in the config changes this limit"));
        Notice { level: NoticeLevel::Warning, text, hint }
    }
}

impl RunState {
    /// True if the agent has given `max_new_answers_per_agent` answers since the last restart, or `answers_per_agent`
    /// answers in the whole run.
    pub(super) fn has_all_answers(&self, member: &MemberState) -> bool {
        let cap = self.spec.rules.max_new_answers_per_agent;
        cap.is_some_and(|cap| member.answers.len() >= cap as usize) || self.is_at_answer_limit(member)
    }

    fn is_at_answer_limit(&self, member: &MemberState) -> bool {
        self.spec.rules.limits.answers_per_agent.is_some_and(|most| member.given() >= most)
    }

    /// The calls of the last reply are already counted, so if they exceed the limit, all of them are refused.
    pub(super) fn has_too_many_calls(&self, member: &MemberState) -> bool {
        self.spec.rules.limits.tool_calls_per_agent.is_some_and(|most| member.tool_calls > most)
    }

    pub(super) fn is_out_of_calls(&self) -> bool {
        self.spec.rules.limits.model_calls.is_some_and(|most| self.usage.calls >= u64::from(most))
    }

    pub(super) fn too_many_calls(&self) -> String {
        let most = self.spec.rules.limits.tool_calls_per_agent.unwrap_or_default();
        format!(
            "Refused: you have used up your {most} tool calls. End your turn now. Only tools that end your turn, such as \
             `new_answer` and `vote` if you have them, are not refused."
        )
    }

    fn reached_limits(&self, member: &MemberState) -> Vec<AgentLimit> {
        let limits = &self.spec.rules.limits;
        let answers = limits.answers_per_agent.filter(|_| self.is_at_answer_limit(member));
        let calls = limits.tool_calls_per_agent.filter(|_| self.has_too_many_calls(member));
        answers.map(AgentLimit::Answers).into_iter().chain(calls.map(AgentLimit::ToolCalls)).collect()
    }
}

impl Coordination {
    pub(super) fn tell_limits(&self) -> Vec<Consequence> {
        let mut facts = Vec::new();
        for (index, member) in self.state.members.iter().enumerate() {
            let reached = self.state.reached_limits(member);
            let untold = reached.into_iter().filter(|limit| !member.told_limits.contains(limit));
            facts.extend(untold.map(|limit| (self.work(index), Fact::Notice(limit.notice(member)))));
        }
        facts
    }

    pub(super) fn fold_notice(&mut self, index: usize, notice: &Notice) {
        if let Some(attempt) = self.state.members.get_mut(index).and_then(|member| member.attempt.as_mut())
            && notice.level == NoticeLevel::Warning
        {
            attempt.warning = Some(notice.text.clone());
        }
        let Some(member) = self.state.members.get(index) else { return };
        let told =
            self.state.reached_limits(member).into_iter().find(|limit| limit.notice(member) == *notice);
        if let (Some(limit), Some(member)) = (told, self.state.members.get_mut(index)) {
            member.told_limits.push(limit);
        }
    }
}
