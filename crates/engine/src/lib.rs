//! Decides what happens next in a session, and supervises it.
//!
//! The deciders (`coordination`, `interactive`, `workflow`, `launch`, `prompt`, `tools`) are pure; the `orchestrator` is the only part with a clock,
//! threads and doers. Nothing here touches files, processes, sockets or the terminal.

mod coordination;
mod interactive;
mod launch;
mod orchestrator;
mod prompt;
mod router;
mod tools;
mod workflow;

pub use coordination::{CallKey, Chore, ChoreKind, Consequence, Coordination, Wanted};
pub use interactive::InteractiveSession;
pub use launch::{Consent, LAUNCH_RUN, Launch, launch_run_spec, read_launch, resolve_launch};
pub use orchestrator::{
    Backends, Feed, Front, Mask, Observer, Orchestrator, Parts, Stopped, SubmitError, Submitter, Subscription,
};
pub use prompt::{Briefing, Guidance, NoteBook, Page, Planning, ProjectBriefing, SkillEntry, guidance};
pub use router::Router;
pub use tools::{NEW_ANSWER, VOTE};
pub use workflow::{
    ProgramKey, StageReport, TaskReport, Told, WorkflowExecutor, WorkflowReport, WorkflowWanted,
};
