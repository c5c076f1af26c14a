//! Examines the mounts of a container from outside, through the `/proc` directory of its first process. This works
//! only on Linux, with a daemon on this machine and in a visible pid namespace; the image needs no programs for it.

use super::mounts::check_opened;
use crate::mount_check::{ExpectedMount, MountContent, changed};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const START: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

pub(crate) struct ContainerRoot {
    root: OwnedFd,
    mounts: Vec<SeenMount>,
}

#[derive(Debug, PartialEq, Eq)]
struct SeenMount {
    path: PathBuf,
    is_read_only: bool,
}

impl ContainerRoot {
    /// Opens the container whose first process is `pid` and has `token` as an argument. Fails if the process is not
    /// on this machine, or if this user may not examine it.
    pub(crate) fn open(pid: i64, token: &str) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // The descriptor keeps referring to this process, even if another process gets the same pid later.
        let process = openat(CWD, format!("/proc/{pid}"), flags, Mode::empty())?;
        let start = Instant::now();
        // Until the process executes the container's program, it still runs the container runtime.
        while !read(&process, "cmdline")?
            .split(|byte| *byte == 0)
            .any(|argument| argument == token.as_bytes())
        {
            if start.elapsed() > START {
                return Err(io::Error::other(format!("process {pid} does not belong to the container")));
            }
            std::thread::sleep(LOOK);
        }
        let root = openat(&process, "root", flags, Mode::empty())?;
        let mounts = seen_mounts(&read(&process, "mountinfo")?);
        Ok(Self { root, mounts })
    }

    /// Checks that every expected mount is there (the placeholder of a file may be missing), and that nothing below a
    /// read-only mount is writable, unless it is expected to be.
    pub(crate) fn check(&self, expected: &[ExpectedMount]) -> io::Result<()> {
        let mut paths: Vec<&Path> = expected.iter().map(|mount| mount.path.as_path()).collect();
        paths.sort_unstable();
        let mut outermost: Vec<&Path> = Vec::new();
        for path in paths {
            if !outermost.last().is_some_and(|above| path.starts_with(above)) {
                outermost.push(path);
            }
        }
        for mount in expected {
            let opened = match self.open_exactly(&mount.path, &outermost) {
                Err(Errno::NOENT) if mount.content == MountContent::EmptyFile => continue,
                opened => opened.map_err(|error| unexpected(&mount.path, error))?,
            };
            check_opened(&opened, mount).map_err(|error| changed(&mount.path, &error))?;
        }
        self.check_below(expected)
    }

    /// Follows symlinks of the image above the outermost mount, but none inside it, because agents can create
    /// symlinks only inside mounts.
    fn open_exactly(&self, path: &Path, outermost: &[&Path]) -> rustix::io::Result<OwnedFd> {
        let above = outermost.iter().find(|above| path.starts_with(above)).and_then(|path| path.parent());
        let above = above.unwrap_or(Path::new("/"));
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let dir = openat2(&self.root, above, flags | OFlags::DIRECTORY, Mode::empty(), resolve)?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let rest = path.strip_prefix(above).unwrap_or(path);
        openat2(&dir, rest, flags, Mode::empty(), resolve)
    }

    /// Fails if a writable file system is mounted inside a read-only path: older versions of Docker mount a directory
    /// read-only, but not the file systems in it.
    fn check_below(&self, expected: &[ExpectedMount]) -> io::Result<()> {
        for seen in self.mounts.iter().filter(|seen| !seen.is_read_only) {
            let around = expected.iter().filter(|mount| seen.path.starts_with(&mount.path));
            let deepest = around.max_by_key(|mount| mount.path.components().count());
            if let Some(ExpectedMount { content: MountContent::Same { read_only: true, .. }, .. }) = deepest {
                return Err(io::Error::other(format!(
                    "{} is a file system of its own inside a read-only path, and Docker mounted it writable",
                    seen.path.display()
                )));
            }
        }
        Ok(())
    }
}

fn unexpected(path: &Path, error: Errno) -> io::Error {
    match error {
        // Nobody needs to have replaced anything: a directory above the path may be closed to this user.
        Errno::ACCESS => io::Error::other(format!("{} cannot be reached in it: {error}", path.display())),
        _ => changed(path, &error),
    }
}

fn read(process: &OwnedFd, name: &str) -> io::Result<Vec<u8>> {
    let mut file = File::from(openat(process, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where file systems are mounted that this process can write to.
pub(crate) fn mount_points() -> Vec<PathBuf> {
    let mounts = seen_mounts(&std::fs::read("/proc/self/mountinfo").unwrap_or_default());
    mounts.into_iter().filter(|mount| !mount.is_read_only).map(|mount| mount.path).collect()
}

fn seen_mounts(mountinfo: &[u8]) -> Vec<SeenMount> {
    let lines = mountinfo.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ').skip(4);
            let (path, options) = (fields.next()?, fields.next()?);
            let is_read_only = options.split(|byte| *byte == b',').any(|option| option == b"ro");
            Some(SeenMount { path: unescaped(path), is_read_only })
        })
        .collect()
}

fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| {
            digits.iter().try_fold(0_u32, |number, digit| {
                (b'0'..=b'7').contains(digit).then(|| number * 8 + u32::from(digit - b'0'))
            })
        });
        if let Some(byte) = octal.and_then(|number| u8::try_from(number).ok()) {
            bytes.push(byte);
            rest = after.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount_check::was_changed;

    #[test]
    fn mount_points_and_their_options_are_read() {
        let text = b"36 35 98:0 /x /a\\040b\\134 ro,noatime shared:1 - ext3 /dev/root rw\n37 35 0:3 / /p rw - proc p rw\n";
        let expected = [("/a b\\", true), ("/p", false)]
            .map(|(path, is_read_only)| SeenMount { path: PathBuf::from(path), is_read_only });
        assert_eq!(seen_mounts(text), expected);
    }

    #[test]
    fn a_path_that_this_user_may_not_reach_was_not_replaced() {
        let told = |error| unexpected(Path::new("/p"), error);
        assert!(!was_changed(&told(Errno::ACCESS)) && was_changed(&told(Errno::LOOP)));
        assert_eq!(
            told(Errno::ACCESS).to_string(),
            "/p cannot be reached in it: Permission denied (os error 13)"
        );
    }

    #[test]
    fn a_process_without_the_token_is_not_the_container() {
        let own = i64::from(std::process::id());
        assert!(ContainerRoot::open(i64::from(i32::MAX), "token").is_err());
        let name = std::env::args().next().unwrap();
        assert!(ContainerRoot::open(own, &name).is_ok());
    }
}
