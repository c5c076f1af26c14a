//! Everything that must be known to start a program for a task, in a terminal or on pipes.

use super::files::MadeFiles;
use super::prose::prose;
use super::walls::{Ground, Inside, Prepared, Terms, first_start, prepare, terms};
use crate::adapter::{Adapters, AgentAdapter, Conversations, FirstStart, Freedom, LaunchRequest, Toolbox};
use crate::confinement::Confinement;
use crate::dialogue::Dialogue;
use crate::guarded::Launcher;
use crate::launch::Input;
use althing_protocol::{ExecutionMode, Grant, Masks, PermissionMode, ProgramJob, ProgramSpec, RootKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How programs are started on this machine.
#[derive(Debug)]
pub struct ProgramStarter {
    /// What is known of programs.
    pub adapters: Adapters,
    /// How guards are started.
    pub launcher: Launcher,
    /// Inside what agents run that are given their bypass flag. Where it is `Refused`, they run in their own strictest
    /// mode; where it is `Unconfined`, with the user's rights.
    pub confinement: Confinement,
    /// Our own state, which no confined program may see.
    pub state_dir: Option<PathBuf>,
    /// Times.
    pub limits: ProgramLimits,
    /// What is taken out of programs' output before it is kept; None keeps it as it came.
    pub masks: Option<Arc<dyn Masks>>,
}

/// Times of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramLimits {
    /// How long a program may say nothing, where its task does not say.
    pub idle: Duration,
    /// From TERM to KILL.
    pub grace: Duration,
}

impl Default for ProgramLimits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(600), grace: Duration::from_secs(2) }
    }
}

/// A start that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<'a> {
    pub(crate) spec: &'a ProgramSpec,
    pub(crate) resume: Option<&'a str>,
    pub(crate) dir: &'a Path,
    pub(crate) tools: Option<&'a Toolbox>,
    /// What it may touch.
    pub(crate) grant: &'a Grant,
    /// What an agent may do where there are no walls and the user waived nothing.
    pub(crate) at_least: Freedom,
}

impl<'a> Want<'a> {
    /// A task's program, on pipes or in a terminal as its mode says.
    pub(crate) fn of(job: &'a ProgramJob, grant: &'a Grant, resume: Option<&'a str>) -> Self {
        Self {
            spec: &job.spec,
            resume,
            dir: Path::new(&job.dir),
            tools: None,
            grant,
            at_least: Freedom::ReadOnly,
        }
    }
}

/// A program that is ready to be started.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) adapter: Arc<dyn AgentAdapter>,
    pub(crate) prepared: Prepared,
    pub(crate) freedom: Freedom,
    /// What is sent as its prompt: never anything that the program could read as one of its own commands.
    pub(crate) prompt: String,
    /// Its structured protocol, where it is to ask over that.
    pub(crate) dialogue: Option<Box<dyn Dialogue>>,
    /// The id of its new conversation, where we chose it.
    pub(crate) chosen: Option<String>,
    /// There as long as this is.
    _files: MadeFiles,
}

/// Why a program cannot be started, and what a person can do about it.
type Refusal = (String, Option<String>);

impl ProgramStarter {
    /// Makes everything ready.
    pub(crate) fn start(&self, want: &Want<'_>) -> Result<Start, Refusal> {
        let spec = want.spec;
        let adapter = self.adapters.get(&spec.adapter).ok_or_else(|| {
            let known: Vec<&str> = self.adapters.names().collect();
            let error = format!("there is no adapter named `{}`", spec.adapter);
            (error, Some(format!("the known ones are: {}", known.join(", "))))
        })?;
        // The only place where a prompt is handed on: what is typed, piped or said over a protocol is this text.
        let prompt = if adapter.is_agent() { prose(&spec.prompt).into_owned() } else { spec.prompt.clone() };
        let spec = &ProgramSpec { prompt: prompt.clone(), ..spec.clone() };
        let interactive = spec.mode == ExecutionMode::Interactive;
        let asks = interactive || spec.approvals;
        let Terms { inside, freedom } = if asks && spec.sandbox != Some(true) {
            // A person is asked.
            Terms { inside: Inside::Nothing, freedom: Freedom::Ask }
        } else {
            terms(&**adapter, spec, &self.confinement).map_err(|error| (error, None))?
        };
        // A permission mode only takes away: what is asked about is refused where nobody can be asked.
        let mode = spec.options.permission_mode.filter(|_| !asks);
        let read_only =
            want.grant.planning || matches!(mode, Some(PermissionMode::Default | PermissionMode::Plan));
        let freedom = match freedom {
            _ if read_only => Freedom::ReadOnly,
            Freedom::ReadOnly => want.at_least,
            Freedom::Full if mode == Some(PermissionMode::AcceptEdits) => Freedom::Workspace,
            freedom => freedom,
        };
        std::fs::create_dir_all(want.dir)
            .map_err(|error| (format!("{} cannot be made: {error}", want.dir.display()), None))?;
        let fresh = uuid();
        let roots = [RootKind::Context, RootKind::View].into_iter().flat_map(|kind| want.grant.roots(kind));
        let besides = roots.filter(|root| root.path != Path::new(&spec.cwd));
        let readable: Vec<PathBuf> = besides.map(|root| root.path.clone()).collect();
        let task = LaunchRequest {
            spec,
            resume: want.resume,
            fresh: &fresh,
            freedom,
            inside_walls: matches!(inside, Inside::Walls(_)),
            readable: &readable,
            dir: want.dir,
            tools: want.tools,
            as_root: rustix::process::geteuid().is_root(),
            first_start: if asks { first_start(&**adapter, &spec.env) } else { FirstStart::Left },
        };
        let mut dialogue = None;
        let config = if interactive {
            adapter.launch_config(&task)
        } else if spec.approvals {
            let (config, spoken) = adapter.dialogue(&task).ok_or_else(|| {
                let error = format!("`{}` cannot ask for approvals headless", adapter.name());
                (error, Some("run it interactive, or without approvals".to_owned()))
            })?;
            dialogue = Some(spoken);
            config
        } else {
            adapter.headless_launch_config(&task).ok_or_else(|| {
                let error = format!("`{}` cannot run headless", adapter.name());
                (error, Some("give its adapter `headless_args`, or run it interactive".to_owned()))
            })?
        };
        // A program that may only look is confined as one that plans.
        let grant = Grant { planning: read_only, ..want.grant.clone() };
        let ground = Ground {
            cwd: Path::new(&spec.cwd),
            grant: &grant,
            dir: want.dir,
            state: self.state_dir.as_deref(),
        };
        let input = if interactive { Input::Terminal } else { Input::Passed };
        let grace = u64::try_from(self.limits.grace.as_millis()).unwrap_or(u64::MAX);
        let prepared = prepare(&**adapter, &config, &spec.env, &inside, ground, input, grace)
            .map_err(|error| (error, Some("install it, or correct the task".to_owned())))?;
        let files = MadeFiles::make(&config.files).map_err(|error| (error, None))?;
        let chooses = want.resume.is_none() && adapter.conversations() == Conversations::Chosen;
        let chosen = chooses.then_some(fresh);
        Ok(Start { adapter: Arc::clone(adapter), prepared, freedom, prompt, dialogue, chosen, _files: files })
    }
}

/// A random UUID. It names a conversation and keeps no secret.
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
