//! Watches the processes, memory, open files and disk space that a command and everything below it use, in threads of
//! the command's guard. No cgroup is needed, and root is bound as well; between two looks a command may exceed a
//! limit a little.
//!
//! The threads only report a reached limit; the guard's main thread ends the command.

use crate::disk_usage::{DiskUsage, cpu_time, file_systems, free_space, measure};
use crate::guard_protocol::WrittenPaths;
use crate::kernel::{self, Memory, ResidentMemory};
use crate::limits::{MachineLimits, ReachedLimit};
use std::io::{self, PipeReader, PipeWriter, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

const LOOK: Duration = Duration::from_millis(250);
const LOOK_CLOSELY: Duration = Duration::from_millis(50);
const LOOK_AT_DISK: Duration = Duration::from_millis(500);
const LOOK_AT_FREE_SPACE: Duration = Duration::from_millis(50);
/// One part in this many: the machine is almost out of memory when less than this part of it is available, and almost
/// out of disk space when less than this part of what was free at the start is left.
const LOW: u64 = 32;
/// If the command may have used at least half, but not all, of the space that was left up to the limit at the last
/// measurement of the disk, the next measurement waits this many times as long as the last one took. (If it may have
/// used all, the next measurement begins at once.)
const PAUSE_FACTOR: u32 = 20;
/// Replaces [`PAUSE_FACTOR`] if less than half of that space was lost.
const LONG_PAUSE_FACTOR: u32 = 100;
/// For this time after the start of the command, the writable context paths are measured only if so much free space was
/// lost that the limit may have been reached. Later, every measurement includes them.
const SHORT_COMMAND: Duration = Duration::from_secs(10);
/// File systems take the times of changes from a clock that advances once per tick, so a file that changed just after
/// the start may carry a time that is this much before the start.
const CLOCK_TICK: Duration = Duration::from_millis(20);
/// If the memory limit seems to be exceeded only because shared pages are counted several times, the exact memory is
/// not measured again for this time.
const VERIFY_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct LimitWatch {
    pub(crate) processes: u32,
    reached: Receiver<ReachedLimit>,
    pub(crate) woken: PipeReader,
}

impl LimitWatch {
    pub(crate) fn start(limits: MachineLimits, disk: DiskWatch) -> io::Result<Self> {
        let (sender, reached) = channel();
        let (woken, wake) = io::pipe()?;
        rustix::io::ioctl_fionbio(&woken, true)?;
        let alarm = Alarm { sender: sender.clone(), wake: wake.try_clone()? };
        let files =
            FileWatch { disk, limits, at_start: kernel::memory().unwrap_or_default(), was_hidden: false };
        std::thread::Builder::new().name("disk".to_owned()).spawn(move || files.run(alarm))?;
        let alarm = Alarm { sender, wake };
        let watch = UsageWatch { limits, alarm, told_files: false, verified_at: None };
        std::thread::Builder::new().name("usage".to_owned()).spawn(move || watch.run())?;
        Ok(Self { processes: limits.processes, reached, woken })
    }

    pub(crate) fn reached(&self) -> Option<ReachedLimit> {
        let mut bytes = [0; 16];
        while matches!(rustix::io::read(&self.woken, &mut bytes), Ok(1..)) {}
        self.reached.try_recv().ok()
    }
}

struct Alarm {
    sender: Sender<ReachedLimit>,
    wake: PipeWriter,
}

impl Alarm {
    fn tell(&mut self, reached: ReachedLimit) {
        let _ = self.sender.send(reached);
        let _ = self.wake.write_all(&[0]);
    }
}

struct UsageWatch {
    limits: MachineLimits,
    alarm: Alarm,
    told_files: bool,
    verified_at: Option<Instant>,
}

impl UsageWatch {
    fn run(mut self) {
        loop {
            let usage = kernel::tree_usage(self.limits.processes as usize);
            if let Some(reached) = self.look(&usage) {
                return self.alarm.tell(reached);
            }
            let near =
                usage.tasks * 4 > self.limits.processes as usize || usage.memory > self.limits.memory / 4;
            std::thread::sleep(if near { LOOK_CLOSELY } else { LOOK });
        }
    }

    fn look(&mut self, usage: &kernel::TreeUsage) -> Option<ReachedLimit> {
        if usage.tasks > self.limits.processes as usize {
            return Some(ReachedLimit::Processes(self.limits.processes));
        }
        if usage.most_files >= u64::from(self.limits.open_files) && !self.told_files {
            self.told_files = true;
            self.alarm.tell(ReachedLimit::OpenFiles(self.limits.open_files));
        }
        let was_verified = self.verified_at.is_some_and(|at| at.elapsed() < VERIFY_PAUSE);
        if usage.memory > self.limits.memory && !was_verified {
            // `usage.memory` counts shared pages once per process, so it may be too large.
            if kernel::resident_memory(&usage.pids).total() > self.limits.memory {
                return Some(ReachedLimit::Memory(self.limits.memory));
            }
            self.verified_at = Some(Instant::now());
        }
        let memory = kernel::memory()?;
        (is_low(memory) && usage.memory > memory.total / 4).then_some(ReachedLimit::MachineMemory)
    }
}

fn is_low(memory: Memory) -> bool {
    memory.available < memory.total / LOW
}

struct FileWatch {
    disk: DiskWatch,
    limits: MachineLimits,
    at_start: Memory,
    was_hidden: bool,
}

impl FileWatch {
    fn run(mut self, mut alarm: Alarm) {
        loop {
            if let Some(reached) = self.look() {
                return alarm.tell(reached);
            }
            let start = Instant::now();
            std::thread::sleep(LOOK_AT_FREE_SPACE);
            while start.elapsed() < LOOK_AT_DISK && !self.disk.may_be_full() {
                std::thread::sleep(LOOK_AT_FREE_SPACE);
            }
        }
    }

    fn look(&mut self) -> Option<ReachedLimit> {
        let usage = kernel::tree_usage(self.limits.processes as usize);
        let unnamed = kernel::unnamed_files(&usage.pids);
        let now = kernel::memory().unwrap_or_default();
        let gained = now.in_files.saturating_sub(self.at_start.in_files);
        // Looking for signs is expensive.
        let is_missing = gained > self.limits.memory || self.disk.lost() > self.disk.limit;
        let hidden = is_missing && (unnamed.incomplete || kernel::has_files_in_transit(&usage.pids));
        // Two looks in a row: a file is in transit for a moment whenever a program sends it to another one.
        let is_hidden = std::mem::replace(&mut self.was_hidden, hidden) && hidden;
        let mut in_files = unnamed.memory.saturating_add(kernel::sandbox_files_in_memory(&usage.pids));
        if is_hidden {
            in_files = in_files.max(gained);
        }
        if in_files > self.limits.memory / 4 {
            let resident = kernel::resident_memory(&usage.pids);
            if memory_with_files(resident, in_files) > self.limits.memory {
                return Some(ReachedLimit::Memory(self.limits.memory));
            }
        }
        if is_low(now) {
            let capacity = unnamed.sockets.saturating_mul(kernel::socket_capacity());
            let own = kernel::resident_memory(&usage.pids).private;
            let missing = missing_memory(self.at_start, now, own);
            let may_hold = hidden || capacity > now.total / 4 || kernel::maps_unnamed_files(&usage.pids);
            if missing > now.total / 4 && may_hold {
                return Some(ReachedLimit::MachineMemory);
            }
        }
        let may_hold = || kernel::maps_unnamed_files(&usage.pids);
        let is_hidden = (is_hidden && kernel::written_bytes(&usage.pids) > self.disk.limit)
            || (self.disk.is_almost_full() && (hidden || may_hold()));
        self.disk.look(unnamed.disk, is_hidden)
    }
}

/// The pages of a mapped file are in both `resident.in_files` and `in_files`, so only the larger of the two counts.
fn memory_with_files(resident: ResidentMemory, in_files: u64) -> u64 {
    resident.private.saturating_add(resident.in_files.max(in_files))
}

/// How much memory the machine has lost since the start that the private memory of other programs does not explain.
/// `own` is the private memory of the command's processes.
fn missing_memory(at_start: Memory, now: Memory, own: u64) -> u64 {
    let others = now.private.saturating_sub(at_start.private).saturating_sub(own);
    at_start.available.saturating_sub(now.available).saturating_sub(others)
}

pub(crate) struct DiskWatch {
    paths: WrittenPaths,
    /// Where the paths and what is mounted below them store files. A file system that is mounted later is left out: its
    /// free space would hide what was lost.
    systems: Vec<PathBuf>,
    configured: u64,
    /// The configured limit, or more if the workspace was larger than that when the command began.
    limit: u64,
    began: SystemTime,
    began_at: Instant,
    free_at_start: u64,
    last: Option<LastMeasurement>,
}

struct LastMeasurement {
    at: Instant,
    /// The CPU time of the measurement: on a busy machine, much more time may have passed.
    took: Duration,
    /// Whether the writable context paths were measured, too.
    is_whole: bool,
    free: u64,
    bytes: u64,
}

impl DiskWatch {
    pub(crate) fn new(paths: WrittenPaths, limit: u64) -> Self {
        let systems = file_systems(paths.all());
        let free_at_start = free_space(systems.iter());
        Self {
            paths,
            systems,
            configured: limit,
            limit,
            began: SystemTime::now(),
            began_at: Instant::now(),
            free_at_start,
            last: None,
        }
    }

    fn lost(&self) -> u64 {
        self.free_at_start.saturating_sub(free_space(self.systems.iter()))
    }

    /// Whether the file systems have lost enough free space since the last measurement to have reached the limit.
    fn may_be_full(&self) -> bool {
        let lost = |last: &LastMeasurement| last.free.saturating_sub(free_space(self.systems.iter()));
        self.last.as_ref().is_some_and(|last| lost(last) >= self.limit.saturating_sub(last.bytes))
    }

    fn is_almost_full(&self) -> bool {
        self.lost() > self.limit && free_space(self.systems.iter()) < self.free_at_start / LOW
    }

    /// Returns the limit if it is exceeded, and `None` otherwise or if it is not yet time to measure again. `unnamed`
    /// is the size of deleted files that are still open. `is_hidden`: there are signs of files that cannot be measured;
    /// then the free space that the file systems have lost counts, too.
    pub(crate) fn look(&mut self, unnamed: u64, is_hidden: bool) -> Option<ReachedLimit> {
        if self.paths.is_empty() {
            return None;
        }
        let free = free_space(self.systems.iter());
        let lost = self.free_at_start.saturating_sub(free);
        if is_hidden && lost > self.limit {
            return Some(ReachedLimit::Disk(self.configured));
        }
        if !self.must_measure(free) {
            return None;
        }
        let start = cpu_time();
        let own: DiskUsage = self.paths.own.iter().map(|path| measure(path, None, &[])).sum();
        let shared = self.measure_shared(own.bytes, lost);
        let is_whole = shared.is_some();
        let usage: DiskUsage = shared.into_iter().chain([own]).sum();
        let bytes = usage.bytes.saturating_add(unnamed);
        if self.last.is_none() && bytes > self.limit {
            let new = self.paths.own.iter().map(|path| measure(path, Some(self.began), &[]).bytes);
            let before = own.bytes.saturating_sub(new.fold(0, u64::saturating_add));
            if before > self.limit {
                // The workspace was too large before the command began. The command may delete, but hardly add.
                self.limit = before.saturating_add(self.limit / 16);
            }
        }
        self.last = Some(LastMeasurement {
            at: Instant::now(),
            took: cpu_time().saturating_sub(start),
            is_whole,
            free,
            bytes,
        });
        let is_hidden = usage.incomplete && lost > self.limit;
        (bytes > self.limit || is_hidden).then_some(ReachedLimit::Disk(self.configured))
    }

    fn must_measure(&self, free: u64) -> bool {
        let Some(last) = &self.last else { return true };
        if !last.is_whole && !self.is_short() {
            return true;
        }
        let left = self.limit.saturating_sub(last.bytes);
        let lost = last.free.saturating_sub(free);
        let pause = if lost >= left {
            return true;
        } else if lost >= left / 2 {
            PAUSE_FACTOR
        } else {
            // Even if little space was lost, measure now and then: other programs may have freed space, which hides how
            // much this command has used.
            LONG_PAUSE_FACTOR
        };
        last.at.elapsed() >= last.took * pause
    }

    fn is_short(&self) -> bool {
        self.began_at.elapsed() < SHORT_COMMAND
    }

    /// What the command stored in the shared directories; `None` if these, which may be large, are not measured yet.
    /// For a longer command they are always measured, because other programs may free space meanwhile.
    fn measure_shared(&self, own_bytes: u64, lost: u64) -> Option<DiskUsage> {
        if self.is_short() && own_bytes.saturating_add(lost) <= self.limit {
            return None;
        }
        let since = Some(self.began - CLOCK_TICK);
        let shared = self.paths.shared.iter().map(|path| measure(path, since, &self.paths.own));
        Some(shared.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn mapped_files_in_memory_count_once() {
        let resident = ResidentMemory { private: 3 * GIB, in_files: 5 * GIB };
        assert_eq!(memory_with_files(resident, 5 * GIB), 8 * GIB);
        assert_eq!(memory_with_files(resident, 7 * GIB), 10 * GIB);
    }

    #[test]
    fn a_long_command_has_its_context_paths_measured_although_other_programs_freed_space() {
        let dir = tempfile::tempdir().unwrap();
        let (own, shared) = (dir.path().join("own"), dir.path().join("shared"));
        for path in [&own, &shared] {
            std::fs::create_dir(path).unwrap();
        }
        let paths = WrittenPaths { own: vec![own], shared: vec![shared.clone()], full: false };
        let mut watch = DiskWatch::new(paths, 1 << 20);
        // As if other programs had freed much space since the start.
        watch.free_at_start = 0;
        assert_eq!(watch.look(0, false), None);
        watch.last.as_mut().unwrap().took = Duration::from_secs(3600);
        std::fs::write(shared.join("big"), vec![1; 2 << 20]).unwrap();
        watch.last.as_mut().unwrap().free = 0;
        assert_eq!(watch.look(0, false), None, "the command is short");
        watch.began_at -= SHORT_COMMAND;
        assert_eq!(watch.look(0, false), Some(ReachedLimit::Disk(1 << 20)));
    }

    #[test]
    fn what_is_written_to_a_context_path_before_the_first_look_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (own, shared) = (dir.path().join("own"), dir.path().join("shared"));
        for path in [&own, &shared] {
            std::fs::create_dir(path).unwrap();
        }
        let paths = WrittenPaths { own: vec![own.clone()], shared: vec![shared.clone()], full: false };
        let mut watch = DiskWatch::new(paths.clone(), 1 << 20);
        std::fs::write(shared.join("big"), vec![1; 2 << 20]).unwrap();
        watch.free_at_start = u64::MAX;
        assert_eq!(watch.look(0, false), Some(ReachedLimit::Disk(1 << 20)));
        std::fs::remove_file(shared.join("big")).unwrap();
        std::fs::write(own.join("big"), vec![1; 2 << 20]).unwrap();
        let mut watch = DiskWatch::new(paths, 1 << 20);
        (watch.began, watch.free_at_start) = (watch.began + Duration::from_secs(60), u64::MAX);
        assert_eq!(watch.look(0, false), None);
    }

    #[test]
    fn memory_that_other_programs_use_is_not_missing() {
        let at_start = Memory { total: 32 * GIB, available: 20 * GIB, private: 8 * GIB, in_files: 0 };
        let now = Memory { available: GIB / 2, private: 27 * GIB, ..at_start };
        assert!(missing_memory(at_start, now, 2 * GIB) < 3 * GIB, "another program took 17 GiB");
        let now = Memory { private: 9 * GIB, ..now };
        assert!(missing_memory(at_start, now, GIB) > 19 * GIB, "no program has it");
    }
}
