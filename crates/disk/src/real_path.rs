//! Paths of grants, without symbolic links.
//!
//! A granted path is resolved once ([`real_path`]) and stored. Code that uses the stored path calls
//! [`refuse_replaced`] and does not resolve the path again, because an agent could have put a symbolic link in its
//! place to get access to the link's target.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// A stored path that leads through a symbolic link now.
#[derive(Debug, thiserror::Error)]
#[error("{}, or a directory above it, was replaced by a symbolic link and leads to {} now", path.display(), target.display())]
pub struct ReplacedPath {
    /// The stored path.
    pub path: PathBuf,
    /// Where the path leads now.
    pub target: PathBuf,
}

impl From<ReplacedPath> for io::Error {
    fn from(replaced: ReplacedPath) -> Self {
        Self::other(replaced)
    }
}

/// The path without symbolic links, as far as it exists; the missing rest stays as it is.
pub fn real_path(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|dir| Some((dir, dir.canonicalize().ok()?)));
    let Some((dir, real)) = existing else { return path.to_owned() };
    match path.strip_prefix(dir) {
        // Joining an empty path would add a slash.
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        _ => real,
    }
}

/// The path with the symbolic links of `base` resolved, if the path is inside `base`; otherwise the path as it is.
/// `base` is Althing's own state directory.
pub fn with_real_base(path: &Path, base: Option<&Path>) -> PathBuf {
    let inside = base.and_then(|base| Some((base, path.strip_prefix(base).ok()?)));
    match inside {
        Some((base, rest)) if rest.as_os_str().is_empty() => real_path(base),
        Some((base, rest)) => real_path(base).join(rest),
        None => path.to_owned(),
    }
}

/// Fails if a path that was stored without symbolic links leads through one now. A missing path is not an error.
pub fn refuse_replaced(path: &Path) -> Result<(), ReplacedPath> {
    let target = match path.canonicalize() {
        Ok(real) if real == path => return Ok(()),
        Ok(real) => real,
        // The path is missing, or a link in it leads to nothing or to something that cannot be accessed.
        Err(_) => match path.ancestors().find_map(|at| at.read_link().ok()) {
            Some(target) => target,
            None => return Ok(()),
        },
    };
    Err(ReplacedPath { path: path.to_owned(), target })
}

/// Creates a directory and its missing parents with this mode. Fails at the first symbolic link in the path.
pub fn create_real_dir(path: &Path, mode: u32) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode as rustix::fs::RawMode);
    let mut dir: Option<OwnedFd> = None;
    for part in path.components() {
        let (name, creates) = match part {
            Component::RootDir => (Path::new("/"), false),
            Component::Normal(name) => (Path::new(name), true),
            Component::CurDir => continue,
            Component::ParentDir | Component::Prefix(_) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let at = dir.as_ref().map_or(CWD, std::os::fd::AsFd::as_fd);
        if creates && let Err(error) = rustix::fs::mkdirat(at, name, mode) {
            // A directory that exists may be in a place where this user cannot create directories (EACCES, EROFS).
            let found = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| error)?;
            if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
                refuse_replaced(path)?;
            }
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        #[cfg(target_os = "linux")]
        let flags = flags | OFlags::PATH;
        let opened = rustix::fs::openat(at, name, flags, Mode::empty());
        dir = Some(opened.map_err(|error| match error {
            Errno::LOOP => {
                io::Error::other(format!("{} is a symbolic link, which is not followed", name.display()))
            }
            error => error.into(),
        })?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_path_is_resolved_as_far_as_it_exists_and_refused_once_a_link_takes_its_place() {
        let dir = std::env::temp_dir().join(format!("althing-real-path-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("real/docs")).unwrap();
        let base = dir.canonicalize().unwrap();
        symlink("real", base.join("link")).unwrap();
        assert_eq!(real_path(&base.join("link/docs")), base.join("real/docs"));
        assert_eq!(real_path(&base.join("link")), base.join("real"));
        assert_eq!(real_path(&base.join("link/new/deep")), base.join("real/new/deep"));
        assert_eq!(with_real_base(&base.join("link/a"), Some(&base.join("link"))), base.join("real/a"));
        assert_eq!(with_real_base(&base.join("link/a"), Some(&base.join("other"))), base.join("link/a"));
        let docs = base.join("real/docs");
        refuse_replaced(&docs).unwrap();
        refuse_replaced(&base.join("real/missing")).unwrap();
        std::fs::remove_dir(&docs).unwrap();
        for target in ["..", "nowhere"] {
            symlink(target, &docs).unwrap();
            let refused = refuse_replaced(&docs).unwrap_err().to_string();
            assert!(refused.contains("was replaced by a symbolic link"), "{refused}");
            assert!(refuse_replaced(&docs.join("below")).is_err());
            std::fs::remove_file(&docs).unwrap();
        }
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn no_directory_is_created_behind_a_symbolic_link() {
        let dir = std::env::temp_dir().join(format!("althing-real-dir-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("victim")).unwrap();
        let base = dir.canonicalize().unwrap();
        create_real_dir(&base.join("a/b"), 0o700).unwrap();
        create_real_dir(&base.join("a/b"), 0o700).unwrap();
        assert_eq!(base.join("a/b").metadata().unwrap().permissions().mode() & 0o777, 0o700);
        symlink("../../victim", base.join("a/b/link")).unwrap();
        symlink("nowhere", base.join("a/b/dangling")).unwrap();
        for path in ["a/b/link", "a/b/link/deep", "a/b/dangling", "a/b/dangling/deep"] {
            let refused = create_real_dir(&base.join(path), 0o700).unwrap_err().to_string();
            assert!(refused.contains("symbolic link"), "{path}: {refused}");
        }
        assert_eq!(base.join("victim").read_dir().unwrap().count(), 0);
        assert!(!base.join("a/b/nowhere").exists());
        std::fs::remove_dir_all(&base).unwrap();
    }
}
