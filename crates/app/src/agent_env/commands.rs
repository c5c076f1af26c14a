//! Builds the sandbox policy of an agent's commands from the agent's grant: the sandbox in which they run, and what they
//! may touch there.

use crate::context::Notify;
use althing_protocol::{
    AgentId, CommandsConfig, ContextAccess, DockerConfig, Grant, NetworkGrant, ProcessLimits, Secret,
    SessionId, TaskId,
};
use althing_runner::{
    AcceptedByUser, CommandHost, CommandLists, CommandPolicy, Container, ContainerSpec, DockerClient,
    DockerError, GuardLauncher, NetworkMode, Packages, PolicyError, Sandbox, SandboxPaths,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The sandboxes that the session uses.
pub struct Sandboxes {
    /// Starts processes under a guard process, so that none outlives Althing.
    pub launcher: GuardLauncher,
    /// The sandbox of MCP servers, and of commands that do not run in a container.
    pub local: Sandbox,
    /// The client of the Docker daemon, for commands that run in containers; None if no agent needs Docker, or if no
    /// daemon answers.
    pub docker: Option<DockerClient>,
}

impl Sandboxes {
    /// Refuses all commands; for sessions in which no agent runs commands or has MCP servers that Althing starts.
    pub fn none() -> Self {
        let why = "no agent of this session runs commands".to_owned();
        Self { launcher: GuardLauncher::default(), local: Sandbox::Refused { why }, docker: None }
    }

    /// Detects which sandboxes work on this machine and chooses one for `local`. If none works, commands run without
    /// a sandbox if `accepted` is set; otherwise they are refused. `docker` is None.
    pub async fn detect(scratch: &Path, accepted: Option<AcceptedByUser>) -> Self {
        let launcher = GuardLauncher::default();
        let available = althing_runner::detect_sandboxes(&launcher, scratch).await;
        Self { local: available.choose_sandbox(accepted), launcher, docker: None }
    }

    /// Limits the processes that are started for agents.
    #[must_use]
    pub fn with_limits(self, limits: ProcessLimits) -> Self {
        Self { launcher: self.launcher.with_limits(limits), ..self }
    }
}

/// The socket of the Docker daemon: the path in `DOCKER_HOST` if that begins with `unix://`, otherwise the default.
pub fn docker_socket(docker_host: Option<&str>) -> PathBuf {
    let named = docker_host.and_then(|host| host.strip_prefix("unix://")).map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from("/var/run/docker.sock"))
}

pub struct ContainerOwner<'a> {
    pub session: &'a SessionId,
    pub run: &'a TaskId,
    pub agent: &'a AgentId,
}

pub fn command_host(
    grant: &Grant,
    sandbox: Sandbox,
    (config, variables): (&CommandsConfig, &[(String, Secret)]),
    launcher: GuardLauncher,
) -> Result<CommandHost, String> {
    let mut policy = CommandPolicy::new(SandboxPaths::from(grant), sandbox);
    policy.output_masking = Some(crate::secrets::output_masking());
    policy.env.set.extend(variables.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())));
    policy.network = grant.command_network() == NetworkGrant::Open;
    let failed = |error: PolicyError| format!("{error} ({})", error.hint());
    policy.lists = CommandLists::new(&config.allowed, &config.blocked).map_err(failed)?;
    if let Some(limit) = config.timeout {
        policy.limits.default_timeout = limit.duration();
        policy.limits.max_timeout = policy.limits.max_timeout.max(limit.duration());
    }
    CommandHost::new(policy, launcher).map_err(failed)
}

/// Starts the container for an agent's commands. If the config names packages, they are installed into an image
/// first.
pub async fn start_container(
    containers: &DockerClient,
    config: &DockerConfig,
    grant: &Grant,
    owner: &ContainerOwner<'_>,
    limits: ProcessLimits,
    notify: &Notify,
) -> Result<Arc<Container>, String> {
    let failed = |error: DockerError| format!("{error} ({})", error.hint());
    let packages = Packages {
        system: config.packages.system.clone(),
        python: config.packages.python.clone(),
        npm: config.packages.npm.clone(),
        network: NetworkMode::from(config.packages.network_mode.as_str()),
    };
    let image = containers.image_with(&config.image, &packages, limits, &**notify).await.map_err(failed)?;
    let memory = config.memory_limit.as_deref().and_then(althing_config::memory_bytes);
    let spec = ContainerSpec {
        image,
        network: match grant.command_network() {
            NetworkGrant::Closed => NetworkMode::None,
            NetworkGrant::Open | NetworkGrant::Container => NetworkMode::from(config.network_mode.as_str()),
        },
        memory,
        limits,
        cpus: config.cpu_limit,
        sandbox_paths: SandboxPaths::from(grant),
        session: owner.session.to_string(),
        run: owner.run.to_string(),
        agent: owner.agent.to_string(),
    };
    containers.start(spec, ContextAccess::ReadOnly).await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_host_selects_the_socket() {
        assert_eq!(docker_socket(Some("unix:///run/other.sock")), PathBuf::from("/run/other.sock"));
        assert_eq!(docker_socket(None), PathBuf::from("/var/run/docker.sock"));
    }
}
