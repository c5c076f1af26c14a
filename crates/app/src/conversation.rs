//! What a conversation consists of: the chat agent, and the team that its runs use.

use crate::agent_env::{CodeInUse, CommandLine, Lookup, TeamTools, server_dir};
use crate::base_dirs::BaseDirs;
use crate::context::AppContext;
use crate::context_paths;
use crate::failure::Failure;
use crate::known_costs;
use crate::launch_links;
use crate::past_runs;
use crate::programs;
use crate::project::{Project, with_project};
use crate::session::{self, TeamBackends};
use crate::session_launch::ChatRequest;
use crate::team::{self, Team};
use althing_engine::inherited_history;
use althing_protocol::{
    AgentConfig, AgentId, BackendConfig, ChatSpec, ContextPath, CustomAdapter, InteractiveAgent, Member,
    TeamSpec, ToolsConfig,
};
use althing_runner::{ProtectedPaths, own_places};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The spec and backends of a conversation.
pub struct Conversation {
    /// What the conversation is opened with.
    pub spec: ChatSpec,
    /// The backends of the chat agent and of the team's members.
    pub backends: TeamBackends,
}

/// Makes a new conversation for a team and a request.
pub fn assemble(
    team: &Team,
    request: &ChatRequest,
    project: Option<&Project>,
    app: &AppContext,
) -> Result<Conversation, Failure> {
    let context_paths = team_context_paths(team, project, app)?;
    let mut backends = session::team_backends(team, Some(&context_paths), app)?;
    let mut team_spec = team_spec(team, &backends, context_paths, project, app);
    past_runs::add(&mut team_spec, app);
    if request.attended {
        team_spec.rules.override_window = team.rules(app).override_window;
    }
    let agent = match team.interactive() {
        None => None,
        Some(config) => {
            let first = default_agent(team, &backends.members);
            let backend = backend(config.backend.as_ref(), first)?;
            let mut id = "interactive".to_owned();
            while backends.members.iter().any(|member| member.id.as_str() == id) {
                id.push('_');
            }
            let id = AgentId::from(id.as_str());
            let mut member = backends.add(&id, backend, team, app)?;
            if config.require_approval || request.can_ask {
                launch_links::resolve_links(&mut backends, &id);
            }
            member.system_message =
                first.filter(|_| config.backend.is_none()).and_then(|agent| agent.system_message.clone());
            backends.tools.insert(id, chat_agent_tools(team, first));
            Some(InteractiveAgent {
                member,
                require_approval: config.require_approval,
                can_ask: request.can_ask,
                append_system_prompt: config.append_system_prompt.clone(),
                compaction: config.context_compaction,
                budget_micro_usd: config.budget_usd.map(team::micro_usd),
                limits: team.config.chat_limits,
            })
        }
    };
    let threshold = agent.as_ref().map(|agent| agent.compaction.threshold_tokens);
    let spec = ChatSpec {
        history: inherited_history(request.history.clone(), threshold),
        agent,
        team: team_spec,
        project: project.map(Project::dir),
        modes: request.selection.modes(app),
        branch_of: request.branch_of.clone(),
    };
    Ok(Conversation { spec, backends })
}

/// The backends of a resumed conversation.
pub fn resumed_backends(spec: &ChatSpec, team: &Team, app: &AppContext) -> Result<TeamBackends, Failure> {
    let mut backends = session::team_backends(team, None, app)?;
    if let Some(agent) = &spec.agent {
        let first = default_agent(team, &spec.team.members);
        let own = team.config.interactive.as_ref().and_then(|config| config.backend.as_ref());
        backends.add(&agent.member.id, backend(own, first)?, team, app)?;
        if agent.require_approval || agent.can_ask {
            launch_links::resolve_links(&mut backends, &agent.member.id);
        }
        backends.tools.insert(agent.member.id.clone(), chat_agent_tools(team, first));
    }
    Ok(backends)
}

fn default_agent<'a>(team: &'a Team, members: &[Member]) -> Option<&'a AgentConfig> {
    let id = members.first().map(|member| &member.id);
    team.config.agents.iter().find(|agent| Some(&agent.id) == id)
}

fn backend<'a>(
    own: Option<&'a BackendConfig>,
    first: Option<&'a AgentConfig>,
) -> Result<&'a BackendConfig, Failure> {
    own.or(first.map(|agent| &agent.backend)).ok_or_else(|| Failure::usage("there is no agent to talk to"))
}

fn chat_agent_tools(team: &Team, first: Option<&AgentConfig>) -> ToolsConfig {
    let own = team.config.interactive.as_ref().map(|config| &config.tools);
    let own = own.filter(|tools| !tools.mcp_servers.is_empty() || !tools.excluded_tools.is_empty());
    let tools = own.or_else(|| first.map(|agent| &agent.tools)).cloned();
    let ToolsConfig { mcp_servers, excluded_tools, .. } = tools.unwrap_or_default();
    ToolsConfig { mcp_servers, excluded_tools, ..ToolsConfig::default() }
}

/// The context paths of every run of a team. Notifies the user of links in `--context-path`.
pub fn team_context_paths(
    team: &Team,
    project: Option<&Project>,
    app: &AppContext,
) -> Result<Vec<ContextPath>, Failure> {
    let from = BaseDirs::of(&app.environment);
    let (paths, _) =
        context_paths::collect_paths(&team.config.context_paths, &app.settings.context_path, "", &from)?;
    for notice in context_paths::link_notices(&app.settings.context_path, &from) {
        app.notify(&notice);
    }
    Ok(with_project(paths, project))
}

/// The paths that programs of a workflow started in `cwd` may not write to. The runner adds what git runs in each
/// program's directory.
pub fn protected_paths(
    team: &Team,
    (workflow, adapters): (&Path, &[CustomAdapter]),
    cwd: &Path,
    app: &AppContext,
) -> ProtectedPaths {
    let from = BaseDirs { cwd: cwd.to_owned(), ..BaseDirs::of(&app.environment) };
    let parts = team.config.context_paths.iter();
    let parts = parts.flat_map(|path| context_paths::protected_parts(path, &from));
    let mut tools = TeamTools::of(&team.config);
    tools.code_in_use = adapter_code(adapters, cwd, app);
    tools.code_in_use.files.extend(team.file().into_iter().chain([workflow]).map(Path::to_owned));
    tools.server_dir = team.file().and_then(server_dir);
    let search = app.environment.path();
    let code = tools.unwritable_code(&from, "", Some(OsStr::new(&search)));
    let own = app.environment.own_dirs();
    let places = |paths: &[PathBuf]| paths.iter().flat_map(|path| own_places(path)).collect::<Vec<_>>();
    ProtectedPaths {
        paths: parts.chain(places(&code.files)).chain(places(&own)).collect(),
        code_dirs: places(&code.dirs),
    }
}

/// The code that custom adapters are started from.
pub fn adapter_code(adapters: &[CustomAdapter], cwd: &Path, app: &AppContext) -> CodeInUse {
    let search = app.environment.path();
    let home = app.environment.variable("HOME").map(PathBuf::from);
    let mut all = CodeInUse::default();
    for adapter in adapters {
        let args = [Some(&adapter.args), adapter.headless_args.as_ref(), adapter.resume_args.as_ref()];
        let args: Vec<String> = args.into_iter().flatten().flatten().cloned().collect();
        let lookup = Lookup { base: cwd, search: Some(OsStr::new(&search)), home: home.as_deref() };
        all.extend(CommandLine::new(&adapter.program, &args, lookup).code());
    }
    all
}

/// The team that runs use. Its rules do not wait for a user to override the winner; `assemble` sets that time again
/// for a conversation with a person.
pub fn team_spec(
    team: &Team,
    backends: &TeamBackends,
    context_paths: Vec<ContextPath>,
    project: Option<&Project>,
    app: &AppContext,
) -> TeamSpec {
    let mut rules = team.rules(app);
    rules.override_window = None;
    let home = app.environment.variable("HOME").map(PathBuf::from);
    let project = project.map(|project| project.workspace.dir());
    let dirs = context_paths::readable_dirs(&app.environment.cwd, home.as_deref(), project);
    let readable_dirs = dirs.iter().map(|dir| dir.display().to_string()).collect();
    let members = backends.members.clone();
    let costs = Some(Box::new(known_costs::of_team(team, &members)));
    let not_signed_in = programs::missing_sign_ins(&members, app);
    TeamSpec { members, rules, context_paths, readable_dirs, costs, not_signed_in }
}
