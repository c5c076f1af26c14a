//! The agents and rules of a run: from a config that was named or found, from `--model`, from what was detected on
//! this machine, or from the offline model. A found config must be trusted first (`require_trust`).

use crate::base_dirs::BaseDirs;
use crate::context::AppContext;
use crate::detect_backends;
use crate::environment::{self, Environment, MAX_FOUND_SECRETS};
use crate::failure::Failure;
use crate::found_keys;
use crate::model_option;
use crate::secrets;
use crate::simulated;
use crate::trust::Trust;
use althing_config::{
    BACKENDS, ConfigReport, DetectedBackends, LoadPurpose, Source, Style, Surroundings, UnknownModel,
    WorkflowAgent, may_be_masked_if_found, starter_config, workflow_agents,
};
use althing_engine::{CostAccount, OnRefusal};
use althing_journal::MASK;
use althing_protocol::{
    AGENT_KINDS, AgentId, AgentKind, BackendConfig, Config, InteractiveConfig, Millis, RunRules, Secret,
    SessionOpened, ToolsConfig,
};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const OFFLINE_KIND: &str = "offline";
/// Sessions record this as the source of the offline team.
const OFFLINE: &str = "offline agents";
/// Sessions record this before the path of a config whose backends are replaced with the offline model.
const OFFLINE_CONFIG: &str = "played by the offline model: ";

/// A config that is ready to run.
pub struct Team {
    /// The config.
    pub config: Config,
    /// The path of the config, or how it was generated; recorded in sessions.
    pub source: String,
    /// The config's text, with secrets removed.
    pub text: String,
    /// SHA-256 of the original text.
    pub digest: String,
    /// The config's warnings.
    pub problems: Vec<String>,
    /// Other notices for the user.
    pub notes: Vec<String>,
    /// Whether to show progress as plain lines even on a terminal.
    pub plain: bool,
    /// Every agent of the config, as a workflow may name it. [`Team::workflow_agents`] returns those that take part.
    workflow_agents: Vec<(AgentId, WorkflowAgent)>,
}

/// The limit of `--max-cost` on a run, a conversation or a workflow, in millionths of a US dollar. A run of an
/// evaluation has none of its own: a run that ended at its own limit would count as wrong and could not be continued.
pub(crate) fn max_cost(app: &AppContext) -> Option<u64> {
    let is_shared = |account: &Arc<CostAccount>| account.on_refusal() == OnRefusal::StopSession;
    app.settings.max_cost.filter(|_| !app.account.as_ref().is_some_and(is_shared)).map(micro_usd)
}

pub(crate) fn micro_usd(dollars: f64) -> u64 {
    (dollars * 1e6).ceil() as u64
}

impl Team {
    /// Shows the user the warnings and notices.
    pub fn announce(&self, app: &AppContext) {
        for text in self.problems.iter().chain(&self.notes) {
            app.notify(text);
        }
    }

    /// The rules of the team's runs, with the limits of the settings.
    pub fn rules(&self, app: &AppContext) -> RunRules {
        let mut rules = self.config.rules.clone();
        if let Some(seconds) = app.settings.orchestrator_timeout {
            rules.limits.orchestrator = Millis::from_secs(seconds);
        }
        rules.limits.cost_micro_usd = max_cost(app).or(rules.limits.cost_micro_usd);
        rules
    }

    /// The settings of the chat agent; None if it is off. It is off by default with a config file, and on without
    /// one.
    pub fn interactive(&self) -> Option<InteractiveConfig> {
        let default = || (!self.is_from_file()).then(InteractiveConfig::default);
        self.config.interactive.clone().or_else(default).filter(|config| config.enabled)
    }

    /// Whether the config is a file rather than generated.
    pub fn is_from_file(&self) -> bool {
        self.file().is_some()
    }

    /// Whether the config is simulated: the offline model replaces its models and CLI agents, and nothing else that
    /// it names is started.
    pub fn is_simulated(&self) -> bool {
        self.source.starts_with(OFFLINE_CONFIG)
    }

    /// Whether the team starts and sends nothing: it is the offline team, is simulated, or has only agents of the
    /// offline model without commands and MCP servers.
    pub fn is_offline(&self) -> bool {
        let agents = self.config.agents.iter().map(|agent| (&agent.backend, &agent.tools));
        let chat = self.config.interactive.iter();
        let chat = chat.filter_map(|chat| chat.backend.as_ref().map(|backend| (backend, &chat.tools)));
        let starts_nothing = |(backend, tools): (&BackendConfig, &ToolsConfig)| {
            backend.kind == OFFLINE_KIND && tools.commands.is_none() && tools.mcp_servers.is_empty()
        };
        self.source == OFFLINE || self.is_simulated() || agents.chain(chat).all(starts_nothing)
    }

    /// What a workflow's tasks can name as their agents: agents that take part.
    pub fn workflow_agents(&self) -> Vec<(AgentId, WorkflowAgent)> {
        let takes_part = |id: &AgentId| self.config.agents.iter().any(|agent| agent.id == *id);
        self.workflow_agents.iter().filter(|(id, _)| takes_part(id)).cloned().collect()
    }

    /// The config file; None if the config was generated.
    pub fn file(&self) -> Option<&Path> {
        file_of(&self.source)
    }
}

fn file_of(source: &str) -> Option<&Path> {
    let path = Path::new(source.strip_prefix(OFFLINE_CONFIG).unwrap_or(source));
    path.is_absolute().then_some(path)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConfigOrigin {
    Named,
    Own,
    /// The config was found in the working directory, where anyone may have put it.
    Found,
}

/// Finds or generates the team that the settings ask for.
pub fn assemble(app: &AppContext) -> Result<Team, Failure> {
    if let Some(path) = app.settings.config.as_ref().filter(|_| app.settings.offline) {
        let path = app.environment.named_path(path);
        return load(&format!("{OFFLINE_CONFIG}{}", path.display()), &read_config(&path)?, &app.environment);
    }
    if app.settings.offline {
        return load(OFFLINE, &starter_config(&DetectedBackends::default()), &app.environment);
    }
    if !app.settings.model.is_empty() {
        let mut team = load("--model", &model_option::config_text(&app.settings.model)?, &app.environment)?;
        team.notes.extend(found_keys::notice(&team.config, app));
        return Ok(team);
    }
    if let Some(path) = &app.settings.config {
        return from_file(&app.environment.named_path(path), ConfigOrigin::Named, app);
    }
    let here = found_configs(&app.environment.cwd).into_iter().map(|path| (path, ConfigOrigin::Found));
    let own = app.environment.config_dir().map(|dir| (dir.join("config.yaml"), ConfigOrigin::Own));
    match here.chain(own).find(|(path, _)| path.is_file()) {
        Some((path, origin)) => from_file(&path, origin, app),
        None => from_environment(app),
    }
}

/// Where a config is looked for in the working directory.
fn found_configs(cwd: &Path) -> [PathBuf; 2] {
    ["althing.yaml", ".althing/config.yaml"].map(|name| cwd.join(name))
}

/// The team of a session that is resumed. If the session is this user's own and its config file is unchanged, the file
/// is read again, because it may contain secrets that the record does not. Otherwise the recorded config is used: the
/// author of another session chose the file. Variables that the config refers to are read from the environment.
pub fn from_record(opened: &SessionOpened, is_own: bool, environment: &Environment) -> Result<Team, Failure> {
    let path = file_of(&opened.config_source).filter(|_| is_own);
    let current = path.map(read_text);
    let unchanged = current.as_ref().and_then(|read| read.as_deref().ok());
    let unchanged = unchanged.filter(|text| digest(text) == opened.config_digest);
    let text = unchanged.unwrap_or(&opened.config_text);
    if unchanged.is_none() && opened.config_text.contains(MASK) {
        let message = format!(
            "the recorded config of session {} cannot be used: it contained a secret, which is masked in it",
            opened.session
        );
        return Err(Failure::usage(message)
            .hint(format!("restore {} as it was, or start a new session", opened.config_source)));
    }
    // The record does not say whether the user named the config, so one that Althing could also have found counts as
    // found.
    let may_be_found =
        !is_own || path.is_some_and(|path| found_configs(Path::new(&opened.cwd)).contains(&path.into()));
    let origin = if may_be_found { ConfigOrigin::Found } else { ConfigOrigin::Named };
    let mut team = load_from(origin, &opened.config_source, text, environment)?;
    team.digest.clone_from(&opened.config_digest);
    if let (Some(path), Some(read), None) = (path, &current, unchanged) {
        let (path, what) = (path.display(), describe_change(read.as_ref().map(|_| ())));
        team.notes.push(format!("{path} {what}; the session continues with the config it was started with"));
    }
    Ok(team)
}

/// How a file differs from its recorded version.
pub fn describe_change(read: Result<(), &std::io::Error>) -> String {
    match read {
        Ok(()) => "has changed".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "no longer exists".to_owned(),
        Err(error) => format!("cannot be read ({error})"),
    }
}

fn from_environment(app: &AppContext) -> Result<Team, Failure> {
    let environment = &app.environment;
    let mut found = detect_backends::detect_backends(environment);
    let providers = found.providers.iter().map(|provider| provider.variable.to_owned());
    let mut unused: Vec<String> = providers.filter(|name| environment.is_only_found(name)).collect();
    if unused.is_empty() || found_keys::are_accepted(&unused, app) {
        unused.clear();
    }
    found.providers.retain(|provider| !unused.iter().any(|name| name == provider.variable));
    if found.is_empty() && !unused.is_empty() {
        return Err(found_keys::refused(&unused, environment));
    }
    if found.is_empty() {
        let mut team = load(OFFLINE, &starter_config(&found), environment)?;
        team.notes.push(
            "no config, no API key, no CLI agent, no local model server and no Ollama found: using the offline model, which is not an AI (set OPENAI_API_KEY or another \
             provider's key, or write a config with `althing config init`)"
                .into(),
        );
        team.notes.extend(found.unusable());
        return Ok(team);
    }
    let mut team = load("what is found here", &starter_config(&found), environment)?;
    team.notes.push(format!("no config found: agents from {}", found.describe()));
    if !unused.is_empty() {
        team.notes.push(format!(
            "{}; if the file is yours, accept the key with --trust",
            found_keys::unused(&unused, environment)
        ));
    }
    team.notes.extend(found.unusable());
    Ok(team)
}

fn from_file(path: &Path, origin: ConfigOrigin, app: &AppContext) -> Result<Team, Failure> {
    if origin == ConfigOrigin::Found {
        refuse_link(path, app)?;
    }
    let text = read_config(path)?;
    let name = path.display().to_string();
    let checked = if origin == ConfigOrigin::Found { check_found } else { check };
    let (report, notice) = checked(&name, &text, &app.environment, LoadPurpose::Run);
    let found_secrets = (origin == ConfigOrigin::Found).then(|| report.secrets.clone());
    let UsableConfig { config, trust_needed, problems, plain } = usable_config(report, notice)?;
    if let Some(found_secrets) = found_secrets.filter(|_| !trust_needed.is_empty()) {
        require_trust(path, &text, &trust_needed, app)?;
        register_trusted(found_secrets, &name, &app.environment)?;
    }
    let keys = found_keys::of_config(&config, &app.environment);
    if origin == ConfigOrigin::Found && !keys.is_empty() && !found_keys::are_accepted(&keys, app) {
        return Err(found_keys::refused(&keys, &app.environment));
    }
    let keys = (origin != ConfigOrigin::Found).then(|| found_keys::notice(&config, app)).flatten();
    let redacted = althing_config::redact(&text);
    let using = (origin != ConfigOrigin::Named).then(|| format!("using {name}"));
    let ignored = (origin == ConfigOrigin::Found && config.notify.is_some()).then(|| {
        format!("{name}: `notify` has no effect in a config that was found; set it in your own config")
    });
    let workflow_agents = workflow_agents(&config, AGENT_KINDS);
    Ok(Team {
        workflow_agents,
        config,
        source: name,
        text: redacted,
        digest: digest(&text),
        problems,
        notes: using.into_iter().chain(ignored).chain(keys).collect(),
        plain,
    })
}

const MAX_CONFIG_BYTES: u64 = 20_000_000;

pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    environment::read_text(path, MAX_CONFIG_BYTES)
}

/// Reads a config or workflow file. Fails if it cannot be read or is not UTF-8.
pub fn read_config(path: &Path) -> Result<String, Failure> {
    let bytes = althing_disk::read_regular(path, MAX_CONFIG_BYTES).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "check the path; if you have no config yet, `althing config init` writes one"
            }
            std::io::ErrorKind::PermissionDenied => "make the file readable",
            _ => "name a readable YAML file",
        };
        Failure::usage(format!("{} cannot be read: {error}", path.display())).hint(hint)
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage(format!("{} is not UTF-8 text: byte {at} is invalid", path.display()))
            .hint("save the file as UTF-8")
    })
}

fn load(source: &str, text: &str, environment: &Environment) -> Result<Team, Failure> {
    load_from(ConfigOrigin::Named, source, text, environment)
}

fn load_from(
    origin: ConfigOrigin,
    source: &str,
    text: &str,
    environment: &Environment,
) -> Result<Team, Failure> {
    let offline_config = source.strip_prefix(OFFLINE_CONFIG);
    let purpose = if offline_config.is_some() { LoadPurpose::Offline } else { LoadPurpose::Run };
    let name = offline_config.unwrap_or(source);
    let checked = if origin == ConfigOrigin::Found { check_found } else { check };
    let (report, notice) = checked(name, text, environment, purpose);
    let found_secrets = (origin == ConfigOrigin::Found).then(|| report.secrets.clone());
    let UsableConfig { mut config, trust_needed, problems, plain } = usable_config(report, notice)?;
    if let Some(found_secrets) = found_secrets.filter(|_| !trust_needed.is_empty()) {
        register_trusted(found_secrets, name, environment)?;
    }
    // A workflow task that names a CLI agent stays a program, which is simulated.
    let workflow_agents = workflow_agents(&config, AGENT_KINDS);
    let mut notes = Vec::new();
    if offline_config.is_some() {
        notes.push(simulated::notice(&config));
        use_offline_model(&mut config);
    }
    let text_without_secrets = althing_config::redact(text);
    Ok(Team {
        workflow_agents,
        config,
        source: source.to_owned(),
        text: text_without_secrets,
        digest: digest(text),
        problems,
        notes,
        plain,
    })
}

/// Replaces the models; the agents and their tools stay.
fn use_offline_model(config: &mut Config) {
    for agent in &mut config.agents {
        // A CLI agent always works in a workspace, and so does the agent that replaces it.
        agent.tools.files |= AgentKind::of(&agent.backend.kind).is_some();
    }
    let own = config.interactive.iter_mut().filter_map(|interactive| interactive.backend.as_mut());
    let backends = config.agents.iter_mut().map(|agent| &mut agent.backend).chain(own);
    // The three variants of the offline model give different answers to vote on.
    for (backend, temperament) in backends.zip(["a", "b", "c"].into_iter().cycle()) {
        *backend = BackendConfig {
            kind: OFFLINE_KIND.to_owned(),
            model: Some(format!("offline-{temperament}")),
            base_url: None,
            api_key: None,
            headers: Vec::new(),
            params: serde_json::Map::new(),
            options: althing_protocol::AgentOptions::default(),
        };
    }
}

fn unknown_model(kind: &str, model: &str) -> Option<UnknownModel> {
    const KNOWN: [&str; 4] = ["openai", "claude", "gemini", "grok"];
    let is_unknown = KNOWN.contains(&kind) && !althing_llm::is_known_model(model);
    is_unknown.then(|| UnknownModel { similar: althing_llm::similar_model(model) })
}

/// Checks a config, and registers its secrets before anything about it is printed. Also returns a notice about unused
/// variables of `.env` in the working directory. Not for a config that was found and is not trusted.
pub fn check(
    name: &str,
    text: &str,
    environment: &Environment,
    purpose: LoadPurpose,
) -> (ConfigReport, Option<String>) {
    let (report, notice) = check_found(name, text, environment, purpose);
    secrets::register_secrets_of_file(report.secrets.clone(), environment);
    (report, notice)
}

/// Like [`check`], but registers no secrets: the author of a config that was found could hide any text by calling it a
/// secret.
pub(crate) fn check_found(
    name: &str,
    text: &str,
    environment: &Environment,
    purpose: LoadPurpose,
) -> (ConfigReport, Option<String>) {
    let source = Source { name, text };
    let from = BaseDirs::of(environment);
    let is_missing = |path: &str| matches!(from.path(Path::new(path)).try_exists(), Ok(false));
    let surroundings = Surroundings { is_missing: &is_missing, unknown_model: &unknown_model };
    let (report, notice) = environment.with_variables(|known| {
        althing_config::load_config_in(Some(surroundings), &BACKENDS, source, known, purpose)
    });
    tracing::info!(source = name, digest = digest(text), "config read");
    (report, notice)
}

struct UsableConfig {
    config: Config,
    /// What the user has to trust if the config was found, not named.
    trust_needed: Vec<String>,
    problems: Vec<String>,
    plain: bool,
}

fn usable_config(report: ConfigReport, notice: Option<String>) -> Result<UsableConfig, Failure> {
    let warnings = report.warnings.iter();
    let warnings = warnings.map(|warning| warning.render(&report.file, Style::Plain).trim_end().to_owned());
    let problems: Vec<String> = warnings.chain(notice.clone()).collect();
    let Some(loaded) = report.config else {
        let count = report.errors.len();
        let what = if count == 1 { "one error".to_owned() } else { format!("{count} errors") };
        let failure =
            Failure::usage(format!("{} has {what}; nothing was started", report.file)).maybe_hint(notice);
        return Err(Failure { report: Some(Box::new(report)), ..failure });
    };
    let trust_needed =
        loaded.needs_trust().iter().map(|need| format!("{}: {}", need.location, need.what)).collect();
    let plain = loaded.plain_progress();
    let mut config = loaded.config;
    config.rules.plan_first |= config.planning.is_some();
    Ok(UsableConfig { config, trust_needed, problems, plain })
}

/// Registers the secrets of a found config that the user trusts. (One that needs no trust can contain no key.) The user
/// was not shown which values the config calls secrets, so only those that look like secrets are masked.
fn register_trusted(secrets: Vec<Secret>, name: &str, environment: &Environment) -> Result<(), Failure> {
    let secrets: Vec<Secret> = secrets.into_iter().filter(may_be_masked_if_found).collect();
    if secrets.len() > MAX_FOUND_SECRETS {
        let count = secrets.len();
        let message = format!(
            "{name} has {count} secrets; a config that was found, not named, may have at most {MAX_FOUND_SECRETS}"
        );
        return Err(Failure::usage(message).hint(format!("read it, then name it: --config {name}")));
    }
    secrets::register_secrets_of_file(secrets, environment);
    Ok(())
}

/// Refuses a found config that is a link, before anything of it is read: an error would quote lines of the target. The
/// programs that the config names are looked up in the working directory, so trust in the same file in another directory
/// must not count here.
fn refuse_link(named: &Path, app: &AppContext) -> Result<(), Failure> {
    let path: PathBuf = named.canonicalize().unwrap_or_else(|_| named.to_owned());
    let cwd = app.environment.cwd.canonicalize().unwrap_or_else(|_| app.environment.cwd.clone());
    let here =
        named.strip_prefix(&app.environment.cwd).map_or_else(|_| named.to_owned(), |name| cwd.join(name));
    if path == here {
        return Ok(());
    }
    let message = format!(
        "{} was found in the working directory, not named by you, and is a link to {}. Althing does not follow links that it \
         finds.\n\
         Nothing was started or sent.",
        named.display(),
        path.display()
    );
    Err(Failure::usage(message).hint(format!("read it, then name it: --config {}", path.display())))
}

/// Refuses a found config that needs trust and is untrusted, unless the user accepts it when asked.
fn require_trust(path: &Path, text: &str, trust_needed: &[String], app: &AppContext) -> Result<(), Failure> {
    let path: PathBuf = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let digest = digest(text);
    let trust = Trust { path: &path, digest: &digest };
    if app.settings.trust {
        trust.accept(app);
        return Ok(());
    }
    if trust.is_given(&app.environment) {
        return Ok(());
    }
    if let Some(answer) = trust.ask(trust_needed, app) {
        return answer;
    }
    let message = format!(
        "{} was found in this directory, not named by you, and must be trusted first:\n  {}\nNothing was started or sent.",
        path.display(),
        trust_needed.join("\n  ")
    );
    let failure = Failure::usage(message)
        .hint(format!("read it, then accept it with --trust, or name it: --config {}", path.display()));
    Err(Failure { is_question: true, ..failure })
}

/// SHA-256 of a text, in hex.
pub fn digest(text: &str) -> String {
    althing_text::hex(&Sha256::digest(text.as_bytes()))
}
