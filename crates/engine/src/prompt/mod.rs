//! The model requests of a run's members: system prompt, conversation and tools, derived from the run's state. Pure.
//! Prompts are not in the log, because they follow from it.

mod briefing;
mod guidance;
pub(crate) mod interactive;
pub(crate) mod markers;
mod messages;
pub(crate) mod reminders;
mod sections;

pub use briefing::{ProjectBriefing, WorkspaceBriefing};
pub use guidance::{AgentNotes, FileExcerpt, Guidance, Planning, SkillEntry};
pub use interactive::launch_guidance;

use crate::coordination::{ContextState, Coordination, MemberAttempt, MemberState};
use crate::tools;
use althing_protocol::{
    CallContext, Diversity, FinalAnswerStrategy, Grant, JudgeOrder, LateNotices, Message, ModelRequest,
    Purpose, ToolSpec, VotingSensitivity,
};
use markers::with_markers;
use sections::Section;

pub(crate) struct PromptInput<'a> {
    pub(crate) identity: Option<&'a str>,
    pub(crate) agents: usize,
    pub(crate) votes: bool,
    pub(crate) planning: bool,
    pub(crate) subagents: bool,
    /// Whether the agent may write to the writable context paths in this attempt.
    pub(crate) writes: bool,
    pub(crate) turn: TurnKind,
    pub(crate) sensitivity: VotingSensitivity,
    /// Whether the agent has a workspace, and tools other than those of the run itself.
    pub(crate) has_tools: bool,
    pub(crate) criteria: &'a [String],
    pub(crate) approach: Option<usize>,
    /// The date on which the run began, in UTC.
    pub(crate) today: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnKind {
    /// Answer: with `tool`, by calling `new_answer`; otherwise in plain text.
    Answer {
        tool: bool,
    },
    Judge,
    VoteOnly,
    Present(FinalAnswerStrategy),
    Evaluate,
}

impl Coordination {
    /// The model request of a member's running attempt; None if the member has no running attempt.
    pub fn request(&self, member_index: usize) -> Option<ModelRequest> {
        let member = self.state.members.get(member_index)?;
        let attempt = member.attempt.as_ref()?;
        Some(ModelRequest {
            system: self.system_prompt(member_index, member, attempt).into(),
            messages: self.messages(member_index, attempt),
            tools: self.tools(member_index, attempt),
            call_context: Some(CallContext {
                work: self.work(member_index),
                attempt: attempt.number,
                native: member.native.clone(),
                workspace: None,
                grant: Grant { planning: self.only_plans(member, attempt), ..Grant::default() },
                late_notices: LateNotices::default(),
            }),
        })
    }

    fn system_prompt(&self, member_index: usize, member: &MemberState, attempt: &MemberAttempt) -> String {
        let spec = &self.state.spec;
        let decision = &spec.rules.decision;
        let turn = match attempt.purpose {
            Purpose::Answer => TurnKind::Answer { tool: !self.accepts_plain_text() },
            Purpose::Judge { may_answer: true, .. } => TurnKind::Judge,
            Purpose::Judge { may_answer: false, .. } => TurnKind::VoteOnly,
            Purpose::Present { strategy } => TurnKind::Present(strategy),
            Purpose::Evaluate => TurnKind::Evaluate,
            // These purposes belong to other deciders.
            Purpose::Carry | Purpose::Converse | Purpose::Compact => TurnKind::Answer { tool: false },
        };
        let input = PromptInput {
            identity: member.agent.system_message.as_deref(),
            agents: self.state.members.len(),
            votes: !spec.rules.skip_voting,
            planning: spec.modes.planning,
            subagents: self.state.may_spawn(attempt.purpose).is_some(),
            writes: member.context == ContextState::Open && !self.state.writable_paths().is_empty(),
            turn,
            sensitivity: member.agent.voting_sensitivity.unwrap_or(spec.rules.voting_sensitivity),
            has_tools: member.agent.has_tools,
            criteria: &decision.criteria,
            approach: (decision.diversity == Diversity::Approaches).then_some(member_index),
            today: self.began_on(),
        };
        sections::render(Section::contributor(decision.prompts), &input)
    }

    fn messages(&self, member_index: usize, attempt: &MemberAttempt) -> Vec<Message> {
        let state = &self.state;
        with_markers(state.spec.tie_break_seed, |markers| match attempt.purpose {
            Purpose::Present { .. } => messages::presentation(state, member_index, attempt, markers),
            Purpose::Evaluate => {
                let answer = self.final_answer().unwrap_or_default();
                messages::evaluation(state, member_index, attempt, &answer, markers)
            }
            _ => messages::contribution(state, member_index, attempt, markers),
        })
    }

    fn vote_spec(&self, member_index: usize, attempt: &MemberAttempt) -> ToolSpec {
        let mut candidates = self.state.candidates(attempt.knows);
        let decision = &self.state.spec.rules.decision;
        if decision.judge_order == JudgeOrder::Rotated {
            let order: Vec<usize> = self.state.rotated(member_index).collect();
            candidates.sort_by_key(|candidate| order.iter().position(|index| index == candidate));
        }
        if decision.prompts == 1 {
            tools::first_vote_spec(&candidates)
        } else {
            tools::vote_spec(&candidates)
        }
    }

    fn tools(&self, member_index: usize, attempt: &MemberAttempt) -> Vec<ToolSpec> {
        let new_answer = || tools::new_answer_spec(self.state.spec.compares_conclusions());
        let mut tools = match attempt.purpose {
            Purpose::Answer if self.accepts_plain_text() => Vec::new(),
            Purpose::Answer => vec![new_answer()],
            Purpose::Judge { may_answer, .. } => {
                let vote = self.vote_spec(member_index, attempt);
                if may_answer { vec![new_answer(), vote] } else { vec![vote] }
            }
            Purpose::Evaluate => vec![tools::submit_spec(), tools::restart_spec()],
            Purpose::Present { .. } | Purpose::Carry | Purpose::Converse | Purpose::Compact => Vec::new(),
        };
        let plan = self.state.spec.plan.as_ref().filter(|_| self.state.carries_out_plan(attempt.purpose));
        tools.extend(plan.map(|plan| tools::plan_task_spec(&plan.tasks)));
        tools.extend(self.state.may_spawn(attempt.purpose).iter().flat_map(tools::subagent_specs));
        tools
    }

    /// Whether the agent may answer in plain text: only in a quick run of a single agent, where a tool call adds
    /// nothing.
    fn accepts_plain_text(&self) -> bool {
        self.state.spec.rules.skip_voting && self.state.members.len() == 1
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod interactive_tests;
