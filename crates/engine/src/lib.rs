//! Decides what happens next in a session, and supervises it.
//!
//! The deciders (`coordination`, `interactive`, `workflow`) and the modules that they use (`launch`, `prompt`,
//! `tools`) are pure. Only the `orchestrator` has a clock and threads and runs effects. This crate never uses files,
//! processes, sockets or the terminal directly.

mod coordination;
mod decider;
mod interactive;
mod launch;
mod orchestrator;
mod prompt;
mod summary;
mod tool_router;
mod tools;
mod workflow;
mod workspaces;

pub use coordination::Coordination;
pub use decider::{CallKey, Consequence, ProgramAnswer, ProgramKey, SideTask, SideTaskKind, WantedEffects};
pub use interactive::InteractiveSession;
pub use launch::{
    Consent, LAUNCH_RUN, ResolvedRun, launch_run_spec, read_launch, resolve_launch, result_for_client,
};
pub use orchestrator::{
    Backends, EngineHandle, EventMasker, Feed, Observer, Orchestrator, SessionDeps, SessionEnd, SubmitError,
    Submitter, Subscription,
};
pub use prompt::{
    AgentNotes, FileExcerpt, Guidance, Planning, ProjectBriefing, SkillEntry, WorkspaceBriefing,
    launch_guidance,
};
pub use tool_router::ToolRouter;
pub use tools::{NEW_ANSWER, VOTE};
pub use workflow::{StageReport, TaskReport, WorkflowExecutor, WorkflowReport, WorkflowSession};
pub use workspaces::workspace_of;
