//! Remembers which files written by programs in a sandbox could run code later. A program that would run such a file is
//! not started without a sandbox. The list is stored for a resume, which accepts only those files that the user was
//! told about before.

use super::stored_code::{TaskCode, Told, load, store};
use crate::code_watch::{CodeWatch, MAX_NAMED, WrittenCode, name_files};
use crate::repositories::is_in_linked_worktree;
use crate::settings_code::{concerns, settings_code};
use althing_protocol::{Notice, ProgramReport, ReportSink, RunsCode, runs_code_in};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;

/// Whether a path is a setting from which only executables made with Bun run code.
fn is_bun_setting(path: &Path) -> bool {
    path.ends_with("tsconfig.json") || path.ends_with("jsconfig.json")
}

#[derive(Debug, Default)]
pub(super) struct PlantedCode {
    state: Mutex<PlantedCodeState>,
    is_loaded: OnceCell<()>,
}

#[derive(Debug, Default)]
struct PlantedCodeState {
    findings: Vec<Finding>,
    running: BTreeMap<u64, Running>,
    next: u64,
}

#[derive(Debug)]
struct Running {
    dir: PathBuf,
    watch: CodeWatch,
}

#[derive(Debug)]
struct Finding {
    dir: PathBuf,
    written: WrittenCode,
    /// What the user was told before the session was last resumed; the resume accepts it.
    accepted: Told,
    told: Told,
}

impl Finding {
    fn told_by_notice(dir: &Path, written: WrittenCode) -> Self {
        let files = written.files.iter().take(MAX_NAMED).map(|(path, _)| path.clone()).collect();
        let told = Told { files, is_incomplete: written.is_incomplete };
        Self { dir: dir.to_owned(), written, accepted: Told::default(), told }
    }
}

impl PlantedCodeState {
    fn store(&self, dir: &Path) -> Result<(), String> {
        let running = self.running.values().find(|running| running.dir == dir);
        let findings = self.findings.iter().filter(|finding| finding.dir == dir);
        let code = TaskCode {
            before: running.map(|running| running.watch.clone()),
            written: findings.map(|finding| (finding.written.clone(), finding.told.clone())).collect(),
        };
        store(dir, &code).map_err(|error| error.to_string())
    }

    /// If storing fails, what is already on disk is stricter.
    fn store_or_log(&self, dir: &Path) {
        if let Err(error) = self.store(dir) {
            tracing::warn!(
                error,
                "the list of files of a task that could run code later could not be stored; after a resume, programs may be refused without a sandbox"
            );
        }
    }
}

impl PlantedCode {
    fn state(&self) -> MutexGuard<'_, PlantedCodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads, once, what is stored for the tasks of the session; `dir` is the directory of any task. Call it before
    /// the first program starts. Reports what programs wrote that were interrupted by a crash.
    pub(super) async fn load(&self, dir: &Path, reports: &ReportSink) {
        self.is_loaded.get_or_init(|| self.load_all(dir, reports)).await;
    }

    async fn load_all(&self, dir: &Path, reports: &ReportSink) {
        let tasks = dir.parent().and_then(|parent| std::fs::read_dir(parent).ok());
        for dir in tasks.into_iter().flatten().flatten().map(|entry| entry.path()) {
            let Some(code) = load(&dir) else { continue };
            let finding = |(written, told): (WrittenCode, Told)| Finding {
                dir: dir.clone(),
                written,
                accepted: told.clone(),
                told,
            };
            self.state().findings.extend(code.written.into_iter().map(finding));
            let Some(watch) = code.before else { continue };
            if let Some(written) = watch.written().await {
                let Notice { text, .. } = written.notice();
                let text = format!("a task was interrupted before its files were searched: {text}");
                reports(ProgramReport::Notice(Notice { text, ..written.notice() }));
                self.state().findings.push(Finding::told_by_notice(&dir, written));
            }
            self.state().store_or_log(&dir);
        }
    }

    /// Returns the number of the program. `dir` is the directory of its task. The error says why the start could not
    /// be stored.
    pub(super) fn started(&self, dir: &Path, watch: &CodeWatch) -> Result<u64, String> {
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        state.running.insert(number, Running { dir: dir.to_owned(), watch: watch.clone() });
        if let Err(error) = state.store(dir) {
            state.running.remove(&number);
            return Err(error);
        }
        Ok(number)
    }

    pub(super) fn ended(&self, number: u64, written: Option<&WrittenCode>) {
        let mut state = self.state();
        let Some(Running { dir, .. }) = state.running.remove(&number) else { return };
        state.findings.extend(written.map(|written| Finding::told_by_notice(&dir, written.clone())));
        state.store_or_log(&dir);
    }

    /// Why no program may be started without a sandbox in this directory, and what the user can do; `None` if
    /// programs may.
    pub(super) async fn problem(&self, cwd: &Path, adapter: &str) -> Option<(String, String)> {
        let running: Vec<CodeWatch> =
            self.state().running.values().map(|running| running.watch.clone()).collect();
        let mut written = Vec::new();
        for watch in running {
            written.extend(watch.written().await);
        }
        let named = self.named_by_settings(cwd, &written).await;
        let mut state = self.state();
        let mut files: Vec<(PathBuf, &'static RunsCode)> =
            written.iter().flat_map(|written| used_in(cwd, written, &named)).collect();
        for finding in &state.findings {
            let used = used_in(cwd, &finding.written, &named).into_iter();
            files.extend(used.filter(|(path, _)| !finding.accepted.files.contains(path)));
        }
        files.retain(|(path, _)| adapter == "opencode" || !is_bun_setting(path));
        files.retain(|(_, row)| concerns(row, adapter));
        files.sort_by(|one, other| one.0.cmp(&other.0));
        files.dedup_by(|one, other| one.0 == other.0);
        let is_related = |written: &WrittenCode| {
            let mut roots = written.roots.iter();
            written.is_incomplete && roots.any(|root| root.starts_with(cwd) || cwd.starts_with(root))
        };
        let is_unknown = |finding: &Finding| is_related(&finding.written) && !finding.accepted.is_incomplete;
        let is_incomplete = written.iter().any(is_related) || state.findings.iter().any(is_unknown);
        let text = if !files.is_empty() {
            format!(
                "a program in the sandbox wrote files that could run code here outside the sandbox: {}",
                name_files(&files)
            )
        } else if is_incomplete {
            "a program in the sandbox wrote so many files here that not all of them were searched for code that \
             could run outside the sandbox"
                .to_owned()
        } else {
            return None;
        };
        let is_all_named = files.is_empty();
        state.tell(files.into_iter().take(MAX_NAMED).map(|(path, _)| path), is_all_named);
        drop(state);
        let hint = "look at the files, and delete what you do not want; then start the workflow again, or let the task \
                    run in the sandbox (`sandbox: true`)";
        Some((text, hint.to_owned()))
    }
}

impl PlantedCode {
    /// The code outside the directory `cwd` that settings for this directory start.
    async fn named_by_settings(&self, cwd: &Path, written: &[WrittenCode]) -> BTreeSet<PathBuf> {
        let mut roots: Vec<PathBuf> = written.iter().flat_map(|written| written.roots.clone()).collect();
        roots.extend(self.state().findings.iter().flat_map(|finding| finding.written.roots.clone()));
        let work_dirs = [cwd.to_owned()];
        let find = move || settings_code(std::iter::empty(), &work_dirs, &roots);
        let code = tokio::task::spawn_blocking(find).await.unwrap_or_default();
        code.files.into_iter().chain(code.unknown).map(|(path, _)| path).collect()
    }
}

impl PlantedCodeState {
    fn tell(&mut self, files: impl Iterator<Item = PathBuf>, is_incomplete: bool) {
        let files: Vec<PathBuf> = files.collect();
        let mut dirs = Vec::new();
        for finding in &mut self.findings {
            let is_of = |path: &&PathBuf| finding.written.files.iter().any(|(other, _)| other == *path);
            finding.told.files.extend(files.iter().filter(is_of).cloned());
            finding.told.is_incomplete |= is_incomplete && finding.written.is_incomplete;
            dirs.push(finding.dir.clone());
        }
        dirs.sort();
        dirs.dedup();
        for dir in dirs {
            self.store_or_log(&dir);
        }
    }
}

/// The written files that still exist and that a program in `cwd` may run by itself. Other files that are not protected
/// are left out: they run code only in other places, or when somebody builds or tests what the agent wrote.
fn used_in(
    cwd: &Path,
    written: &WrittenCode,
    named: &BTreeSet<PathBuf>,
) -> Vec<(PathBuf, &'static RunsCode)> {
    let is_linked = is_in_linked_worktree(cwd);
    let is_named = |path: &Path| path.ancestors().any(|path| named.contains(path));
    let is_used = |(path, row): &&(PathBuf, &'static RunsCode)| {
        let dir = used_dir(path, row, &written.roots);
        (row.protected || is_bun_setting(path))
            && (is_linked || path.starts_with(cwd) || cwd.starts_with(dir) || is_named(path))
            && path.symlink_metadata().is_ok()
    };
    written.files.iter().filter(is_used).cloned().collect()
}

/// The directory in which a program must work to run the code in a file: for `a/.claude/settings.json` it is `a`. For
/// a file that runs code for another reason than its name, it is the searched directory.
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
