//! The private copy of a CLI agent's settings that a program in a sandbox uses instead of the user's own. It is made
//! anew at every start and removed at the end, except for conversations and the directories that all agents in a
//! sandbox share, so settings that the program plants never act later. Symbolic links that the program left in the
//! copy are removed and not followed.

mod kept;
mod left_behind;

pub use self::left_behind::clean_left_settings;

use self::kept::KeptLimit;
use super::credentials::{CopiedCredentials, CredentialsWatch};
use crate::adapter::{AgentAdapter, GeneratedFile, OwnDir, OwnPath, Treatment};
use crate::dir_lock::DirLock;
use althing_disk::{make_dir_at, remove_tree_at};
use rustix::fs::{AtFlags, Mode, OFlags};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// What is copied at most of each entry of a copied directory. A larger entry, such as the packages of a plugin, is
/// linked instead, and mounted read-only.
const MAX_COPIED: Budget = Budget { bytes: 4 << 20, entries: 500 };
/// The maximum size, in bytes, of a copied file that is not in a copied directory. A larger one is left out.
const MAX_FILE: u64 = 16 << 20;
const MAX_DEPTH: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct SettingsPlaces<'a> {
    pub(super) dir: &'a Path,
    pub(super) shared: &'a Path,
    /// How many bytes a program may leave in what is kept.
    pub(super) max_kept: u64,
}

#[derive(Debug, Default)]
pub(super) struct PrivateSettings {
    pub(super) writable: Vec<PathBuf>,
    pub(super) readable: Vec<PathBuf>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) guard: PrivateSettingsGuard,
}

/// Writes new tokens back while it lives. When it is dropped, the copy, which can contain secrets of the user, is
/// removed, except for conversations.
#[derive(Debug, Default)]
pub(crate) struct PrivateSettingsGuard {
    watch: Option<CredentialsWatch>,
    copy: Option<(PathBuf, &'static [OwnDir])>,
    kept: Option<KeptLimit>,
    /// Shows other processes that the copy is in use.
    lock: Option<DirLock>,
}

impl Drop for PrivateSettingsGuard {
    fn drop(&mut self) {
        // The last tokens are written back before their copies are removed.
        drop(self.watch.take());
        let Some((root, own)) = self.copy.take() else { return };
        let lock = self.lock.take();
        if let Err(error) = clean(&root, own) {
            tracing::warn!(dir = %root.display(), %error, "the private copy of a CLI agent's settings remains");
        }
        if let Some(kept) = self.kept.take() {
            kept.enforce();
        }
        remove_empty(&root, own);
        drop(lock);
    }
}

impl PrivateSettings {
    /// Makes the private copy. `env` looks up variables. Those generated `files` that are in the adapter's own
    /// directories are written to the copy.
    pub(super) fn make(
        adapter: &dyn AgentAdapter,
        env: &dyn Fn(&str) -> Option<PathBuf>,
        home: &Path,
        places: SettingsPlaces<'_>,
        files: &[GeneratedFile],
    ) -> io::Result<Self> {
        let own = adapter.own_dirs();
        let mut made = Self::default();
        if own.is_empty() {
            return Ok(made);
        }
        let all = places.dir.parent().unwrap_or(places.dir);
        make_dir(all)?;
        clean_left_settings(all);
        made.guard.lock = DirLock::in_use(places.dir, &mut || make_dir(places.dir))?;
        let opened = clean(places.dir, own)?;
        let mut credentials = Vec::new();
        for (dir, opened) in own.iter().zip(opened) {
            let real = dir.path(home, env);
            let copy = CopiedDir { dir, copy: fd_path(&opened), _opened: opened, shared: places.shared };
            copy.link_shared(adapter.name(), &mut made.writable)?;
            copy.copy_from_home(home, env)?;
            if let Ok(real) = real.canonicalize() {
                copy.copy_from(&real, &mut made.readable, &mut credentials)?;
            }
            for file in files {
                if let Ok(inside) = file.path.strip_prefix(&real) {
                    let file_copy = copy.copy.join(inside);
                    make_dir(file_copy.parent().unwrap_or(&copy.copy))?;
                    write_new(&file_copy, file.text.as_bytes())?;
                }
            }
            let named = places.dir.join(dir.name);
            made.variables.push((dir.variable.to_owned(), named.to_string_lossy().into_owned()));
        }
        made.writable.push(places.dir.to_owned());
        made.guard.kept = Some(KeptLimit::new(made.writable.clone(), places.max_kept));
        made.guard.watch = CredentialsWatch::start(credentials);
        made.guard.copy = Some((places.dir.to_owned(), own));
        Ok(made)
    }
}

/// A path that leads to an open directory, whatever happens to its name: a program of an earlier start may still be
/// running and replace directories of the copy with links.
fn fd_path(dir: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()))
}

/// A link in the last component is not followed.
fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Makes the directories of the copy, removes everything in them except for what is kept, and returns the open
/// directories of `own`, in order.
fn clean(root: &Path, own: &[OwnDir]) -> io::Result<Vec<OwnedFd>> {
    let (Some(above), Some(name)) = (root.parent(), root.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let root = make_dir_at(open_dir(above)?.as_fd(), name)?;
    remove_all_but(&root, &|name| own.iter().any(|dir| dir.name == name))?;
    let mut opened = Vec::new();
    for dir in own {
        let mut at = make_dir_at(root.as_fd(), OsStr::new(dir.name))?;
        for below in Path::new(dir.below).components() {
            remove_all_but(&at, &|name| below.as_os_str() == name)?;
            at = make_dir_at(at.as_fd(), below.as_os_str())?;
        }
        remove_all_but(&at, &|name| dir.treatment(name) == Some(Treatment::Kept))?;
        opened.push(at);
    }
    Ok(opened)
}

fn remove_all_but(dir: &OwnedFd, keep: &dyn Fn(&str) -> bool) -> io::Result<()> {
    for entry in std::fs::read_dir(fd_path(dir))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if !((kind.is_dir() || kind.is_file()) && entry.file_name().to_str().is_some_and(keep)) {
            remove_tree_at(dir.as_fd(), &entry.file_name())?;
        }
    }
    Ok(())
}

fn remove_empty(root: &Path, own: &[OwnDir]) {
    for dir in own {
        let Ok(mut at) = open_dir(root) else { return };
        let mut chain = Vec::new();
        for name in [Path::new(dir.name), Path::new(dir.below)].iter().flat_map(|path| path.components()) {
            let Ok(inner) = make_dir_at(at.as_fd(), name.as_os_str()) else { break };
            chain.push((at, name.as_os_str().to_owned()));
            at = inner;
        }
        for (parent, name) in chain.iter().rev() {
            let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
        }
    }
    let _ = std::fs::remove_dir(root);
}

fn remove(path: &Path) -> io::Result<()> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    remove_tree_at(open_dir(above)?.as_fd(), name)
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn make_real_dir(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(data) if data.is_dir() => return std::fs::set_permissions(path, Permissions::from_mode(0o700)),
        Ok(_) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    DirBuilder::new().mode(0o700).create(path)
}

/// `create_new` never writes through a symlink.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

struct CopiedDir<'a> {
    dir: &'static OwnDir,
    copy: PathBuf,
    _opened: OwnedFd,
    shared: &'a Path,
}

impl CopiedDir<'_> {
    fn link_shared(&self, adapter: &str, writable: &mut Vec<PathBuf>) -> io::Result<()> {
        let shared = self.dir.files.iter().filter(|files| files.treatment == Treatment::KeptForAll);
        for name in shared.flat_map(|files| files.names) {
            let store = self.shared.join(adapter).join(name);
            make_dir(&store)?;
            // Links on the way to the store do not exist in the sandbox.
            let store = store.canonicalize()?;
            symlink(&store, self.copy.join(name))?;
            writable.push(store);
        }
        Ok(())
    }

    /// Copies JSON files without some of their keys. The files are in the home directory itself or, if the variable of
    /// the [`OwnDir`] is set, in the directory that the variable names.
    fn copy_from_home(&self, home: &Path, env: &dyn Fn(&str) -> Option<PathBuf>) -> io::Result<()> {
        for files in self.dir.files {
            let Treatment::CopiedFromHome { without } = files.treatment else { continue };
            for name in files.names {
                let real = OwnPath::new(name).overridden_by(self.dir.variable, name).path(home, env);
                let Some(Value::Object(mut settings)) = read_json(&real) else { continue };
                settings.retain(|key, _| !without.contains(&key.as_str()));
                write_new(&self.copy.join(name), Value::Object(settings).to_string().as_bytes())?;
            }
        }
        Ok(())
    }

    fn copy_from(
        &self,
        real: &Path,
        readable: &mut Vec<PathBuf>,
        credentials: &mut Vec<CopiedCredentials>,
    ) -> io::Result<()> {
        for entry in std::fs::read_dir(real).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let treatment = name.to_str().and_then(|name| self.dir.treatment(name));
            let (copy, Some(from)) = (self.copy.join(&name), inside(real, &entry.path())) else { continue };
            match treatment {
                Some(Treatment::Copied) if from.is_dir() => {
                    copy_dir(&from, &copy)?;
                    // Hooks and plugins are called by the paths that they have outside the sandbox.
                    readable.push(from);
                }
                Some(Treatment::Copied) => {
                    copy_file(&from, &copy, &mut Budget { bytes: MAX_FILE, entries: 1 }).map(|_copied| ())?
                }
                Some(Treatment::Credentials) => {
                    if let Some(copied) = CopiedCredentials::read(&from, &copy) {
                        write_new(&copy, copied.bytes())?;
                        credentials.push(copied);
                    }
                }
                Some(Treatment::CopiedFromHome { .. } | Treatment::Kept | Treatment::KeptForAll) | None => {}
            }
        }
        Ok(())
    }
}

/// The canonical path; `None` if the path does not exist or a symlink leads out of `dir`.
fn inside(dir: &Path, path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|real| real.starts_with(dir))
}

fn read_json(path: &Path) -> Option<Value> {
    let data = path.metadata().ok().filter(|data| data.is_file() && data.len() <= MAX_FILE)?;
    let bytes = (data.len() > 0).then(|| althing_disk::read_regular(path, MAX_FILE).ok())??;
    serde_json::from_slice(&bytes).ok()
}

#[derive(Clone, Copy, Debug)]
struct Budget {
    bytes: u64,
    entries: usize,
}

fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    make_real_dir(to)?;
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let (copy, path) = (to.join(entry.file_name()), entry.path());
        let Some(path) = inside(from, &path) else { continue };
        let mut budget = MAX_COPIED;
        if path.is_dir() {
            if !copy_tree(&path, &copy, &mut budget, MAX_DEPTH)? {
                remove(&copy)?;
                symlink(&path, &copy)?;
            }
        } else if !copy_file(&path, &copy, &mut budget)? {
            symlink(&path, &copy)?;
        }
    }
    Ok(())
}

/// Copies a directory except for special files; false if the directory is too large or too deep, or contains a
/// symlink.
fn copy_tree(from: &Path, to: &Path, budget: &mut Budget, depth: usize) -> io::Result<bool> {
    make_real_dir(to)?;
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let kind = entry.file_type()?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        let fits = if kind.is_dir() {
            budget.entries = budget.entries.saturating_sub(1);
            depth > 0 && budget.entries > 0 && copy_tree(&path, &copy, budget, depth - 1)?
        } else {
            // A symlink may be needed, but symlinks are not copied. So `copy_dir` links the entry of the settings
            // directory that contains the symlink, instead of copying it.
            !kind.is_symlink() && copy_file(&path, &copy, budget)?
        };
        if !fits {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Copies only a regular file, executable if the original is; false if it is too large.
fn copy_file(from: &Path, to: &Path, budget: &mut Budget) -> io::Result<bool> {
    let Ok(data) = from.symlink_metadata() else { return Ok(true) };
    if !data.is_file() {
        return Ok(true);
    }
    if budget.entries == 0 || data.len() > budget.bytes {
        return Ok(false);
    }
    *budget = Budget { bytes: budget.bytes - data.len(), entries: budget.entries - 1 };
    let Ok(bytes) = althing_disk::read_regular(from, data.len()) else { return Ok(true) };
    write_new(to, &bytes)?;
    let mode = 0o600 | (data.permissions().mode() & 0o100);
    std::fs::set_permissions(to, Permissions::from_mode(mode)).map(|()| true)
}

#[cfg(test)]
mod tests;
