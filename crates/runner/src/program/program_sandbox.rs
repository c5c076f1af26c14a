//! Decides in which sandbox a CLI agent or a task's program runs, and builds the command for the guard: executable,
//! environment, mounts.
//!
//! Without a working sandbox, a program whose task sets `sandbox: true` is refused. Unless the user accepted running
//! unconfined, a CLI agent then runs with restricted permissions, and a headless program of `adapters`, whose
//! permissions cannot be restricted, is refused.

use super::executable::find_executable;
use super::prepare::PrepareError;
use super::private_settings::{PrivateSettings, PrivateSettingsGuard, SettingsPlaces};
use crate::adapter::{
    AgentAdapter, LaunchConfig, Onboarding, OwnPath, PermissionLevel, SearchPath, find_program,
};
use crate::guard_protocol::{GuardedCommand, Input, Restrictions, WrittenPaths};
use crate::landlock_rules::landlock_rules;
use crate::mount_check::expected_mounts;
use crate::mount_table::{MountMode, MountTable};
use crate::placeholders::MissingPath;
use crate::policy::SandboxPaths;
use crate::protected_paths::find_protected;
use crate::sandbox::Sandbox;
use crate::socket_files::find_live_sockets;
use althing_disk::create_real_dir;
use althing_protocol::{
    ContextAccess, Grant, ProgramSpec, is_passed_to_programs, is_secret_name, variable_matches,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Toolchains in the home directory; they contain no secrets.
const TOOLCHAIN_DIRS: [&str; 8] =
    [".rustup", ".cargo/bin", ".nvm", ".volta", ".pyenv", ".rbenv", ".local/bin", "go/bin"];

pub(super) struct ProgramSandbox<'a> {
    pub(super) sandbox: Option<&'a Sandbox>,
    pub(super) permissions: PermissionLevel,
}

pub(super) fn choose_program_sandbox<'a>(
    adapter: &dyn AgentAdapter,
    spec: &ProgramSpec,
    sandbox: &'a Sandbox,
) -> Result<ProgramSandbox<'a>, String> {
    let can_confine = matches!(sandbox, Sandbox::Bubblewrap(_) | Sandbox::Landlock);
    let accepted = matches!(sandbox, Sandbox::Unconfined(_));
    let why = match sandbox {
        Sandbox::Refused { why } => why.as_str(),
        _ => "no sandbox for programs works on this machine",
    };
    let (sandbox, permissions) = match (adapter.is_agent(), spec.sandbox) {
        (true, None | Some(true))
            if matches!(sandbox, Sandbox::Landlock) && adapter.landlock_problem().is_some() =>
        {
            return Err(landlock_error(adapter).unwrap_or_default());
        }
        (false, Some(true)) | (true, None | Some(true)) if can_confine => {
            (Some(sandbox), PermissionLevel::Full)
        }
        (_, Some(true)) => return Err(format!("the task asks for a sandbox, but {why}")),
        (false, _) => (None, PermissionLevel::Full),
        (true, _) if accepted => (None, PermissionLevel::Full),
        // No sandbox works and the user did not accept running unconfined, or the task sets `sandbox: false`.
        (true, asked) if adapter.is_user_defined() => {
            let why = if asked.is_some() { "the task sets `sandbox: false`" } else { why };
            return Err(format!(
                "{} is a program of `adapters`: only a sandbox can keep it from writing to your files, but {why}. To run \
                 it with all your rights, start it with `command` or, if no sandbox works here, pass `--unconfined`",
                adapter.name()
            ));
        }
        (true, _) => (None, PermissionLevel::ReadOnly),
    };
    Ok(ProgramSandbox { sandbox, permissions })
}

pub(crate) fn landlock_error(adapter: &dyn AgentAdapter) -> Option<String> {
    let problem = adapter.landlock_problem()?;
    Some(format!("{problem}: install `bubblewrap`"))
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramPaths<'a> {
    /// The working directory: the workspace or one of the grant's roots.
    pub(super) cwd: &'a Path,
    pub(super) grant: &'a Grant,
    pub(super) dir: &'a Path,
    pub(super) state: Option<&'a Path>,
    pub(super) settings: SettingsPlaces<'a>,
}

#[derive(Debug)]
pub(crate) struct ConfinedCommand {
    pub(crate) guarded_command: GuardedCommand,
    /// The missing protected paths. Their placeholders must exist while the command runs.
    pub(crate) placeholders: Vec<MissingPath>,
    pub(super) settings: PrivateSettingsGuard,
}

pub(super) fn build_guarded_command(
    adapter: &dyn AgentAdapter,
    config: &LaunchConfig,
    spec_env: &BTreeMap<String, String>,
    sandbox: Option<&Sandbox>,
    paths: ProgramPaths<'_>,
    input: Input,
    grace_ms: u64,
) -> Result<ConfinedCommand, PrepareError> {
    let mut env = environment(adapter, &config.env, spec_env);
    let search = value(&env, "PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin").to_owned();
    let has_all_rights = adapter.is_agent() && sandbox.is_none();
    // The user's own commands are searched for everywhere, as in a shell.
    let agents_write = if adapter.is_agent() { paths.grant.agents_write.as_slice() } else { &[] };
    let safe = SearchPath::without(&search, agents_write);
    let found = find_executable(&config.program, &search, has_all_rights, paths.cwd, &safe)?;
    if has_all_rights {
        set(&mut env, "PATH", &safe.kept);
    }
    if !paths.cwd.is_dir() {
        let error = format!("the directory {} does not exist", paths.cwd.display());
        return Err((error, Some("create it, or name another as the working directory (`cwd`)".to_owned())));
    }
    let start = config.process_dir.as_deref().unwrap_or(paths.cwd);
    let mut guarded_command = GuardedCommand {
        program: found.clone(),
        args: config.args.iter().map(Into::into).collect(),
        env: Vec::new(),
        cwd: start.to_owned(),
        input,
        restrictions: None,
        expected_mounts: Vec::new(),
        in_bubblewrap: false,
        grace_ms,
        limited: None,
    };
    let (mut placeholders, mut writable) = (Vec::new(), Vec::new());
    let mut settings = PrivateSettings::default();
    if let Some(sandbox) = sandbox {
        settings =
            private_settings(adapter, &mut env, paths.settings, config).map_err(|error| (error, None))?;
        let mounts =
            mounts(adapter, &env, &settings, &found, &search, paths).map_err(|error| (error, None))?;
        let rules = mounts.rules().iter().filter(|rule| rule.mode == MountMode::Writable);
        writable.extend(rules.map(|rule| rule.path.clone()));
        let scratch = paths.dir.join(SCRATCH);
        let tmp = if matches!(sandbox, Sandbox::Landlock) { &*scratch } else { Path::new("/tmp") };
        set(&mut env, "TMPDIR", &tmp.to_string_lossy());
        let cwd = real(start);
        if let Sandbox::Bubblewrap(bubblewrap) = sandbox {
            placeholders = mounts.missing().to_vec();
            let program = real(&found);
            let program = program.to_string_lossy();
            let argv: Vec<&str> =
                [&*program].into_iter().chain(config.args.iter().map(String::as_str)).collect();
            let sockets = {
                let home = value(&env, "HOME").map(PathBuf::from).unwrap_or_default();
                let installed = program_dirs(&found, &search, &home);
                find_live_sockets(&mounts, &installed.iter().map(|dir| real(dir)).collect::<Vec<_>>())
            };
            let unix_sockets = sockets.is_some();
            let sockets = sockets.unwrap_or_default();
            guarded_command.expected_mounts = expected_mounts(mounts.rules(), mounts.missing(), &sockets)
                .map_err(|error| (error.to_string(), None))?;
            guarded_command.args = bubblewrap.args(&mounts, &sockets, &cwd, true, &argv);
            if input == Input::Terminal
                && let Some(at) = guarded_command.args.iter().position(|arg| arg == "--new-session")
            {
                // `--new-session` would separate the program from its terminal, and the program would not notice size
                // changes.
                guarded_command.args.remove(at);
            }
            guarded_command.program.clone_from(&bubblewrap.program);
            guarded_command.cwd = PathBuf::from("/");
            guarded_command.restrictions =
                Some(Restrictions::BeforeBubblewrap { network: true, unix_sockets });
            guarded_command.in_bubblewrap = true;
        } else {
            let landlock_rules =
                landlock_rules(&mounts, &scratch).map_err(|error| (error.to_string(), None))?;
            guarded_command.restrictions = Some(Restrictions::Landlock { landlock_rules, network: true });
        }
    }
    guarded_command.env = crate::guard_protocol::environment(env);
    if adapter.is_agent() || sandbox.is_some() {
        guarded_command.limited = Some(written_paths(paths, writable));
    }
    Ok(ConfinedCommand { guarded_command, placeholders, settings: settings.guard })
}

/// Which paths count towards the disk limit: the agent's workspace and the task's own directory as a whole, and of
/// other paths, such as the user's project, only the files that change.
fn written_paths(paths: ProgramPaths<'_>, writable: Vec<PathBuf>) -> WrittenPaths {
    let workspace = paths.grant.workspace.iter().map(|path| real(path));
    let own: Vec<PathBuf> = workspace.chain([real(paths.dir)]).collect();
    let context = paths.grant.context_paths().into_iter().filter(|path| path.writable);
    let context = context.map(|path| real(Path::new(&path.path)));
    let mut shared: Vec<PathBuf> = writable.into_iter().chain(context).collect();
    shared.retain(|path| !own.iter().any(|own| path.starts_with(own)));
    shared.sort();
    // A path inside another one is measured with it.
    shared.dedup_by(|inner, outer| inner.starts_with(outer));
    WrittenPaths { own, shared, full: false }
}

/// The subdirectory of the task's directory that a program in a sandbox can always write to. Under Landlock it is
/// also the directory for temporary files.
const SCRATCH: &str = "scratch";

fn mounts(
    adapter: &dyn AgentAdapter,
    env: &[(String, String)],
    settings: &PrivateSettings,
    program: &Path,
    search: &str,
    paths: ProgramPaths<'_>,
) -> Result<MountTable, String> {
    let scratch = paths.dir.join(SCRATCH);
    create_real_dir(&scratch, 0o700)
        .map_err(|error| format!("could not create {}: {error}", scratch.display()))?;
    let home = value(env, "HOME").map(PathBuf::from).unwrap_or_default();
    let mut readable: Vec<PathBuf> =
        program_dirs(program, search, &home).iter().map(|dir| real(dir)).collect();
    readable.extend(settings.readable.iter().cloned());
    let own = own_paths(adapter, env, &home);
    let mut sandbox_paths = SandboxPaths::from(paths.grant);
    sandbox_paths.readable.append(&mut readable);
    // The scratch directory, which is writable even while the agent plans, takes the place of the workspace here. The
    // workspace itself is added below: as readable while the agent plans, otherwise as writable.
    let workspace = std::mem::replace(&mut sandbox_paths.workspace, scratch.clone());
    let mut writable = vec![scratch];
    if paths.grant.workspace.is_some() {
        let given = if sandbox_paths.planning { &mut sandbox_paths.readable } else { &mut writable };
        given.push(workspace);
    }
    writable.extend(own);
    writable.extend(settings.writable.iter().cloned());
    sandbox_paths.state_dir = paths.state.map(Path::to_owned);
    paths.dir.clone_into(&mut sandbox_paths.output_dir);
    let sandbox_paths = sandbox_paths.checked().map_err(|error| format!("{error}; {}", error.hint()))?;
    let protected = find_protected(&sandbox_paths).map_err(|error| format!("{error}; {}", error.hint()))?;
    let mounts = MountTable::new(&sandbox_paths, ContextAccess::Writable, &protected);
    let writable: Vec<PathBuf> =
        writable.iter().filter_map(|path| resolve_in_mounts(path, &mounts)).collect();
    Ok(mounts.with_writable(writable.into_iter()))
}

/// `None` if the path does not exist, or if a symlink inside a writable mount leads out of that mount: the program
/// itself could have created such a symlink in an earlier run, to get access to its target.
fn resolve_in_mounts(path: &Path, mounts: &MountTable) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    let mut parents = path.ancestors().skip(1).filter_map(|parent| parent.canonicalize().ok());
    let leads_out =
        parents.any(|parent| mounts.mode(&parent) == Some(MountMode::Writable) && !real.starts_with(&parent));
    (!leads_out).then_some(real)
}

fn program_dirs(program: &Path, search: &str, home: &Path) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = TOOLCHAIN_DIRS.iter().map(|dir| home.join(dir)).collect();
    for found in [Some(program.to_owned()), find_program("node", search)].into_iter().flatten() {
        dirs.extend(found.parent().map(Path::to_owned));
        let real = real(&found);
        // The outermost `node_modules` is mounted as a whole, because a package may use sibling packages.
        let modules = real.ancestors().filter(|above| above.ends_with("node_modules")).last();
        dirs.extend(modules.or_else(|| real.parent()).map(Path::to_owned));
    }
    let system_dirs = ["/usr", "/bin", "/sbin", "/lib"];
    dirs.retain(|dir| dir.is_absolute() && dir.exists());
    dirs.retain(|dir| !system_dirs.iter().any(|known| dir.starts_with(known)) && dir != home);
    dirs
}

fn private_settings(
    adapter: &dyn AgentAdapter,
    env: &mut Vec<(String, String)>,
    places: SettingsPlaces<'_>,
    config: &LaunchConfig,
) -> Result<PrivateSettings, String> {
    let home = value(env, "HOME").map(PathBuf::from).unwrap_or_default();
    let lookup = |name: &str| value(env, name).map(PathBuf::from).filter(|path| path.is_absolute());
    let made = PrivateSettings::make(adapter, &lookup, &home, places, &config.files);
    let made = made.map_err(|error| {
        format!("could not copy the settings of {} to {}: {error}", adapter.name(), places.dir.display())
    })?;
    for (name, path) in &made.variables {
        set(env, name, path);
    }
    Ok(made)
}

fn own_paths(adapter: &dyn AgentAdapter, env: &[(String, String)], home: &Path) -> Vec<PathBuf> {
    let located = |own: &OwnPath| own.path(home, &|name| value(env, name).map(PathBuf::from));
    let mut paths: Vec<PathBuf> = adapter.own_paths().iter().map(located).collect();
    paths.retain(|path| path.is_absolute());
    for path in &paths {
        // An error is ignored here: the program then fails with a more useful error message.
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    }
    paths
}

/// Whether to skip the first-start dialogs. Settings that exist but cannot be read or parsed count as completed
/// dialogs.
pub(super) fn onboarding(adapter: &dyn AgentAdapter, spec_env: &BTreeMap<String, String>) -> Onboarding {
    let Some(onboarding_check) = adapter.onboarding_check() else { return Onboarding::LeaveToAgent };
    let env = environment(adapter, &[], spec_env);
    let Some(home) = value(&env, "HOME").map(Path::new) else { return Onboarding::LeaveToAgent };
    let settings = onboarding_check.settings.path(home, &|name| value(&env, name).map(PathBuf::from));
    let filled = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    let is_onboarded = match read_settings(&settings) {
        Ok(bytes) => serde_json::from_slice::<Value>(&bytes).map_or(true, |known| {
            onboarding_check
                .completed_pointers
                .iter()
                .any(|pointer| known.pointer(pointer).is_some_and(filled))
        }),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    let key = onboarding_check.key_variables.iter().find(|name| value(&env, name).is_some());
    match key {
        Some(key) if !is_onboarded => Onboarding::SkipWithKey(key),
        _ => Onboarding::LeaveToAgent,
    }
}

const MAX_SETTINGS: u64 = 16 << 20;

/// Reads the settings of a CLI agent, where programs that run without a sandbox can leave anything: a pipe must not
/// block, and a device or a huge file must not fill the memory.
fn read_settings(path: &Path) -> std::io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    if file.take(MAX_SETTINGS + 1).read_to_end(&mut bytes)? as u64 > MAX_SETTINGS {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// The environment of a program. Agents get only the allowed variables of our environment; the user's own commands
/// also get all others except secrets and `ALTHING_*`.
fn environment(
    adapter: &dyn AgentAdapter,
    config: &[(String, String)],
    spec: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let own = adapter.own_variables();
    let passed = |name: &str| {
        let by_name =
            is_passed_to_programs(name) || own.iter().any(|pattern| variable_matches(pattern, name));
        let secret = is_secret_name(name) || name.to_ascii_uppercase().starts_with("ALTHING_");
        by_name || (!adapter.is_agent() && !secret)
    };
    let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = ours.filter(|(name, _)| passed(name));
    let mut env: Vec<(String, String)> =
        ours.filter_map(|(name, value)| Some((name, value.into_string().ok()?))).collect();
    let given = spec.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    // The adapter's variables override the task's, because the program does not work without them.
    for (name, value) in given.chain(config.iter().map(|(name, value)| (name.as_str(), value.as_str()))) {
        set(&mut env, name, value);
    }
    env
}

fn value<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
    env.iter().find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.as_str())
}

fn set(env: &mut Vec<(String, String)>, name: &str, value: &str) {
    env.retain(|(known, _)| known != name);
    env.push((name.to_owned(), value.to_owned()));
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{onboarding, resolve_in_mounts};
    use crate::adapter::{ClaudeCode, Codex, GeminiCli, Onboarding};
    use crate::mount_table::MountTable;
    use crate::policy::{ContextMount, SandboxPaths};
    use althing_protocol::ContextAccess;
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_that_a_program_could_have_made_gives_it_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in ["project/target", "secret/settings", "settings", "ws"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        symlink(root.join("secret"), root.join("project/own")).unwrap();
        symlink(root.join("project/target"), root.join("project/inside")).unwrap();
        symlink(root.join("settings"), root.join("linked")).unwrap();
        let mut sandbox_paths = SandboxPaths::new(root.join("ws"), root.join("out"));
        let path = root.join("project");
        sandbox_paths.context = vec![ContextMount { path, writable: true, protected: Vec::new() }];
        let mounts = MountTable::new(&sandbox_paths.checked().unwrap(), ContextAccess::Writable, &[]);
        let resolved = |path: &str| resolve_in_mounts(&root.join(path), &mounts);
        assert_eq!(resolved("project/own"), None);
        assert_eq!(resolved("project/own/settings"), None);
        assert_eq!(resolved("project/inside"), Some(root.join("project/target")));
        assert_eq!(resolved("linked"), Some(root.join("settings")), "the user's own symlink");
        assert_eq!(resolved("nowhere"), None);
    }

    #[test]
    fn onboarding_is_skipped_only_with_a_key_and_incomplete_settings() {
        let home = tempfile::tempdir().unwrap();
        let settings = home.path().join(".claude.json");
        let variables = |key: &str| {
            let all = [
                ("HOME", home.path().to_str().unwrap()),
                ("CLAUDE_CONFIG_DIR", ""),
                ("GEMINI_CLI_HOME", ""),
                ("ANTHROPIC_AUTH_TOKEN", ""),
                ("CLAUDE_CODE_OAUTH_TOKEN", ""),
                ("ANTHROPIC_API_KEY", key),
                ("GEMINI_API_KEY", key),
            ];
            all.map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .collect::<BTreeMap<_, _>>()
        };
        let (keyed, bare) = (variables("a-key"), variables(""));
        assert_eq!(onboarding(&ClaudeCode, &bare), Onboarding::LeaveToAgent, "there is no key");
        assert_eq!(onboarding(&ClaudeCode, &keyed), Onboarding::SkipWithKey("ANTHROPIC_API_KEY"));
        assert_eq!(onboarding(&GeminiCli, &keyed), Onboarding::SkipWithKey("GEMINI_API_KEY"));
        assert_eq!(onboarding(&Codex, &keyed), Onboarding::LeaveToAgent);
        std::fs::write(&settings, r#"{"numStartups":3}"#).unwrap();
        assert_eq!(
            onboarding(&ClaudeCode, &keyed),
            Onboarding::SkipWithKey("ANTHROPIC_API_KEY"),
            "only headless runs so far"
        );
        std::fs::write(&settings, r#"{"hasCompletedOnboarding":true}"#).unwrap();
        assert_eq!(onboarding(&ClaudeCode, &keyed), Onboarding::LeaveToAgent);
        std::fs::write(&settings, "{").unwrap();
        assert_eq!(
            onboarding(&ClaudeCode, &keyed),
            Onboarding::LeaveToAgent,
            "unreadable settings count as completed"
        );
        std::fs::remove_file(&settings).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&settings).status().unwrap().success());
        assert_eq!(onboarding(&ClaudeCode, &keyed), Onboarding::LeaveToAgent, "a pipe");
        std::fs::remove_file(&settings).unwrap();
        symlink("/dev/zero", &settings).unwrap();
        assert_eq!(onboarding(&ClaudeCode, &keyed), Onboarding::LeaveToAgent, "a device");
    }
}
