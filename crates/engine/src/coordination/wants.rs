//! What should be under way, given the state: model calls, chores, deadlines.

use super::ruling::{self, Next};
use super::state::{Attempt, Context, Seat};
use super::{CallKey, Chore, ChoreKind, Coordination, Wanted};
use althing_protocol::{Millis, Purpose, Timer};

impl Coordination {
    /// What should be under way.
    pub fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::default();
        if self.state.result.is_some() || self.state.halted {
            return wanted;
        }
        let limits = self.state.spec.rules.limits;
        // The limit counts active time: not while a person is asked.
        if self.interaction.is_none() {
            wanted.timers.push((Timer::Orchestrator, limits.orchestrator.minus(self.active)));
        }
        if self.state.someone_waits() {
            let timer = Timer::FirstAnswers { wait: self.state.waits + 1 };
            wanted.timers.push((timer, self.state.spec.rules.first_answer_wait));
        }
        if let Some(countdown) = self.interaction.as_ref().and_then(|open| open.countdown) {
            wanted.timers.push((Timer::OverrideWindow, countdown));
        }
        for (seat, state) in self.state.seats.iter().enumerate() {
            let Some(attempt) = &state.attempt else { continue };
            let (agent, number) = (state.member.id.clone(), attempt.number);
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
            self.want_next(seat, state, attempt, &mut wanted);
            if !attempt.is_over() {
                wanted.chores.extend(self.files_to_take(seat, state, attempt));
            }
        }
        if let Some(seat) = self.open_context().filter(|_| self.is_presented() || self.due_end().is_some()) {
            let attempt = self.state.seats.get(seat).map_or(0, |seat| seat.attempts);
            wanted.chores.push(Chore { seat, attempt, kind: ChoreKind::CloseContext });
        }
        if self.must_store_plan() && self.due_end().is_some() {
            let (seat, state) = self.author().and_then(|author| self.state.seat(&author)).unzip();
            let (seat, attempt) = (seat.unwrap_or_default(), state.map_or(0, |state| state.attempts));
            wanted.chores.push(Chore { seat, attempt, kind: ChoreKind::StorePlan });
        }
        if self.must_open_plan() {
            wanted.chores.push(Chore { seat: 0, attempt: 0, kind: ChoreKind::OpenPlan });
        }
        wanted
    }

    fn want_next(&self, index: usize, seat: &Seat, attempt: &Attempt, wanted: &mut Wanted) {
        if attempt.is_over() {
            return;
        }
        let number = attempt.number;
        let chore = |kind| Chore { seat: index, attempt: number, kind };
        match ruling::next(&self.state, index, seat, attempt) {
            Next::Call if self.must_open_context(seat, attempt) => {
                wanted.chores.push(chore(ChoreKind::OpenContext))
            }
            Next::Call => {
                wanted.calls.push(CallKey { seat: index, attempt: number, step: attempt.turns.len() })
            }
            Next::Tools(calls) => {
                wanted.chores.extend(calls.into_iter().map(|call| chore(ChoreKind::Tool(call))))
            }
            Next::Keep(label) => wanted.chores.push(chore(ChoreKind::Keep(label))),
            Next::Spawn { .. } | Next::Facts(_) => {}
        }
    }

    /// Context paths are opened for writing when nobody works beside the one who writes: to the presenter, and to a
    /// single quick agent from its start.
    fn must_open_context(&self, seat: &Seat, attempt: &Attempt) -> bool {
        let writes = self.works_alone(attempt);
        writes && seat.member.has_tools && seat.context == Context::Closed && self.state.spec.may_write()
    }

    /// Whether no other agent works beside this attempt, so that it may act.
    fn works_alone(&self, attempt: &Attempt) -> bool {
        match attempt.purpose {
            Purpose::Present { .. } => true,
            Purpose::Evaluate => false,
            _ => self.state.spec.is_single_and_quick(),
        }
    }

    /// Whether the agent of this attempt only plans, and may change nothing: in a planning run always; in a run that plans
    /// first until it may act, which for an agent with a place of its own is when its context paths are open.
    pub(crate) fn only_plans(&self, seat: &Seat, attempt: &Attempt) -> bool {
        let spec = &self.state.spec;
        let acts =
            if seat.member.has_tools { seat.context == Context::Open } else { self.works_alone(attempt) };
        spec.modes.planning || (spec.rules.plan_first && !acts)
    }
}
