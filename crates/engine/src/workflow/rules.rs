//! The rules of a workflow, which schedule its stages and tasks: which facts follow from the state.
//!
//! 1. Stages run in the order of the workflow file; there is no dependency graph, and so no cycle. (The tasks of a
//!    plan have dependencies; `althing_plan` checks them for cycles.) The tasks of a stage are created together, with
//!    their templates expanded from earlier stages.
//! 2. When a workflow is resumed, an interrupted program is started again, and resumes its conversation if it has one.
//!    `on_interrupt` changes this: the program starts without its conversation (`restart`), a person is asked first
//!    (`ask`), or the task fails (`fail`).
//! 3. A stage ends when all of its tasks have ended; then the next stage begins. If a task without
//!    `continue_on_failure` has failed or was cancelled, no further stage begins.
//! 4. Once the ended tasks have reached the workflow's cost limit (`--max-cost`), its running programs are ended, and
//!    nothing else starts. A run may spend at most what is left when its stage begins.
//! 5. A task that has failed or was cancelled can be retried, also after the workflow has ended: then the workflow
//!    continues. Tasks that are done are not started again.
//! 6. A workflow is done if all tasks of all stages are done; otherwise it has failed, or it was cancelled.

use super::session::{StageTaskState, TaskEnd};
use super::{WorkflowExecutor, template};
use crate::decider::{Consequence, ProgramKey, WantedEffects};
use althing_protocol::{
    AttemptOutcome, Decision, Fact, Interaction, InteractionId, InteractionKind, OnInterrupt, Phase, Purpose,
    RunSpec, StageBody, StageSpec, StageTask, TaskId, TaskSpec, TaskStatus, Timer, Usage,
};

impl WorkflowExecutor {
    /// The facts that follow from the state. The caller applies them and calls again until there are none.
    pub fn consequences(&self) -> Vec<Consequence> {
        if self.is_over() || self.session.halted {
            return Vec::new();
        }
        let status = |task: &TaskId, status, why| (task.clone(), Fact::StatusChanged { status, why });
        if self.session.status == TaskStatus::Pending || self.session.status == TaskStatus::Interrupted {
            return vec![status(&self.session.task, TaskStatus::Running, None)];
        }
        let settled: Vec<Consequence> =
            self.session.tasks.iter().flat_map(|(task, state)| self.task_consequences(task, state)).collect();
        if !settled.is_empty() {
            return settled;
        }
        let Some((index, stage)) = self.current_stage() else {
            return vec![self.finish()];
        };
        if self.session.stage != Some(index) {
            let is_ended = self.session.cancelled || self.session.cost_problem().is_some();
            return if is_ended || self.failed_before(index) {
                vec![self.finish()]
            } else {
                vec![(self.session.task.clone(), Fact::PhaseChanged { phase: Phase::Stage(index) })]
            };
        }
        let missing: Vec<Consequence> = stage
            .tasks
            .iter()
            .filter(|task| !self.session.tasks.contains_key(&self.session.current_task(&task.id)))
            .map(|task| self.create(task))
            .collect();
        if self.session.cancelled && missing.len() == stage.tasks.len() {
            vec![self.finish()]
        } else {
            missing
        }
    }

    /// The effects that should be running now.
    pub fn wanted(&self) -> WantedEffects {
        let mut wanted = WantedEffects::default();
        if self.is_over() || self.session.halted {
            return wanted;
        }
        for (task, state) in
            self.session.tasks.iter().filter(|(_, state)| state.running && state.program.is_some())
        {
            if state.interrupted || state.expired || state.cancelled || self.session.cancelled {
                continue;
            }
            wanted.programs.push(ProgramKey { task: task.clone(), attempt: state.attempts });
            if let Some(limit) = self.session.stage_task(task).and_then(|task| task.timeout) {
                wanted.timers.push((Timer::Task { task: task.clone(), attempt: state.attempts }, limit));
            }
        }
        wanted
    }

    fn current_stage(&self) -> Option<(u32, &StageSpec)> {
        let over = |stage: &StageSpec| {
            let done = |task: &StageTask| {
                let state = self.session.tasks.get(&self.session.current_task(&task.id));
                state.is_some_and(|state| state.status.is_final())
            };
            stage.tasks.iter().all(done)
        };
        (0..).zip(&self.session.spec.stages).find(|(_, stage)| !over(stage))
    }

    /// Whether a task of an earlier stage without `continue_on_failure` is not done.
    fn failed_before(&self, index: u32) -> bool {
        let earlier = self.session.spec.stages.iter().take(index as usize).flat_map(|stage| &stage.tasks);
        earlier
            .filter(|task| !task.continue_on_failure)
            .any(|task| self.session.status_of(task) != TaskStatus::Done)
    }

    fn create(&self, task: &StageTask) -> Consequence {
        let id = self.session.current_task(&task.id);
        let output = |name: &str| self.session.output_of(name);
        let values = template::Values { goal: self.session.goal(), output: &output };
        let spec = match &task.body {
            StageBody::Program(program) => {
                let mut program = program.clone();
                // Only the adapter `command` has a command; it is not an agent, and its prompt is its input.
                program.prompt = if program.command.is_empty() {
                    values.fill_for_agent(&program.prompt)
                } else {
                    values.fill(&program.prompt)
                };
                TaskSpec::Program(program)
            }
            StageBody::Run(run) => {
                let settle = |run: &mut RunSpec| {
                    run.task = values.fill_for_agent(&run.task);
                    run.context = run.context.as_deref().map(|text| values.fill_for_agent(text));
                    let limits = &mut run.rules.limits;
                    let left = self.session.left_micro_usd();
                    limits.cost_micro_usd = limits.cost_micro_usd.into_iter().chain(left).min();
                    if let Some(limit) = task.timeout {
                        run.rules.limits.orchestrator = run.rules.limits.orchestrator.min(limit);
                    }
                };
                let mut run = run.clone();
                settle(&mut run);
                if let Some(execution) = &mut run.execution {
                    settle(execution);
                }
                TaskSpec::Run(run)
            }
        };
        (id.clone(), Fact::TaskCreated { id, parent: Some(self.session.task.clone()), spec })
    }

    fn task_consequences(&self, id: &TaskId, state: &StageTaskState) -> Vec<Consequence> {
        let status = |status, why| (id.clone(), Fact::StatusChanged { status, why });
        // The status of a run is recorded by its own decider.
        if state.program.is_none() || state.status.is_final() {
            return Vec::new();
        }
        if state.running {
            let ended = |outcome| {
                let mut facts = state.close(id, Decision::MovedOn);
                let usage = Usage::default();
                facts.push((
                    id.clone(),
                    Fact::AttemptEnded { attempt: state.attempts, outcome, usage, call: None },
                ));
                facts
            };
            return match state {
                _ if state.cancelled || self.session.cancelled => ended(AttemptOutcome::Cancelled),
                _ if state.interrupted => ended(AttemptOutcome::Interrupted),
                _ if state.expired => ended(AttemptOutcome::TimedOut),
                _ if let Some(error) = self.session.cost_problem() => {
                    ended(AttemptOutcome::Failed { error, hint: None, kind: None })
                }
                StageTaskState { status: TaskStatus::Running, question: Some(open), .. } => {
                    let why = match &open.kind {
                        InteractionKind::Program(ask) => Some(ask.text.clone()),
                        _ => None,
                    };
                    vec![status(TaskStatus::WaitingForUser, why)]
                }
                StageTaskState { status: TaskStatus::WaitingForUser, question: None, .. } => {
                    vec![status(TaskStatus::Running, None)]
                }
                _ => Vec::new(),
            };
        }
        if let Some(TaskEnd { ok, error, .. }) = &state.end {
            let mut facts = state.close(id, Decision::MovedOn);
            facts.push(match (ok, state.cancelled || self.session.cancelled) {
                (true, _) => status(TaskStatus::Done, None),
                (false, true) => status(TaskStatus::Cancelled, None),
                (false, false) => status(TaskStatus::Failed, error.clone()),
            });
            return facts;
        }
        if state.cancelled || self.session.cancelled {
            return vec![status(TaskStatus::Cancelled, None)];
        }
        if let Some(problem) = self.session.cost_problem() {
            let mut facts = state.close(id, Decision::MovedOn);
            facts.push(status(TaskStatus::Failed, Some(problem)));
            return facts;
        }
        if state.suspended && !state.restart_approved {
            return after_interruption(id, state);
        }
        start(id, state)
    }

    fn finish(&self) -> Consequence {
        let all = self.session.spec.stages.iter().flat_map(|stage| &stage.tasks);
        let failed: Vec<&str> = all
            .filter(|task| self.session.status_of(task) != TaskStatus::Done)
            .filter(|task| self.session.tasks.contains_key(&self.session.current_task(&task.id)))
            .map(|task| task.id.as_str())
            .collect();
        let (status, why) = if self.session.cancelled {
            (TaskStatus::Cancelled, None)
        } else if let Some(problem) = self.session.cost_problem().filter(|_| self.current_stage().is_some()) {
            (TaskStatus::Failed, Some(problem))
        } else if failed.is_empty() {
            (TaskStatus::Done, None)
        } else {
            (TaskStatus::Failed, Some(format!("failed: {}", failed.join(", "))))
        };
        (self.session.task.clone(), Fact::StatusChanged { status, why })
    }
}

fn after_interruption(id: &TaskId, state: &StageTaskState) -> Vec<Consequence> {
    let status = |status, why: Option<&str>| {
        vec![(id.clone(), Fact::StatusChanged { status, why: why.map(str::to_owned) })]
    };
    match state.program.as_ref().and_then(|program| program.on_interrupt) {
        None | Some(OnInterrupt::Restart) => start(id, state),
        Some(OnInterrupt::Fail) => {
            let why = "it was interrupted, and its `on_interrupt` is `fail`";
            status(TaskStatus::Failed, Some(why))
        }
        // One fact at a time, so that the task can be resumed after any of them.
        Some(OnInterrupt::Ask) if state.question.is_none() => {
            let interaction = InteractionId::new(format!("{id}.i{}", state.question_count + 1));
            let kind = InteractionKind::Interrupted;
            let opened = Interaction { id: interaction, kind, countdown: None };
            vec![(id.clone(), Fact::InteractionOpened(opened))]
        }
        Some(OnInterrupt::Ask) => match state.status {
            TaskStatus::WaitingForUser => Vec::new(),
            TaskStatus::Running => {
                status(TaskStatus::WaitingForUser, Some("it was interrupted: start it again?"))
            }
            _ => status(TaskStatus::Running, None),
        },
    }
}

fn start(id: &TaskId, state: &StageTaskState) -> Vec<Consequence> {
    let mut facts = Vec::new();
    if state.status != TaskStatus::Running {
        facts.push((id.clone(), Fact::StatusChanged { status: TaskStatus::Running, why: None }));
    }
    let continues = state.suspended.then_some(state.attempts);
    let attempt = state.attempts + 1;
    facts.push((id.clone(), Fact::AttemptStarted { attempt, purpose: Purpose::Carry, continues }));
    facts
}
