//! Tasks, their statuses and attempts, and the checkpoint that sums a session up.

use crate::{
    AgentId, BackendErrorKind, ChatSpec, Item, ProgramSpec, RunSpec, Seq, SessionId, TaskId, Timestamp,
    WorkflowSpec,
};
use serde::{Deserialize, Serialize};

/// What a task is. Everything that works is a task in one tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskSpec {
    /// A coordination of several agents.
    Run(Box<RunSpec>),
    /// Stages of tasks.
    Workflow(Box<WorkflowSpec>),
    /// A program that a stage runs.
    Program(Box<ProgramSpec>),
    /// A conversation.
    Chat(Box<ChatSpec>),
    /// One agent's part in it.
    Work {
        /// Which agent.
        agent: AgentId,
    },
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskStatus {
    /// Not begun.
    Pending,
    /// Under way.
    Running,
    /// A person has to answer first.
    WaitingForUser,
    /// Finished well.
    Done,
    /// Finished without a result.
    Failed,
    /// Stopped on request.
    Cancelled,
    /// Cut off by a crash or a shutdown; can be resumed.
    Interrupted,
}

impl TaskStatus {
    /// Whether nothing more will happen to such a task.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// The one table of allowed changes.
    pub fn can_become(self, next: Self) -> bool {
        match self {
            Self::Pending | Self::Interrupted => {
                next != self && next != Self::WaitingForUser && next != Self::Pending
            }
            Self::Running | Self::WaitingForUser => next != self && next != Self::Pending,
            Self::Done | Self::Failed | Self::Cancelled => false,
        }
    }
}

/// How one try of a work ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// It gave an answer.
    Answered,
    /// Its vote was counted.
    Voted,
    /// It presented this as the final answer.
    Presented {
        /// The final answer.
        text: String,
    },
    /// It judged the final answer.
    Evaluated {
        /// Why and how the run is to start over; None: the answer stands.
        restart: Option<Restart>,
    },
    /// A program came to its end.
    Exited {
        /// Whether it did what it was to do.
        ok: bool,
        /// Its exit code, unless a signal ended it.
        exit_code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Its final message or output: at most 64 KiB, then the path of the rest.
        output: String,
        /// Why it failed.
        error: Option<String>,
        /// What a person can do about it.
        hint: Option<String>,
    },
    /// It said what it had to say.
    Said,
    /// It did not do what it must, however often it was reminded.
    GaveUp {
        /// The last thing that was wrong.
        reason: String,
    },
    /// Its backend failed.
    Failed {
        /// What went wrong.
        error: String,
        /// What a person can do about it.
        hint: Option<String>,
        /// What kind of failure, where a model call was what failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<BackendErrorKind>,
    },
    /// Its time was up.
    TimedOut,
    /// It was not needed any more.
    Cancelled,
    /// A crash or a shutdown cut it off.
    Interrupted,
}

/// Why a final answer is not good enough, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// What it lacks.
    pub reason: String,
    /// What to do differently.
    pub instructions: String,
}

/// A deadline that a decider asks for; when it passes, the fact `TimerFired` says so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "timer", rename_all = "snake_case")]
pub enum Timer {
    /// The whole run's limit.
    Orchestrator,
    /// Agents that have answered need not wait longer for the others' first answers.
    FirstAnswers {
        /// Which wait of the run, from 1: it begins anew after each that passed.
        wait: u32,
    },
    /// The agent's attempt should come to an end.
    RoundSoft {
        /// Whose.
        agent: AgentId,
        /// Which attempt.
        attempt: u32,
    },
    /// The agent's attempt is ended.
    RoundHard {
        /// Whose.
        agent: AgentId,
        /// Which attempt.
        attempt: u32,
    },
    /// The window in which a person may override the winner.
    OverrideWindow,
    /// A workflow's task has had its time.
    Task {
        /// Which.
        task: TaskId,
        /// Which attempt.
        attempt: u32,
    },
}

/// What kind of session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// One run.
    Run,
    /// A workflow.
    Workflow,
    /// A conversation.
    Chat,
}

/// Where a session stands, as its checkpoint says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SessionState {
    /// Nothing is under way.
    Idle,
    /// The interactive agent answers.
    Chatting,
    /// A run waits for approval.
    AwaitingApproval,
    /// The interactive agent takes in a run's result.
    ProcessingResults,
    /// It takes in what a run had when it failed or ran out of time.
    ProcessingPartial,
    /// It takes in what a run had when it was cancelled.
    ProcessingCancelled,
    /// Work is under way (or was, when the process died).
    Running,
    /// A person has to answer.
    AwaitingInteraction,
    /// Finished well.
    Done,
    /// Finished without a result.
    Failed,
    /// Stopped on request.
    Cancelled,
}

/// The session in brief, rebuilt from the log whenever it is missing, damaged or behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Which session.
    pub id: SessionId,
    /// What kind it is.
    pub kind: SessionKind,
    /// What it is for, in the user's words.
    pub goal: String,
    /// Where it stands.
    pub state: SessionState,
    /// The stage of a workflow; 0 for everything else.
    pub current_stage_index: u32,
    /// Its tasks in stages; a run is one stage.
    pub stages: Vec<CheckpointStage>,
    /// What was said and answered, newest last.
    pub history: Vec<Item>,
    /// The last fact it includes.
    pub seq: Seq,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was written.
    pub updated_at: Timestamp,
}

/// A stage of the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointStage {
    /// What it is called; empty for everything but a workflow.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its tasks.
    pub tasks: Vec<CheckpointTask>,
}

/// A task of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointTask {
    /// Which.
    pub id: TaskId,
    /// Where it stands.
    pub status: TaskStatus,
    /// How often it was tried.
    pub attempts: u32,
    /// Exit code, for tasks that are processes.
    pub exit_code: Option<i32>,
    /// Why it failed.
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::TaskStatus::{Cancelled, Done, Failed, Interrupted, Pending, Running, WaitingForUser};

    #[test]
    fn a_finished_task_never_changes_and_a_running_one_never_becomes_pending() {
        let all = [Pending, Running, WaitingForUser, Done, Failed, Cancelled, Interrupted];
        for next in all {
            for done in [Done, Failed, Cancelled] {
                assert!(!done.can_become(next), "{done:?} to {next:?}");
            }
            assert!(!next.can_become(Pending));
            assert!(!next.can_become(next));
        }
        assert!(Running.can_become(WaitingForUser) && WaitingForUser.can_become(Running));
        assert!(Interrupted.can_become(Running) && !Pending.can_become(WaitingForUser));
    }
}
