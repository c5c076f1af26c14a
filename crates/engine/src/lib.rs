//! Decides what happens next in a session (runs, workflows, conversations), and runs and supervises the effects that
//! this needs. All modules except the `orchestrator` are pure; the crate never uses files, processes, sockets or the
//! terminal directly.

mod coordination;
mod decider;
mod interactive;
mod launch;
mod orchestrator;
mod prompt;
mod summary;
pub mod tally;
mod tool_router;
mod tools;
mod workflow;
mod workspaces;

pub use coordination::Coordination;
pub use decider::{CallKey, Consequence, ProgramAnswer, ProgramKey, SideTask, SideTaskKind, WantedEffects};
pub use interactive::{
    InteractiveSession, NothingToContinue, history_before, inherited_history, session_history,
};
pub use launch::{
    Consent, LAUNCH_RUN, ResolvedRun, check_texts, launch_run_spec, read_launch, resolve_launch,
    result_for_client,
};
pub use orchestrator::{
    Backends, CallEnd, CostAccount, EngineHandle, EventMasker, Feed, Fidelity, ModelCall, Observer,
    OnRefusal, Orchestrator, REPORT, Reporter, ResultFile, SessionDeps, SessionEnd, SubmitError, Submitter,
    Subscription, model_calls, result_files,
};
pub use prompt::{
    AgentNotes, FileExcerpt, Guidance, Planning, ProjectBriefing, SkillEntry, WorkspaceBriefing,
    launch_guidance,
};
pub use tool_router::ToolRouter;
pub use tools::{NEW_ANSWER, VOTE};
pub use workflow::{StageReport, TaskReport, WorkflowExecutor, WorkflowReport, WorkflowSession};
pub use workspaces::workspace_of;
