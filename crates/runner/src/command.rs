//! `run_command`: the tool with which an agent runs shell commands in its sandbox. One host serves one agent.
//!
//! Nobody is asked for approval of a command: its sandbox decides what it can access. A command never runs in a weaker
//! sandbox than its policy demands; if that sandbox is not available, the call is refused. Dropping a call's future
//! ends everything the call started.

use crate::docker::Exec;
use crate::guard_protocol::{GuardedCommand, Input, Restrictions, WrittenPaths, environment};
use crate::guarded::{CommandEnd, CommandTimes, GuardLauncher};
use crate::landlock_rules::landlock_rules;
use crate::limits::ReachedLimit;
use crate::mount_check::{expected_mounts, was_changed};
use crate::mount_table::{MountMode, MountTable};
use crate::output::{OutputCollector, StoredOutputs};
use crate::placeholders::Placeholders;
use crate::policy::{CommandPolicy, PolicyError, without_dots};
use crate::protected_paths::find_protected;
use crate::sandbox::Sandbox;
use crate::socket_files::find_live_sockets;
use crate::tool_text::{Arguments, is_sandbox_failure, outcome, refused, spec};
use crate::workspace_disk::WorkspaceDisk;
use althing_protocol::{BoxFuture, ContextAccess, ToolCall, ToolHost, ToolOutcome, ToolSpec};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OnceCell, Semaphore};

/// The name of the tool.
pub const RUN_COMMAND: &str = "run_command";

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Runs the shell commands of one agent.
#[derive(Debug)]
pub struct CommandHost {
    policy: CommandPolicy,
    launcher: GuardLauncher,
    placeholders: Placeholders,
    /// The protected paths that existed before the first command that may write to context paths. A repository that a
    /// command creates below a context path belongs to the agent and is not protected.
    protected: OnceCell<Vec<PathBuf>>,
    running: Semaphore,
    disk: WorkspaceDisk,
    stored: StoredOutputs,
}

const MAX_RUNNING: usize = 8;

impl CommandHost {
    /// Checks the policy and creates a host for it.
    pub fn new(mut policy: CommandPolicy, launcher: GuardLauncher) -> Result<Self, PolicyError> {
        policy.sandbox_paths = policy.sandbox_paths.checked()?;
        let disk = WorkspaceDisk::new(policy.sandbox_paths.workspace.clone(), launcher.limits().disk);
        let stored = StoredOutputs::new(launcher.limits().disk, &policy.sandbox_paths.output_dir);
        let launcher = launcher.owned_by(&policy.sandbox_paths.workspace);
        Ok(Self {
            policy,
            launcher,
            placeholders: Placeholders::default(),
            protected: OnceCell::new(),
            running: Semaphore::new(MAX_RUNNING),
            disk,
            stored,
        })
    }

    /// The reason why no command can run at all, if there is one. Then the agent is offered no command tool.
    pub fn refusal(&self) -> Option<&str> {
        match &self.policy.sandbox {
            Sandbox::Refused { why } => Some(why),
            Sandbox::Bubblewrap(_) | Sandbox::Landlock | Sandbox::Docker(_) | Sandbox::Unconfined(_) => None,
        }
    }

    async fn run(&self, call: &ToolCall, access: ContextAccess) -> ToolOutcome {
        if call.name != RUN_COMMAND {
            return refused(format!("There is no tool named {} here.", call.name));
        }
        if let Some(why) = self.refusal() {
            return refused(format!("Commands cannot be run: {why}"));
        }
        let arguments = match Arguments::parse(&call.arguments) {
            Ok(arguments) => arguments,
            Err(why) => return refused(why),
        };
        if let Err(why) = self.policy.lists.check(&arguments.command) {
            return refused(why);
        }
        if let Err(replaced) = self.policy.sandbox_paths.refuse_replaced() {
            return refused(format!("The command could not be run: {replaced}"));
        }
        let protected = match self.protected(access).await {
            Ok(protected) => protected,
            Err(why) => return refused(format!("The command could not be run: {why}")),
        };
        let mounts = MountTable::new(&self.policy.sandbox_paths, access, protected);
        let cwd = match self.cwd(&arguments, &mounts) {
            Ok(cwd) => cwd,
            Err(why) => return refused(why),
        };
        let _running = self.running.acquire().await;
        let limits = &self.policy.limits;
        let limit = arguments.limit(limits);
        let time = CommandTimes { limit, grace: limits.grace, drain: limits.drain };
        let file = self.policy.sandbox_paths.output_dir.join(format!("command-{}.log", unique()));
        let mut output = OutputCollector::new(limits.shown, limits.kept, file)
            .within(&self.stored)
            .masked(self.policy.output_masking.as_ref());
        let end = match &self.policy.sandbox {
            Sandbox::Docker(container) => {
                let env = self.policy.env.set.clone();
                let home = &self.policy.sandbox_paths.workspace;
                let is_full = self.disk.is_full();
                let command = Exec { command: &arguments.command, cwd: &cwd, home, env, time, is_full };
                container.run(command, access, &mut output).await.map_err(io::Error::other)
            }
            local => {
                let first =
                    self.run_locally(local, &arguments.command, &cwd, &mounts, time, &mut output).await;
                match first {
                    // The mounts changed before the command was started, for example because a file was saved at that
                    // moment. Try once more.
                    Err(error) if was_changed(&error) => {
                        let mounts = MountTable::new(&self.policy.sandbox_paths, access, protected);
                        self.run_locally(local, &arguments.command, &cwd, &mounts, time, &mut output).await
                    }
                    first => first,
                }
            }
        };
        let text = output.finish();
        let end = end.map(|end| self.with_unseen_limit(end, &text));
        let note = self.disk.check().await;
        match end {
            Ok(end) if is_sandbox_failure(end, &text) => {
                refused(format!("The command could not be run: {text}"))
            }
            Ok(end) => outcome(end, limit, &text, note.as_deref()),
            Err(error) => refused(format!("The command could not be run: {error}\n{text}")),
        }
    }

    /// Adds the limit on open files if the output says that it was reached and no other limit was recorded: the watch
    /// may miss a process that ends at once.
    fn with_unseen_limit(&self, end: CommandEnd, output: &str) -> CommandEnd {
        let is_refused = output.contains("Too many open files") || output.contains("EMFILE");
        let open_files = || is_refused.then(|| ReachedLimit::OpenFiles(self.launcher.limits().open_files));
        CommandEnd { limit: end.limit.or_else(open_files), ..end }
    }

    /// The protected paths; empty if this call may not write to context paths, or if the sandbox is neither
    /// bubblewrap nor Landlock. The error is written for the model.
    async fn protected(&self, access: ContextAccess) -> Result<&[PathBuf], String> {
        let here = matches!(self.policy.sandbox, Sandbox::Bubblewrap(_) | Sandbox::Landlock);
        if access == ContextAccess::ReadOnly || !here {
            return Ok(&[]);
        }
        let sandbox_paths = self.policy.sandbox_paths.clone();
        let look = || async {
            let looked = tokio::task::spawn_blocking(move || find_protected(&sandbox_paths)).await;
            let looked = looked.map_err(|error| error.to_string())?;
            looked.map_err(|error| format!("{error} ({})", error.hint()))
        };
        self.protected.get_or_try_init(look).await.map(Vec::as_slice)
    }

    async fn run_locally(
        &self,
        sandbox: &Sandbox,
        command: &str,
        cwd: &Path,
        mounts: &MountTable,
        time: CommandTimes,
        output: &mut OutputCollector,
    ) -> io::Result<CommandEnd> {
        // Landlock cannot give a command a private /tmp.
        let scratch = match sandbox {
            Sandbox::Landlock => Some(Scratch::new(&self.policy.sandbox_paths.output_dir)?),
            _ => None,
        };
        let tmp = scratch.as_ref().map_or(Path::new("/tmp"), |scratch| &scratch.0);
        let network = self.policy.network;
        let shell = shell_path();
        let shell_args = || vec!["-c".into(), command.into()];
        let mut mounts_to_check = Vec::new();
        let (program, args, cwd, restrictions) = match sandbox {
            Sandbox::Bubblewrap(bubblewrap) => {
                let searched = mounts.clone();
                let sockets = tokio::task::spawn_blocking(move || find_live_sockets(&searched, &[])).await?;
                let unix_sockets = sockets.is_some();
                let sockets = sockets.unwrap_or_default();
                mounts_to_check = expected_mounts(mounts.rules(), mounts.missing(), &sockets)?;
                let args = bubblewrap.args(mounts, &sockets, cwd, network, &[shell, "-c", command]);
                let restrictions = Restrictions::BeforeBubblewrap { network, unix_sockets };
                // Bubblewrap itself changes to the working directory, inside the sandbox.
                (bubblewrap.program.as_path(), args, Path::new("/"), Some(restrictions))
            }
            Sandbox::Landlock => {
                let landlock_rules = landlock_rules(mounts, tmp)?;
                let restrictions = Restrictions::Landlock { landlock_rules, network };
                (Path::new(shell), shell_args(), cwd, Some(restrictions))
            }
            Sandbox::Unconfined(_) => (Path::new(shell), shell_args(), cwd, None),
            Sandbox::Docker(_) | Sandbox::Refused { .. } => {
                return Err(io::Error::other("this sandbox does not run commands on this machine"));
            }
        };
        let home = self.policy.sandbox_paths.workspace.to_string_lossy();
        let env = environment(self.policy.env.pairs(&home, &tmp.to_string_lossy()));
        let grace_ms = u64::try_from(time.grace.as_millis()).unwrap_or(u64::MAX);
        let (program, cwd) = (program.to_owned(), cwd.to_owned());
        let in_bubblewrap = matches!(sandbox, Sandbox::Bubblewrap(_));
        let input = Input::Nothing;
        let workspace = &self.policy.sandbox_paths.workspace;
        let written = WrittenPaths::of_mounts(mounts, workspace, scratch.as_ref().map(|tmp| &tmp.0));
        let limited = Some(WrittenPaths { full: self.disk.is_full(), ..written });
        let guarded_command = GuardedCommand {
            program,
            args,
            env,
            cwd,
            input,
            restrictions,
            expected_mounts: mounts_to_check,
            in_bubblewrap,
            grace_ms,
            limited,
        };
        let is_mounted = matches!(sandbox, Sandbox::Bubblewrap(_));
        let lease = self.placeholders.lease(if is_mounted { mounts.missing() } else { &[] });
        let end = self.launcher.run(&guarded_command, time, output).await;
        lease.release();
        end
    }

    fn cwd(&self, arguments: &Arguments, mounts: &MountTable) -> Result<PathBuf, String> {
        let Some(asked) = &arguments.cwd else { return Ok(self.policy.sandbox_paths.workspace.clone()) };
        let named = without_dots(&self.policy.sandbox_paths.workspace.join(asked));
        let cwd = named.canonicalize().ok().filter(|path| path.is_dir());
        let cwd =
            cwd.filter(|path| matches!(mounts.mode(path), Some(MountMode::ReadOnly | MountMode::Writable)));
        cwd.ok_or_else(|| {
            format!("The directory {asked} does not exist or is outside the paths that you may access.")
        })
    }
}

impl ToolHost for CommandHost {
    fn tools(&self, access: ContextAccess) -> Vec<ToolSpec> {
        if self.refusal().is_some() {
            return Vec::new();
        }
        let network = match &self.policy.sandbox {
            Sandbox::Docker(container) => container.has_network(),
            _ => self.policy.network,
        };
        vec![spec(RUN_COMMAND, self.policy.sandbox.kind(), network, access, &self.policy.limits)]
    }

    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(self.run(call, access))
    }
}

/// Models write bash, so bash is used where it is installed.
fn shell_path() -> &'static str {
    if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" }
}

pub(crate) fn unique() -> String {
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(inside: &Path) -> io::Result<Self> {
        let path = inside.join(format!("tmp-{}", unique()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
