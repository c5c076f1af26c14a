//! Detects which sandboxes work on this machine, and chooses one. Bubblewrap and Landlock count as available only after
//! a harmless command ran inside them; Docker, if its daemon answers.

use crate::bubblewrap::Bubblewrap;
use crate::command::CommandHost;
use crate::dir_lock::DirLock;
use crate::docker::DockerClient;
use crate::guarded::GuardLauncher;
use crate::kernel;
use crate::policy::{CommandPolicy, SandboxPaths};
use crate::probe::version;
use crate::sandbox::{AcceptedByUser, Sandbox};
use althing_disk::real_path;
use althing_protocol::{ContextAccess, ToolCall, ToolHost};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DOCKER_TIMEOUT: Duration = Duration::from_secs(1);

const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

const LANDLOCK_LIMITS: &str = "hides the contents of files, but not whether a known path exists, nor the arguments of other \
     processes; bubblewrap hides both";

/// The result of probing one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxProbe<T> {
    /// The working sandbox, or `None`.
    pub works: Option<T>,
    /// If the sandbox works, its version and known weaknesses; otherwise the reason why it does not work.
    pub note: String,
}

/// The sandboxes that were probed on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableSandboxes {
    /// Bubblewrap, which is preferred over Landlock where both work.
    pub bubblewrap: SandboxProbe<Bubblewrap>,
    /// Landlock; the value is the newest Landlock ABI that this kernel is known to support.
    pub landlock: SandboxProbe<u8>,
}

/// One row of the sandbox list in `althing agents`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxAvailability {
    /// `bubblewrap`, `landlock` or `docker`.
    pub name: &'static str,
    /// Whether the sandbox works on this machine.
    pub usable: bool,
    /// If the sandbox works, its version and known weaknesses; otherwise the reason why it does not work.
    pub note: String,
}

impl AvailableSandboxes {
    /// The strongest sandbox that works. If none works: unconfined if the user accepted that, otherwise a refusal.
    pub fn choose_sandbox(&self, accepted: Option<AcceptedByUser>) -> Sandbox {
        match (&self.bubblewrap.works, self.landlock.works, accepted) {
            (Some(bubblewrap), _, _) => Sandbox::Bubblewrap(bubblewrap.clone()),
            (None, Some(_), _) => Sandbox::Landlock,
            (None, None, Some(accepted)) => Sandbox::Unconfined(accepted),
            (None, None, None) => Sandbox::Refused {
                why: format!(
                    "no sandbox works on this machine (bubblewrap: {}; Landlock: {}), and the user did not \
                     allow commands without a sandbox",
                    self.bubblewrap.note, self.landlock.note
                ),
            },
        }
    }
}

/// Probes bubblewrap and Landlock in subdirectories of `scratch`, which are removed afterwards.
pub async fn detect_sandboxes(launcher: &GuardLauncher, scratch: &Path) -> AvailableSandboxes {
    let (bubblewrap, landlock) =
        futures_util::join!(bubblewrap(launcher, scratch), landlock(launcher, scratch));
    AvailableSandboxes { bubblewrap, landlock }
}

/// Probes bubblewrap, Landlock and Docker, for `althing agents`.
pub async fn availability(
    launcher: &GuardLauncher,
    scratch: &Path,
    docker_socket: &Path,
) -> [SandboxAvailability; 3] {
    let (available, (docker, docker_note)) =
        futures_util::join!(detect_sandboxes(launcher, scratch), docker(docker_socket));
    let AvailableSandboxes { bubblewrap, landlock } = available;
    [
        SandboxAvailability { name: "bubblewrap", usable: bubblewrap.works.is_some(), note: bubblewrap.note },
        SandboxAvailability { name: "landlock", usable: landlock.works.is_some(), note: landlock.note },
        SandboxAvailability { name: "docker", usable: docker, note: docker_note },
    ]
}

async fn docker(socket: &Path) -> (bool, String) {
    match tokio::time::timeout(DOCKER_TIMEOUT, DockerClient::connect(socket)).await {
        Ok(Ok(containers)) => (true, format!("daemon {} at {}", containers.version(), socket.display())),
        Ok(Err(error)) => (false, format!("{error}; {}", error.hint())),
        Err(_) => {
            (false, format!("the daemon at {} accepts connections but does not answer", socket.display()))
        }
    }
}

async fn bubblewrap(launcher: &GuardLauncher, scratch: &Path) -> SandboxProbe<Bubblewrap> {
    let Some(program) = find_system_program("bwrap") else {
        return SandboxProbe { works: None, note: "not installed (package `bubblewrap`)".to_owned() };
    };
    let version = version(launcher, &program, None, VERSION_TIMEOUT).await;
    let version = version.unwrap_or_else(|| "an unknown version".to_owned());
    let mut note = String::new();
    // Versions before 0.8 lack `--disable-userns`. The sandbox is effective without this option.
    for can_disable_userns in [true, false] {
        let found = Bubblewrap { program: program.clone(), version: version.clone(), can_disable_userns };
        match try_out(launcher, scratch, Sandbox::Bubblewrap(found.clone())).await {
            Ok(()) if can_disable_userns => return SandboxProbe { works: Some(found), note: version },
            Ok(()) => {
                let note = format!("{version}; before 0.8 it does not prevent new user namespaces");
                return SandboxProbe { works: Some(found), note };
            }
            Err(error) => note = error,
        }
    }
    SandboxProbe { works: None, note: format!("{version} is installed but does not work here: {note}") }
}

async fn landlock(launcher: &GuardLauncher, scratch: &Path) -> SandboxProbe<u8> {
    match (kernel::landlock_abi(), try_out(launcher, scratch, Sandbox::Landlock).await) {
        (Some(abi), Ok(())) => {
            SandboxProbe { works: Some(abi), note: format!("ABI {abi} or later; {LANDLOCK_LIMITS}") }
        }
        (Some(abi), Err(error)) => SandboxProbe {
            works: None,
            note: format!("the kernel has Landlock ABI {abi}, which is too old or does not work: {error}"),
        },
        (None, _) => SandboxProbe {
            works: None,
            note: "Landlock is not available: the kernel is older than 6.12, Landlock is disabled at boot, or the container forbids it".to_owned(),
        },
    }
}

async fn try_out(launcher: &GuardLauncher, scratch: &Path, sandbox: Sandbox) -> Result<(), String> {
    let trial =
        TrialDir::new(scratch).map_err(|error| format!("could not create a test directory: {error}"))?;
    let sandbox_paths = SandboxPaths::new(trial.0.join("workspace"), trial.0.join("output"));
    let mut policy = CommandPolicy::new(sandbox_paths, sandbox);
    policy.limits.default_timeout = Duration::from_secs(10);
    let host = CommandHost::new(policy, launcher.clone()).map_err(|error| error.to_string())?;
    let arguments = r#"{"command":"echo it works > proof && cat proof"}"#.to_owned();
    let call = ToolCall { id: String::new(), name: crate::RUN_COMMAND.to_owned(), arguments };
    let outcome = host.call(&call, ContextAccess::ReadOnly).await;
    let one_line = outcome.content.replace('\n', " ");
    if outcome.content == "exit code: 0\nit works\n" { Ok(()) } else { Err(one_line.trim().to_owned()) }
}

struct TrialDir(PathBuf, Option<DirLock>);

const TRIAL_PREFIX: &str = "althing-trial-";

impl TrialDir {
    /// Uses a random name, so that other users cannot occupy the name if `scratch` is `/tmp`.
    fn new(scratch: &Path) -> std::io::Result<Self> {
        let scratch = real_path(scratch);
        remove_left_trials(&scratch);
        let path = scratch.join(format!("{TRIAL_PREFIX}{:032x}", fastrand::u128(..)));
        // Another process may remove the directory before it is locked; then it is made again.
        let lock = DirLock::in_use(&path, &mut || match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Ok(()),
        })?;
        let trial = Self(path, lock);
        std::fs::create_dir(trial.0.join("workspace"))?;
        Ok(trial)
    }
}

impl Drop for TrialDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        drop(self.1.take());
    }
}

/// Removes the directories that killed processes left behind. Those of other users cannot be removed.
fn remove_left_trials(scratch: &Path) {
    for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
        let is_trial = entry.file_name().to_str().is_some_and(|name| name.starts_with(TRIAL_PREFIX));
        if let Some(lock) = is_trial.then(|| DirLock::left_behind(&entry.path())).flatten() {
            let _ = std::fs::remove_dir_all(entry.path());
            drop(lock);
        }
    }
}

/// Does not search `PATH`: a program that a project puts there must not become our sandbox.
fn find_system_program(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin"]
        .into_iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.exists())
}
