//! The types that Althing's crates share, and the ports (traits) that connect the crates. No logic, I/O, clock or
//! runtime: functions here only build and check values.

mod agent_kind;
mod chat;
mod config;
mod decision;
mod edit;
mod environment;
mod event;
mod grant;
mod id;
mod interaction;
mod item;
mod known_costs;
mod model;
mod op;
mod plan;
mod ports;
mod program;
mod result;
mod run;
mod run_limits;
mod runs_code;
mod secret_names;
mod store;
mod task;
mod time;
mod usage;
mod workflow;

pub use agent_kind::{AGENT_KINDS, AgentKind, AgentOptions, PermissionMode};
pub use chat::{
    ChatLimits, ChatSpec, ChatState, InteractiveAgent, LaunchRun, ModeChoice, PathGrant, Permission,
    Proposal, TeamSpec,
};
pub use config::{
    AgentConfig, BackendConfig, CommandsConfig, Config, ContextCompaction, DockerConfig, DockerPackages,
    InteractiveConfig, McpServerConfig, McpTransport, NotifyConfig, PlanningConfig, Price, ProcessLimits,
    Secret, SkillsConfig, SubagentsConfig, TaskPlanning, ToolsConfig,
};
pub use decision::{DecidedBy, DecisionReport, DecisionRule, DecisionRules, Diversity, JudgeOrder};
pub use edit::{ALWAYS_IN_PROJECT, EDIT_TOOLS, EditPreview, FileDiff};
pub use environment::{COMMAND_VARIABLES, is_passed_to_programs, variable_matches};
pub use event::{
    DeltaKind, Event, Fact, FeedItem, LOG_SCHEMA, Notice, NoticeLevel, Progress, RunEnd, SessionOpened,
    Verdict,
};
pub use grant::{
    EXCLUDED_NAMES, GIT_DIR, Grant, GrantRoot, NetworkGrant, PACKAGE_DIRS, PLACEHOLDER_FILE_MODE,
    PLACEHOLDER_MODE, RootKind, SEALED_NAMES, package_dir, private_name,
};
pub use id::{AgentId, InteractionId, SessionId, TaskId};
pub use interaction::{Candidate, Decision, Interaction, InteractionKind};
pub use item::{Answer, AnswerLabel, Ballot, Item, LabelParseError, Revision};
pub use known_costs::{KnownCosts, PastRuns};
pub use model::{
    BackendError, BackendErrorKind, BackendInfo, Briefing, CallContext, CallRecord, CallsFrom, Delta,
    LateNotices, Message, ModelRequest, Reply, ToolCall, ToolSpec,
};
pub use op::{Op, OpId, Origin, Submission};
pub use plan::{PlanDraft, PlanProgress, PlanRun, PlanStatus, PlanTask};
pub use ports::{
    AgentEnv, AgentEnvs, Backend, BoxFuture, Clock, ContextAccess, DeltaSink, Engine, EventStream, Interest,
    Journal, JournalError, JournalErrorKind, JournalReader, Plans, ToolHost, ToolOutcome,
};
pub use program::{
    Ask, AskKind, AskOption, Endpoint, EndpointHandler, Endpoints, MaskStream, OutputMasking, ProgramEnd,
    ProgramJob, ProgramReport, Programs, ReportSink, ResumedConversation, Screen, ScreenCell, ScreenColor,
    TurnProgress,
};
pub use result::{
    AgentOutcome, AgentSummary, CoordinationSummary, FileChange, FileWrite, MAX_NAMED_FILES, PlanRef,
    RunResult, RunStatus, WRITES_FILE,
};
pub use run::{
    AgentMode, AnswerNovelty, ContextPath, Exchange, FinalAnswerStrategy, Member, Modes, Phase, Purpose,
    RunOverrides, RunRules, RunSpec, SubagentOf, VotingSensitivity,
};
pub use run_limits::RunLimits;
pub use runs_code::{
    MAX_ROW_NAMES, RUNS_CODE, RUNS_CODE_LATER, RunsCode, git_dir_row, is_git_dir, is_name, runs_code,
    runs_code_in,
};
pub use secret_names::{NameMeaning, is_secret_name, name_meaning, names_only_a_secret};
pub use store::{Epoch, OwnedSession, SessionStore, SessionSummary, StoredSession};
pub use task::{
    AttemptOutcome, Checkpoint, CheckpointStage, CheckpointTask, Restart, SessionKind, SessionState,
    TaskSpec, TaskStatus, Timer,
};
pub use time::{Millis, Seq, Timestamp, TimestampParseError};
pub use usage::{Usage, reported_tokens};
pub use workflow::{
    CustomAdapter, ExecutionMode, InteractionPattern, OnInterrupt, ProgramSpec, StageBody, StageSpec,
    StageTask, WorkflowSpec,
};
