//! Resolves the path that an agent wrote: component by component, through directory handles, so that the file that
//! was checked is the file that is used, even if somebody swaps directories meanwhile. The kernel follows no link;
//! the text of each link is checked like a path that the agent wrote.

use super::policy::{Root, RootSet, normalize_lexically};
use super::refusal::Refusal;
use crate::confine::{ConfinedDir, FileKind, FileStat};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// The maximum number of links that one walk follows, and also the maximum number of walks for one path (an absolute
/// link starts a new walk). The kernel also follows at most 40 links.
const MAX_LINKS: usize = 40;
/// The kernel accepts no longer paths.
const PATH_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    Follow,
    /// The link itself is the target, for example of a deletion.
    NoFollow,
}

#[derive(Debug)]
pub(crate) struct ResolvedPath<'a> {
    pub root: &'a Root,
    /// The target itself if it is an existing directory, otherwise the deepest existing directory above it.
    pub dir: ConfinedDir,
    /// The missing directories between `dir` and `name`.
    pub missing: Vec<OsString>,
    /// The target's name in its directory; `None` if the target is the directory of a root.
    pub name: Option<OsString>,
    pub found: Option<FileStat>,
    /// The absolute path of the target, with links resolved.
    pub real: PathBuf,
    pub shown: String,
}

enum WalkResult<'a> {
    Resolved(Box<ResolvedPath<'a>>),
    /// The walk reached an absolute link or left the root: it starts again with this path, which is checked anew.
    Restart(PathBuf),
}

fn quoted(text: &str) -> String {
    let short: String = text.chars().take(200).collect();
    short.escape_debug().to_string()
}

impl RootSet {
    /// Fails unless the target is inside the agent's roots and outside of Althing's state.
    pub(crate) fn resolve(&self, input: &str, last: LastLink) -> Result<ResolvedPath<'_>, Refusal> {
        let bad = |why| Err(Refusal::BadPath { path: quoted(input), why });
        if input.is_empty() {
            return bad("it is empty");
        }
        if input.contains('\0') {
            return bad("it contains a NUL character");
        }
        if input.len() > PATH_MAX {
            return bad("it is too long");
        }
        let outside = || Refusal::Outside { path: quoted(input), allowed: self.allowed() };
        let mut path = self.start.join(input);
        for _ in 0..MAX_LINKS {
            let (root, rest) = self.find_start(&path).ok_or_else(outside)?;
            match walk(root, rest, last, input)? {
                WalkResult::Restart(next) => path = next,
                WalkResult::Resolved(mut resolved) => {
                    if self.is_state(&resolved.real) {
                        return Err(Refusal::State { path: quoted(input) });
                    }
                    resolved.root = self.deciding_root(&resolved.real).ok_or_else(outside)?;
                    let below = resolved.real.strip_prefix(&resolved.root.real).unwrap_or(&resolved.real);
                    let shown = if below.as_os_str().is_empty() {
                        resolved.root.shown.clone()
                    } else {
                        resolved.root.shown.join(below)
                    };
                    resolved.shown = shown.to_string_lossy().into_owned();
                    return Ok(*resolved);
                }
            }
        }
        bad("it leads through too many symbolic links")
    }

    fn find_start(&self, path: &Path) -> Option<(&Root, VecDeque<OsString>)> {
        let by_name = |path: &Path| {
            let under = |root: &'_ Root| {
                let rest = path
                    .strip_prefix(&root.shown)
                    .or_else(|_| path.strip_prefix(&root.real))
                    .ok()?
                    .to_owned();
                Some((root.shown.components().count(), rest))
            };
            let fits =
                self.roots.iter().filter_map(|root| under(root).map(|(depth, rest)| (depth, root, rest)));
            fits.max_by_key(|(depth, root, _)| (root.single_file.is_some(), *depth))
                .map(|(_, root, rest)| (root, rest))
        };
        let (root, rest) = by_name(path).or_else(|| by_name(&normalize_lexically(path)))?;
        let mut steps: VecDeque<OsString> = components(&rest).collect();
        if let Some(single_file) = &root.single_file {
            steps.push_front(single_file.clone());
        }
        Some((root, steps))
    }
}

struct PathWalk<'a, 'i> {
    root: &'a Root,
    base: &'a Path,
    steps: VecDeque<OsString>,
    dirs: Vec<(OsString, ConfinedDir)>,
    links: usize,
    last: LastLink,
    input: &'i str,
}

fn walk<'a>(
    root: &'a Root,
    steps: VecDeque<OsString>,
    last: LastLink,
    input: &str,
) -> Result<WalkResult<'a>, Refusal> {
    let base = if root.single_file.is_some() { root.real.parent().unwrap_or(&root.real) } else { &root.real };
    PathWalk { root, base, steps, dirs: Vec::new(), links: 0, last, input }.run()
}

impl<'a> PathWalk<'a, '_> {
    fn run(mut self) -> Result<WalkResult<'a>, Refusal> {
        while let Some(step) = self.steps.pop_front() {
            if step == "." {
                continue;
            }
            if step == ".." {
                if self.dirs.pop().is_none() {
                    return Ok(WalkResult::Restart(join_rest(
                        self.base.parent().unwrap_or(self.base),
                        &self.steps,
                    )));
                }
                continue;
            }
            if let Some(end) = self.step_into(step)? {
                return Ok(end);
            }
        }
        let real = self.current_path();
        // The target is a directory, so `dir` is the target itself; `name` only shows that the target is not a root.
        let (name, dir) = match self.dirs.pop() {
            None => (None, self.root.dir.try_clone().map_err(|e| self.failed(&e))?),
            Some((name, dir)) => (Some(name), dir),
        };
        let found = Some(dir.stat_self().map_err(|e| self.failed(&e))?);
        Ok(self.finish(dir, name, found, real))
    }

    fn step_into(&mut self, step: OsString) -> Result<Option<WalkResult<'a>>, Refusal> {
        // The siblings of a single file are not part of the root.
        if self.dirs.is_empty()
            && self.root.single_file.as_ref().is_some_and(|single_file| *single_file != step)
        {
            return Ok(Some(WalkResult::Restart(join_rest(&self.base.join(&step), &self.steps))));
        }
        let found = self.current_dir().stat(&step).map_err(|e| self.failed(&e))?;
        let is_last = self.steps.iter().all(|step| step == ".");
        match found.map(|found| found.kind) {
            Some(FileKind::Link) if !(is_last && self.last == LastLink::NoFollow) => self.follow(&step),
            Some(FileKind::Dir) => {
                let below = self.current_dir().open_dir(&step).map_err(|e| self.failed(&e))?;
                self.dirs.push((step, below));
                Ok(None)
            }
            Some(_) if !is_last => {
                let what = "below something that is not a directory";
                Err(Refusal::WrongKind { path: quoted(self.input), what })
            }
            Some(FileKind::File | FileKind::Link | FileKind::Special) => {
                let real = self.current_path().join(&step);
                let dir = self.current_dir().try_clone().map_err(|e| self.failed(&e))?;
                Ok(Some(self.finish(dir, Some(step), found, real)))
            }
            None => resolve_missing(
                self.root,
                self.current_dir(),
                &self.current_path(),
                step,
                &self.steps,
                self.input,
            )
            .map(Some),
        }
    }

    fn follow(&mut self, step: &OsStr) -> Result<Option<WalkResult<'a>>, Refusal> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Refusal::BadPath {
                path: quoted(self.input),
                why: "it leads through too many symbolic links",
            });
        }
        let text = PathBuf::from(self.current_dir().read_link(step).map_err(|e| self.failed(&e))?);
        if text.is_absolute() {
            return Ok(Some(WalkResult::Restart(join_rest(&text, &self.steps))));
        }
        for part in components(&text).collect::<Vec<_>>().into_iter().rev() {
            self.steps.push_front(part);
        }
        Ok(None)
    }

    fn current_dir(&self) -> &ConfinedDir {
        self.dirs.last().map_or(&self.root.dir, |(_, dir)| dir)
    }

    fn current_path(&self) -> PathBuf {
        self.dirs.iter().fold(self.base.to_owned(), |path, (name, _)| path.join(name))
    }

    fn finish(
        &self,
        dir: ConfinedDir,
        name: Option<OsString>,
        found: Option<FileStat>,
        real: PathBuf,
    ) -> WalkResult<'a> {
        let (root, missing, shown) = (self.root, Vec::new(), String::new());
        WalkResult::Resolved(Box::new(ResolvedPath { root, dir, missing, name, found, real, shown }))
    }

    fn failed(&self, error: &std::io::Error) -> Refusal {
        Refusal::Io { doing: "access", path: quoted(self.input), why: error.to_string() }
    }
}

/// The last component is the target, the ones before it are missing directories.
fn resolve_missing<'a>(
    root: &'a Root,
    dir: &ConfinedDir,
    at: &Path,
    step: OsString,
    steps: &VecDeque<OsString>,
    input: &str,
) -> Result<WalkResult<'a>, Refusal> {
    let mut missing = vec![step];
    for step in steps {
        match step.to_str() {
            Some(".") => {}
            Some("..") => {
                return Err(Refusal::BadPath {
                    path: quoted(input),
                    why: "it has `..` after a directory that does not exist",
                });
            }
            Some(_) | None => missing.push(step.clone()),
        }
    }
    let real = missing.iter().fold(at.to_owned(), |path, name| path.join(name));
    let name = missing.pop();
    let dir = dir.try_clone().map_err(Refusal::io("access", &quoted(input)))?;
    Ok(WalkResult::Resolved(Box::new(ResolvedPath {
        root,
        dir,
        missing,
        name,
        found: None,
        real,
        shown: String::new(),
    })))
}

fn components(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().map(|part| match part {
        Component::ParentDir => OsStr::new("..").to_owned(),
        Component::CurDir => OsStr::new(".").to_owned(),
        part @ (Component::Normal(_) | Component::RootDir | Component::Prefix(_)) => {
            part.as_os_str().to_owned()
        }
    })
}

fn join_rest(start: &Path, steps: &VecDeque<OsString>) -> PathBuf {
    steps.iter().fold(start.to_owned(), |path, step| path.join(step))
}
