//! Where agents with hands work: storage's files, the runner's commands and MCP servers' tools joined into one place per
//! agent, each with exactly the reach that its config gives it.

mod commands;
mod servers;

use crate::surroundings::Surroundings;
use althing_engine::{Briefing, Router};
use althing_mcp::McpServers;
use althing_protocol::{
    AgentId, AnswerLabel, BoxFuture, CommandsConfig, ContextAccess, FileWrite, HandsConfig, RunSpec,
    SessionId, TaskId, ToolCall, ToolHost, ToolOutcome, ToolSpec, Workplace, Workplaces,
};
use althing_runner::{CommandHost, Confinement, Container, Containers};
use althing_storage::{LocalPlace, PlaceOptions, ToolSet, UndoLimits, UndoReach};
use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use commands::{Walls, docker_socket};

/// Tells the user something, as it arises.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Makes the places of one session's agents.
pub struct Places {
    session: SessionId,
    state_dir: PathBuf,
    hands: HashMap<AgentId, HandsConfig>,
    walls: Walls,
    environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    tell: Tell,
    /// What was started for agents and must be ended with the session.
    started: Mutex<Vec<Started>>,
}

/// Something that runs for an agent.
#[derive(Clone)]
enum Started {
    Container(Arc<Container>),
    Servers(Arc<McpServers>),
}

impl Places {
    pub fn new(
        session: SessionId,
        state_dir: PathBuf,
        hands: HashMap<AgentId, HandsConfig>,
        walls: Walls,
        surroundings: &Surroundings,
        tell: Tell,
    ) -> Self {
        let environment = surroundings.environment();
        Self { session, state_dir, hands, walls, environment, tell, started: Mutex::default() }
    }

    fn note(&self, started: Started) {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(started);
    }

    /// Ends what was started for agents: their containers and MCP servers.
    pub async fn close(&self) {
        let started = std::mem::take(&mut *self.started.lock().unwrap_or_else(PoisonError::into_inner));
        for one in started {
            match one {
                Started::Container(container) => {
                    if let Err(error) = container.close().await {
                        (self.tell)(&format!("a container could not be removed: {error} ({})", error.hint()));
                    }
                }
                Started::Servers(servers) => servers.close().await,
            }
        }
    }

    async fn make(&self, run: &TaskId, run_dir: &str, spec: &RunSpec, seat: usize) -> Result<Place, String> {
        let member = spec.members.get(seat).ok_or("there is no such agent")?;
        let hands = self.hands.get(&member.id).cloned().unwrap_or_default();
        let reach = if hands.commands.is_some() || !hands.mcp_servers.is_empty() {
            UndoReach::Everything
        } else {
            UndoReach::ToolWrites
        };
        let planning = spec.modes.planning;
        // Named after the workspace, whose name is fit for a path.
        let name = PathBuf::from(spec.workspace(run_dir, seat));
        let outputs = Path::new(run_dir).join("outputs").join(name.file_name().unwrap_or_default());
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&outputs);
        made.map_err(|error| format!("{} cannot be made: {error}", outputs.display()))?;
        let options = PlaceOptions {
            state_dir: self.state_dir.clone(),
            // What was too long for a tool's result is kept there, and the agent is told so.
            views: vec![outputs.clone()],
            tools: if planning { ToolSet::Reading } else { ToolSet::All },
            reach,
            limits: UndoLimits::default(),
        };
        let local =
            LocalPlace::open(Path::new(run_dir), spec, seat, options).map_err(|error| error.to_string())?;
        let local = Arc::new(local);
        for notice in local.take_notices() {
            (self.tell)(&format!("{}: {notice}", member.id));
        }
        let mut hosts: Vec<Arc<dyn ToolHost>> = vec![Arc::new(Files(local.clone()))];
        let (mut container, mut has_commands) = (None, false);
        // Planning is held by which tools there are: none that act.
        if let Some(commands) = hands.commands.as_ref().filter(|_| !planning) {
            let (host, made) = self.commands(commands, &local, run, &outputs, &member.id).await?;
            has_commands = host.refusal().is_none();
            container = made;
            if let Some(container) = &container {
                self.note(Started::Container(container.clone()));
            }
            hosts.push(Arc::new(host));
        }
        if !hands.mcp_servers.is_empty() && !planning {
            let environment = self.environment.clone();
            let started = servers::start(
                &hands.mcp_servers,
                local.path(),
                environment,
                outputs.clone(),
                self.tell.clone(),
            )
            .await;
            self.note(Started::Servers(started.clone()));
            hosts.push(started);
        }
        let briefing = Briefing {
            workspace: local.path().to_owned(),
            views: local.view_dir().display().to_string(),
            context: spec.context_paths.clone(),
            commands: has_commands,
        };
        Ok(Place { router: Router::new(hosts, hands.excluded_tools), local, briefing, container })
    }

    async fn commands(
        &self,
        config: &CommandsConfig,
        local: &LocalPlace,
        run: &TaskId,
        outputs: &Path,
        agent: &AgentId,
    ) -> Result<(CommandHost, Option<Arc<Container>>), String> {
        let reach = commands::reach(local, &self.state_dir, outputs.to_owned());
        let container = match (&config.docker, &self.walls.docker) {
            (Some(docker), Some(containers)) => {
                let owner = commands::Owner { session: &self.session, run, agent };
                Some(commands::container(containers, docker, &reach, &owner).await?)
            }
            (Some(_), None) => {
                return Err("its commands are to run in Docker, and no Docker daemon answers".into());
            }
            (None, _) => None,
        };
        let confinement = match &container {
            Some(container) => Confinement::Docker(container.clone()),
            None => self.walls.local.clone(),
        };
        let host = commands::host(reach, confinement, config, self.walls.launcher.clone())?;
        Ok((host, container))
    }
}

impl Workplaces for Places {
    fn open<'a>(
        &'a self,
        run: &'a TaskId,
        run_dir: &'a str,
        spec: &'a RunSpec,
        seat: usize,
    ) -> BoxFuture<'a, Result<Arc<dyn Workplace>, String>> {
        Box::pin(async move {
            let place = self.make(run, run_dir, spec, seat).await?;
            Ok(Arc::new(place) as Arc<dyn Workplace>)
        })
    }
}

/// The file tools of a place, as one of several hosts.
struct Files(Arc<LocalPlace>);

impl ToolHost for Files {
    fn tools(&self, access: ContextAccess) -> Vec<ToolSpec> {
        self.0.files().tools(access)
    }

    fn call<'a>(&'a self, call: &'a ToolCall, access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        self.0.files().call(call, access)
    }
}

/// One agent's place.
struct Place {
    local: Arc<LocalPlace>,
    router: Router,
    briefing: Briefing,
    /// Its container, where its commands run in one.
    container: Option<Arc<Container>>,
}

impl Workplace for Place {
    fn path(&self) -> &str {
        self.local.path()
    }

    fn host(&self) -> &dyn ToolHost {
        &self.router
    }

    fn briefing(&self, access: ContextAccess) -> String {
        self.briefing.text(access)
    }

    fn keep(&self, label: AnswerLabel) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.local.keep(label))
    }

    fn show(&self, labels: Vec<AnswerLabel>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.local.show(labels))
    }

    fn view_of(&self, agent: u32) -> String {
        self.local.view_of(agent)
    }

    fn open_context(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.local.open_context().await?;
            self.recreate(ContextAccess::Writable).await
        })
    }

    fn close_context(&self) -> BoxFuture<'_, Result<Vec<FileWrite>, String>> {
        Box::pin(async move {
            // First nothing may write any more, then it is looked at what was written.
            self.recreate(ContextAccess::ReadOnly).await?;
            self.local.close_context().await
        })
    }
}

impl Place {
    /// A container's mounts cannot be changed: it is made anew.
    async fn recreate(&self, access: ContextAccess) -> Result<(), String> {
        match &self.container {
            Some(container) => container.recreate(access).await.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}

/// Whether any agent runs commands: then it matters what this machine can confine.
pub fn runs_commands(hands: &HashMap<AgentId, HandsConfig>) -> bool {
    hands.values().any(|hands| hands.commands.is_some())
}

/// Whether any agent runs commands in Docker.
pub fn needs_docker(hands: &HashMap<AgentId, HandsConfig>) -> bool {
    hands.values().any(|hands| hands.commands.as_ref().is_some_and(|commands| commands.docker.is_some()))
}

/// Docker, if its daemon answers; what an earlier crash left behind is removed first.
pub async fn docker(tell: &Tell, socket: &Path) -> Option<Containers> {
    match Containers::connect(socket).await {
        Ok(containers) => {
            match containers.sweep().await {
                Ok(removed) if !removed.is_empty() => {
                    tell(&format!("removed {} containers of an earlier session", removed.len()))
                }
                Ok(_) => {}
                Err(error) => tell(&format!("old containers could not be removed: {error}")),
            }
            Some(containers)
        }
        Err(error) => {
            tell(&format!("Docker cannot be used: {error} ({})", error.hint()));
            None
        }
    }
}
