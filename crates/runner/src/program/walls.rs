//! Turns what an adapter wants started into what a guard is told to start: which program exactly, with which
//! environment, inside which walls.
//!
//! A program never runs in weaker walls than it was given its freedom for: what cannot be confined is refused or, for an
//! agent, started in its own strictest mode.

use crate::adapter::{AgentAdapter, FirstStart, Freedom, LaunchConfig, find_program};
use crate::confinement::Confinement;
use crate::grants::grants;
use crate::launch::{Input, Launch, Restrict};
use crate::policy::SandboxPaths;
use crate::protected::existing;
use crate::view::View;
use althing_protocol::{ContextAccess, Grant, ProgramSpec, is_passed_to_programs, variable_matches};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Words in the names of variables that hold secrets: the user's own command is not passed these unasked either.
const SECRET_WORDS: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "ALTHING_"];

/// Tool chains that people keep in their home; no secrets are in them.
const TOOL_CHAINS: [&str; 8] =
    [".rustup", ".cargo/bin", ".nvm", ".volta", ".pyenv", ".rbenv", ".local/bin", "go/bin"];

/// How a program is confined.
pub(super) enum Inside<'a> {
    /// With the user's own rights.
    Nothing,
    /// Inside these walls.
    Walls(&'a Confinement),
}

/// What to do about a program's freedom on this machine.
pub(super) struct Terms<'a> {
    pub(super) inside: Inside<'a>,
    pub(super) freedom: Freedom,
}

/// The terms on which a program of a task runs, or why it may not.
pub(super) fn terms<'a>(
    adapter: &dyn AgentAdapter,
    spec: &ProgramSpec,
    confinement: &'a Confinement,
) -> Result<Terms<'a>, String> {
    let walls = matches!(confinement, Confinement::Bubblewrap(_) | Confinement::Landlock);
    let accepted = matches!(confinement, Confinement::Unconfined(_));
    let why = match confinement {
        Confinement::Refused { why } => why.as_str(),
        _ => "no sandbox for programs works on this machine",
    };
    let (inside, freedom) = match (adapter.is_agent(), spec.sandbox) {
        (false, Some(true)) | (true, None | Some(true)) if walls => {
            (Inside::Walls(confinement), Freedom::Full)
        }
        (_, Some(true)) => return Err(format!("the task asks for a sandbox, but {why}")),
        (false, _) => (Inside::Nothing, Freedom::Full),
        (true, _) if accepted => (Inside::Nothing, Freedom::Full),
        // Neither walls nor the user's word: it may look, by its own rules.
        (true, _) => (Inside::Nothing, Freedom::ReadOnly),
    };
    Ok(Terms { inside, freedom })
}

/// The files that a program may touch inside its walls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<'a> {
    /// Where it works: its workspace or one of its roots.
    pub(super) cwd: &'a Path,
    /// What it may touch.
    pub(super) grant: &'a Grant,
    /// The task's own directory: readable.
    pub(super) dir: &'a Path,
    /// Our state: never visible.
    pub(super) state: Option<&'a Path>,
}

/// What is to be started, and what must be removed afterwards.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) launch: Launch,
    /// Empty directories that the sandbox makes where a protected place is missing.
    pub(crate) placeholders: Vec<PathBuf>,
}

/// Puts a start together. The error is for people.
pub(super) fn prepare(
    adapter: &dyn AgentAdapter,
    config: &LaunchConfig,
    spec_env: &BTreeMap<String, String>,
    inside: &Inside<'_>,
    ground: Ground<'_>,
    input: Input,
    grace_ms: u64,
) -> Result<Prepared, String> {
    let mut env = environment(adapter, &config.env, spec_env);
    let search = value(&env, "PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin").to_owned();
    let found = find_program(&in_dir(&config.program, ground.cwd), &search).ok_or_else(|| {
        let place = if config.program.contains('/') { "" } else { " in PATH" };
        format!("the program `{}` was not found{place}", config.program)
    })?;
    if !ground.cwd.is_dir() {
        return Err(format!("the directory {} does not exist", ground.cwd.display()));
    }
    let mut launch = Launch {
        program: found.clone(),
        args: config.args.clone(),
        env: Vec::new(),
        cwd: ground.cwd.to_owned(),
        input,
        restrict: None,
        spare: false,
        grace_ms,
    };
    let mut placeholders = Vec::new();
    if let Inside::Walls(confinement) = inside {
        let view = view(adapter, &mut env, &found, &search, ground)?;
        placeholders = view.missing().to_vec();
        let scratch = ground.dir.join(SCRATCH);
        let tmp = if matches!(confinement, Confinement::Landlock) { &*scratch } else { Path::new("/tmp") };
        set(&mut env, "TMPDIR", &tmp.to_string_lossy());
        let cwd = real(ground.cwd);
        if let Confinement::Bubblewrap(bubblewrap) = confinement {
            let program = real(&found);
            let program = program.to_string_lossy();
            let argv: Vec<&str> =
                [&*program].into_iter().chain(config.args.iter().map(String::as_str)).collect();
            launch.args = bubblewrap.args(&view, &cwd, true, &argv);
            if input == Input::Terminal
                && let Some(at) = launch.args.iter().position(|arg| arg == "--new-session")
            {
                // The terminal is its own, and it must be told when its size changes.
                launch.args.remove(at);
            }
            launch.program.clone_from(&bubblewrap.program);
            launch.cwd = PathBuf::from("/");
            launch.restrict = Some(Restrict::BeforeBubblewrap { network: true });
            launch.spare = true;
        } else {
            let grants = grants(&view, &scratch).map_err(|error| error.to_string())?;
            launch.restrict = Some(Restrict::Landlock { grants, network: true });
        }
    }
    launch.env = crate::launch::environment(env);
    Ok(Prepared { launch, placeholders })
}

/// A directory of its own for a confined program's temporary files.
const SCRATCH: &str = "scratch";

fn view(
    adapter: &dyn AgentAdapter,
    env: &mut Vec<(String, String)>,
    program: &Path,
    search: &str,
    ground: Ground<'_>,
) -> Result<View, String> {
    let scratch = ground.dir.join(SCRATCH);
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&scratch);
    made.map_err(|error| format!("{} cannot be made: {error}", scratch.display()))?;
    let home = value(env, "HOME").map(PathBuf::from).unwrap_or_default();
    let mut readable = programs(program, search, &home);
    let own = own_places(adapter, env, &home);
    let mut sandbox_paths = SandboxPaths::from(ground.grant);
    sandbox_paths.readable.append(&mut readable);
    // The program's temporary files take the place of a workspace: they are writable even while it plans.
    let workspace = std::mem::replace(&mut sandbox_paths.workspace, scratch.clone());
    let mut writable = vec![scratch];
    if ground.grant.workspace.is_some() {
        let given = if sandbox_paths.planning { &mut sandbox_paths.readable } else { &mut writable };
        given.push(workspace);
    }
    writable.extend(own);
    sandbox_paths.state_dir = ground.state.map(Path::to_owned);
    ground.dir.clone_into(&mut sandbox_paths.output_dir);
    let sandbox_paths = sandbox_paths.checked().map_err(|error| format!("{error}; {}", error.hint()))?;
    let writable = writable.iter().filter_map(|path| path.canonicalize().ok());
    let protected = existing(&sandbox_paths).map_err(|error| format!("{error}; {}", error.hint()))?;
    Ok(View::new(&sandbox_paths, ContextAccess::Writable, &protected).with_writable(writable))
}

/// Where the program and the interpreter it may need are, and tool chains: read-only.
fn programs(program: &Path, search: &str, home: &Path) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = TOOL_CHAINS.iter().map(|place| home.join(place)).collect();
    for found in [Some(program.to_owned()), find_program("node", search)].into_iter().flatten() {
        places.extend(found.parent().map(Path::to_owned));
        let real = real(&found);
        // A package may use its neighbours.
        let modules = real.ancestors().filter(|above| above.ends_with("node_modules")).last();
        places.extend(modules.or_else(|| real.parent()).map(Path::to_owned));
    }
    let machine = ["/usr", "/bin", "/sbin", "/lib"];
    places.retain(|place| place.is_absolute() && place.exists());
    places.retain(|place| !machine.iter().any(|known| place.starts_with(known)) && place != home);
    places
}

/// What the program keeps for itself, made where missing, and told to it where it must be.
fn own_places(adapter: &dyn AgentAdapter, env: &mut Vec<(String, String)>, home: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    for own in adapter.own_places() {
        let path = own.path(home, &|name| value(env, name).map(PathBuf::from));
        if !path.is_absolute() {
            continue;
        }
        // If it cannot be made, the program says better than we what it lacks.
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        if let Some((name, _)) = own.unless.filter(|(name, _)| own.tell && value(env, name).is_none()) {
            set(env, &name, &path.to_string_lossy());
        }
        places.push(path);
    }
    places
}

/// Whether a program's person has been through its first start. A program whose settings cannot be read is not newly met.
pub(super) fn first_start(adapter: &dyn AgentAdapter, spec_env: &BTreeMap<String, String>) -> FirstStart {
    let Some(set_up) = adapter.set_up() else { return FirstStart::Left };
    let env = environment(adapter, &[], spec_env);
    let Some(home) = value(&env, "HOME").map(Path::new) else { return FirstStart::Left };
    let settings = set_up.settings.path(home, &|name| value(&env, name).map(PathBuf::from));
    let filled = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    let is_set_up = match std::fs::read(&settings) {
        Ok(bytes) => serde_json::from_slice::<Value>(&bytes)
            .map_or(true, |known| set_up.signs.iter().any(|sign| known.pointer(sign).is_some_and(filled))),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    let key = set_up.keys.iter().find(|name| value(&env, name).is_some());
    match key {
        Some(key) if !is_set_up => FirstStart::Keyed(key),
        _ => FirstStart::Left,
    }
}

/// The environment of a program: an allow-list for agents; for the user's own command all but secrets.
fn environment(
    adapter: &dyn AgentAdapter,
    config: &[(String, String)],
    spec: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let own = adapter.own_variables();
    let passed = |name: &str| {
        let by_name =
            is_passed_to_programs(name) || own.iter().any(|pattern| variable_matches(pattern, name));
        let secret = SECRET_WORDS.iter().any(|word| name.to_ascii_uppercase().contains(word));
        by_name || (!adapter.is_agent() && !secret)
    };
    let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours = ours.filter(|(name, _)| passed(name));
    let mut env: Vec<(String, String)> =
        ours.filter_map(|(name, value)| Some((name, value.into_string().ok()?))).collect();
    let given = spec.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    // What the adapter needs wins: it is what makes the program work at all.
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

/// A program named by a relative path is meant from where it works.
fn in_dir(program: &str, cwd: &Path) -> String {
    if program.contains('/') { cwd.join(program).to_string_lossy().into_owned() } else { program.to_owned() }
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::first_start;
    use crate::adapter::{Claude, Codex, FirstStart, Gemini};
    use std::collections::BTreeMap;

    #[test]
    fn only_somebody_who_has_a_key_and_was_never_asked_is_spared_a_first_start() {
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
        assert_eq!(first_start(&Claude, &bare), FirstStart::Left, "there is nothing to sign in with");
        assert_eq!(first_start(&Claude, &keyed), FirstStart::Keyed("ANTHROPIC_API_KEY"));
        assert_eq!(first_start(&Gemini, &keyed), FirstStart::Keyed("GEMINI_API_KEY"));
        assert_eq!(first_start(&Codex, &keyed), FirstStart::Left);
        std::fs::write(&settings, r#"{"numStartups":3}"#).unwrap();
        assert_eq!(
            first_start(&Claude, &keyed),
            FirstStart::Keyed("ANTHROPIC_API_KEY"),
            "it ran on pipes only"
        );
        std::fs::write(&settings, r#"{"hasCompletedOnboarding":true}"#).unwrap();
        assert_eq!(first_start(&Claude, &keyed), FirstStart::Left);
        std::fs::write(&settings, "{").unwrap();
        assert_eq!(first_start(&Claude, &keyed), FirstStart::Left, "what cannot be read is not judged");
    }
}
