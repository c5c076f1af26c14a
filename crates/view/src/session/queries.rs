//! Queries that front ends make about a session's state.

use super::{ConversationEntry, EntryBody, Question, RunView, SessionView, TaskKind, TaskView};
use althing_protocol::{ChatState, InteractionKind, RunResult, TaskId, TaskStatus, Usage};

impl SessionView {
    /// All runs of the session in order of creation, without subagent runs, which belong to the run that started
    /// them.
    pub fn own_runs(&self) -> impl DoubleEndedIterator<Item = &RunView> {
        let runs = self.tasks.iter().filter_map(|task| self.runs.get(&task.id));
        runs.filter(|run| !run.is_subagent_run)
    }

    /// The live run; the newest one if there are several. Subagent runs are excluded.
    pub fn live_run(&self) -> Option<&RunView> {
        self.own_runs().rfind(|run| run.is_live())
    }

    /// The newest run, live or not. Subagent runs are excluded.
    pub fn newest_run(&self) -> Option<&RunView> {
        self.own_runs().next_back()
    }

    pub fn task(&self, id: &TaskId) -> Option<&TaskView> {
        self.tasks.iter().find(|task| task.id == *id)
    }

    /// The result of a run, once it has ended.
    pub fn result(&self, run: &TaskId) -> Option<&RunResult> {
        self.runs.get(run)?.result.as_deref()
    }

    /// The newest finished run that is not a subagent run or a workflow's task. Its `result` contains the session's
    /// final answer.
    pub fn finished_run(&self) -> Option<&RunView> {
        let runs = self.tasks.iter().rev().filter_map(|task| self.runs.get(&task.id));
        runs.filter(|run| !run.id.is_subtask()).find(|run| run.result.is_some())
    }

    /// The workflow task, if the session is a workflow.
    pub fn workflow(&self) -> Option<&TaskView> {
        self.tasks.iter().find(|task| matches!(task.kind, TaskKind::Workflow(_)))
    }

    /// Whether a turn, a run or a program is in progress, so that modes must not change.
    pub fn is_busy(&self) -> bool {
        let chatting = !matches!(self.state, ChatState::Idle);
        chatting || self.live_run().is_some() || self.tasks.iter().any(TaskView::is_running_program)
    }

    /// Total usage of the conversation, runs and programs.
    pub fn usage(&self) -> Usage {
        let mut sum = self.chat_usage;
        for run in self.own_runs() {
            sum += run.usage();
        }
        for task in &self.tasks {
            sum += task.work.usage;
        }
        sum
    }

    /// Number of programs and agents that wait for the user.
    pub fn waiting(&self) -> usize {
        let tasks = self.tasks.iter().filter(|task| task.status == TaskStatus::WaitingForUser);
        let agents =
            self.runs.values().flat_map(|run| &run.agents).filter(|agent| agent.waiting_for.is_some());
        tasks.filter(|task| matches!(task.kind, TaskKind::Program { .. })).count() + agents.count()
    }

    /// The open question of a task.
    pub fn question_of(&self, task: &TaskId) -> Option<&Question> {
        self.questions.iter().find(|question| question.task.as_ref() == Some(task))
    }

    /// Number of queued messages.
    pub fn queued(&self) -> usize {
        let waits = |entry: &&ConversationEntry| matches!(entry.body, EntryBody::User { queued: true, .. });
        self.entries.iter().filter(waits).count()
    }

    /// The oldest open question of an override window.
    pub fn override_question(&self) -> Option<&Question> {
        self.questions
            .iter()
            .find(|question| matches!(question.interaction.kind, InteractionKind::WinnerOverride { .. }))
    }

    pub fn is_offline(&self) -> bool {
        self.chat_agent.iter().chain(&self.team).any(|member| member.offline)
            || self.runs.values().flat_map(|run| &run.agents).any(|agent| agent.member.offline)
    }
}
