//! Estimates, from `/proc`, what the processes below this one use: the number of processes and threads, their
//! memory, the number of open files of the process that has the most, and the space of open files without a name. Other
//! processes are not examined one by one, so this is fast on a machine with many processes. For the whole machine,
//! only the totals of the kernel are read.

use super::{Memory, ResidentMemory, TreeUsage, UnnamedFiles};
use rustix::fs::{FsWord, statfs};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

const MAX_FILES: usize = 50_000;
/// The type of tmpfs. Files made with `memfd_create`, which never have a name, are on one, too.
pub(super) const TMPFS: FsWord = 0x0102_1994;

/// The resources that the descendants of this process use. Stops counting once there are more than `most` processes
/// and threads.
pub(crate) fn tree_usage(most: usize) -> TreeUsage {
    let own = std::process::id().cast_signed();
    let mut usage = TreeUsage::default();
    let mut seen = HashSet::from([own]);
    let (mut next, mut is_first) = (vec![own], true);
    while let Some(pid) = next.pop() {
        let (dir, status) = task_status(pid);
        let (tasks, children) = if is_zombie(&status) { (1, Vec::new()) } else { tasks_and_children(pid) };
        next.extend(children.into_iter().filter(|child| seen.insert(*child)));
        if !std::mem::take(&mut is_first) {
            usage.tasks += tasks;
            usage.memory = usage.memory.saturating_add(memory_of(&status).total());
            usage.most_files = usage.most_files.max(open_files(&dir));
            usage.pids.push(pid);
        }
        // Processes that are still to be examined count as well: those that fork and end at once may be gone, and
        // unreaped ones may be too many, before their turn comes.
        if usage.tasks + next.len() > most {
            usage.tasks += next.len();
            break;
        }
    }
    usage
}

fn tasks_and_children(pid: i32) -> (usize, Vec<i32>) {
    let mut children = Vec::new();
    let mut tasks = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        tasks += 1;
        let listed = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(listed.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    (tasks, children)
}

/// The directory of `/proc` that describes a process, and its status. The directory of the process itself is empty
/// once its first thread has ended, although other threads go on; then the directory of another thread is returned.
fn task_status(pid: i32) -> (PathBuf, String) {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let read = |dir: &Path| fs::read_to_string(dir.join("status")).unwrap_or_default();
    let status = read(&process);
    if status.contains("\nVmRSS:") || is_zombie(&status) {
        return (process, status);
    }
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let mut tasks = tasks.map(|task| (task.path(), read(&task.path())));
    tasks.find(|(_, status)| status.contains("\nVmRSS:")).unwrap_or((process, status))
}

fn is_zombie(status: &str) -> bool {
    status.contains("\nState:\tZ") && status.contains("\nThreads:\t1\n")
}

pub(super) fn task_dir(pid: i32) -> PathBuf {
    task_status(pid).0
}

fn memory_of(status: &str) -> ResidentMemory {
    ResidentMemory {
        private: kilobytes(status, &["RssAnon:", "VmPTE:"]),
        in_files: kilobytes(status, &["RssShmem:"]),
    }
}

/// The number of open files; 0 on kernels before Linux 6.2, which do not report it as the directory's size.
fn open_files(dir: &Path) -> u64 {
    fs::metadata(dir.join("fd")).map_or(0, |fd| fd.size())
}

/// The memory of these processes. A page that several processes share is divided among them; it counts in full for a
/// process whose mappings cannot be read.
pub(crate) fn resident_memory(pids: &[i32]) -> ResidentMemory {
    let of = |pid: &i32| {
        let (dir, status) = task_status(*pid);
        let Ok(rollup) = fs::read_to_string(dir.join("smaps_rollup")) else {
            return memory_of(&status);
        };
        let tables = kilobytes(&status, &["VmPTE:"]);
        ResidentMemory {
            private: kilobytes(&rollup, &["Pss_Anon:"]).saturating_add(tables),
            in_files: kilobytes(&rollup, &["Pss_Shmem:"]),
        }
    };
    pids.iter().map(of).fold(ResidentMemory::default(), |all, one| ResidentMemory {
        private: all.private.saturating_add(one.private),
        in_files: all.in_files.saturating_add(one.in_files),
    })
}

pub(crate) fn tasks_of_machine() -> Option<u64> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

pub(crate) fn memory() -> Option<Memory> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let total = kilobytes(&info, &["MemTotal:"]);
    (total > 0).then(|| Memory {
        total,
        available: kilobytes(&info, &["MemAvailable:", "SwapFree:"]),
        private: kilobytes(&info, &["AnonPages:"]),
        in_files: kilobytes(&info, &["Shmem:"]),
    })
}

/// The sum of these fields of a list such as `/proc/meminfo`, in bytes.
fn kilobytes(list: &str, fields: &[&str]) -> u64 {
    let lines = list.lines().filter_map(|line| {
        let rest = fields.iter().find_map(|field| line.strip_prefix(field))?;
        rest.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    lines.fold(0, u64::saturating_add).saturating_mul(1024)
}

/// Measures the files without a name that these processes hold open: deleted ones, and those made with
/// `memfd_create`. Their space is neither in a directory nor necessarily in the memory of a process.
pub(crate) fn unnamed_files(pids: &[i32]) -> UnnamedFiles {
    let mut files = UnnamedFiles::default();
    let mut seen = HashSet::new();
    // Each look begins with another process, so that many open files in some processes do not hide those of others.
    let first = fastrand::usize(..pids.len().max(1));
    let order = pids.iter().cycle().skip(first).take(pids.len());
    let mut dirs = Vec::new();
    for pid in order {
        match files_dir(*pid) {
            FilesDir::Readable(dir) => dirs.extend(fs::read_dir(dir).ok()),
            // A process can forbid its user to look at it.
            FilesDir::Refused => files.incomplete = true,
            FilesDir::Gone => {}
        }
    }
    for (number, file) in dirs.into_iter().flatten().flatten().enumerate() {
        if number >= MAX_FILES {
            files.incomplete = true;
            break;
        }
        let path = file.path();
        let Ok(found) = fs::metadata(&path) else { continue };
        files.sockets += u64::from(found.file_type().is_socket());
        if !found.is_file() || found.nlink() > 0 || !seen.insert((found.dev(), found.ino())) {
            continue;
        }
        let bytes = found.blocks().saturating_mul(512);
        let sum = if is_in_memory(&path) { &mut files.memory } else { &mut files.disk };
        *sum = sum.saturating_add(bytes);
    }
    files
}

enum FilesDir {
    Readable(PathBuf),
    Refused,
    Gone,
}

/// Tries the threads of the process in random order: a thread may have its own open files, and one that has ended has
/// none.
fn files_dir(pid: i32) -> FilesDir {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> = tasks.map(|task| task.path().join("fd")).collect();
    fastrand::shuffle(&mut dirs);
    let mut is_refused = false;
    for dir in dirs {
        match fs::read_dir(&dir).map(|mut files| files.next().is_some()) {
            Ok(true) => return FilesDir::Readable(dir),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => is_refused = true,
            Ok(false) | Err(_) => {}
        }
    }
    if is_refused { FilesDir::Refused } else { FilesDir::Gone }
}

fn is_in_memory(path: &Path) -> bool {
    statfs(path).is_ok_and(|system| system.f_type == TMPFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_added_up_in_bytes() {
        let status = "Name:\tx\nRssAnon:\t    12 kB\nRssFile:\t 9 kB\nRssShmem:\t 4 kB\n";
        assert_eq!(kilobytes(status, &["RssAnon:", "RssShmem:"]), 16 * 1024);
        assert_eq!(kilobytes("", &["RssAnon:"]), 0);
    }

    #[test]
    fn a_deleted_file_is_measured_while_it_is_open() {
        use std::io::Write;
        let own = [std::process::id().cast_signed()];
        let before = unnamed_files(&own).disk + unnamed_files(&own).memory;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        let files = unnamed_files(&own);
        assert!(files.disk + files.memory >= before + (1 << 20), "{files:?}");
    }
}
