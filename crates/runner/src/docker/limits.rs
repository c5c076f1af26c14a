//! Limits of commands in a Docker container. Docker itself limits memory, processes and open files; this module finds
//! out which limit a command has reached, and limits what commands store on disk.

use super::container::Container;
use super::exec::exec_internal;
use crate::guard_protocol::WrittenPaths;
use crate::kernel::{self, UnnamedFiles};
use crate::limit_watch::DiskWatch;
use crate::limits::{MachineLimits, ReachedLimit};
use bollard::Docker;
use bollard::query_parameters::InspectContainerOptions;
use std::time::Duration;
use tokio::time::sleep;

const LOOK: Duration = Duration::from_millis(500);
/// The container's processes and the deleted files that they hold open are examined once in this many looks.
const LOOKS_PER_LIST: u32 = 4;
/// The container's own size, which the daemon has to add up, is read once in this many looks.
const LOOKS_PER_SIZE: u32 = 2;

/// Prints, for both versions of cgroups, the counters of refused forks and of processes that were killed for memory.
const PRINT_COUNTERS: &str = "\
    cat /sys/fs/cgroup/pids.events /sys/fs/cgroup/pids/pids.events 2>/dev/null; echo --; \
    cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null";

/// Waits until a command has to be ended because a limit was reached. The watch begins with this call, not with the
/// first poll, so call it before the start of the command.
pub(super) fn reached<'a>(
    container: &'a Container,
    id: &'a str,
    written: WrittenPaths,
) -> impl Future<Output = ReachedLimit> + 'a {
    let limits = MachineLimits::from(container.spec.limits);
    let disk = DiskWatch::new(written, limits.disk);
    let mut watch = ContainerDisk { disk, unnamed: UnnamedFiles::default(), was_hidden: false };
    async move {
        for round in 1_u32.. {
            sleep(LOOK).await;
            let mut pids = None;
            if round % LOOKS_PER_LIST == 0 {
                let listed = processes(&container.docker, id).await;
                if is_full(&listed, limits) {
                    return ReachedLimit::Processes(limits.processes);
                }
                pids = Some(listed);
            }
            let look = move || {
                let reached = watch.look(pids.as_deref());
                (watch, reached)
            };
            let Ok((back, reached)) = tokio::task::spawn_blocking(look).await else { break };
            watch = back;
            if let Some(reached) = reached {
                return reached;
            }
            if round % LOOKS_PER_SIZE == 0
                && let Some(reached) = disk_limit(container, id).await
            {
                return reached;
            }
        }
        std::future::pending().await
    }
}

struct ContainerDisk {
    disk: DiskWatch,
    unnamed: UnnamedFiles,
    was_hidden: bool,
}

impl ContainerDisk {
    fn look(&mut self, pids: Option<&[i32]>) -> Option<ReachedLimit> {
        let mut is_hidden = false;
        if let Some(pids) = pids {
            self.unnamed = kernel::unnamed_files(pids);
            let hidden = self.unnamed.incomplete;
            is_hidden = std::mem::replace(&mut self.was_hidden, hidden) && hidden;
        }
        self.disk.look(self.unnamed.disk, is_hidden)
    }
}

/// The ids of the container's processes on this machine, outside the container.
async fn processes(docker: &Docker, id: &str) -> Vec<i32> {
    let Ok(top) = docker.top_processes(id, None).await else { return Vec::new() };
    let titles = top.titles.unwrap_or_default();
    let at = titles.iter().position(|title| title == "PID").unwrap_or(1);
    let listed = top.processes.unwrap_or_default();
    // A process whose id cannot be read counts, too.
    listed.iter().map(|fields| fields.get(at).and_then(|pid| pid.parse().ok()).unwrap_or(i32::MAX)).collect()
}

/// Whether almost no process can be started in the container any more. Threads are not listed, so a container that is
/// full of threads is not recognized.
fn is_full(pids: &[i32], limits: MachineLimits) -> bool {
    pids.len() as u64 * 10 >= u64::from(limits.processes) * 9
}

pub(super) async fn disk_limit(container: &Container, id: &str) -> Option<ReachedLimit> {
    let limit = MachineLimits::from(container.spec.limits).disk;
    (size(&container.docker, id).await > limit).then_some(ReachedLimit::Disk(limit))
}

async fn size(docker: &Docker, id: &str) -> u64 {
    let inspected = docker.inspect_container(id, Some(InspectContainerOptions { size: true })).await;
    let size = inspected.ok().and_then(|container| container.size_rw);
    size.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    refused_forks: u64,
    killed_for_memory: u64,
}

impl Counters {
    fn parse(text: &str) -> Self {
        let (pids, memory) = text.split_once("--").unwrap_or_default();
        let field = |list: &str, name: &str| {
            let line = list.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().parse().ok());
            line.unwrap_or_default()
        };
        Self { refused_forks: field(pids, "max "), killed_for_memory: field(memory, "oom_kill ") }
    }
}

/// The limit that a failed command probably reached: one whose counter has grown since it was last read.
pub(super) async fn reached_by_failure(container: &Container, id: &str) -> Option<ReachedLimit> {
    let limits = MachineLimits::from(container.spec.limits);
    // What the command left behind may leave no room for the process that prints the counters.
    if is_full(&processes(&container.docker, id).await, limits) {
        return Some(ReachedLimit::Processes(limits.processes));
    }
    let text = exec_internal(&container.docker, id, &["/bin/sh", "-c", PRINT_COUNTERS]).await;
    let now = Counters::parse(&text);
    let before = container.counted(id, now);
    if now.killed_for_memory > before.killed_for_memory {
        Some(ReachedLimit::Memory(container.spec.memory.unwrap_or(limits.memory)))
    } else if now.refused_forks > before.refused_forks {
        Some(ReachedLimit::Processes(limits.processes))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Counters;

    #[test]
    fn counters_of_both_cgroup_versions_are_read() {
        let expected = Counters { refused_forks: 3, killed_for_memory: 2 };
        let newer = "max 3\n--\nlow 0\nmax 77\noom 1\noom_kill 2\noom_group_kill 0\n";
        let older = "max 3\n--\noom_kill_disable 0\nunder_oom 0\noom_kill 2\n";
        assert_eq!((Counters::parse(newer), Counters::parse(older)), (expected, expected));
        assert_eq!(Counters::parse(""), Counters::default());
    }
}
