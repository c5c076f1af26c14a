//! The agents of runs and the programs of workflows, with the names under which front ends list them.

use super::{MemberView, RunView, SessionView, TaskKind, TaskView};
use althing_protocol::{TaskId, TaskStatus};

#[derive(Clone, Debug)]
pub struct Worker<'a> {
    /// The name of the agent or program. An agent of a workflow's run is shown as `task/agent`, an agent of a subagent
    /// run as, for example, `s1/agent`.
    pub name: String,
    pub program: bool,
    pub view: &'a MemberView,
}

impl<'a> Worker<'a> {
    fn agent(run: &RunView, view: &'a MemberView) -> Self {
        let agent = &view.member.id;
        let name = match run.id.as_str().split_once('.') {
            Some((_, run)) => format!("{run}/{agent}"),
            None => agent.to_string(),
        };
        Self { name, program: false, view }
    }

    fn program(task: &'a TaskView) -> Self {
        Self { name: task.name.clone(), program: true, view: &task.work }
    }

    pub fn activity(&self) -> String {
        match &self.view.waiting_for {
            Some(why) => format!("waits for you: {why}"),
            None => self.view.activity(),
        }
    }
}

impl SessionView {
    /// The agent or program whose work a task is; None for other tasks.
    pub fn worker(&self, task: &TaskId) -> Option<Worker<'_>> {
        if let Some((run, member_index)) = self.work_tasks.get(task) {
            let run = self.runs.get(run)?;
            return run.agents.get(*member_index).map(|agent| Worker::agent(run, agent));
        }
        self.task(task).filter(|task| matches!(task.kind, TaskKind::Program { .. })).map(Worker::program)
    }

    /// The agents and programs in order of creation; programs that have not started are left out.
    pub fn workers(&self) -> Vec<Worker<'_>> {
        let mut workers = Vec::new();
        for task in &self.tasks {
            match &task.kind {
                TaskKind::Program { .. } if task.status != TaskStatus::Pending => {
                    workers.push(Worker::program(task));
                }
                _ => {
                    let run = self.runs.get(&task.id);
                    workers.extend(
                        run.iter().flat_map(|run| run.agents.iter().map(|agent| Worker::agent(run, agent))),
                    );
                }
            }
        }
        workers
    }

    /// The width of the name column: the length of the longest name, from 4 to 24 characters.
    pub fn name_width(&self) -> usize {
        let widths = self.workers().into_iter().map(|worker| worker.name.chars().count());
        widths.max().unwrap_or_default().clamp(4, 24)
    }
}
