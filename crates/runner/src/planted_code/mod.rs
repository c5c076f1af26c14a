//! Remembers which files that agents and programs of a session wrote could run code later. A program that would run such
//! a file is not started without a sandbox. The list is stored for a resume, which accepts only those files that the
//! user was told about before.
//!
//! There is one list for each session. Everything that may write to the user's files and is not trusted like the user
//! must be watched here while it may write: programs in a sandbox, agents of runs, files that Althing copies for them.

mod stored;
#[cfg(test)]
mod tests;

use crate::code_watch::{CodeWatch, DELETED, MAX_NAMED, WrittenCode, name_files};
use crate::protected_paths::matching_row;
use crate::repositories::is_in_linked_worktree;
use crate::settings_code::{concerns, settings_code};
use althing_protocol::{Grant, Notice, RunsCode, runs_code_in};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use stored::{TaskCode, Told, load, store};

/// Receives the notices about what was written before an interruption.
pub type NoticeSink = Arc<dyn Fn(Notice) + Send + Sync>;

/// Whether a path is a setting from which only executables made with Bun run code.
fn is_bun_setting(path: &Path) -> bool {
    path.ends_with("tsconfig.json") || path.ends_with("jsconfig.json")
}

/// What agents and programs of one session wrote that could run code later.
#[derive(Debug, Default)]
pub struct PlantedCode {
    state: Mutex<PlantedCodeState>,
    is_loaded: OnceLock<()>,
}

#[derive(Debug, Default)]
struct PlantedCodeState {
    findings: Vec<Finding>,
    running: BTreeMap<u64, Running>,
    next: u64,
    /// The directories of the tasks that were interrupted while something of theirs could write.
    interrupted: BTreeSet<PathBuf>,
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

    fn untold(dir: &Path, written: WrittenCode) -> Self {
        Self { dir: dir.to_owned(), written, accepted: Told::default(), told: Told::default() }
    }
}

impl PlantedCodeState {
    fn store(&self, dir: &Path) -> Result<(), String> {
        let running = self.running.values().filter(|running| running.dir == dir);
        let findings = self.findings.iter().filter(|finding| finding.dir == dir);
        let code = TaskCode {
            before: running.map(|running| running.watch.clone()).collect(),
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

    /// Loads, once, what is stored for the tasks of the session; `dir` is the directory of any task. Everything else
    /// here must be called after it. Reports what was written by those that were interrupted by a crash.
    pub async fn load(self: &Arc<Self>, dir: &Path, notices: &NoticeSink) {
        if self.is_loaded.get().is_some() {
            return;
        }
        let (this, dir, notices) = (Arc::clone(self), dir.to_owned(), Arc::clone(notices));
        // Fails only after a panic; then the next caller loads.
        let _ = tokio::task::spawn_blocking(move || this.load_now(&dir, &notices)).await;
    }

    fn load_now(&self, dir: &Path, notices: &NoticeSink) {
        self.is_loaded.get_or_init(|| {
            let tasks = dir.parent().and_then(|parent| std::fs::read_dir(parent).ok());
            for dir in tasks.into_iter().flatten().flatten().map(|entry| entry.path()) {
                self.load_task(&dir, notices);
            }
        });
    }

    fn load_task(&self, dir: &Path, notices: &NoticeSink) {
        let Some(code) = load(dir) else { return };
        let finding = |(written, told): (WrittenCode, Told)| Finding {
            dir: dir.to_owned(),
            written,
            accepted: told.clone(),
            told,
        };
        self.state().findings.extend(code.written.into_iter().map(finding));
        if code.before.is_empty() {
            return;
        }
        for written in code.before.into_iter().filter_map(CodeWatch::written_now) {
            let Notice { text, .. } = written.notice();
            let text = format!("a task was interrupted before its files were searched: {text}");
            notices(Notice { text, ..written.notice() });
            self.state().findings.push(Finding::told_by_notice(dir, written));
        }
        self.state().interrupted.insert(dir.to_owned());
        self.state().store_or_log(dir);
    }

    /// Returns the number of what may write from now on. `dir` is the directory of its task. The error says why the start
    /// could not be stored.
    pub(crate) fn started(&self, dir: &Path, watch: &CodeWatch) -> Result<u64, String> {
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

    /// The user was told about `written` by a notice.
    pub(crate) fn ended(&self, number: u64, written: Option<&WrittenCode>) {
        self.remove(number, |dir| written.map(|written| Finding::told_by_notice(dir, written.clone())));
    }

    fn remove(&self, number: u64, finding: impl FnOnce(&Path) -> Option<Finding>) {
        let mut state = self.state();
        let Some(Running { dir, .. }) = state.running.remove(&number) else { return };
        state.findings.extend(finding(&dir));
        state.store_or_log(&dir);
    }

    fn running_in(&self, dir: &Path) -> Vec<(u64, CodeWatch)> {
        let state = self.state();
        let running = state.running.iter().filter(|(_, running)| running.dir == dir);
        running.map(|(number, running)| (*number, running.watch.clone())).collect()
    }

    /// Why no program of this adapter may be started without a sandbox in this directory; `None` if it may.
    pub(crate) async fn problem(&self, cwd: &Path, adapter: &str) -> Option<String> {
        let (running, is_clean) = {
            let state = self.state();
            let running = state.running.values().map(|running| running.watch.clone());
            (running.collect::<Vec<_>>(), state.findings.is_empty())
        };
        if running.is_empty() && is_clean {
            return None;
        }
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
                "an agent or a program in the sandbox wrote files that could run code here outside the sandbox: {}",
                name_files(&files)
            )
        } else if is_incomplete {
            "an agent or a program in the sandbox could write here, and there are so many files that not all of them were \
             searched for code that could run outside the sandbox"
                .to_owned()
        } else {
            return None;
        };
        let is_all_named = files.is_empty();
        state.tell(files.into_iter().take(MAX_NAMED).map(|(path, _)| path), is_all_named);
        Some(text)
    }
}

/// Watching agents, which have no process of their own.
impl PlantedCode {
    /// An agent of the task with this directory may write from now on, until [`Self::close`]. Does nothing if the task is
    /// already open: only one of its agents may write at a time. The error says why the agent must not write.
    pub async fn open(
        self: &Arc<Self>,
        dir: &Path,
        grant: &Grant,
        notices: &NoticeSink,
    ) -> Result<(), String> {
        self.load(dir, notices).await;
        if self.running_in(dir).is_empty() {
            self.watch(dir, grant).await?;
        }
        Ok(())
    }

    /// Opens the task if an earlier process was interrupted while one of its agents could write: then the agent goes on
    /// writing, and no new `open` says so.
    pub async fn reopen(
        self: &Arc<Self>,
        dir: &Path,
        grant: &Grant,
        notices: &NoticeSink,
    ) -> Result<(), String> {
        self.load(dir, notices).await;
        let was_open = self.state().interrupted.remove(dir);
        if was_open { self.open(dir, grant, notices).await } else { Ok(()) }
    }

    /// No agent of the task can write any more, and its processes have ended.
    pub async fn close(&self, dir: &Path) {
        for (number, watch) in self.running_in(dir) {
            self.end(number, watch).await;
        }
    }

    /// Does something in which an agent of the task may write.
    pub async fn during<T>(
        self: &Arc<Self>,
        dir: &Path,
        grant: &Grant,
        notices: &NoticeSink,
        work: impl Future<Output = T>,
    ) -> Result<T, String> {
        self.load(dir, notices).await;
        let watched = self.watch(dir, grant).await?;
        let done = work.await;
        if let Some((number, watch)) = watched {
            self.end(number, watch).await;
        }
        Ok(done)
    }

    /// The same for a task that blocks and needs no async runtime.
    pub fn during_blocking<T>(
        &self,
        dir: &Path,
        grant: &Grant,
        notices: &NoticeSink,
        work: impl FnOnce() -> T,
    ) -> Result<T, String> {
        self.load_now(dir, notices);
        let watch = CodeWatch::start_now(grant);
        let number = self.started(dir, &watch)?;
        let done = work();
        let written = watch.written_now();
        self.remove(number, |dir| written.map(|written| Finding::untold(dir, written)));
        Ok(done)
    }

    async fn watch(&self, dir: &Path, grant: &Grant) -> Result<Option<(u64, CodeWatch)>, String> {
        let watch = CodeWatch::start(grant).await;
        if watch.roots.is_empty() {
            return Ok(None);
        }
        let number = self.started(dir, &watch);
        number.map(|number| Some((number, watch))).map_err(|error| {
            format!("the files that run code later could not be listed before an agent may write: {error}")
        })
    }

    async fn end(&self, number: u64, watch: CodeWatch) {
        let written = watch.written().await;
        self.remove(number, |dir| written.map(|written| Finding::untold(dir, written)));
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

/// The written files that still exist, and the deleted ones that commands name, that a program in `cwd` may run by itself. Other files that are not protected
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
            && (**row == DELETED || path.symlink_metadata().is_ok())
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
    let dir = dir.filter(|dir| dir.starts_with(root));
    dir.or_else(|| dir_of_settings(root, row)).unwrap_or(root)
}

/// For a searched file or directory that is itself settings, or directly in a directory of settings: the directory to
/// which they apply.
fn dir_of_settings<'a>(root: &'a Path, row: &RunsCode) -> Option<&'a Path> {
    let is_settings = |path: &&Path| {
        let found = path.parent().zip(path.file_name()).and_then(|(dir, name)| matching_row(dir, name));
        found.is_some_and(|found| found == row)
    };
    let settings = root.ancestors().take(2).find(is_settings)?;
    settings.ancestors().nth(row.names.len())
}
