//! Prepares the start of a task's program or CLI agent, in a terminal or headless: sandbox, permissions, prompt and
//! generated files.

use super::conversation_id::{is_conversation_id, refusal};
use super::escape_prompt::escape_prompt;
use super::generated_files::GeneratedFiles;
use super::private_settings::{PrivateSettingsGuard, SettingsPlaces};
use super::program_sandbox::{
    ConfinedCommand, ProgramPaths, ProgramSandbox, build_guarded_command, choose_program_sandbox,
    landlock_error, onboarding,
};
use crate::adapter::{
    Adapters, AgentAdapter, Conversations, LaunchConfig, LaunchRequest, Onboarding, PermissionLevel,
    ToolEndpoint,
};
use crate::git_code::GitOverrides;
use crate::guard_protocol::Input;
use crate::guarded::GuardLauncher;
use crate::sandbox::Sandbox;
use crate::structured::StructuredProtocol;
use althing_disk::{create_real_dir, with_real_base};
use althing_protocol::{
    ExecutionMode, Grant, OutputMasking, PermissionMode, ProgramJob, ProgramSpec, RootKind,
};
use std::hash::{DefaultHasher, Hash, Hasher};
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
    /// The sandbox of programs that need one: CLI agents whose actions no person approves (unless the task sets
    /// `sandbox: false`), and programs whose task sets `sandbox: true`.
    pub sandbox: Sandbox,
    /// Our state directory, hidden from programs in a sandbox.
    pub state_dir: Option<PathBuf>,
    /// The directory for the private copies of CLI agents' settings that programs in a sandbox use; it must not be
    /// inside a path that an agent can access. `None` makes the copies in the directory of each agent or task.
    pub settings_dir: Option<PathBuf>,
    /// Whether the user trusts the settings that CLI agents read from the directory in which they work.
    pub trusts_project_settings: bool,
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

#[derive(Clone, Copy, Debug)]
pub(crate) struct StartRequest<'a> {
    pub(crate) spec: &'a ProgramSpec,
    pub(crate) resume: Option<&'a str>,
    pub(crate) dir: &'a Path,
    /// The same for all starts of one agent or task. Each pair of paths has its own private copy of settings.
    pub(crate) conversation_of: [&'a Path; 2],
    pub(crate) tools: Option<&'a ToolEndpoint>,
    pub(crate) grant: &'a Grant,
    /// The permissions of a CLI agent that runs without a sandbox and without a person who approves its actions, if
    /// the user did not accept running unconfined.
    pub(crate) unsandboxed_level: PermissionLevel,
}

impl<'a> StartRequest<'a> {
    pub(crate) fn of(job: &'a ProgramJob, grant: &'a Grant, resume: Option<&'a str>) -> Self {
        Self {
            spec: &job.spec,
            resume,
            dir: Path::new(&job.dir),
            conversation_of: [Path::new(&job.dir), Path::new("")],
            tools: None,
            grant,
            unsandboxed_level: PermissionLevel::ReadOnly,
        }
    }
}

#[derive(Debug)]
pub(crate) struct PreparedProgram {
    pub(crate) adapter: Arc<dyn AgentAdapter>,
    pub(crate) confined: ConfinedCommand,
    pub(crate) permissions: PermissionLevel,
    /// The prompt, escaped so that the program cannot read it as one of its own commands (except for the user's own
    /// commands, `command`).
    pub(crate) prompt: String,
    pub(crate) structured_protocol: Option<Box<dyn StructuredProtocol>>,
    pub(crate) chosen_id: Option<String>,
    /// The number of the program's own arguments, which are the last ones of the guarded command.
    pub(crate) own_args: usize,
    /// The names under which the price of the program's tokens may be known: its model, if the task names one, and
    /// the kind of CLI agent.
    pub(crate) price_names: Vec<String>,
    /// Settings in the working directory and above that the program does not use, because the user did not say that
    /// they can be trusted.
    pub(crate) ignored_settings: Vec<PathBuf>,
    /// Dropping this field removes the generated files and restores what they replaced.
    files: GeneratedFiles,
}

pub(super) type PrepareError = (String, Option<String>);

impl PreparedProgram {
    /// Takes what must exist until every process of the program is gone: the generated files, which may replace files
    /// of the user, and the private copy of the program's settings.
    pub(super) fn take_used(&mut self) -> (GeneratedFiles, PrivateSettingsGuard) {
        (std::mem::take(&mut self.files), std::mem::take(&mut self.confined.settings))
    }
}

impl ProgramStarter {
    pub(super) fn choose_sandbox(
        &self,
        adapter: &dyn AgentAdapter,
        spec: &ProgramSpec,
    ) -> Result<ProgramSandbox<'_>, String> {
        let asks = spec.mode == ExecutionMode::Interactive || spec.approvals;
        if asks && spec.sandbox != Some(true) {
            // No sandbox is needed, because a person approves the program's actions.
            return Ok(ProgramSandbox { sandbox: None, permissions: PermissionLevel::Ask });
        }
        choose_program_sandbox(adapter, spec, &self.sandbox)
    }

    /// Why the program of a task cannot run: it needs a sandbox, the only one is Landlock, and it does not work in
    /// Landlock.
    pub fn problem_with_task(&self, spec: &ProgramSpec) -> Option<String> {
        let problem = self.problem_with(&spec.adapter)?;
        let adapter = self.adapters.get(&spec.adapter)?;
        self.choose_sandbox(&**adapter, spec).is_err().then_some(problem)
    }

    /// What the CLI agent of a task cannot do because it runs in Landlock; `None` if it does not run in Landlock.
    pub fn limitation_of_task(&self, spec: &ProgramSpec) -> Option<&'static str> {
        let adapter = self.adapters.get(&spec.adapter).filter(|adapter| adapter.is_agent())?;
        let chosen = self.choose_sandbox(&**adapter, spec).ok()?;
        // Landlock cannot forbid anything below a directory in which it allows creating files. `.git` is protected
        // even if it does not exist, so nothing can be created next to it.
        matches!(chosen.sandbox, Some(Sandbox::Landlock)).then_some(
            "Landlock, the only sandbox that works here, lets it change files and work in directories that exist, but not \
             create, rename or delete anything directly in its working directory: install `bubblewrap`",
        )
    }

    /// Why a CLI agent cannot run in Landlock, if that is the sandbox here; `None` if it can.
    pub fn problem_with(&self, adapter: &str) -> Option<String> {
        let adapter = self.adapters.get(adapter)?;
        matches!(self.sandbox, Sandbox::Landlock).then(|| landlock_error(&**adapter)).flatten()
    }

    pub(crate) fn is_confined(&self, spec: &ProgramSpec) -> bool {
        let adapter = self.adapters.get(&spec.adapter);
        let chosen = adapter.and_then(|adapter| self.choose_sandbox(&**adapter, spec).ok());
        chosen.is_some_and(|chosen| chosen.sandbox.is_some())
    }

    fn settings_places(&self, request: &StartRequest<'_>) -> (PathBuf, PathBuf) {
        let mut hasher = DefaultHasher::new();
        request.conversation_of.hash(&mut hasher);
        let [first, _] = request.conversation_of;
        let dir = self.settings_dir.clone().unwrap_or_else(|| first.join("settings"));
        (dir.join(format!("{:016x}", hasher.finish())), dir.join("shared"))
    }

    pub(crate) async fn prepare(&self, request: &StartRequest<'_>) -> Result<PreparedProgram, PrepareError> {
        let git = self.git_overrides(request).await?;
        self.prepare_with(request, git)
    }

    /// Prepares a program only to read its stored output. It is not started, so the search for code that git could run is
    /// left out.
    pub(crate) fn prepare_to_read(
        &self,
        request: &StartRequest<'_>,
    ) -> Result<PreparedProgram, PrepareError> {
        self.prepare_with(request, GitOverrides::default())
    }

    fn prepare_with(
        &self,
        request: &StartRequest<'_>,
        git: GitOverrides,
    ) -> Result<PreparedProgram, PrepareError> {
        let spec = request.spec;
        let adapter = self.adapters.get(&spec.adapter).ok_or_else(|| {
            let known: Vec<&str> = self.adapters.names().collect();
            let error = format!("there is no adapter named `{}`", spec.adapter);
            (error, Some(format!("known adapters: {}", known.join(", "))))
        })?;
        if let Some(id) = request.resume.filter(|id| !is_conversation_id(id)) {
            return Err((refusal(id), None));
        }
        // Every prompt passes through here, whether it is typed, piped or sent over a protocol.
        let prompt = if adapter.is_agent() {
            escape_prompt(&spec.prompt, adapter.mentions())
        } else {
            spec.prompt.clone()
        };
        let spec = &ProgramSpec { prompt: prompt.clone(), ..spec.clone() };
        let interactive = spec.mode == ExecutionMode::Interactive;
        let asks = interactive || spec.approvals;
        let ProgramSandbox { sandbox, permissions } =
            self.choose_sandbox(&**adapter, spec).map_err(|error| (error, None))?;
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
        // Below the state directory, nothing may be a link: a foreign project may contain a state directory.
        let dir = &with_real_base(request.dir, self.state_dir.as_deref());
        create_real_dir(dir, 0o700)
            .map_err(|error| (format!("could not create {}: {error}", dir.display()), None))?;
        let new_conversation_id = uuid();
        let readable = readable_paths(request.grant, Path::new(&spec.cwd));
        let task = LaunchRequest {
            spec,
            resume: request.resume,
            new_conversation_id: &new_conversation_id,
            permissions,
            sandboxed: sandbox.is_some(),
            readable: &readable,
            dir,
            tools: request.tools,
            as_root: rustix::process::geteuid().is_root(),
            onboarding: if asks { onboarding(&**adapter, &spec.env) } else { Onboarding::LeaveToAgent },
        };
        let (mut config, structured_protocol) = launch_config(&**adapter, &task)?;
        let ignored_settings =
            self.ignore_foreign_settings(request, (&**adapter, sandbox.is_some()), git, &mut config)?;
        // In the sandbox, a program that may only read gets the same restrictions as the program of a planning agent.
        let grant = Grant { planning: read_only, ..request.grant.clone() };
        let (settings, shared) = self.settings_places(request);
        let paths = ProgramPaths {
            cwd: Path::new(&spec.cwd),
            grant: &grant,
            dir,
            state: self.state_dir.as_deref(),
            settings: SettingsPlaces {
                dir: &settings,
                shared: &shared,
                max_kept: self.launcher.limits().disk,
            },
        };
        let input = if interactive { Input::Terminal } else { Input::Passed };
        let grace = u64::try_from(self.limits.grace.as_millis()).unwrap_or(u64::MAX);
        let confined = build_guarded_command(&**adapter, &config, &spec.env, sandbox, paths, input, grace)?;
        let files = GeneratedFiles::make(&config.files).map_err(|error| (error, None))?;
        let chooses = request.resume.is_none() && adapter.conversations() == Conversations::IdChosen;
        let chosen_id = chooses.then_some(new_conversation_id);
        let kind = self.adapters.kind_of_adapter(&spec.adapter).map(|row| row.kind.to_owned());
        Ok(PreparedProgram {
            adapter: Arc::clone(adapter),
            confined,
            permissions,
            prompt,
            structured_protocol,
            chosen_id,
            own_args: config.args.len(),
            price_names: spec.model.clone().into_iter().chain(kind).collect(),
            ignored_settings,
            files,
        })
    }
}

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

fn readable_paths(grant: &Grant, cwd: &Path) -> Vec<PathBuf> {
    let roots = [RootKind::Context, RootKind::View].into_iter().flat_map(|kind| grant.roots(kind));
    roots.filter(|root| root.path != cwd).map(|root| root.path.clone()).collect()
}

/// A random UUID (version 4), which identifies a conversation and is not a secret.
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
