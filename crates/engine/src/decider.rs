//! The interface of all deciders. A session has one decider for each run, workflow and conversation. The session folds
//! facts into its deciders, records the facts that follow, and runs the effects that the deciders want.

use althing_protocol::{
    AgentId, AnswerLabel, ChatSpec, ContextAccess, Decision, Event, Fact, InteractionId, Item, Millis,
    ModelRequest, Notice, Op, PlanDraft, PlanRun, ProgramReport, ProgramSpec, ResumedConversation, RunResult,
    RunSpec, TaskId, Timer, ToolCall,
};
use std::sync::Arc;

/// A model call that should be running, identified by its position in its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    /// The index of the member that makes the call; 0 for the chat agent.
    pub member_index: usize,
    /// The number of the attempt.
    pub attempt: u32,
    /// The number of turns in the attempt before the call.
    pub step: usize,
}

/// Work for an agent that is not a model call, such as executing a tool call or taking a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SideTask {
    /// The index of the member that the work is for; 0 for the chat agent.
    pub member_index: usize,
    /// The number of the member's attempt.
    pub attempt: u32,
    /// What to do.
    pub kind: SideTaskKind,
}

/// The kinds of side task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SideTaskKind {
    /// Execute a tool call.
    Tool(ToolCall),
    /// Find out what a tool call would change in files.
    PreviewEdit(ToolCall),
    /// Execute a tool call that changes files, if it would still change what its preview with this digest showed.
    Edit {
        /// The call.
        call: ToolCall,
        /// The digest of the preview.
        digest: String,
    },
    /// Take a snapshot of the workspace under this label.
    Snapshot(AnswerLabel),
    /// Copy a subagent's files into the workspace.
    ImportFiles {
        /// The subagent run.
        subagent: TaskId,
        /// The directory of the files.
        from: String,
        /// The target directory within the workspace.
        name: String,
    },
    /// Let the agent write to the context paths that the run may write to.
    OpenContext,
    /// Make the context paths read-only again, and list what changed.
    CloseContext,
    /// Store the plan of a planning run.
    StorePlan,
    /// Read the current version of the plan that the run executes.
    OpenPlan,
}

/// The effects that should be running in the current state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedEffects {
    /// The model calls.
    pub calls: Vec<CallKey>,
    /// Side tasks.
    pub side_tasks: Vec<SideTask>,
    /// Programs.
    pub programs: Vec<ProgramKey>,
    /// Timers, with their durations from the moment when they are first wanted.
    pub timers: Vec<(Timer, Millis)>,
    /// The timer that stops when its model call sends anything.
    pub silence_timer: Option<SilenceTimer>,
}

/// A timer that stops when its model call sends anything, except the report of a retry or of a rate limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilenceTimer {
    /// The timer.
    pub timer: Timer,
    /// The duration from the moment when the timer is first wanted.
    pub after: Millis,
    /// The model call.
    pub call: CallKey,
}

/// A fact that follows from the state, and the task that it belongs to.
pub type Consequence = (TaskId, Fact);

/// A program that should be running.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgramKey {
    /// The task of the program.
    pub task: TaskId,
    /// The number of the attempt.
    pub attempt: u32,
}

/// A person's answer to a question that a program asked over its structured protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramAnswer {
    /// The task of the program.
    pub task: TaskId,
    /// The program's id for the question.
    pub native: String,
    /// The id of the chosen option.
    pub option: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EffectKey {
    Call(CallKey),
    SideTask(SideTask),
    Program(ProgramKey),
}

impl WantedEffects {
    pub(crate) fn into_effects(self) -> (Vec<EffectKey>, Vec<(Timer, Millis)>) {
        let calls = self.calls.into_iter().map(EffectKey::Call);
        let side_tasks = self.side_tasks.into_iter().map(EffectKey::SideTask);
        let programs = self.programs.into_iter().map(EffectKey::Program);
        (calls.chain(side_tasks).chain(programs).collect(), self.timers)
    }
}

pub(crate) enum EffectRequest {
    Call {
        request: Box<ModelRequest>,
        agent: Option<AgentId>,
        /// The agent's environment, and what the agent may see there; None for members without tools and for summaries
        /// of a conversation.
        env: Option<(EnvOwner, Visibility)>,
    },
    SideTask {
        kind: SideTaskKind,
        access: ContextAccess,
        env: Option<EnvOwner>,
    },
    StorePlan(PlanDraft),
    OpenPlan(PlanRun),
    /// Resumes the program's own conversation if there is one.
    Program {
        spec: Box<ProgramSpec>,
        resume: Option<ResumedConversation>,
    },
}

#[derive(Clone)]
pub(crate) enum EnvOwner {
    Member { run: TaskId, spec: Arc<RunSpec>, member_index: usize },
    ChatAgent { chat: TaskId, spec: Arc<ChatSpec> },
}

#[derive(Clone, Debug)]
pub(crate) struct Visibility {
    pub(crate) access: ContextAccess,
    /// The answers of other members whose snapshots the agent may see.
    pub(crate) labels: Vec<AnswerLabel>,
}

/// The facts that follow from a person's answer and, if a program asked the question, the answer to send to it.
pub(crate) type AnswerEffects = (Vec<Consequence>, Option<ProgramAnswer>);

/// Decides what happens next in one task. Pure: no clock, no randomness, no I/O.
pub(crate) trait Decider: Send {
    fn apply(&mut self, event: &Event);

    /// The facts that follow from the state. The session records and folds them, and calls this again until there are
    /// none.
    fn consequences(&self) -> Vec<Consequence>;

    fn wanted(&self) -> WantedEffects;

    fn is_over(&self) -> bool;

    /// The input of a wanted effect; None if the state no longer contains what the effect needs.
    fn effect_request(&self, effect: &EffectKey) -> Option<EffectRequest>;

    fn task_of(&self, effect: &EffectKey) -> TaskId;

    /// A warning for people about the outcome (`item`) of a side task, and the task that the warning belongs to.
    fn side_task_warning(&self, _effect: &EffectKey, _item: &Item) -> Option<(TaskId, Notice)> {
        None
    }

    fn program_reported(&self, _program: &ProgramKey, _report: ProgramReport) -> Vec<Consequence> {
        Vec::new()
    }

    /// What follows from a person's answer, or why it is rejected. None if no open question of this decider has this
    /// id.
    fn answer_question(
        &self,
        interaction: &InteractionId,
        decision: &Decision,
    ) -> Option<Result<AnswerEffects, String>>;

    /// Why an op is rejected in the current state; None if it is accepted.
    fn refusal_of(&self, _op: &Op) -> Option<String> {
        None
    }

    /// The result files by name; empty until the run or workflow has ended, and always empty for a conversation.
    fn files(&self) -> Result<Vec<(&'static str, String)>, serde_json::Error> {
        Ok(Vec::new())
    }

    /// What is left of the cost limit of the task's model calls, in US dollars; None without a limit.
    fn cost_left_usd(&self) -> Option<f64> {
        None
    }

    /// For a run: its result if it were stopped now.
    fn result_if_stopped(&self) -> Option<RunResult> {
        None
    }
}
