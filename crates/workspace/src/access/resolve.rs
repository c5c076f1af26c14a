//! From what an agent wrote to the file it means: step by step, through handles, links read and judged by us.
//!
//! The kernel follows nothing here. The answer names a directory handle and one plain name in it, so that what was
//! judged is what is used, whoever swaps what meanwhile.

use super::policy::{Grants, Root, lexical};
use super::refusal::Refusal;
use crate::confine::{ConfinedDir, Found, Kind};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel itself would follow.
const MAX_LINKS: usize = 40;
/// The longest path that the kernel takes.
const PATH_MAX: usize = 4096;

/// What to do with a link in the last place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    Follow,
    /// The link itself is meant: it is to be deleted.
    Keep,
}

/// A file or directory that an agent means.
#[derive(Debug)]
pub(crate) struct Spot<'a> {
    /// The root that decides what may be done.
    pub root: &'a Root,
    /// The directory it is in, as far as that exists.
    pub dir: ConfinedDir,
    /// Directories that are missing between `dir` and `name`.
    pub missing: Vec<OsString>,
    /// Its name; None for a root itself, which `dir` is then.
    pub name: Option<OsString>,
    /// What is there now.
    pub found: Option<Found>,
    /// Where it is, links resolved.
    pub real: PathBuf,
    /// The same as the agent calls it.
    pub shown: String,
}

enum Step<'a> {
    There(Box<Spot<'a>>),
    /// A link or `..` led out of the root: begin again with this path.
    Elsewhere(PathBuf),
}

/// A text from a model, fit for a message.
fn quoted(text: &str) -> String {
    let short: String = text.chars().take(200).collect();
    short.escape_debug().to_string()
}

impl Grants {
    /// Finds what the agent means. Only what the agent was given comes back.
    pub(crate) fn resolve(&self, input: &str, last: LastLink) -> Result<Spot<'_>, Refusal> {
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
            let (root, rest) = self.route(&path).ok_or_else(outside)?;
            match walk(root, rest, last, input)? {
                Step::Elsewhere(next) => path = next,
                Step::There(mut spot) => {
                    if self.is_state(&spot.real) {
                        return Err(Refusal::State { path: quoted(input) });
                    }
                    spot.root = self.decider(&spot.real).ok_or_else(outside)?;
                    let below = spot.real.strip_prefix(&spot.root.real).unwrap_or(&spot.real);
                    let shown = if below.as_os_str().is_empty() {
                        spot.root.shown.clone()
                    } else {
                        spot.root.shown.join(below)
                    };
                    spot.shown = shown.to_string_lossy().into_owned();
                    return Ok(*spot);
                }
            }
        }
        bad("too many links")
    }

    /// The root where the walk begins, and the way from there.
    fn route(&self, path: &Path) -> Option<(&Root, VecDeque<OsString>)> {
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
            fits.max_by_key(|(depth, root, _)| (root.only.is_some(), *depth))
                .map(|(_, root, rest)| (root, rest))
        };
        let (root, rest) = by_name(path).or_else(|| by_name(&lexical(path)))?;
        let mut steps: VecDeque<OsString> = parts(&rest).collect();
        if let Some(only) = &root.only {
            steps.push_front(only.clone());
        }
        Some((root, steps))
    }
}

/// A walk from a root, step by step.
struct Trail<'a, 'i> {
    root: &'a Root,
    /// The real directory of `root.dir`: for a single file, the one above it.
    base: &'a Path,
    steps: VecDeque<OsString>,
    /// The directories gone into so far.
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
) -> Result<Step<'a>, Refusal> {
    let base = if root.only.is_some() { root.real.parent().unwrap_or(&root.real) } else { &root.real };
    Trail { root, base, steps, dirs: Vec::new(), links: 0, last, input }.run()
}

impl<'a> Trail<'a, '_> {
    fn run(mut self) -> Result<Step<'a>, Refusal> {
        while let Some(step) = self.steps.pop_front() {
            if step == "." {
                continue;
            }
            if step == ".." {
                if self.dirs.pop().is_none() {
                    return Ok(Step::Elsewhere(beyond(self.base.parent().unwrap_or(self.base), &self.steps)));
                }
                continue;
            }
            if let Some(end) = self.go(step)? {
                return Ok(end);
            }
        }
        let real = self.at();
        // A directory is its own handle; its name only says that it is not a root.
        let (name, dir) = match self.dirs.pop() {
            None => (None, self.root.dir.again().map_err(|e| self.failed(&e))?),
            Some((name, dir)) => (Some(name), dir),
        };
        let found = Some(dir.itself().map_err(|e| self.failed(&e))?);
        Ok(self.there(dir, name, found, real))
    }

    /// One name further; an end if there is nowhere to go from there.
    fn go(&mut self, step: OsString) -> Result<Option<Step<'a>>, Refusal> {
        // Of the directory above a single file, nothing else is given.
        if self.dirs.is_empty() && self.root.only.as_ref().is_some_and(|only| *only != step) {
            return Ok(Some(Step::Elsewhere(beyond(&self.base.join(&step), &self.steps))));
        }
        let found = self.here().look(&step).map_err(|e| self.failed(&e))?;
        let is_last = self.steps.iter().all(|step| step == ".");
        match found.map(|found| found.kind) {
            Some(Kind::Link) if !(is_last && self.last == LastLink::Keep) => self.follow(&step),
            Some(Kind::Dir) => {
                let below = self.here().descend(&step).map_err(|e| self.failed(&e))?;
                self.dirs.push((step, below));
                Ok(None)
            }
            Some(_) if !is_last => {
                let what = "below something that is no directory";
                Err(Refusal::WrongKind { path: quoted(self.input), what })
            }
            Some(Kind::File | Kind::Link | Kind::Special) => {
                let real = self.at().join(&step);
                let dir = self.here().again().map_err(|e| self.failed(&e))?;
                Ok(Some(self.there(dir, Some(step), found, real)))
            }
            None => absent(self.root, self.here(), &self.at(), step, &self.steps, self.input).map(Some),
        }
    }

    /// Goes on where a link leads, by its text.
    fn follow(&mut self, step: &OsStr) -> Result<Option<Step<'a>>, Refusal> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Refusal::BadPath { path: quoted(self.input), why: "too many links" });
        }
        let text = PathBuf::from(self.here().link_text(step).map_err(|e| self.failed(&e))?);
        if text.is_absolute() {
            return Ok(Some(Step::Elsewhere(beyond(&text, &self.steps))));
        }
        for part in parts(&text).collect::<Vec<_>>().into_iter().rev() {
            self.steps.push_front(part);
        }
        Ok(None)
    }

    fn here(&self) -> &ConfinedDir {
        self.dirs.last().map_or(&self.root.dir, |(_, dir)| dir)
    }

    fn at(&self) -> PathBuf {
        self.dirs.iter().fold(self.base.to_owned(), |path, (name, _)| path.join(name))
    }

    fn there(
        &self,
        dir: ConfinedDir,
        name: Option<OsString>,
        found: Option<Found>,
        real: PathBuf,
    ) -> Step<'a> {
        let (root, missing, shown) = (self.root, Vec::new(), String::new());
        Step::There(Box::new(Spot { root, dir, missing, name, found, real, shown }))
    }

    fn failed(&self, error: &std::io::Error) -> Refusal {
        Refusal::Io { doing: "reach", path: quoted(self.input), why: error.to_string() }
    }
}

/// A path whose end is not there: the last name is what is meant, those before it are missing directories.
fn absent<'a>(
    root: &'a Root,
    dir: &ConfinedDir,
    at: &Path,
    step: OsString,
    steps: &VecDeque<OsString>,
    input: &str,
) -> Result<Step<'a>, Refusal> {
    let mut missing = vec![step];
    for step in steps {
        match step.to_str() {
            Some(".") => {}
            Some("..") => {
                return Err(Refusal::BadPath {
                    path: quoted(input),
                    why: "it goes up from a directory that is not there",
                });
            }
            Some(_) | None => missing.push(step.clone()),
        }
    }
    let real = missing.iter().fold(at.to_owned(), |path, name| path.join(name));
    let name = missing.pop();
    let dir = dir.again().map_err(Refusal::io("reach", &quoted(input)))?;
    Ok(Step::There(Box::new(Spot { root, dir, missing, name, found: None, real, shown: String::new() })))
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().map(|part| match part {
        Component::ParentDir => OsStr::new("..").to_owned(),
        Component::CurDir => OsStr::new(".").to_owned(),
        part @ (Component::Normal(_) | Component::RootDir | Component::Prefix(_)) => {
            part.as_os_str().to_owned()
        }
    })
}

fn beyond(start: &Path, steps: &VecDeque<OsString>) -> PathBuf {
    steps.iter().fold(start.to_owned(), |path, step| path.join(step))
}
