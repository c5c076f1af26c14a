//! Makes what is under way what is wanted: starts and stops doers and deadlines, and writes a session's last words.

use super::doers::{Call, DoerKey, Job, PlanJob};
use super::places::{Places, Sight};
use super::session::Session;
use super::{Input, Stopped};
use crate::coordination::{Chore, ChoreKind, Coordination};
use crate::workflow::WorkflowExecutor;
use althing_protocol::{
    ContextAccess, Fact, Journal, JournalError, Millis, Notice, NoticeLevel, ProgramJob, RunEnd, TaskId,
    Timer,
};
use std::fmt::Write;
use std::sync::mpsc::Receiver;

impl Session {
    /// Starts and stops doers and deadlines, so that what is under way is what is wanted.
    pub(super) fn reconcile(&mut self) {
        for told in std::mem::take(&mut self.to_tell) {
            if let Some(programs) = &self.parts.programs {
                programs.answer(&told.task, &told.native, &told.option);
            }
        }
        let runs: Vec<TaskId> = self.runs.keys().cloned().collect();
        for id in runs {
            let Some(wanted) = self.runs.get(&id).map(Coordination::wanted) else { continue };
            let calls = wanted.calls.into_iter().map(Job::Call);
            let jobs = calls.chain(wanted.chores.into_iter().map(Job::Chore)).collect();
            self.make_so(&id, jobs, wanted.timers);
        }
        if let Some(chat) = &self.chat {
            let (id, wanted) = (chat.task().clone(), chat.wanted());
            let calls = wanted.calls.into_iter().map(Job::Call);
            let jobs = calls.chain(wanted.chores.into_iter().map(Job::Chore)).collect();
            self.make_so(&id, jobs, wanted.timers);
        }
        if let Some(workflow) = &self.workflow {
            let (id, wanted) = (workflow.task.clone(), workflow.wanted());
            let jobs = wanted.programs.into_iter().map(Job::Program).collect();
            self.make_so(&id, jobs, wanted.timers);
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
        match key.job.clone() {
            Job::Call(_) if self.is_chat(&key.owner) => {
                let Some(chat) = &self.chat else { return };
                let Some(request) = chat.request() else { return };
                let agent = chat.spec().agent.as_ref().map(|agent| &agent.member.id);
                let backend = agent.and_then(|agent| self.parts.backends.get(agent)).cloned();
                let way = self.places.way_to_chat(&self.parts, chat);
                // Nobody works beside it.
                let sight = Sight { access: ContextAccess::Writable, labels: Vec::new() };
                let place = chat.is_at_work().then_some((way, sight));
                self.doers.call(key, Call { work: TaskId::chat(), request, backend, place });
            }
            Job::Chore(chore) if self.is_chat(&key.owner) => {
                let Some(chat) = &self.chat else { return };
                let way = self.places.way_to_chat(&self.parts, chat);
                self.doers.chore(key, chore.kind, ContextAccess::Writable, Some(way));
            }
            Job::Call(call) => {
                let Some(run) = self.runs.get(&key.owner) else { return };
                let Some(request) = run.request(call.seat) else { return };
                let way = self.places.way(&self.parts, run, call.seat);
                let place = way.map(|way| (way, Places::sight(run, call.seat)));
                let backend = run.agent(call.seat).and_then(|agent| self.parts.backends.get(agent)).cloned();
                self.doers.call(key, Call { work: run.work(call.seat), request, backend, place });
            }
            Job::Chore(Chore { kind: ChoreKind::StorePlan, .. }) => {
                let Some(draft) = self.runs.get(&key.owner).and_then(Coordination::plan_draft) else {
                    return;
                };
                self.doers.plan(key, self.parts.plans.clone(), PlanJob::Store(draft));
            }
            Job::Chore(Chore { kind: ChoreKind::OpenPlan, .. }) => {
                let plan = self.runs.get(&key.owner).and_then(|run| run.spec().plan.clone());
                let Some(plan) = plan else { return };
                self.doers.plan(key, self.parts.plans.clone(), PlanJob::Open(plan));
            }
            Job::Chore(chore) => {
                let Some(run) = self.runs.get(&key.owner) else { return };
                let way = self.places.way(&self.parts, run, chore.seat);
                self.doers.chore(key, chore.kind, run.access(chore.seat), way);
            }
            Job::Program(program) => {
                let found = self.workflow.as_ref().and_then(|workflow| workflow.program(&program));
                let Some((spec, resume)) = found else { return };
                let job = ProgramJob {
                    task: program.task.clone(),
                    attempt: program.attempt,
                    spec: spec.clone(),
                    resume: resume.map(str::to_owned),
                    dir: (self.parts.task_dir)(&program.task),
                };
                self.doers.program(key, job, self.parts.programs.clone());
            }
        }
    }

    /// Writes the files of what has come to its end.
    pub(super) fn keep_finished(&mut self) {
        let mut errors = Vec::new();
        for (id, run) in &self.runs {
            if run.result().is_some() && self.kept.insert(id.clone()) {
                errors.extend(keep_run(&mut *self.parts.journal, run).err());
            }
        }
        if let Some(workflow) = self.workflow.as_ref().filter(|workflow| workflow.is_over())
            && self.kept.insert(workflow.task.clone())
        {
            errors.extend(keep_workflow(&mut *self.parts.journal, workflow).err());
        }
        for error in errors {
            let text = format!("the session's files could not be written: {error}");
            let notice = Notice { level: NoticeLevel::Warning, text, hint: error.hint };
            self.record(None, None, Fact::Notice(notice));
        }
    }

    /// The last words of a session.
    pub(super) fn stop(mut self, inbox: &Receiver<Input>) -> Stopped {
        self.doers.stop_all();
        if self.halting && !self.is_over() {
            self.feed.close();
            let runs = self.runs.values().filter(|run| self.is_top(&run.task));
            return Stopped::Halted(runs.map(|run| run.result_as_of_now(RunEnd::Cancelled)).collect());
        }
        let written = self.commit(inbox);
        self.feed.close();
        match written {
            Ok(()) => Stopped::Finished,
            Err(error) => Stopped::Disk(error),
        }
    }
}

/// Puts a run's answers and result beside the log, for people; the log stays the truth.
fn keep_run(journal: &mut dyn Journal, run: &Coordination) -> Result<(), JournalError> {
    let Some(result) = run.result() else { return Ok(()) };
    // One file for all of them: hundreds of agents must not mean hundreds of files.
    let mut answers = String::new();
    for answer in run.answers() {
        let _ = write!(answers, "# {} ({})\n\n{}\n\n", answer.label, answer.agent, answer.content);
    }
    journal.keep(&run.task, "answers.md", &answers)?;
    if let Some(answer) = &result.final_answer {
        journal.keep(&run.task, "final_answer.md", answer)?;
    }
    let json = serde_json::to_string_pretty(result).unwrap_or_default();
    journal.keep(&run.task, "result.json", &json)
}

/// Puts a workflow's report beside the log.
fn keep_workflow(journal: &mut dyn Journal, workflow: &WorkflowExecutor) -> Result<(), JournalError> {
    let json = serde_json::to_string_pretty(&workflow.report()).unwrap_or_default();
    journal.keep(&workflow.task, "result.json", &json)
}
