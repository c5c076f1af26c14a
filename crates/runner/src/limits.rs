//! Resource limits: how much a process and everything it starts may use, and which limit was reached. A guard
//! enforces them for programs on this machine; for containers, Docker and `docker/limits.rs` do.

use crate::kernel;
use althing_protocol::ProcessLimits;
use serde::{Deserialize, Serialize};
use std::fmt;

const PROCESSES: u32 = 4096;
/// The default limit per CPU, because builds and tests start threads in proportion to the number of CPUs.
const PROCESSES_PER_CPU: u32 = 256;
const UNKNOWN_MEMORY: u64 = 8 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineLimits {
    pub(crate) processes: u32,
    /// The maximum amount of memory, in bytes.
    pub(crate) memory: u64,
    /// The maximum number of open files of each process.
    pub(crate) open_files: u32,
    /// The maximum size of what is written to disk, in bytes.
    pub(crate) disk: u64,
}

impl From<ProcessLimits> for MachineLimits {
    fn from(limits: ProcessLimits) -> Self {
        let processes = || {
            let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
            PROCESSES.max(cpus.saturating_mul(PROCESSES_PER_CPU))
        };
        let memory = || kernel::memory().map_or(UNKNOWN_MEMORY, |memory| memory.total / 4 * 3);
        Self {
            processes: limits.processes.unwrap_or_else(processes),
            memory: limits.memory.unwrap_or_else(memory),
            open_files: limits.open_files,
            disk: limits.disk,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ReachedLimit {
    Processes(u32),
    Memory(u64),
    MachineMemory,
    OpenFiles(u32),
    Disk(u64),
}

impl ReachedLimit {
    /// False for the limit on open files, at which the kernel only refuses to open more.
    pub(crate) fn is_fatal(self) -> bool {
        !matches!(self, Self::OpenFiles(_))
    }

    /// The config key of the limit; for the machine's memory, the key with which a lower limit can be set.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Processes(_) => "orchestrator.limits.processes",
            Self::Memory(_) | Self::MachineMemory => "orchestrator.limits.memory",
            Self::OpenFiles(_) => "orchestrator.limits.open_files",
            Self::Disk(_) => "orchestrator.limits.disk",
        }
    }
}

impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes(most) => write!(f, "the limit of {most} processes and threads was reached")?,
            Self::Memory(most) => write!(f, "the memory limit of {} was reached", Bytes(*most))?,
            Self::MachineMemory => {
                // No key raises this limit.
                return f.write_str(
                    "the machine was almost out of memory, and this program used much of that memory",
                );
            }
            Self::OpenFiles(most) => write!(f, "the limit of {most} open files per process was reached")?,
            Self::Disk(most) => {
                write!(f, "the disk limit of {} for the workspace was reached", Bytes(*most))?
            }
        }
        write!(f, " (`{}` in the config changes it)", self.key())
    }
}

pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shift, unit) = match self.0 {
            0..0x4000_0000 => (20, "MiB"),
            _ => (30, "GiB"),
        };
        let amount = self.0 as f64 / f64::from(1_u32 << shift);
        if amount.fract() == 0.0 { write!(f, "{amount} {unit}") } else { write!(f, "{amount:.1} {unit}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reached_limit_is_told_with_its_value_and_its_key() {
        assert_eq!(
            ReachedLimit::Disk(20 << 30).to_string(),
            "the disk limit of 20 GiB for the workspace was reached (`orchestrator.limits.disk` in the config changes it)"
        );
        assert!(ReachedLimit::Memory((1 << 30) * 3 / 2).to_string().contains("1.5 GiB"));
        assert!(ReachedLimit::Memory(64 << 20).to_string().contains("64 MiB"));
    }

    #[test]
    fn configured_limits_win_over_those_of_the_machine() {
        let machine = MachineLimits::from(ProcessLimits::default());
        assert!(machine.processes >= 4096 && machine.memory > 64 << 20, "{machine:?}");
        let own = ProcessLimits { processes: Some(20), memory: Some(1), ..ProcessLimits::default() };
        let own = MachineLimits::from(own);
        assert_eq!((own.processes, own.memory, own.open_files), (20, 1, 4096));
    }
}
