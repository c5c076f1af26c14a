//! Reconciles the running effects and timers with the wanted ones, and ends a session.

use super::cost_limit::Refusal;
use super::effects::{Call, EffectId, PlanEffect};
use super::session::Session;
use super::{Input, SessionEnd};
use crate::decider::{EffectKey, EffectRequest};
use althing_protocol::{Fact, Millis, ProgramJob, ProgramReport, TaskId, Timer};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How long a session waits for stopped effects to end; time in which messages arrive does not count.
const ENDING_LIMIT: Duration = Duration::from_secs(8);
const ENDING_POLL: Duration = Duration::from_millis(200);

impl Session {
    pub(super) fn reconcile(&mut self) {
        for answer in std::mem::take(&mut self.program_answers) {
            if let Some(programs) = &self.deps.programs {
                programs.answer(&answer.task, &answer.native, &answer.option);
            }
        }
        self.costs.is_stopped = false;
        let wanted: Vec<_> =
            self.deciders.iter().map(|(task, decider)| (task.clone(), decider.wanted())).collect();
        for (task, wanted) in wanted {
            let timers = self.timers_of(&task, &wanted);
            let (effects, _) = wanted.into_effects();
            self.reconcile_task(&task, effects, timers);
        }
        if self.costs.is_stopped && self.effects.is_idle() {
            self.halt();
        }
    }

    fn reconcile_task(&mut self, owner: &TaskId, wanted: Vec<EffectKey>, timers: Vec<(Timer, Millis)>) {
        self.timers.set_wanted(owner, timers, self.deps.clock.now());
        if self.effects.match_exactly(owner, &wanted) {
            return;
        }
        self.effects.abort_unwanted(owner, &wanted);
        for key in wanted {
            let id = EffectId { owner: owner.clone(), key };
            if !self.effects.is_running(&id) {
                self.start(id);
            }
        }
    }

    fn start(&mut self, id: EffectId) {
        let Some(decider) = self.deciders.get(&id.owner) else { return };
        let (request, work) = (decider.effect_request(&id.key), decider.task_of(&id.key));
        match request {
            None => {}
            Some(EffectRequest::Call { request, agent, env }) => {
                let env = env.map(|(owner, visibility)| (self.envs.handle(&self.deps, owner), visibility));
                let backend = agent.and_then(|agent| self.deps.backends.get(&agent)).cloned();
                let reserved = match &backend {
                    Some(backend) => self.reserve_cost(&id, &**backend, &request),
                    None => Ok(()),
                };
                match reserved {
                    Ok(()) => self.effects.call(id, Call { work, request: *request, backend, env }),
                    Err(Refusal::Call(error)) => self.effects.refuse_call(id, error),
                    Err(Refusal::Session) => self.costs.is_stopped = true,
                }
            }
            Some(EffectRequest::SideTask { kind, access, env }) => {
                let env_handle = env.map(|owner| self.envs.handle(&self.deps, owner));
                self.effects.side_task(id, kind, access, env_handle);
            }
            Some(EffectRequest::StorePlan(draft)) => {
                self.effects.plan(id, self.deps.plans.clone(), PlanEffect::Store(draft));
            }
            Some(EffectRequest::OpenPlan(plan)) => {
                self.effects.plan(id, self.deps.plans.clone(), PlanEffect::Open(plan));
            }
            Some(EffectRequest::Program { spec, resume }) => {
                let EffectKey::Program(program) = &id.key else { return };
                let (task, attempt) = (program.task.clone(), program.attempt);
                let job = ProgramJob { dir: (self.deps.task_dir)(&task), task, attempt, spec: *spec, resume };
                self.effects.program(id, job, self.deps.programs.clone());
            }
        }
    }

    /// Stops the effects, waits for them for a limited time, commits the last facts and closes the feed.
    pub(super) fn stop(mut self, inbox: &Receiver<Input>) -> SessionEnd {
        self.effects.stop_all();
        self.report_costs();
        self.wait_for_ending(inbox);
        if self.halting && !self.is_over() {
            // Everything is already durable, except for notices about effects that were stopped.
            drop(self.commit_or_wait_for_disk(inbox));
            self.feed.close();
            let top = self.deciders.iter().filter(|(task, _)| self.is_root_task(task));
            return SessionEnd::Halted(top.filter_map(|(_, decider)| decider.result_if_stopped()).collect());
        }
        if !self.closed {
            self.record(None, None, Fact::SessionClosed {});
        }
        let written = self.commit_or_wait_for_disk(inbox);
        self.feed.close();
        match written {
            Ok(()) => SessionEnd::Finished,
            Err(error) => SessionEnd::Disk(error),
        }
    }

    /// Waits for stopped effects for a limited time, and records notices about them. (The runner kills a program that
    /// ignores the request to end.)
    fn wait_for_ending(&mut self, inbox: &Receiver<Input>) {
        let mut silent = Duration::ZERO;
        while self.effects.is_ending() && silent < ENDING_LIMIT {
            match inbox.recv_timeout(ENDING_POLL) {
                Ok(Input::EffectGone { serial }) => self.effects.gone(serial),
                Ok(
                    Input::Noticed { id, notice }
                    | Input::ProgramReported { id, report: ProgramReport::Notice(notice) },
                ) => self.record_notice(&id, notice),
                Ok(Input::Op(_) | Input::ProgramReported { .. } | Input::EffectEnded { .. }) => {}
                Err(_) => silent += ENDING_POLL,
            }
        }
    }
}
