//! Questions that front ends ask about a session's state.

use super::{Body, Entry, Question, RunView, SessionView, TaskKind, TaskView};
use althing_protocol::{ChatState, InteractionKind, RunResult, TaskId, TaskStatus, Usage};

impl SessionView {
    /// The runs that were asked for by a person or by the conversation, in the order in which they began. What an agent
    /// sends others to do is part of its own run.
    pub fn own_runs(&self) -> impl DoubleEndedIterator<Item = &RunView> {
        let runs = self.tasks.iter().filter_map(|task| self.runs.get(&task.id));
        runs.filter(|run| !run.errand)
    }

    /// The run that is under way, the newest if there are several.
    pub fn live_run(&self) -> Option<&RunView> {
        self.own_runs().rfind(|run| run.is_live())
    }

    /// The newest run, live or not.
    pub fn newest_run(&self) -> Option<&RunView> {
        self.own_runs().next_back()
    }

    /// A task by its id.
    pub fn task(&self, id: &TaskId) -> Option<&TaskView> {
        self.tasks.iter().find(|task| task.id == *id)
    }

    /// What came of a run.
    pub fn result(&self, run: &TaskId) -> Option<&RunResult> {
        self.runs.get(run)?.result.as_deref()
    }

    /// The newest run that ended and is not part of another task. The final answer of the session is in its `result`.
    pub fn finished_run(&self) -> Option<&RunView> {
        let runs = self.tasks.iter().rev().filter_map(|task| self.runs.get(&task.id));
        runs.filter(|run| !run.id.is_subtask()).find(|run| run.result.is_some())
    }

    /// The workflow, where the session is one.
    pub fn workflow(&self) -> Option<&TaskView> {
        self.tasks.iter().find(|task| matches!(task.kind, TaskKind::Workflow(_)))
    }

    /// Whether agents are at work, so that modes must not change.
    pub fn is_busy(&self) -> bool {
        let chatting = !matches!(self.state, ChatState::Idle);
        chatting || self.live_run().is_some() || self.tasks.iter().any(TaskView::is_program_at_work)
    }

    /// What everything has cost.
    pub fn usage(&self) -> Usage {
        let mut sum = self.talk;
        for run in self.own_runs() {
            sum += run.usage();
        }
        for task in &self.tasks {
            sum += task.part.usage;
        }
        sum
    }

    /// How many tasks wait for the user.
    pub fn waiting(&self) -> usize {
        let tasks = self.tasks.iter().filter(|task| task.status == TaskStatus::WaitingForUser);
        let agents = self.runs.values().flat_map(|run| &run.agents).filter(|agent| agent.waits.is_some());
        tasks.filter(|task| matches!(task.kind, TaskKind::Program { .. })).count() + agents.count()
    }

    /// The open question of a task.
    pub fn question_of(&self, task: &TaskId) -> Option<&Question> {
        self.questions.iter().find(|question| question.task.as_ref() == Some(task))
    }

    /// How many messages wait for their turn.
    pub fn queued(&self) -> usize {
        let waits = |entry: &&Entry| matches!(entry.body, Body::User { queued: true, .. });
        self.entries.iter().filter(waits).count()
    }

    /// The open question about who presents.
    pub fn override_question(&self) -> Option<&Question> {
        self.questions
            .iter()
            .find(|question| matches!(question.interaction.kind, InteractionKind::WinnerOverride { .. }))
    }

    /// Whether the offline model takes part.
    pub fn is_offline(&self) -> bool {
        self.interlocutor.iter().chain(&self.team).any(|member| member.offline)
            || self.runs.values().flat_map(|run| &run.agents).any(|agent| agent.member.offline)
    }
}
