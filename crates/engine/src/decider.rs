//! What all deciders have in common. A session holds them side by side, by their tasks, and does not know which kinds
//! there are: it folds facts into them, records what follows, and carries out what they want.

use althing_protocol::{
    AgentId, AnswerLabel, ChatSpec, ContextAccess, Decision, Event, Fact, InteractionId, Item, Millis,
    ModelRequest, Notice, Op, PlanDraft, PlanRun, ProgramReport, ProgramSpec, RunResult, RunSpec, TaskId,
    Timer, ToolCall,
};
use std::sync::Arc;

/// A model call that should be under way. Its place in the conversation names it: when the conversation moves on,
/// it is another call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    /// Whose, as an index into the run's members.
    pub member_index: usize,
    /// Which attempt.
    pub attempt: u32,
    /// After how many turns of it.
    pub step: usize,
}

/// Something to be done for an agent besides asking its model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SideTask {
    /// Whose, as an index into the run's members.
    pub member_index: usize,
    /// In which attempt.
    pub attempt: u32,
    /// What.
    pub kind: SideTaskKind,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SideTaskKind {
    /// Carry out a tool call.
    Tool(ToolCall),
    /// Keep the workspace under this name.
    Snapshot(AnswerLabel),
    /// Put a subagent's files into the workspace.
    ImportFiles {
        /// The subagent's run.
        subagent: TaskId,
        /// Where they are.
        from: String,
        /// Where they go, within the workspace.
        name: String,
    },
    /// Open the writable context paths.
    OpenContext,
    /// Close them, and say what changed.
    CloseContext,
    /// Store the plan that the run came to.
    StorePlan,
    /// Read the plan that the run carries out as it is now.
    OpenPlan,
}

/// What should be under way, given the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedEffects {
    /// Model calls.
    pub calls: Vec<CallKey>,
    /// Tool calls and other chores of agents with hands.
    pub side_tasks: Vec<SideTask>,
    /// Programs.
    pub programs: Vec<ProgramKey>,
    /// Deadlines, with how long they have from the moment they are first wanted.
    pub timers: Vec<(Timer, Millis)>,
}

/// A fact that follows from the state, and the task it is about.
pub type Consequence = (TaskId, Fact);

/// A program that should be under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProgramKey {
    /// Whose.
    pub task: TaskId,
    /// Which attempt.
    pub attempt: u32,
}

/// What a program is to be told: the answer to what it asked over its own protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramAnswer {
    /// Which program.
    pub task: TaskId,
    /// Its own id for the question.
    pub native: String,
    /// The option that was chosen.
    pub option: String,
}

/// Something that is wanted, and that a doer carries out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EffectKey {
    Call(CallKey),
    SideTask(SideTask),
    Program(ProgramKey),
}

impl WantedEffects {
    /// Everything in it that doers carry out.
    pub(crate) fn into_effects(self) -> (Vec<EffectKey>, Vec<(Timer, Millis)>) {
        let calls = self.calls.into_iter().map(EffectKey::Call);
        let side_tasks = self.side_tasks.into_iter().map(EffectKey::SideTask);
        let programs = self.programs.into_iter().map(EffectKey::Program);
        (calls.chain(side_tasks).chain(programs).collect(), self.timers)
    }
}

/// Everything that a doer needs to carry out a job.
pub(crate) enum EffectRequest {
    /// A model is called.
    Call {
        request: Box<ModelRequest>,
        agent: Option<AgentId>,
        /// Where the agent works, if it has hands, and what it is to see there.
        env: Option<(EnvOwner, Visibility)>,
    },
    /// Something is done where an agent works.
    SideTask { kind: SideTaskKind, access: ContextAccess, env: Option<EnvOwner> },
    /// A plan is stored.
    StorePlan(PlanDraft),
    /// A plan is read.
    OpenPlan(PlanRun),
    /// A program is run; it goes on in a conversation of its own, if it has one.
    Program { spec: Box<ProgramSpec>, resume: Option<String> },
}

/// Whose place it is.
#[derive(Clone)]
pub(crate) enum EnvOwner {
    /// A member's of a run.
    Member { run: TaskId, spec: Arc<RunSpec>, member_index: usize },
    /// The interactive agent's.
    ChatAgent { chat: TaskId, spec: Arc<ChatSpec> },
}

/// What an agent is to see from its place in one call.
#[derive(Clone, Debug)]
pub(crate) struct Visibility {
    pub(crate) access: ContextAccess,
    /// The others' work that it knows.
    pub(crate) labels: Vec<AnswerLabel>,
}

/// The facts that follow from a person's answer, and what is to be told to which program.
pub(crate) type AnswerEffects = (Vec<Consequence>, Option<ProgramAnswer>);

/// A pure function of the log: no clock, no randomness, no I/O.
pub(crate) trait Decider: Send {
    /// Folds one fact into the state.
    fn apply(&mut self, event: &Event);

    /// What follows from the state; recorded, folded, asked again until nothing does.
    fn consequences(&self) -> Vec<Consequence>;

    /// What should be under way.
    fn wanted(&self) -> WantedEffects;

    /// Whether nothing more will happen.
    fn is_over(&self) -> bool;

    /// What a doer needs to carry out one of the jobs that are wanted.
    fn effect_request(&self, effect: &EffectKey) -> Option<EffectRequest>;

    /// The task on which a job's outcome is recorded.
    fn task_of(&self, effect: &EffectKey) -> TaskId;

    /// What people are told of a chore that failed while everything goes on, with the task that it is about.
    fn side_task_warning(&self, _effect: &EffectKey, _item: &Item) -> Option<(TaskId, Notice)> {
        None
    }

    /// The facts that follow from what a program reports.
    fn program_reported(&self, _program: &ProgramKey, _report: ProgramReport) -> Vec<Consequence> {
        Vec::new()
    }

    /// What follows from a person's answer, or why it is refused. None where the question is not one of its own.
    fn answer_question(
        &self,
        interaction: &InteractionId,
        decision: &Decision,
    ) -> Option<Result<AnswerEffects, String>>;

    /// Why an op makes no sense as things stand; None where it does.
    fn refusal_of(&self, _op: &Op) -> Option<String> {
        None
    }

    /// The files of what it has come to, by their names; none as long as it has not.
    fn files(&self) -> Result<Vec<(&'static str, String)>, serde_json::Error> {
        Ok(Vec::new())
    }

    /// The result it would have if it were stopped now, where it is a run.
    fn result_if_stopped(&self) -> Option<RunResult> {
        None
    }
}
