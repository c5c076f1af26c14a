//! The request that creates a Docker container: image, security options, limits, mounts, labels. The same
//! [`MountTable`] as for the other sandboxes decides what is mounted.

use super::owner::{self, Owner};
use crate::limits::MachineLimits;
use crate::mount_table::{MountMode, MountTable};
use crate::policy::SandboxPaths;
use althing_protocol::ProcessLimits;
use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType, ResourcesUlimits,
};
use rustix::process::{getgid, getuid};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// This command keeps the container running and reaps orphans, with nothing but a shell and `sleep`.
pub(super) const KEEP_ALIVE: &str = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done";

/// Docker's own list of paths that are read-only in containers, and then the files that Docker stores on the host and
/// mounts into each container: for a container of root they would be writable, and no size of the container counts
/// them. The list replaces Docker's.
const READ_ONLY_PATHS: [&str; 8] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
];

/// What all our containers have in common: the limits, and nothing on the host that could be filled from inside.
pub(super) fn limited_host(limits: MachineLimits, memory: u64, network: &NetworkMode) -> HostConfig {
    let memory = Some(i64::try_from(memory).unwrap_or(i64::MAX));
    let limit = |name: &str, most: i64| ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(most),
        hard: Some(most),
    };
    HostConfig {
        network_mode: Some(network.name().to_owned()),
        memory,
        memory_swap: memory,
        pids_limit: Some(limits.processes.into()),
        ulimits: Some(vec![limit("nofile", limits.open_files.into()), limit("core", 0)]),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        readonly_paths: Some(READ_ONLY_PATHS.map(str::to_owned).to_vec()),
        // The log contains the output of the first process, to which every other process can write.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        ..HostConfig::default()
    }
}

/// Which network a container has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetworkMode {
    /// No network at all.
    #[default]
    None,
    /// A network as Docker names it: `bridge`, `host`, or a network's name.
    Named(String),
}

impl NetworkMode {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::None => "none",
            Self::Named(name) => name,
        }
    }
}

impl From<&str> for NetworkMode {
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
    /// The memory limit in bytes, including swap; `None` for that of `limits`.
    pub memory: Option<u64>,
    /// The limits of the container.
    pub limits: ProcessLimits,
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
    /// `sockets` are socket files that are covered by `/dev/null`; `volumes` are the paths at which the image
    /// declares a volume. The paths of the mounts must be UTF-8. `token` becomes an argument of the container's first
    /// process.
    pub(super) fn body(
        &self,
        mounts: &MountTable,
        sockets: &[PathBuf],
        volumes: &[String],
        owner: &Owner,
        token: &str,
    ) -> ContainerCreateBody {
        let labels = [
            ("althing.session", self.session.clone()),
            ("althing.run", self.run.clone()),
            ("althing.agent", self.agent.clone()),
            (owner::LABEL, owner.to_label()),
        ];
        ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: Some(vec!["/bin/sh".to_owned(), "-c".to_owned(), KEEP_ALIVE.to_owned()]),
            cmd: Some(vec![token.to_owned()]),
            // The container runs as this process's user, so that files in mounts belong to the user.
            user: Some(user()),
            working_dir: Some(text(&self.sandbox_paths.workspace)),
            labels: Some(labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
            host_config: Some(self.host_config(mounts, sockets, volumes)),
            ..ContainerCreateBody::default()
        }
    }

    fn host_config(&self, mounts: &MountTable, sockets: &[PathBuf], volumes: &[String]) -> HostConfig {
        let limits = MachineLimits::from(self.limits);
        let (missing_files, missing_dirs): (Vec<_>, Vec<_>) =
            mounts.missing().iter().partition(|missing| missing.is_file);
        // Docker would store a volume on disk without any limit, so each volume (unless we mount something at its
        // path) is replaced by a file system in memory of limited size.
        let in_memory = format!("rw,exec,nosuid,nodev,size={},mode=1777", limits.disk);
        let is_mounted = |path: &str| mounts.rules().iter().any(|rule| rule.path == Path::new(path));
        let volumes = volumes.iter().filter(|path| !is_mounted(path));
        let volumes = volumes.map(|path| (path.clone(), in_memory.clone()));
        // Older container runtimes ignore `mode` if the directory below exists, and use the mode of that directory. If
        // only its owner may enter it, as with `.althing`, the agent must be the owner to reach the mounts in it.
        let empty_dir = format!("ro,size=4k,mode=0555,uid={},gid={}", getuid().as_raw(), getgid().as_raw());
        let empty = mounts
            .hidden()
            .chain(missing_dirs.into_iter().map(|missing| &missing.path))
            .map(|path| (text(path), empty_dir.clone()));
        let tmpfs: HashMap<String, String> = volumes.chain(empty).collect();
        let mounts = mounts.rules().iter().filter(|rule| rule.mode != MountMode::Hidden).map(|rule| Mount {
            target: Some(text(&rule.path)),
            source: Some(text(&rule.path)),
            typ: Some(MountType::BIND),
            read_only: Some(rule.mode == MountMode::ReadOnly),
            ..Mount::default()
        });
        let covered = sockets.iter().map(|path| Mount {
            target: Some(text(path)),
            source: Some("/dev/null".to_owned()),
            typ: Some(MountType::BIND),
            read_only: Some(true),
            ..Mount::default()
        });
        let missing_files = missing_files.into_iter().map(|missing| Mount {
            target: Some(text(&missing.path)),
            source: Some(text(&missing.path)),
            typ: Some(MountType::BIND),
            read_only: Some(true),
            ..Mount::default()
        });
        HostConfig {
            nano_cpus: self.cpus.map(|cpus| (cpus * 1e9) as i64),
            mounts: Some(mounts.chain(covered).chain(missing_files).collect()),
            tmpfs: Some(tmpfs),
            ..limited_host(limits, self.memory.unwrap_or(limits.memory), &self.network)
        }
    }
}

pub(super) fn user() -> String {
    format!("{}:{}", getuid().as_raw(), getgid().as_raw())
}

/// The conversion is lossless: `SandboxPaths::checked`, `MountTable::with_text_paths` and `find_all_live_sockets` let
/// only UTF-8 paths through.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
