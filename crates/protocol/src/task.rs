//! Tasks, their statuses and attempts, and the checkpoint that summarizes a session.

use crate::{
    AgentId, BackendErrorKind, ChatSpec, Item, ProgramSpec, RunSpec, Seq, SessionId, TaskId, Timestamp,
    WorkflowSpec,
};
use serde::{Deserialize, Serialize};

/// What a task does. All work of a session is one tree of tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskSpec {
    /// A run.
    Run(Box<RunSpec>),
    /// A workflow: stages of tasks.
    Workflow(Box<WorkflowSpec>),
    /// A program that a workflow's stage runs.
    Program(Box<ProgramSpec>),
    /// A conversation.
    Chat(Box<ChatSpec>),
    /// The work of one member of a run.
    Work {
        /// The agent that works.
        agent: AgentId,
    },
}

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskStatus {
    /// Not begun.
    Pending,
    /// In progress.
    Running,
    /// Waiting for a person's answer.
    WaitingForUser,
    /// Ended successfully; for a run: with a complete or partial result.
    Done,
    /// Ended without success; for a run: without an answer.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Interrupted by a crash or a shutdown; can be resumed.
    Interrupted,
}

impl TaskStatus {
    /// Whether a task with this status is over.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// Whether a task may change from this status to `next`; defined nowhere else.
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

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// The agent gave an answer.
    Answered,
    /// The agent voted. The vote may not count.
    Voted,
    /// The agent wrote a text to be the final answer.
    Presented {
        /// The text.
        text: String,
        /// Why the text is not the final answer, as the predicate of a sentence about it (`is empty`). None: it is.
        /// Logs of 0.1 contain no rejected texts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rejected: Option<String>,
    },
    /// The agent evaluated the final answer.
    Evaluated {
        /// Why and how the run should start over; None: the answer is accepted.
        restart: Option<Restart>,
    },
    /// A program exited.
    Exited {
        /// Whether the program succeeded.
        ok: bool,
        /// The exit code, unless a signal ended the program.
        exit_code: Option<i32>,
        /// The signal that ended the program.
        signal: Option<i32>,
        /// The final message or the output, at most 64 KiB: if it is longer, its beginning and end, with a note between
        /// them that says where all of it is (of the text of a terminal: only its end).
        output: String,
        /// Why the program failed.
        error: Option<String>,
        /// A hint for people: how to fix the problem.
        hint: Option<String>,
    },
    /// The chat agent finished its reply, or its summary of the older part of the conversation.
    Said,
    /// The chat agent's reply waits until the conversation is compacted; another attempt continues it.
    Paused,
    /// The attempt was given up: the agent did not end its turn as required despite reminders, its summary was empty, a
    /// limit was reached, or the user did not raise the budget.
    GaveUp {
        /// Why the attempt was given up, for example what was wrong with the agent's last reply.
        reason: String,
    },
    /// A model call, or something else that the attempt needs, failed.
    Failed {
        /// The error message.
        error: String,
        /// A hint for people: how to fix the problem.
        hint: Option<String>,
        /// The kind of failure, if a model call failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<BackendErrorKind>,
    },
    /// A judge replied in plain text without a vote, even after a reminder.
    Abstained,
    /// The attempt's time limit passed, or its agent sent nothing while all others were done.
    TimedOut,
    /// The attempt was cancelled, or was no longer needed.
    Cancelled,
    /// A crash or a shutdown interrupted the attempt.
    Interrupted,
}

impl AttemptOutcome {
    /// Whether the usage of an `AttemptEnded` with this outcome comes on top of that of the attempt's replies;
    /// otherwise it is the sum of the replies' usage.
    pub fn has_own_usage(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Exited { .. })
    }
}

/// A request to start a run over: why the final answer is not good enough, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// What the answer lacks.
    pub reason: String,
    /// What the agents should do differently.
    pub instructions: String,
}

/// A timer that a decider requests; when it expires, the fact `TimerFired` is recorded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "timer", rename_all = "snake_case")]
pub enum Timer {
    /// The time limit of the whole run.
    Orchestrator,
    /// The time after which agents stop waiting for the others' first answers, or for agents that are still judging.
    FirstAnswers {
        /// The number of the wait, counted from 1; after one wait has expired, another may begin.
        wait: u32,
    },
    /// The time after which the agent is asked to finish its attempt.
    RoundSoft {
        /// The agent.
        agent: AgentId,
        /// The number of the attempt.
        attempt: u32,
    },
    /// The time after which the agent's attempt is ended.
    RoundHard {
        /// The agent.
        agent: AgentId,
        /// The number of the attempt.
        attempt: u32,
    },
    /// The time after which the run goes on without an agent that has sent nothing while all others are done.
    Straggler {
        /// The agent.
        agent: AgentId,
        /// The number of the attempt.
        attempt: u32,
        /// The number of turns (replies, tool results, reminders, …) in the attempt before the call that sent nothing.
        step: usize,
    },
    /// The window in which a person may override the winner.
    OverrideWindow,
    /// The time limit of a workflow's task.
    Task {
        /// The task.
        task: TaskId,
        /// The number of the attempt.
        attempt: u32,
    },
}

/// The kind of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// A single run.
    Run,
    /// A workflow.
    Workflow,
    /// A conversation.
    Chat,
}

/// The state of a session, as its checkpoint records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SessionState {
    /// The conversation waits for the user, or no run or workflow has begun yet.
    Idle,
    /// The chat agent works on a reply, or a turn has just begun.
    Chatting,
    /// A run or a plan awaits approval.
    AwaitingApproval,
    /// The chat agent processes a run's result.
    ProcessingResults,
    /// The chat agent processes the partial result of a run that failed or reached a limit.
    ProcessingPartial,
    /// The chat agent processes the partial result of a cancelled run.
    ProcessingCancelled,
    /// Work is in progress, or was in progress when the process died.
    Running,
    /// Waiting for a person's answer.
    AwaitingInteraction,
    /// Ended successfully; for a run: with a complete or partial result.
    Done,
    /// Ended without success; for a run: without an answer.
    Failed,
    /// Cancelled.
    Cancelled,
}

/// A summary of a session, rebuilt from the log if it is missing, damaged or outdated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The id of the session.
    pub id: SessionId,
    /// The kind of the session.
    pub kind: SessionKind,
    /// The goal of the session, in the user's words; for a conversation, the first line of its first message.
    pub goal: String,
    /// The directory in which the session was started; empty in checkpoints of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cwd: String,
    /// The state of the session.
    pub state: SessionState,
    /// The current stage of a workflow; 0 for other sessions.
    pub current_stage_index: u32,
    /// The session's tasks by stage; a session without a workflow has one stage.
    pub stages: Vec<CheckpointStage>,
    /// The messages to and from the chat agent and programs, and the final answers of runs, newest last.
    pub history: Vec<Item>,
    /// The last fact that the checkpoint includes.
    pub seq: Seq,
    /// When the session was created.
    pub created_at: Timestamp,
    /// When the last fact that the checkpoint includes was recorded.
    pub updated_at: Timestamp,
}

/// A stage of the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointStage {
    /// The stage's name; empty except in workflows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The stage's tasks.
    pub tasks: Vec<CheckpointTask>,
}

/// A task of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointTask {
    /// The id of the task; in a workflow, the task's name in the workflow file.
    pub id: TaskId,
    /// The status of the task.
    pub status: TaskStatus,
    /// The number of the last attempt, counted from 1; 0 if there was none.
    pub attempts: u32,
    /// The exit code, for tasks that are programs.
    pub exit_code: Option<i32>,
    /// Why the task, or its last attempt so far, failed.
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
