//! Walks a directory for the tools `glob` and `search`, sorted by name. Links are not followed; `.git` and Althing's
//! own state are skipped.

use super::globs;
use super::job::Job;
use crate::access::{Refusal, ResolvedPath};
use crate::confine::{ConfinedDir, FileKind, FileStat};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Deeper directories are skipped, because each level keeps a directory open.
const MAX_DEPTH: usize = 128;
const MAX_NAMES: u64 = 500_000;
/// How many bytes of a `.gitignore` are read.
const IGNORE_CAP: u64 = 256 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GitignoreMode {
    Respect,
    Ignore,
}

pub(crate) struct Visit<'v> {
    pub dir: &'v ConfinedDir,
    pub name: &'v OsStr,
    pub found: FileStat,
    pub below: &'v Path,
}

/// Called for each file and link; `Break` ends the walk.
pub(crate) type Visitor<'v> = &'v mut dyn FnMut(&Visit<'_>) -> Result<ControlFlow<()>, Refusal>;

pub(crate) struct Walk<'w> {
    job: &'w Job<'w>,
    real: PathBuf,
    gitignore_mode: GitignoreMode,
    rules: Vec<Gitignore>,
    seen: u64,
    too_deep: bool,
}

impl<'w> Walk<'w> {
    pub(crate) fn new(job: &'w Job<'w>, start: &ResolvedPath<'_>, gitignore_mode: GitignoreMode) -> Self {
        Self { job, real: start.real.clone(), gitignore_mode, rules: Vec::new(), seen: 0, too_deep: false }
    }

    /// Returns false if the walk ended early or a directory is nested too deeply.
    pub(crate) fn run(mut self, start: &ConfinedDir, visit: Visitor<'_>) -> Result<bool, Refusal> {
        Ok(self.dir(start, Path::new(""), 0, visit)?.is_continue() && !self.too_deep)
    }

    fn dir(
        &mut self,
        dir: &ConfinedDir,
        at: &Path,
        depth: usize,
        visit: Visitor<'_>,
    ) -> Result<ControlFlow<()>, Refusal> {
        let Ok(mut names) = dir.names() else { return Ok(ControlFlow::Continue(())) };
        names.sort_unstable();
        let rules = self.push_rules(dir, at, &names);
        let mut flow = ControlFlow::Continue(());
        for name in &names {
            flow = self.visit_entry(dir, name, &at.join(name), depth, visit)?;
            if flow.is_break() {
                break;
            }
        }
        self.rules.truncate(rules);
        Ok(flow)
    }

    fn visit_entry(
        &mut self,
        dir: &ConfinedDir,
        name: &OsStr,
        below: &Path,
        depth: usize,
        visit: Visitor<'_>,
    ) -> Result<ControlFlow<()>, Refusal> {
        self.job.check_cancelled()?;
        self.seen += 1;
        if self.seen > MAX_NAMES {
            return Ok(ControlFlow::Break(()));
        }
        let Ok(Some(found)) = dir.stat(name) else { return Ok(ControlFlow::Continue(())) };
        let is_dir = found.kind == FileKind::Dir;
        if (is_dir && name == ".git")
            || self.is_ignored(below, is_dir)
            || (is_dir && self.job.root_set.is_state(&self.real.join(below)))
        {
            return Ok(ControlFlow::Continue(()));
        }
        match found.kind {
            FileKind::Dir if depth < MAX_DEPTH => match dir.open_dir(name) {
                Ok(handle) => self.dir(&handle, below, depth + 1, visit),
                Err(_) => Ok(ControlFlow::Continue(())),
            },
            FileKind::File | FileKind::Link => visit(&Visit { dir, name, found, below }),
            FileKind::Dir => {
                self.too_deep = true;
                Ok(ControlFlow::Continue(()))
            }
            FileKind::Special => Ok(ControlFlow::Continue(())),
        }
    }

    fn push_rules(&mut self, dir: &ConfinedDir, at: &Path, names: &[OsString]) -> usize {
        let before = self.rules.len();
        let name = OsStr::new(".gitignore");
        if self.gitignore_mode == GitignoreMode::Respect && names.iter().any(|n| n == name) {
            self.rules.extend(read_rules(dir, name, at));
        }
        before
    }

    fn is_ignored(&self, below: &Path, is_dir: bool) -> bool {
        let judged = self.rules.iter().rev().map(|rules| rules.matched(below, is_dir));
        judged.into_iter().find(|judged| !judged.is_none()).is_some_and(|judged| judged.is_ignore())
    }
}

fn read_rules(dir: &ConfinedDir, name: &OsStr, at: &Path) -> Option<Gitignore> {
    let (file, _) = dir.open_file(name).ok()?;
    let mut text = String::new();
    file.take(IGNORE_CAP).read_to_string(&mut text).ok()?;
    let mut rules = GitignoreBuilder::new(at);
    for line in text.lines().filter(|line| globs::refusal(line).is_none()) {
        // git ignores invalid lines, too.
        let _ = rules.add_line(None, line);
    }
    rules.build().ok()
}
