//! Remembers which files that run code later were written by programs in a sandbox. A program is not started without a
//! sandbox where it would run these files: the code would then have all rights of the user.

use crate::code_watch::{CodeWatch, WrittenCode, name_files};
use althing_protocol::{RunsCode, runs_code_in};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What programs in a sandbox have written since this process started, and which of them are still running.
#[derive(Debug, Default)]
pub(super) struct PlantedCode(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    written: Vec<WrittenCode>,
    running: BTreeMap<u64, CodeWatch>,
    next: u64,
}

impl PlantedCode {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a program in a sandbox is started; returns the number of the program.
    pub(super) fn started(&self, watch: &CodeWatch) -> u64 {
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        state.running.insert(number, watch.clone());
        number
    }

    /// Records that a program has ended, and what it wrote.
    pub(super) fn ended(&self, number: u64, written: Option<&WrittenCode>) {
        let mut state = self.state();
        state.running.remove(&number);
        state.written.extend(written.cloned());
    }

    /// Why no program may be started without a sandbox in this directory, and what the user can do; `None` if it may.
    pub(super) async fn problem(&self, cwd: &Path) -> Option<(String, String)> {
        let (mut written, running) = {
            let state = self.state();
            (state.written.clone(), state.running.values().cloned().collect::<Vec<_>>())
        };
        for watch in running {
            written.extend(watch.written().await);
        }
        let mut files: Vec<(PathBuf, &'static RunsCode)> =
            written.iter().flat_map(|written| used_in(cwd, written)).collect();
        files.sort_by(|one, other| one.0.cmp(&other.0));
        files.dedup_by(|one, other| one.0 == other.0);
        let is_related = |root: &PathBuf| root.starts_with(cwd) || cwd.starts_with(root);
        let text = if !files.is_empty() {
            format!(
                "a program in the sandbox wrote files that could run code here outside the sandbox: {}",
                name_files(&files)
            )
        } else if written.iter().any(|written| written.is_incomplete && written.roots.iter().any(is_related))
        {
            "a program in the sandbox wrote so many files here that not all of them were searched for code that \
             could run outside the sandbox"
                .to_owned()
        } else {
            return None;
        };
        let hint = "look at the files, and delete what you do not want; then continue with `althing resume`, or let the \
                    task run in the sandbox (`sandbox: true`)";
        Some((text, hint.to_owned()))
    }
}

/// The written files that still exist and that a program in `cwd` may run by itself. Files that are reported but not
/// protected are left out: they run code only in other places, or when somebody builds or tests what the agent wrote.
fn used_in(cwd: &Path, written: &WrittenCode) -> Vec<(PathBuf, &'static RunsCode)> {
    let is_used = |(path, row): &&(PathBuf, &'static RunsCode)| {
        let dir = used_dir(path, row, &written.roots);
        row.protected && (path.starts_with(cwd) || cwd.starts_with(dir)) && path.symlink_metadata().is_ok()
    };
    written.files.iter().filter(is_used).cloned().collect()
}

/// The directory in which a program must work to run the code in a file: for `a/.claude/settings.json` it is `a`. For a
/// file that runs code for another reason than its name, it is the searched directory.
fn used_dir<'a>(path: &'a Path, row: &RunsCode, roots: &'a [PathBuf]) -> &'a Path {
    let Some(root) = roots.iter().find(|root| path.starts_with(root)) else {
        return path.parent().unwrap_or(path);
    };
    let matches = |path: &&Path| {
        path.strip_prefix(root).is_ok_and(|below| runs_code_in(root, below).is_some_and(|found| found == row))
    };
    let outermost = path.ancestors().take_while(matches).last();
    let dir = outermost.and_then(|outermost| outermost.ancestors().nth(row.names.len()));
    dir.filter(|dir| dir.starts_with(root)).unwrap_or(root)
}
