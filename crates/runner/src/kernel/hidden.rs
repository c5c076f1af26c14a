//! Finds signs that processes hold files or memory that cannot be measured: files that were sent over a socket but
//! not yet received, files that are only mapped, and data in socket buffers.

use super::usage::{TMPFS, task_dir};
use rustix::fs::{stat, statfs};
use std::fs;
use std::path::Path;

const MAX_FILES: usize = 20_000;
const MAX_PROCESSES: usize = 500;
/// The kernel memory of one file in tmpfs, beside its contents, in bytes.
const FILE_OVERHEAD: u64 = 1024;
const SANDBOX_DIRECTORIES: [&str; 2] = ["tmp", "dev/shm"];

/// Whether a socket of these processes holds files that were sent and not received.
pub(crate) fn has_files_in_transit(pids: &[i32]) -> bool {
    let dirs = pids.iter().map(|pid| task_dir(*pid));
    let files = dirs.flat_map(|dir| {
        let files = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten();
        files.map(move |file| (file, dir.join("fdinfo")))
    });
    files.take(MAX_FILES).any(|(file, info)| {
        let is_socket =
            fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
        is_socket && fs::read_to_string(info.join(file.file_name())).is_ok_and(|info| in_transit(&info) > 0)
    })
}

fn in_transit(info: &str) -> u64 {
    let number = info.lines().find_map(|line| line.strip_prefix("scm_fds:"));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
}

/// Whether these processes map files without a name, which they need not hold open, or forbid a look at their
/// mappings. Memory that processes share without a file does not count.
pub(crate) fn maps_unnamed_files(pids: &[i32]) -> bool {
    pids.iter().take(MAX_PROCESSES).any(|pid| {
        match fs::read(task_dir(*pid).join("maps")) {
            Ok(maps) => String::from_utf8_lossy(&maps).lines().any(is_unnamed_mapping),
            // A process that forbids its user to look at it may map such files.
            Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
        }
    })
}

fn is_unnamed_mapping(line: &str) -> bool {
    let Some(start) = line.find('/') else { return false };
    let name = line.get(start..).unwrap_or_default();
    name.ends_with(" (deleted)") && name != "/dev/zero (deleted)" && !name.starts_with("/SYSV")
}

/// How many bytes these processes, this process, and the children that this process has reaped have written to disk.
/// `u64::MAX` if the kernel does not count this, or if a process forbids its user to read its count.
pub(crate) fn written_bytes(pids: &[i32]) -> u64 {
    let Some(own) = written_by(Path::new("/proc/self")) else { return u64::MAX };
    let others = pids.iter().filter_map(|pid| written_by(&Path::new("/proc").join(pid.to_string())));
    others.fold(own, u64::saturating_add)
}

fn written_by(process: &Path) -> Option<u64> {
    match fs::read_to_string(process.join("io")) {
        Ok(counts) => {
            counts.lines().find_map(|line| line.strip_prefix("write_bytes:")?.trim().parse::<u64>().ok())
        }
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Some(u64::MAX),
        Err(_) => None,
    }
}

pub(crate) fn socket_capacity() -> u64 {
    let most = ["wmem_max", "rmem_max"].map(|name| {
        let text = fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap_or_default();
        text.trim().parse::<u64>().unwrap_or(4 << 20)
    });
    // The kernel doubles the size that a program asks for.
    most.into_iter().max().unwrap_or_default().saturating_mul(2)
}

/// The memory that the private file systems of these processes' sandbox hold, in bytes; 0 without such a sandbox.
pub(crate) fn sandbox_files_in_memory(pids: &[i32]) -> u64 {
    let used = |pid: &i32| {
        let inside = SANDBOX_DIRECTORIES.map(|name| held_by(&Path::new("/proc").join(pid.to_string()), name));
        inside.into_iter().flatten().reduce(u64::saturating_add)
    };
    // The first processes belong to bubblewrap; one of them is outside the sandbox. The others share their mounts.
    pids.iter().take(16).find_map(used).unwrap_or_default()
}

fn held_by(process: &Path, name: &str) -> Option<u64> {
    let path = process.join("root").join(name);
    let is_own =
        stat(Path::new("/").join(name)).is_ok_and(|own| stat(&path).is_ok_and(|at| at.st_dev == own.st_dev));
    let system = statfs(&path).ok().filter(|system| system.f_type == TMPFS && !is_own)?;
    let unit = u64::try_from(system.f_bsize).unwrap_or_default();
    let blocks = system.f_blocks.saturating_sub(system.f_bfree).saturating_mul(unit);
    let files = system.f_files.saturating_sub(system.f_ffree).saturating_mul(FILE_OVERHEAD);
    Some(blocks.saturating_add(files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_transit_are_reported_by_the_socket_that_holds_them() {
        assert_eq!(in_transit("pos:\t0\nflags:\t02\nscm_fds: 3\n"), 3);
        assert_eq!(in_transit("pos:\t0\n"), 0);
        let own = [std::process::id().cast_signed()];
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        crate::fd_passing::send_fd(&ours, Some(std::os::fd::AsFd::as_fd(&file))).unwrap();
        assert!(has_files_in_transit(&own));
        drop(theirs);
    }

    #[test]
    fn a_mapping_without_a_name_is_one_of_a_deleted_file() {
        let unnamed = "7f00-7f01 rw-s 00000000 00:01 77    /memfd:x (deleted)";
        assert!(is_unnamed_mapping(unnamed));
        for other in [
            "7f00-7f01 rw-s 00000000 00:01 78    /dev/zero (deleted)",
            "7f00-7f01 rw-s 00000000 00:01 78    /SYSV00000000 (deleted)",
            "7f00-7f01 rw-p 00000000 00:00 0     [heap]",
            "7f00-7f01 r-xp 00000000 08:01 9     /usr/bin/cat",
        ] {
            assert!(!is_unnamed_mapping(other), "{other}");
        }
    }
}
