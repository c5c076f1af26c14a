//! What the screen needs from the host: sessions, paths, the user's editor and pager, undo, message history.

use crate::path_search::PathSearch;
use althing_app::undo::{SessionUser, undo_changes};
use althing_app::{AppContext, SystemClock, stored_sessions, trust, user_notify};
use althing_protocol::{
    Clock, NotifyConfig, PathGrant, PlanRef, SessionId, SessionKind, SessionSummary, TaskId, Timestamp,
};
use althing_text::{count, sanitize};
use althing_tui::{ProjectEntry, SessionEntry, TuiHost};
use althing_view::{labels, session_list};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;

/// The longest text that is read back from the editor or the history of messages.
const MAX_TEXT: u64 = 256 << 20;
const MAX_HISTORY: usize = 1000;
const MAX_SESSIONS: usize = 500;
const MAX_PATHS: usize = 50;
/// A larger `CONTEXT.md` is not read, and its project is listed without a description.
const MAX_ABOUT_BYTES: u64 = 1 << 20;

pub struct LocalHost {
    /// The session on the screen. `None` for a recording, of which nothing can be undone, compared or edited.
    session: Option<SessionId>,
    app: AppContext,
    tree: PathSearch,
    /// How the user wants to be notified; read when it is first needed.
    notify: OnceLock<Option<NotifyConfig>>,
}

impl LocalHost {
    pub fn new(session: SessionId, app: AppContext) -> Self {
        let tree = PathSearch::new(app.environment.cwd.clone());
        Self { tree, session: Some(session), app, notify: OnceLock::new() }
    }

    pub fn of_recording(app: AppContext) -> Self {
        let tree = PathSearch::new(app.environment.cwd.clone());
        Self { tree, session: None, app, notify: OnceLock::new() }
    }

    /// The session on the screen, if this user started or trusts it: the session's directory decides which files an
    /// undo writes.
    fn own_session(&self) -> Result<&SessionId, String> {
        let session = self.session.as_ref().ok_or("this is a recording: it can only be shown")?;
        let trusted = trust::require_known_session(&self.app.session_dir(session), &self.app);
        trusted.map_err(|failure| failure.message)?;
        Ok(session)
    }

    fn history_file(&self) -> Option<PathBuf> {
        Some(self.app.environment.user_state_dir()?.join("messages.jsonl"))
    }

    /// Starts the user's own program for notifications with this text. The program does not run under the guard and is
    /// not waited for: like the user's editor, it has all rights of the user, and it may show its window for longer than
    /// Althing runs. The text begins with a fixed word, so that it is never read as an option.
    fn start_notifier(&self, command: &[String], text: &str) -> Result<(), String> {
        let Some((program, args)) = command.split_first() else { return Ok(()) };
        if program.contains('/') && !Path::new(program).is_absolute() {
            // A relative path would name a program of whatever directory Althing is started in.
            return Err(format!("`notify`: name {program} by its absolute path"));
        }
        let found = althing_app::programs::find_user_program(program, &self.app)?;
        let mut command = Command::new(found);
        command.args(args).arg(text).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child =
            command.spawn().map_err(|error| format!("`notify`: {program} cannot be started: {error}"))?;
        let json = user_notify::as_json(text);
        std::thread::spawn(move || {
            // A program that reads nothing may have ended already.
            let _ = child.stdin.take().map(|mut stdin| stdin.write_all(json.as_bytes()));
            // Removes the ended process from the process table.
            child.wait()
        });
        Ok(())
    }

    fn copy_with_tmux(&self, text: &str) -> Result<(), String> {
        let found = althing_app::programs::find_user_program("tmux", &self.app)?;
        let mut command = Command::new(found);
        command.args(["load-buffer", "-w", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        // tmux reads everything before it writes, so the pipes cannot block each other.
        let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(text.as_bytes()));
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return written.map_err(|error| error.to_string());
        }
        Err(sanitize::line(String::from_utf8_lossy(&output.stderr).trim()).into_owned())
    }

    /// Runs the user's editor or pager on a file, in the foreground.
    ///
    /// It does not run under the guard, because the guard starts programs in another process session (`setsid`) without
    /// this terminal. If Althing is killed, the editor must survive with the user's unsaved text.
    fn run_in_foreground(
        &self,
        (variables, fallback): (&[&str], &str),
        file: &Path,
        suspend: &dyn Fn(),
    ) -> Result<(), String> {
        let chosen = variables.iter().find_map(|name| self.app.environment.variable(name));
        let words = chosen.unwrap_or_else(|| fallback.to_owned());
        let mut words = words.split_whitespace();
        let program = words.next().unwrap_or(fallback);
        let found = althing_app::programs::find_user_program(program, &self.app)?;
        let started = Command::new(found).args(words).arg(file).spawn();
        match started.and_then(|child| wait_in_foreground(&child, suspend)) {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{program} ended with {status}")),
            Err(error) => Err(format!("{program} cannot be started: {error}")),
        }
    }
}

const EDITOR: (&[&str], &str) = (&["VISUAL", "EDITOR"], "vi");
const PAGER: (&[&str], &str) = (&["PAGER"], "less");

/// Waits for the end of a program that has the terminal. Each time the program is suspended, calls `suspend`, and then
/// continues the program: a shell that continues Althing may not know of the program.
fn wait_in_foreground(child: &Child, suspend: &dyn Fn()) -> io::Result<ExitStatus> {
    let id = Pid::from_child(child);
    loop {
        match waitpid(Some(id), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => {
                suspend();
                kill_process(id, Signal::CONT)?;
            }
            Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A path with `~` for the home directory.
pub fn shown_path(path: &str, app: &AppContext) -> String {
    let home = app.environment.variable("HOME").map(PathBuf::from);
    match home.as_ref().and_then(|home| Path::new(path).strip_prefix(home).ok()) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.to_owned(),
    }
}

/// The first line of a project's description; empty if there is none, or if it is not a text file.
fn about(project: &Path) -> String {
    match althing_workspace::read_confined_path(project, "CONTEXT.md", MAX_ABOUT_BYTES) {
        Ok(althing_workspace::PathContents::Text(text)) => first_line(&text),
        Ok(althing_workspace::PathContents::Names(_)) | Err(_) => String::new(),
    }
}

/// Passes a text to `then` as a temporary file that other users cannot read, and removes the file afterwards.
fn with_temp_file<T>(text: &str, then: impl FnOnce(&Path) -> Result<T, String>) -> Result<T, String> {
    let file = std::env::temp_dir().join(format!("althing-{}.md", fastrand::u64(..)));
    let written = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    let result = written.map_err(|error| error.to_string()).and_then(|()| then(&file));
    let _ = std::fs::remove_file(&file);
    result
}

fn first_line(context: &str) -> String {
    let says = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    context.lines().find(says).unwrap_or_default().trim().to_owned()
}

impl TuiHost for LocalHost {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn notify_user(&self, text: &str) -> Result<(), String> {
        let Some(notify) = self.notify.get_or_init(|| user_notify::configured(&self.app)) else {
            return Ok(());
        };
        let text = format!("Althing: {}", sanitize::line(text));
        if let Some(url) = notify.webhook.clone() {
            let (app, text) = (self.app.clone(), text.clone());
            std::thread::spawn(move || {
                if let Err(why) = user_notify::post(&url, &text, &app) {
                    app.notify(&format!("`notify`: the address cannot be reached: {why}"));
                }
            });
        }
        self.start_notifier(&notify.command, &text)
    }

    /// By default (`set-clipboard external`), tmux ignores a program's request to copy, but its own command
    /// `load-buffer -w` copies to the terminal's clipboard.
    fn copy(&self, text: &str) -> Option<Result<(), String>> {
        self.app.environment.variable("TMUX").filter(|value| !value.is_empty())?;
        Some(self.copy_with_tmux(text))
    }

    fn sessions(&self) -> Result<Vec<SessionEntry>, String> {
        let store = self.app.existing_store().map_err(|failure| failure.message)?;
        let is_wanted = |session: &SessionSummary| {
            // A conversation without a message has nothing to resume.
            let is_chat = session
                .checkpoint
                .as_ref()
                .is_some_and(|at| at.kind == SessionKind::Chat && !at.history.is_empty());
            is_chat && !session.is_owned && Some(&session.id) != self.session.as_ref()
        };
        let newest = store.map_or(Ok(Vec::new()), |store| store.newest(MAX_SESSIONS, &is_wanted));
        let entry = |session: SessionSummary| {
            let checkpoint = session.checkpoint.as_ref()?;
            Some(SessionEntry {
                id: session.id.clone(),
                title: session_list::title(&session),
                directory: shown_path(&checkpoint.cwd, &self.app),
                state: labels::session_state(checkpoint.state).to_owned(),
                updated: checkpoint.updated_at,
                preview: session_list::preview(&session),
            })
        };
        Ok(newest.map_err(|error| error.message)?.into_iter().filter_map(entry).collect())
    }

    fn rename_session(&self, session: Option<&SessionId>, title: &str) -> Result<String, String> {
        let session = session.or(self.session.as_ref()).ok_or("this is a recording: it can only be shown")?;
        stored_sessions::rename(session, title, &self.app).map_err(|failure| failure.message)
    }

    fn remove_session(&self, session: &SessionId) -> Result<(), String> {
        if Some(session) == self.session.as_ref() {
            return Err("this session is open, so it is not deleted".into());
        }
        stored_sessions::remove(session, &self.app).map_err(|failure| failure.message)
    }

    fn projects(&self) -> Result<Vec<ProjectEntry>, String> {
        let registry = althing_app::project::registry(&self.app.environment);
        let known = registry.map_or(Ok(Vec::new()), |registry| registry.list());
        let there = known
            .map_err(|error| error.to_string())?
            .into_iter()
            .filter(althing_workspace::RegisteredProject::exists);
        let entry = |entry: althing_workspace::RegisteredProject| ProjectEntry {
            name: entry.name,
            path: entry.path.display().to_string(),
            about: about(&entry.path),
        };
        Ok(there.map(entry).collect())
    }

    fn paths(&self, prefix: &str) -> Vec<String> {
        althing_app::failpoint::hit("completion");
        let (dir, start) = prefix.rsplit_once('/').map_or(("", prefix), |(dir, start)| (dir, start));
        let rooted = if prefix.starts_with('/') && dir.is_empty() { "/" } else { dir };
        // `@path` ends at a space.
        let is_word = |path: &str| !path.contains(char::is_whitespace);
        let Ok(entries) = std::fs::read_dir(self.app.environment.cwd.join(rooted)) else { return Vec::new() };
        let mut found: Vec<String> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let hidden = name.starts_with('.') && !start.starts_with('.');
                let slash = if entry.path().is_dir() { "/" } else { "" };
                let before = if prefix.contains('/') { format!("{dir}/") } else { String::new() };
                (name.starts_with(start) && !hidden && is_word(&name))
                    .then(|| format!("{before}{name}{slash}"))
            })
            .collect();
        found.sort();
        found.truncate(MAX_PATHS);
        // After the paths that start with the typed text come similar paths from the whole tree.
        if !start.is_empty() && !prefix.starts_with(['/', '.', '~']) {
            let similar = self.tree.find(prefix, MAX_PATHS);
            let is_new = |path: &String| !found.contains(path) && is_word(path);
            let similar: Vec<String> = similar.into_iter().filter(is_new).collect();
            found.extend(similar);
            found.truncate(MAX_PATHS);
        }
        found
    }

    fn path_exists(&self, mention: &str) -> Option<bool> {
        let mentioned =
            althing_app::context_paths::mentions(&format!("@{mention}"), &self.app.environment.cwd);
        Some(!mentioned.1.is_empty())
    }

    fn mentions(&self, text: &str) -> (String, Vec<PathGrant>) {
        althing_app::context_paths::mentions(text, &self.app.environment.cwd)
    }

    fn edit(&self, text: &str, suspend: &dyn Fn()) -> Result<String, String> {
        althing_app::failpoint::hit("editor");
        althing_app::failpoint::hit_on_thread("background");
        with_temp_file(text, |file| {
            self.run_in_foreground(EDITOR, file, suspend)?;
            althing_app::read_text(file, MAX_TEXT).map_err(|error| error.to_string())
        })
    }

    fn edit_plan(&self, plan: &PlanRef, suspend: &dyn Fn()) -> Result<(), String> {
        self.own_session()?;
        self.run_in_foreground(EDITOR, &Path::new(&plan.path).join("plan.json"), suspend)
    }

    fn page(&self, text: &str, suspend: &dyn Fn()) -> Result<(), String> {
        // A pager such as `less -R` passes control sequences on to the terminal.
        with_temp_file(&sanitize::output(text), |file| self.run_in_foreground(PAGER, file, suspend))
    }

    fn write_config(&self) -> Result<String, String> {
        let file = self.app.environment.cwd.join("althing.yaml");
        crate::command::config::init(&file, false, &self.app).map_err(|failure| failure.message)?;
        Ok(file.display().to_string())
    }

    fn last_changed(&self) -> Result<TaskId, String> {
        let session = self.app.session_dir(self.own_session()?);
        let last = althing_workspace::last_task_with_changes(&session);
        last.ok_or_else(|| "nothing in this session changed a file".into())
    }

    fn undo(&self, run: &TaskId) -> Result<String, String> {
        let id = self.own_session()?;
        let undone = undo_changes((id, run), SessionUser::ThisProcess, &|| false, &self.app);
        let report = undone.map_err(|failure| failure.message)?.map_err(|error| match error {
            althing_workspace::UndoError::Unfinished { report, why } => {
                let why = why.map_or_else(|| "it was stopped".to_owned(), |why| why.to_string());
                format!("the undo is not finished: {why}; not restored yet: {}", report.left.join(", "))
            }
            error => error.to_string(),
        })?;
        let files = report.restored.len() + report.removed.len() + report.earlier.len();
        let kept = if report.not_covered.is_empty() {
            String::new()
        } else {
            let kept = report.not_covered.join(", ");
            format!("; not restored, because their earlier content was not stored: {kept}")
        };
        Ok(format!("changes to {} undone{kept}", count(files as u64, "file")))
    }

    fn is_undone(&self, run: &TaskId) -> bool {
        let dir = self.session.as_ref().map(|session| self.app.task_dir(session, run));
        dir.is_some_and(|dir| althing_workspace::is_undone(&dir))
    }

    fn diff(&self, run: &TaskId) -> Result<String, String> {
        let dir = self.app.task_dir(self.own_session()?, run);
        if althing_workspace::is_unlisted(&dir) {
            return Err("what the run changed is not listed yet: let it end, or resume it".into());
        }
        let changed = althing_workspace::review(&dir).map_err(|error| error.to_string())?;
        Ok(changed.iter().map(crate::show::diff).collect())
    }

    fn history(&self) -> Vec<String> {
        let text = self
            .history_file()
            .and_then(|file| althing_app::read_text(&file, MAX_TEXT).ok())
            .unwrap_or_default();
        let all: Vec<String> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let skip = all.len().saturating_sub(MAX_HISTORY);
        all.into_iter().skip(skip).collect()
    }

    fn failpoint(&self, name: &str) {
        althing_app::failpoint::hit(name);
    }

    fn remember(&self, message: &str) {
        althing_app::failpoint::hit("screen");
        althing_app::failpoint::hit_on_thread("thread");
        let Some(file) = self.history_file() else { return };
        if let Some(dir) = file.parent() {
            let _ = althing_app::create_private_dir(dir);
        }
        let opened = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file);
        // Failing to store the history must not stop the session.
        if let Ok(mut file) = opened {
            let line = serde_json::Value::from(althing_app::secrets::mask(message).into_owned());
            let _ = writeln!(file, "{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::with_temp_file;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_temporary_file_for_editor_and_pager_is_private_and_removed() {
        let (mode, path) = with_temp_file("a transcript", |file| {
            let mode = file.metadata().map_err(|error| error.to_string())?.permissions().mode();
            Ok((mode & 0o777, file.to_owned()))
        })
        .unwrap();
        assert_eq!(mode, 0o600);
        assert!(!path.exists());
    }
}
