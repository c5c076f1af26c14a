//! Queries that front ends make about a session's state.

use super::{EntryBody, MemberView, Question, RunView, SessionView, TaskKind, TaskView};
use althing_protocol::{ChatState, InteractionKind, Phase, PlanRef, RunResult, TaskId, TaskStatus, Usage};

impl SessionView {
    /// The runs in order of creation, without subagent runs.
    pub fn own_runs(&self) -> impl DoubleEndedIterator<Item = &RunView> {
        let runs = self.tasks.iter().filter_map(|task| self.runs.get(&task.id));
        runs.filter(|run| !run.is_subagent_run)
    }

    /// The newest live run. Subagent runs are excluded.
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

    pub fn result(&self, run: &TaskId) -> Option<&RunResult> {
        self.runs.get(run)?.result.as_deref()
    }

    pub fn is_summarized(&self, run: &TaskId) -> bool {
        self.runs.get(run).is_some_and(|run| run.is_summarized)
    }

    /// What a plan is for: the task of the run that made it.
    pub fn plan_goal(&self, plan: &PlanRef) -> Option<&str> {
        let made = |run: &&RunView| {
            run.modes.planning && run.result.as_ref().is_some_and(|result| result.plan.as_ref() == Some(plan))
        };
        self.own_runs().rfind(made).map(|run| run.task.as_str())
    }

    /// The newest run with a result that is not a subagent run or a workflow's task; it has the session's final answer.
    pub fn finished_run(&self) -> Option<&RunView> {
        let runs = self.tasks.iter().rev().filter_map(|task| self.runs.get(&task.id));
        runs.filter(|run| !run.id.is_subtask()).find(|run| run.result.is_some())
    }

    pub fn workflow(&self) -> Option<&TaskView> {
        self.tasks.iter().find(|task| matches!(task.kind, TaskKind::Workflow(_)))
    }

    /// Whether a turn, a run or a program is in progress, so that modes must not change.
    pub fn is_busy(&self) -> bool {
        let chatting = !matches!(self.state, ChatState::Idle);
        chatting || self.live_run().is_some() || self.tasks.iter().any(TaskView::is_running_program)
    }

    /// The usage of the conversation, runs and programs.
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

    /// The number of programs and agents that wait for the user.
    pub fn waiting(&self) -> usize {
        let tasks = self.tasks.iter().filter(|task| task.status == TaskStatus::WaitingForUser);
        let agents =
            self.runs.values().flat_map(|run| &run.agents).filter(|agent| agent.waiting_for.is_some());
        tasks.filter(|task| matches!(task.kind, TaskKind::Program { .. })).count() + agents.count()
    }

    pub fn question_of(&self, task: &TaskId) -> Option<&Question> {
        self.questions.iter().find(|question| question.task.as_ref() == Some(task))
    }

    /// Marks all finished changes of files by the chat agent as undone.
    pub fn mark_edits_undone(&mut self) {
        for entry in &mut self.entries {
            if let EntryBody::Tool { result: Some((_, false)), edits, is_undone, .. } = &mut entry.body
                && !edits.is_empty()
            {
                *is_undone = true;
            }
        }
    }

    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// What the queued messages wait for; None if the next turn starts at once.
    pub fn queue_waits_for(&self) -> Option<&'static str> {
        if self.live_run().is_some() {
            return Some("run");
        }
        (self.state != ChatState::Idle).then_some("turn")
    }

    pub fn is_replying(&self) -> bool {
        let busy = match self.state {
            ChatState::Chatting
            | ChatState::ProcessingResults
            | ChatState::ProcessingPartial
            | ChatState::ProcessingCancelled => true,
            ChatState::Idle | ChatState::AwaitingApproval | ChatState::Running => false,
        };
        !self.streaming.is_empty() || (busy && self.chat_agent.is_some())
    }

    /// Whether the chat agent waits for the user's decision about a change of files.
    pub fn awaits_edit_permission(&self) -> bool {
        let asks =
            |question: &Question| matches!(question.interaction.kind, InteractionKind::EditApproval { .. });
        self.questions.iter().any(asks)
    }

    /// Whether there is a reply that can be stopped without stopping a run.
    pub fn can_stop_reply(&self) -> bool {
        self.is_replying() && self.live_run().is_none() && !self.awaits_edit_permission()
    }

    /// The live run whose final answer is being written, and the agent that writes it.
    pub fn presenting(&self) -> Option<(&RunView, &MemberView)> {
        let run = self.live_run().filter(|run| run.phase == Some(Phase::Presenting))?;
        let presenter = run.presenter()?;
        let agent = run.agents.iter().find(|agent| agent.member.id == *presenter)?;
        Some((run, agent))
    }

    /// The oldest open question of an override window. Questions of ended runs are skipped, because logs of 0.1 do not
    /// close the window of a cancelled run.
    pub fn override_question(&self) -> Option<&Question> {
        let is_live = |question: &&Question| {
            question.task.as_ref().and_then(|task| self.runs.get(task)).is_none_or(RunView::is_live)
        };
        let asks = |question: &&Question| {
            matches!(question.interaction.kind, InteractionKind::WinnerOverride { .. })
        };
        self.questions.iter().filter(asks).find(is_live)
    }

    pub fn is_offline(&self) -> bool {
        self.chat_agent.iter().chain(&self.team).any(|member| member.offline)
            || self.runs.values().flat_map(|run| &run.agents).any(|agent| agent.member.offline)
    }
}
