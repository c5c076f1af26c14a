//! Keeps CLI agents from using what somebody else may have written to the directories in which they work: settings, and
//! code that git runs.

use super::prepare::{PrepareError, ProgramStarter, StartRequest};
use crate::adapter::{
    AgentAdapter, LaunchConfig, find_project_settings, ignore_project_settings, start_nothing_of_the_project,
};
use crate::git_code::{GitOverrides, UnknownCode};
use crate::listing::MAX_ENTRIES;
use crate::repositories::is_in_linked_worktree;
use althing_protocol::{ExecutionMode, Notice, NoticeLevel, ProgramSpec};
use std::path::{Path, PathBuf};

impl ProgramStarter {
    /// Whether a CLI agent may read settings of its project: the user trusts them, or the program asks a person.
    fn uses_project_settings(&self, spec: &ProgramSpec) -> bool {
        self.trusts_project_settings || spec.approvals || spec.mode == ExecutionMode::Interactive
    }

    /// The settings that a CLI agent would read from its working directory and the directories above it, although the
    /// user has not said that they can be trusted. Empty if the program asks a person.
    fn untrusted_settings(&self, request: &StartRequest<'_>, is_sandboxed: bool) -> Vec<PathBuf> {
        if self.uses_project_settings(request.spec) {
            return Vec::new();
        }
        find_project_settings(&request.spec.adapter, self.foreign_dirs(request, is_sandboxed).into_iter())
    }

    /// The working directory of a program and those above it that somebody else may have written. Althing's state
    /// directory and the home directory do not count.
    fn foreign_dirs<'a>(&self, request: &StartRequest<'a>, is_sandboxed: bool) -> Vec<&'a Path> {
        let spec = request.spec;
        let (cwd, home) = (Path::new(&spec.cwd), std::env::var_os("HOME").map(PathBuf::from));
        let is_own = |dir: &Path| {
            self.state_dir.as_ref().is_some_and(|state| dir.starts_with(state))
                || Some(dir) == home.as_deref()
        };
        // A sandbox hides directories other than these.
        let is_visible = |dir: &Path| {
            !is_sandboxed || dir == cwd || request.grant.roots.iter().any(|root| dir.starts_with(&root.path))
        };
        cwd.ancestors().filter(|dir| is_visible(dir) && !is_own(dir)).collect()
    }

    /// What git must not run when a CLI agent uses it. Empty if the user trusts the directory, or works with the agent
    /// in its terminal. The search may take long, so the runtime's thread does not wait for it.
    pub(super) async fn git_overrides(
        &self,
        request: &StartRequest<'_>,
    ) -> Result<GitOverrides, PrepareError> {
        let spec = request.spec;
        let none = Ok(GitOverrides::default());
        let Some(adapter) = self.adapters.get(&spec.adapter).filter(|adapter| adapter.is_agent()) else {
            return none;
        };
        if self.trusts_project_settings || spec.mode == ExecutionMode::Interactive {
            return none;
        }
        let Ok(is_sandboxed) = self.choose_sandbox(&**adapter, spec).map(|chosen| chosen.sandbox.is_some())
        else {
            // The program is not started.
            return none;
        };
        let dirs = self.foreign_dirs(request, is_sandboxed);
        let cwd = PathBuf::from(&spec.cwd);
        let Some((_, above)) = dirs.split_first().filter(|(first, _)| **first == cwd) else { return none };
        let above: Vec<PathBuf> = above.iter().map(|dir| dir.to_path_buf()).collect();
        let search = move || GitOverrides::find(&cwd, above.iter().map(PathBuf::as_path));
        let found = tokio::task::spawn_blocking(search).await.map_err(|error| {
            (format!("the search for code that git runs in {} failed: {error}", spec.cwd), None)
        })?;
        found.map_err(|unknown| unknown_code_error(spec, &unknown))
    }

    /// Makes a CLI agent ignore the settings, and git the code, of the directory in which the agent works, unless the
    /// user trusts them. Returns the ignored files. Fails if the agent cannot ignore them.
    pub(super) fn ignore_foreign_settings(
        &self,
        request: &StartRequest<'_>,
        (adapter, is_sandboxed): (&dyn AgentAdapter, bool),
        git: GitOverrides,
        config: &mut LaunchConfig,
    ) -> Result<Vec<PathBuf>, PrepareError> {
        let spec = request.spec;
        let mut found = self.untrusted_settings(request, is_sandboxed);
        if !self.uses_project_settings(spec) {
            start_nothing_of_the_project(adapter.name(), config);
        }
        let may_be_elsewhere = || is_in_linked_worktree(Path::new(&spec.cwd));
        if !found.is_empty() {
            if !ignore_project_settings(adapter.name(), config) {
                return Err(untrusted_error(adapter.name(), &found));
            }
        } else if !self.uses_project_settings(spec) && may_be_elsewhere() {
            // Claude Code reads settings of the main repository. The other CLI agents do not.
            ignore_project_settings(adapter.name(), config);
        }
        // CLI agents do not inherit such variables from us.
        config.env.extend(git.variables(|name| spec.env.get(name).cloned()));
        found.extend(git.found);
        Ok(found)
    }
}

pub(super) fn notice_of_ignored(name: &str, paths: &[PathBuf]) -> Option<Notice> {
    let text = format!(
        "{name} does not use {}: these settings could start programs and choose the server that gets your key",
        name_paths(paths)
    );
    let hint = "look at them; if you trust them, pass `--trust`".to_owned();
    (!paths.is_empty()).then_some(Notice { level: NoticeLevel::Warning, text, hint: Some(hint) })
}

fn untrusted_error(name: &str, paths: &[PathBuf]) -> PrepareError {
    let error = format!(
        "{name} would use {}, which can start programs and choose the server that gets your key; pass `--trust` if you \
         trust it",
        name_paths(paths)
    );
    let hint = "look at it first, or start the program in another directory";
    (error, Some(hint.to_owned()))
}

fn unknown_code_error(spec: &ProgramSpec, unknown: &UnknownCode) -> PrepareError {
    let (name, cwd) = (&spec.adapter, &spec.cwd);
    let (why, hint) = match unknown {
        UnknownCode::Config(path) => return untrusted_error(name, std::slice::from_ref(path)),
        UnknownCode::Unlisted(dir) => (
            format!("Althing cannot list {}", dir.display()),
            "make that directory readable, or start the program in another directory",
        ),
        UnknownCode::TooLarge => (
            format!("it contains more than {MAX_ENTRIES} files and directories"),
            "start the program in a smaller directory",
        ),
    };
    let error = format!(
        "{name} was not started: Althing could not check whether {cwd} contains code that git runs, because {why}; \
         pass `--trust` if you trust the directory"
    );
    (error, Some(hint.to_owned()))
}

fn name_paths(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::Adapters;
    use crate::guarded::GuardLauncher;
    use crate::program::ProgramLimits;
    use crate::sandbox::{AcceptedByUser, Sandbox};
    use althing_protocol::{Grant, ProgramJob, TaskId};

    fn spec(cwd: &Path) -> ProgramSpec {
        let spec = serde_json::json!({"adapter": "codex", "mode": "headless", "prompt": "", "cwd": cwd});
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn a_directory_that_is_too_large_to_be_searched_is_not_called_untrusted() {
        let spec = spec(Path::new("/big"));
        let (error, hint) = unknown_code_error(&spec, &UnknownCode::TooLarge);
        assert!(
            error.contains("/big") && error.contains("more than 2000000 files and directories"),
            "{error}"
        );
        assert!(!error.contains("would use") && hint.unwrap().contains("smaller directory"), "{error}");
        let (error, _) = unknown_code_error(&spec, &UnknownCode::Unlisted("/big/closed".into()));
        assert!(error.contains("cannot list /big/closed"), "{error}");
        let (error, _) = unknown_code_error(&spec, &UnknownCode::Config("/big/.git/config".into()));
        assert!(error.contains("would use /big/.git/config"), "{error}");
    }

    #[test]
    fn the_search_of_a_working_directory_leaves_the_runtimes_thread_free() {
        let dir = tempfile::tempdir().unwrap();
        let starter = ProgramStarter {
            adapters: Adapters::with(Vec::new()),
            launcher: GuardLauncher::of(PathBuf::new()),
            sandbox: Sandbox::Unconfined(AcceptedByUser::explicitly()),
            state_dir: None,
            settings_dir: None,
            trusts_project_settings: false,
            limits: ProgramLimits::default(),
            output_masking: None,
        };
        let task = TaskId::from("t");
        let job =
            ProgramJob { task, attempt: 1, spec: spec(dir.path()), resume: None, dir: "unused".to_owned() };
        let grant = Grant::default();
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            // The only thread that may block is busy, so the search has to wait, and the runtime goes on.
            let (release, busy) = std::sync::mpsc::channel::<()>();
            tokio::task::spawn_blocking(move || busy.recv());
            let request = StartRequest::of(&job, &grant, None);
            let mut search = std::pin::pin!(starter.git_overrides(&request));
            tokio::select! {
                biased;
                found = &mut search => panic!("the runtime's thread searched: {found:?}"),
                () = std::future::ready(()) => {}
            }
            release.send(()).unwrap();
            assert!(search.await.is_ok());
        });
    }
}
