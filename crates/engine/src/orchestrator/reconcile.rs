//! Makes what is under way what is wanted: starts and stops doers and deadlines, and writes a session's last words.

use super::doers::{Call, DoerKey, PlanJob};
use super::session::Session;
use super::{Input, SessionEnd};
use crate::decider::{Job, Order};
use althing_protocol::{Fact, Millis, Notice, NoticeLevel, ProgramJob, TaskId, Timer};
use std::sync::mpsc::Receiver;

impl Session {
    /// Starts and stops doers and deadlines, so that what is under way is what is wanted.
    pub(super) fn reconcile(&mut self) {
        for told in std::mem::take(&mut self.to_tell) {
            if let Some(programs) = &self.parts.programs {
                programs.answer(&told.task, &told.native, &told.option);
            }
        }
        let wanted: Vec<_> =
            self.deciders.iter().map(|(task, decider)| (task.clone(), decider.wanted())).collect();
        for (task, wanted) in wanted {
            let (jobs, timers) = wanted.jobs();
            self.make_so(&task, jobs, timers);
        }
    }

    fn make_so(&mut self, owner: &TaskId, jobs: Vec<Job>, timers: Vec<(Timer, Millis)>) {
        self.timers.want(owner, timers, self.parts.clock.now());
        if self.doers.are_just(owner, &jobs) {
            return;
        }
        self.doers.keep_only(owner, &jobs);
        for job in jobs {
            let key = DoerKey { owner: owner.clone(), job };
            if !self.doers.has(&key) {
                self.start(key);
            }
        }
    }

    fn start(&mut self, key: DoerKey) {
        let Some(decider) = self.deciders.get(&key.owner) else { return };
        let (order, work) = (decider.order(&key.job), decider.task_of(&key.job));
        match order {
            None => {}
            Some(Order::Call { request, agent, place }) => {
                let place = place.map(|(whose, sight)| (self.places.way(&self.parts, whose), sight));
                let backend = agent.and_then(|agent| self.parts.backends.get(&agent)).cloned();
                self.doers.call(key, Call { work, request: *request, backend, place });
            }
            Some(Order::Chore { kind, access, place }) => {
                let way = place.map(|whose| self.places.way(&self.parts, whose));
                self.doers.chore(key, kind, access, way);
            }
            Some(Order::StorePlan(draft)) => {
                self.doers.plan(key, self.parts.plans.clone(), PlanJob::Store(draft));
            }
            Some(Order::OpenPlan(plan)) => {
                self.doers.plan(key, self.parts.plans.clone(), PlanJob::Open(plan));
            }
            Some(Order::Program { spec, resume }) => {
                let Job::Program(program) = &key.job else { return };
                let (task, attempt) = (program.task.clone(), program.attempt);
                let job =
                    ProgramJob { dir: (self.parts.task_dir)(&task), task, attempt, spec: *spec, resume };
                self.doers.program(key, job, self.parts.programs.clone());
            }
        }
    }

    /// Writes the files of what has come to its end.
    pub(super) fn keep_finished(&mut self) {
        let mut errors = Vec::new();
        for (task, decider) in &self.deciders {
            if self.kept.contains(task) {
                continue;
            }
            let kept = match decider.files() {
                Ok(files) if files.is_empty() => continue,
                Ok(files) => {
                    let journal = &mut self.parts.journal;
                    let refused =
                        files.iter().find_map(|(name, text)| journal.write_file(task, name, text).err());
                    refused.map(|error| (error.to_string(), error.hint))
                }
                Err(error) => Some((error.to_string(), None)),
            };
            self.kept.insert(task.clone());
            errors.extend(kept);
        }
        for (error, hint) in errors {
            let text = format!("the session's files could not be written: {error}");
            let notice = Notice { level: NoticeLevel::Warning, text, hint };
            self.record(None, None, Fact::Notice(notice));
        }
    }

    /// The last words of a session.
    pub(super) fn stop(mut self, inbox: &Receiver<Input>) -> SessionEnd {
        self.doers.stop_all();
        if self.halting && !self.is_over() {
            self.feed.close();
            let top = self.deciders.iter().filter(|(task, _)| self.is_top(task));
            return SessionEnd::Halted(top.filter_map(|(_, decider)| decider.result_if_stopped()).collect());
        }
        let written = self.commit(inbox);
        self.feed.close();
        match written {
            Ok(()) => SessionEnd::Finished,
            Err(error) => SessionEnd::Disk(error),
        }
    }
}
