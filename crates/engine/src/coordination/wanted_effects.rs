//! The effects that a run wants in its current state: model calls, side tasks, timers.

use super::countdown::Countdown;
use super::interpret_reply::{self, NextStep};
use super::state::{ContextState, MemberAttempt, MemberState};
use super::{CallKey, Coordination, SideTask, SideTaskKind, WantedEffects};
use althing_protocol::{Millis, Purpose, Timer};

impl Coordination {
    /// The effects that should be running now.
    pub fn wanted(&self) -> WantedEffects {
        let mut wanted = WantedEffects::default();
        if self.state.result.is_some() || self.state.halted {
            return wanted;
        }
        let limits = self.state.spec.rules.limits;
        // The run's time limit counts active time only, so its timer is paused while a person is asked.
        if self.interaction.is_none() {
            wanted.timers.push((Timer::Orchestrator, limits.orchestrator.minus(self.active)));
        }
        if self.state.someone_waits() {
            let timer = Timer::FirstAnswers { wait: self.state.waits + 1 };
            wanted.timers.push((timer, self.state.spec.rules.first_answer_wait));
        }
        if let Some(left) = self.countdown.as_ref().and_then(Countdown::left) {
            wanted.timers.push((Timer::OverrideWindow, left));
        }
        wanted.silence_timer = self.straggler_timer();
        for (index, member) in self.state.members.iter().enumerate() {
            let Some(attempt) = &member.attempt else { continue };
            let (agent, number) = (member.agent.id.clone(), attempt.number);
            let limit = if matches!(attempt.purpose, Purpose::Answer) {
                limits.initial_round
            } else {
                limits.subsequent_round
            };
            if let Some(limit) = limit {
                wanted.timers.push((Timer::RoundSoft { agent: agent.clone(), attempt: number }, limit));
                let hard = Millis(limit.0 + limits.round_grace.0);
                wanted.timers.push((Timer::RoundHard { agent, attempt: number }, hard));
            }
            self.want_next(index, member, attempt, &mut wanted);
            if !attempt.is_over() {
                wanted.side_tasks.extend(self.files_to_import(index, member, attempt));
            }
        }
        if let Some(member_index) =
            self.open_context().filter(|_| self.is_presented() || self.due_end().is_some())
        {
            let attempt = self.state.members.get(member_index).map_or(0, |member| member.attempts);
            wanted.side_tasks.push(SideTask { member_index, attempt, kind: SideTaskKind::CloseContext });
        }
        if self.must_store_plan() && self.due_end().is_some() {
            let (index, member) =
                self.answer_author().and_then(|author| self.state.find_member(&author)).unzip();
            let (member_index, attempt) =
                (index.unwrap_or_default(), member.map_or(0, |member| member.attempts));
            wanted.side_tasks.push(SideTask { member_index, attempt, kind: SideTaskKind::StorePlan });
        }
        if self.must_open_plan() {
            wanted.side_tasks.push(SideTask { member_index: 0, attempt: 0, kind: SideTaskKind::OpenPlan });
        }
        wanted
    }

    fn want_next(
        &self,
        index: usize,
        member: &MemberState,
        attempt: &MemberAttempt,
        wanted: &mut WantedEffects,
    ) {
        if attempt.is_over() {
            return;
        }
        let number = attempt.number;
        let side_task = |kind| SideTask { member_index: index, attempt: number, kind };
        match interpret_reply::next_step(&self.state, index, member, attempt) {
            NextStep::Call if self.must_open_context(member, attempt) => {
                wanted.side_tasks.push(side_task(SideTaskKind::OpenContext))
            }
            NextStep::Call => {
                wanted.calls.push(CallKey { member_index: index, attempt: number, step: attempt.turns.len() })
            }
            NextStep::Tools(calls) => {
                wanted.side_tasks.extend(calls.into_iter().map(|call| side_task(SideTaskKind::Tool(call))))
            }
            NextStep::CloseContext => wanted.side_tasks.push(side_task(SideTaskKind::CloseContext)),
            NextStep::Snapshot(label) => wanted.side_tasks.push(side_task(SideTaskKind::Snapshot(label))),
            NextStep::Spawn { .. } | NextStep::Facts(_) => {}
        }
    }

    /// Only an agent with tools that works alone may write to context paths.
    fn must_open_context(&self, member: &MemberState, attempt: &MemberAttempt) -> bool {
        let writes = self.works_alone(attempt);
        writes
            && member.agent.has_tools
            && member.context == ContextState::Closed
            && self.state.spec.may_write()
    }

    /// True for the presenter, and for the agent of a quick run with one agent except while it evaluates.
    fn works_alone(&self, attempt: &MemberAttempt) -> bool {
        match attempt.purpose {
            Purpose::Present { .. } => true,
            Purpose::Evaluate => false,
            _ => self.state.spec.is_single_and_quick(),
        }
    }

    /// Whether the agent may change nothing. Always true in a planning run. With `plan_first`, true for an agent with
    /// tools until its context paths are open, and for an agent without tools unless it works alone.
    pub(crate) fn only_plans(&self, member: &MemberState, attempt: &MemberAttempt) -> bool {
        let spec = &self.state.spec;
        let acts = if member.agent.has_tools {
            member.context == ContextState::Open
        } else {
            self.works_alone(attempt)
        };
        spec.modes.planning || (spec.rules.plan_first && !acts)
    }
}
