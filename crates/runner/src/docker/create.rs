//! The request that creates a container: image, security options, limits, mounts, labels.
//!
//! No I/O. The same [`MountTable`] as for the other sandboxes decides what is mounted, so a command in a container
//! cannot access more of this machine's files than a command in another sandbox.

use super::owner::{self, Owner};
use crate::mount_table::{MountMode, MountTable};
use crate::policy::SandboxPaths;
use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};
use std::collections::HashMap;
use std::path::Path;

/// The limit on processes in a container: enough for any build, and low enough to stop a fork bomb.
const MAX_PROCESSES: i64 = 4096;

/// The container's main command. It keeps the container running and reaps orphans, with nothing but a shell and
/// `sleep`.
const KEEP_ALIVE: &str = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done";

/// Which network a container has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetworkMode {
    /// No network at all.
    #[default]
    None,
    /// A network as Docker names it: `bridge`, `host`, or a network's name.
    Named(String),
}

impl From<&str> for NetworkMode {
    /// Converts the name of a network as written in a config.
    fn from(name: &str) -> Self {
        if name == "none" { Self::None } else { Self::Named(name.to_owned()) }
    }
}

/// The description of one agent's container.
#[derive(Clone, Debug)]
pub struct ContainerSpec {
    /// The image must exist locally and contain `/bin/sh`.
    pub image: String,
    /// The network that commands in the container have.
    pub network: NetworkMode,
    /// The memory limit in bytes, including swap.
    pub memory: Option<u64>,
    /// The CPU limit, in cores; may be fractional.
    pub cpus: Option<f64>,
    /// The paths that are mounted.
    pub sandbox_paths: SandboxPaths,
    /// The session, which becomes a label of the container.
    pub session: String,
    /// The run, which becomes a label of the container.
    pub run: String,
    /// The agent, which becomes a label of the container.
    pub agent: String,
}

impl ContainerSpec {
    /// The body of the request that creates the container.
    pub(super) fn body(&self, mounts: &MountTable, owner: &Owner) -> ContainerCreateBody {
        let labels = [
            ("althing.session", self.session.clone()),
            ("althing.run", self.run.clone()),
            ("althing.agent", self.agent.clone()),
            (owner::LABEL, owner.to_label()),
        ];
        ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: Some(vec!["/bin/sh".to_owned(), "-c".to_owned(), KEEP_ALIVE.to_owned()]),
            cmd: Some(Vec::new()),
            // The uid and gid of this process, so that files in mounts belong to the user.
            user: Some(user()),
            working_dir: Some(text(&self.sandbox_paths.workspace)),
            labels: Some(labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
            host_config: Some(self.host_config(mounts)),
            ..ContainerCreateBody::default()
        }
    }

    fn host_config(&self, mounts: &MountTable) -> HostConfig {
        let memory = self.memory.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let empty: HashMap<String, String> = mounts
            .hidden()
            .chain(mounts.missing())
            .map(|path| (text(path), "ro,size=4k,mode=0555".to_owned()))
            .collect();
        let mounts = mounts.rules().iter().filter(|rule| rule.mode != MountMode::Hidden).map(|rule| Mount {
            target: Some(text(&rule.path)),
            source: Some(text(&rule.path)),
            typ: Some(MountType::BIND),
            read_only: Some(rule.mode == MountMode::ReadOnly),
            ..Mount::default()
        });
        HostConfig {
            network_mode: Some(match &self.network {
                NetworkMode::None => "none".to_owned(),
                NetworkMode::Named(name) => name.clone(),
            }),
            memory,
            memory_swap: memory,
            nano_cpus: self.cpus.map(|cpus| (cpus * 1e9) as i64),
            pids_limit: Some(MAX_PROCESSES),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            mounts: Some(mounts.collect()),
            tmpfs: Some(empty),
            ..HostConfig::default()
        }
    }
}

/// The user of this process as `uid:gid`.
pub(super) fn user() -> String {
    format!("{}:{}", rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// The path as text. The conversion is lossless for granted paths: `SandboxPaths::checked` refuses those that are
/// not UTF-8.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
