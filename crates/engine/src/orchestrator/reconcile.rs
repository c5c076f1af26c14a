//! Reconciles the running effects and timers with the wanted ones, writes result files, and ends a session.

use super::effects::{Call, EffectId, PlanEffect};
use super::session::Session;
use super::{Input, SessionEnd};
use crate::decider::{EffectKey, EffectRequest};
use althing_protocol::{Fact, Millis, Notice, NoticeLevel, ProgramJob, TaskId, Timer};
use std::sync::mpsc::Receiver;

impl Session {
    /// Sends the answers for programs, then starts and stops effects and timers, so that exactly the wanted ones are
    /// running.
    pub(super) fn reconcile(&mut self) {
        for answer in std::mem::take(&mut self.program_answers) {
            if let Some(programs) = &self.deps.programs {
                programs.answer(&answer.task, &answer.native, &answer.option);
            }
        }
        let wanted: Vec<_> =
            self.deciders.iter().map(|(task, decider)| (task.clone(), decider.wanted())).collect();
        for (task, wanted) in wanted {
            let (effects, timers) = wanted.into_effects();
            self.reconcile_task(&task, effects, timers);
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
                self.effects.call(id, Call { work, request: *request, backend, env });
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

    /// Writes the result files of the tasks that have ended, once per task. A failure is recorded as a warning.
    pub(super) fn write_result_files(&mut self) {
        let mut errors = Vec::new();
        for (task, decider) in &self.deciders {
            if self.files_written.contains(task) {
                continue;
            }
            let error = match decider.files() {
                Ok(files) if files.is_empty() => continue,
                Ok(files) => {
                    let journal = &mut self.deps.journal;
                    let failed =
                        files.iter().find_map(|(name, text)| journal.write_file(task, name, text).err());
                    failed.map(|error| (error.to_string(), error.hint))
                }
                Err(error) => Some((error.to_string(), None)),
            };
            self.files_written.insert(task.clone());
            errors.extend(error);
        }
        for (error, hint) in errors {
            let text = format!("the session's files could not be written: {error}");
            let notice = Notice { level: NoticeLevel::Warning, text, hint };
            self.record(None, None, Fact::Notice(notice));
        }
    }

    /// Ends the session: stops its effects and closes the feed. If the session was asked to stop before its tasks had
    /// ended, returns the partial results of its runs; otherwise commits the last facts before it closes the feed.
    pub(super) fn stop(mut self, inbox: &Receiver<Input>) -> SessionEnd {
        self.effects.stop_all();
        if self.halting && !self.is_over() {
            self.feed.close();
            let top = self.deciders.iter().filter(|(task, _)| self.is_root_task(task));
            return SessionEnd::Halted(top.filter_map(|(_, decider)| decider.result_if_stopped()).collect());
        }
        let written = self.commit_or_wait_for_disk(inbox);
        self.feed.close();
        match written {
            Ok(()) => SessionEnd::Finished,
            Err(error) => SessionEnd::Disk(error),
        }
    }
}
