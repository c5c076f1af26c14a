//! Prepares the start of a task's program, in a terminal or headless.

use super::escape_prompt::escape_prompt;
use super::generated_files::GeneratedFiles;
use super::program_sandbox::{
    ConfinedCommand, ProgramPaths, ProgramSandbox, build_guarded_command, choose_program_sandbox, onboarding,
};
use crate::adapter::{
    Adapters, AgentAdapter, Conversations, LaunchConfig, LaunchRequest, Onboarding, PermissionLevel,
    ToolEndpoint,
};
use crate::guard_protocol::Input;
use crate::guarded::GuardLauncher;
use crate::sandbox::Sandbox;
use crate::structured::StructuredProtocol;
use althing_protocol::{
    ExecutionMode, Grant, OutputMasking, PermissionMode, ProgramJob, ProgramSpec, RootKind,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Everything that is needed to start CLI agents and other programs on this machine.
#[derive(Debug)]
pub struct ProgramStarter {
    /// The adapters by name.
    pub adapters: Adapters,
    /// Starts the guard of each program.
    pub launcher: GuardLauncher,
    /// The sandbox of programs that need one: CLI agents whose actions no person approves, and programs whose task
    /// sets `sandbox: true`. With `Unconfined`, such a CLI agent runs with the user's rights; with `Refused` or
    /// `Docker`, its own rules let it at most edit its workspace (as a backend) or read (as the program of a task).
    pub sandbox: Sandbox,
    /// Our state directory, hidden from programs in a sandbox.
    pub state_dir: Option<PathBuf>,
    /// Time limits for programs.
    pub limits: ProgramLimits,
    /// Masks secrets in stored output; `None` stores it unchanged.
    pub output_masking: Option<Arc<dyn OutputMasking>>,
}

/// Time limits for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramLimits {
    /// How long a program may be silent if its task sets no limit.
    pub idle: Duration,
    /// The time between TERM and KILL.
    pub grace: Duration,
}

impl Default for ProgramLimits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(600), grace: Duration::from_secs(2) }
    }
}

/// The request to start a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartRequest<'a> {
    pub(crate) spec: &'a ProgramSpec,
    pub(crate) resume: Option<&'a str>,
    pub(crate) dir: &'a Path,
    pub(crate) tools: Option<&'a ToolEndpoint>,
    pub(crate) grant: &'a Grant,
    /// The permissions of a CLI agent that runs without a sandbox and without a person who approves its actions, if
    /// the user did not accept running unconfined.
    pub(crate) unsandboxed_level: PermissionLevel,
}

impl<'a> StartRequest<'a> {
    /// The request for a task's program.
    pub(crate) fn of(job: &'a ProgramJob, grant: &'a Grant, resume: Option<&'a str>) -> Self {
        Self {
            spec: &job.spec,
            resume,
            dir: Path::new(&job.dir),
            tools: None,
            grant,
            unsandboxed_level: PermissionLevel::ReadOnly,
        }
    }
}

/// A program that is ready to be started.
#[derive(Debug)]
pub(crate) struct PreparedProgram {
    pub(crate) adapter: Arc<dyn AgentAdapter>,
    pub(crate) confined: ConfinedCommand,
    pub(crate) permissions: PermissionLevel,
    /// The prompt to send. For a CLI agent it is escaped, so that the agent cannot read it as one of its own
    /// commands.
    pub(crate) prompt: String,
    /// The structured protocol over which the program asks for approvals; `None` for any other kind of run.
    pub(crate) structured_protocol: Option<Box<dyn StructuredProtocol>>,
    /// The id of the new conversation, if we chose it; `None` also if a conversation is resumed.
    pub(crate) chosen_id: Option<String>,
    /// The generated files, which exist as long as this value.
    _files: GeneratedFiles,
}

/// The error message and a hint.
type PrepareError = (String, Option<String>);

impl ProgramStarter {
    pub(crate) fn prepare(&self, request: &StartRequest<'_>) -> Result<PreparedProgram, PrepareError> {
        let spec = request.spec;
        let adapter = self.adapters.get(&spec.adapter).ok_or_else(|| {
            let known: Vec<&str> = self.adapters.names().collect();
            let error = format!("there is no adapter named `{}`", spec.adapter);
            (error, Some(format!("known adapters: {}", known.join(", "))))
        })?;
        // Every prompt passes through here, whether it is typed, piped or sent over a protocol.
        let prompt =
            if adapter.is_agent() { escape_prompt(&spec.prompt).into_owned() } else { spec.prompt.clone() };
        let spec = &ProgramSpec { prompt: prompt.clone(), ..spec.clone() };
        let interactive = spec.mode == ExecutionMode::Interactive;
        let asks = interactive || spec.approvals;
        let ProgramSandbox { sandbox, permissions } = if asks && spec.sandbox != Some(true) {
            // A person approves the program's actions, so the program runs without a sandbox.
            ProgramSandbox { sandbox: None, permissions: PermissionLevel::Ask }
        } else {
            choose_program_sandbox(&**adapter, spec, &self.sandbox).map_err(|error| (error, None))?
        };
        // A permission mode can only remove permissions. If no person is asked, the mode `default` allows only
        // reading, because everything else would need a question.
        let mode = spec.options.permission_mode.filter(|_| !asks);
        let read_only =
            request.grant.planning || matches!(mode, Some(PermissionMode::Default | PermissionMode::Plan));
        let permissions = match permissions {
            _ if read_only => PermissionLevel::ReadOnly,
            PermissionLevel::ReadOnly => request.unsandboxed_level,
            PermissionLevel::Full if mode == Some(PermissionMode::AcceptEdits) => PermissionLevel::Workspace,
            permissions => permissions,
        };
        std::fs::create_dir_all(request.dir)
            .map_err(|error| (format!("could not create {}: {error}", request.dir.display()), None))?;
        let new_conversation_id = uuid();
        let readable = readable_paths(request.grant, Path::new(&spec.cwd));
        let task = LaunchRequest {
            spec,
            resume: request.resume,
            new_conversation_id: &new_conversation_id,
            permissions,
            sandboxed: sandbox.is_some(),
            readable: &readable,
            dir: request.dir,
            tools: request.tools,
            as_root: rustix::process::geteuid().is_root(),
            onboarding: if asks { onboarding(&**adapter, &spec.env) } else { Onboarding::LeaveToAgent },
        };
        let (config, structured_protocol) = launch_config(&**adapter, &task)?;
        // A program that may only read is confined like one that plans.
        let grant = Grant { planning: read_only, ..request.grant.clone() };
        let paths = ProgramPaths {
            cwd: Path::new(&spec.cwd),
            grant: &grant,
            dir: request.dir,
            state: self.state_dir.as_deref(),
        };
        let input = if interactive { Input::Terminal } else { Input::Passed };
        let grace = u64::try_from(self.limits.grace.as_millis()).unwrap_or(u64::MAX);
        let confined = build_guarded_command(&**adapter, &config, &spec.env, sandbox, paths, input, grace)
            .map_err(|error| (error, Some("install it, or correct the task".to_owned())))?;
        let files = GeneratedFiles::make(&config.files).map_err(|error| (error, None))?;
        let chooses = request.resume.is_none() && adapter.conversations() == Conversations::IdChosen;
        let chosen_id = chooses.then_some(new_conversation_id);
        Ok(PreparedProgram {
            adapter: Arc::clone(adapter),
            confined,
            permissions,
            prompt,
            structured_protocol,
            chosen_id,
            _files: files,
        })
    }
}

/// How to start the program as its task asks: in a terminal, with its structured protocol, or headless.
fn launch_config(
    adapter: &dyn AgentAdapter,
    task: &LaunchRequest<'_>,
) -> Result<(LaunchConfig, Option<Box<dyn StructuredProtocol>>), PrepareError> {
    let name = adapter.name();
    if task.spec.mode == ExecutionMode::Interactive {
        let config = adapter.launch_config(task).ok_or_else(|| {
            (format!("`{name}` cannot run in a terminal"), Some("run it as a headless task".to_owned()))
        })?;
        return Ok((config, None));
    }
    if task.spec.approvals {
        let (config, protocol) = adapter.structured_protocol(task).ok_or_else(|| {
            let hint = "run it as an interactive task, or without `approvals`".to_owned();
            (format!("`{name}` cannot ask for approvals when it runs headless"), Some(hint))
        })?;
        return Ok((config, Some(protocol)));
    }
    let config = adapter.headless_launch_config(task).ok_or_else(|| {
        let hint = "give its adapter `headless_args`, or run it as an interactive task".to_owned();
        (format!("`{name}` cannot run headless"), Some(hint))
    })?;
    Ok((config, None))
}

/// The context paths and snapshots of a grant, without the working directory itself.
fn readable_paths(grant: &Grant, cwd: &Path) -> Vec<PathBuf> {
    let roots = [RootKind::Context, RootKind::View].into_iter().flat_map(|kind| grant.roots(kind));
    roots.filter(|root| root.path != cwd).map(|root| root.path.clone()).collect()
}

/// A random UUID (version 4). It identifies a conversation and is not a secret.
fn uuid() -> String {
    let bits = (fastrand::u128(..) & !(0xf << 76 | 0x3 << 62)) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    let mut text = String::with_capacity(36);
    for (at, digit) in hex.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_of_conversations_are_random_uuids() {
        let (one, two) = (super::uuid(), super::uuid());
        assert_ne!(one, two);
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&one.as_bytes()[19]), "{one}");
    }
}
