//! Deletes directory trees of any depth, with any names and modes. Symbolic links are deleted and never followed.
//!
//! A subdirectory at a deeper level is moved into the tree's top directory before it is emptied, so a few open
//! directories are enough for any depth, and no path gets too long.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Deletes an entry of a directory with everything below it. A missing entry is not an error.
pub fn remove_tree_at(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let file_type = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => FileType::from_raw_mode(found.st_mode),
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if file_type != FileType::Directory {
        return unlink(parent, name, AtFlags::empty());
    }
    let top = open_writable(parent, name)?;
    let mut moved = 0_u64;
    loop {
        let entries = entries(&top)?;
        if entries.is_empty() {
            return unlink(parent, name, AtFlags::REMOVEDIR);
        }
        for (entry, is_dir) in entries {
            if is_dir {
                let dir = open_writable(top.as_fd(), &*entry)?;
                empty_into(&dir, &top, &mut moved)?;
                unlink(top.as_fd(), &*entry, AtFlags::REMOVEDIR)?;
            } else {
                unlink(top.as_fd(), &*entry, AtFlags::empty())?;
            }
        }
    }
}

/// Opens a directory without following a link, and makes it writable for its owner. Creates the directory if it is
/// missing, and replaces a file or link in its place.
pub fn make_dir_at(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    match open_writable(parent, name) {
        Ok(dir) => return Ok(dir),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => unlink(parent, name, AtFlags::empty())?,
    }
    rustix::fs::mkdirat(parent, name, Mode::RWXU)?;
    open_writable(parent, name)
}

/// Deletes what is at a path, relative to an open directory, with everything below it. A missing entry is not an error.
pub(crate) fn remove_tree(dir: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(dir, crate::files::parent(path), flags, Mode::empty()) {
        Ok(parent) => remove_tree_at(parent.as_fd(), name),
        Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn empty_into(dir: &OwnedFd, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    for (entry, is_dir) in entries(dir)? {
        if !is_dir {
            unlink(dir.as_fd(), &*entry, AtFlags::empty())?;
            continue;
        }
        // Moving a directory changes its `..`, so the directory itself must be writable.
        drop(open_writable(dir.as_fd(), &*entry)?);
        loop {
            *moved += 1;
            match rustix::fs::renameat(dir, &*entry, top, format!("removing-{moved}")) {
                Ok(()) => break,
                Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST | rustix::io::Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

pub(crate) fn entries(dir: &OwnedFd) -> io::Result<Vec<(CString, bool)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let file_type = match entry.file_type() {
            FileType::Unknown => {
                let found = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(found.st_mode)
            }
            known => known,
        };
        found.push((name.to_owned(), file_type == FileType::Directory));
    }
    Ok(found)
}

/// Opens a directory, and gives its owner all permissions if any is lacking: snapshots are read-only, and programs
/// may create directories without any permissions.
fn open_writable(parent: BorrowedFd<'_>, name: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(parent, name, flags | OFlags::RDONLY, Mode::empty());
    let dir = match opened {
        Err(rustix::io::Errno::ACCESS) => {
            // A handle with `PATH` needs no permission on the directory itself. `chmod` accepts such a handle only as
            // a path in /proc.
            let handle = rustix::fs::openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
            rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)?;
            return Ok(rustix::fs::openat(parent, name, flags | OFlags::RDONLY, Mode::empty())?);
        }
        opened => opened?,
    };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&dir)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        rustix::fs::fchmod(&dir, Mode::RWXU)?;
    }
    Ok(dir)
}

fn unlink(parent: BorrowedFd<'_>, name: impl rustix::path::Arg, flags: AtFlags) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, flags) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;

    fn remove_tree(path: &Path) -> io::Result<()> {
        super::remove_tree(CWD, path)
    }

    fn fresh(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("althing-{name}-{}", std::process::id()));
        let _ = remove_tree(&dir);
        std::fs::create_dir(&dir).unwrap();
        dir
    }

    #[test]
    fn a_tree_of_five_thousand_levels_with_hostile_names_and_modes_is_deleted() {
        let top = fresh("deep");
        let outside = fresh("outside");
        std::fs::write(outside.join("kept"), "x").unwrap();
        let mut at = rustix::fs::open(&top, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        for level in 0..5000_u32 {
            let name = if level % 3 == 0 { &b"\xff\xfe"[..] } else { b"removing-1" };
            let name = OsStr::from_bytes(name);
            rustix::fs::mkdirat(&at, name, Mode::RWXU).unwrap();
            rustix::fs::symlinkat(&outside, &at, "link").unwrap();
            let below =
                rustix::fs::openat(&at, name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
            if level % 7 == 0 {
                rustix::fs::fchmod(&at, Mode::empty()).unwrap();
            }
            at = below;
        }
        drop(at);
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        assert!(outside.join("kept").exists(), "links are not followed");
        remove_tree(&outside).unwrap();
    }

    #[test]
    fn directories_without_permission_and_single_files_and_nothing_are_deleted() {
        let top = fresh("modes");
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::write(top.join("a/b/file"), "x").unwrap();
        std::fs::set_permissions(top.join("a/b"), std::fs::Permissions::from_mode(0o0)).unwrap();
        std::fs::set_permissions(top.join("a"), std::fs::Permissions::from_mode(0o0)).unwrap();
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        remove_tree(&top).unwrap();
        std::fs::write(&top, "x").unwrap();
        remove_tree(&top).unwrap();
        assert!(!top.exists());
    }
}
