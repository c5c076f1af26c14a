//! The port to the host machine, and the options of the screen. The crate `cli` provides both.

use crate::theme::Theme;
use althing_protocol::{Member, ModeChoice, PathGrant, PlanRef, Seq, SessionId, TaskId, Timestamp};
use althing_view::session_list::PreviewMessage;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEntry {
    pub id: SessionId,
    pub title: String,
    /// The directory in which the session was started; empty if that is not known.
    pub directory: String,
    /// The session's state as a label.
    pub state: String,
    pub updated: Timestamp,
    /// The first and the last messages.
    pub preview: Vec<PreviewMessage>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectEntry {
    pub name: String,
    pub path: String,
    pub about: String,
}

pub trait TuiHost: Send + Sync {
    fn now(&self) -> Timestamp;

    /// Sessions that can be resumed, newest first. The error says why they cannot be listed.
    fn sessions(&self) -> Result<Vec<SessionEntry>, String> {
        Ok(Vec::new())
    }

    /// Gives a session (None: the one on the screen) a title; an empty title restores the one that is made from the first
    /// messages. Returns the title that lists show from now on.
    fn rename_session(&self, _session: Option<&SessionId>, _title: &str) -> Result<String, String> {
        Err("renaming is not available here: use `althing sessions rename`".into())
    }

    /// Deletes a session. The one on the screen and one that a process uses are not deleted.
    fn remove_session(&self, _session: &SessionId) -> Result<(), String> {
        Err("deleting is not available here: use `althing sessions remove`".into())
    }

    /// The project workspaces; or why they cannot be listed.
    fn projects(&self) -> Result<Vec<ProjectEntry>, String> {
        Ok(Vec::new())
    }

    /// Completions of `@path`: paths that start with the prefix, then paths that contain its letters in this order.
    /// Directories end with a slash.
    fn paths(&self, _prefix: &str) -> Vec<String> {
        Vec::new()
    }

    /// Whether a mention (the word after `@`, possibly with `:w` or punctuation at its end) names an existing path.
    /// `None` if that is not known.
    fn path_exists(&self, _mention: &str) -> Option<bool> {
        None
    }

    /// The message with its `@path` and `@path:w` mentions expanded, and the access that these mentions grant.
    fn mentions(&self, text: &str) -> (String, Vec<PathGrant>) {
        (text.to_owned(), Vec::new())
    }

    /// Edits a text in the user's editor, which owns the terminal until it exits. If the user suspends the editor, the
    /// host calls `suspend`, which returns when Althing continues; then the host continues the editor.
    fn edit(&self, _text: &str, _suspend: &dyn Fn()) -> Result<String, String> {
        Err("no editor: set EDITOR".into())
    }

    /// Edits the file of a plan as `edit` does.
    fn edit_plan(&self, _plan: &PlanRef, _suspend: &dyn Fn()) -> Result<(), String> {
        Err("no editor: set EDITOR".into())
    }

    /// Shows a text in the user's pager, which owns the terminal until it exits and is suspended like the editor.
    fn page(&self, _text: &str, _suspend: &dyn Fn()) -> Result<(), String> {
        Err("no pager: set PAGER".into())
    }

    fn write_config(&self) -> Result<String, String> {
        Err("writing a config is not available here: use `althing config init`".into())
    }

    /// The last task of this session that changed files. The error says why there is none.
    fn last_changed(&self) -> Result<TaskId, String> {
        Err("nothing in this session changed a file".into())
    }

    /// Restores the files that a task changed. Returns a summary for the user.
    fn undo(&self, _run: &TaskId) -> Result<String, String> {
        Err("undo is not available here: use `althing undo`".into())
    }

    fn is_undone(&self, _run: &TaskId) -> bool {
        false
    }

    fn diff(&self, _run: &TaskId) -> Result<String, String> {
        Err("the earlier versions of the files are not available here".into())
    }

    /// Notifies the user outside of the terminal, as the user's config says, without waiting for the result. The text
    /// may contain anything that an agent wrote.
    fn notify_user(&self, _text: &str) -> Result<(), String> {
        Ok(())
    }

    /// Copies a text through the terminal multiplexer around the screen. `None` if there is none that must be asked;
    /// then the terminal itself is asked.
    fn copy(&self, _text: &str) -> Option<Result<(), String>> {
        None
    }

    /// Messages and commands of earlier sessions, oldest first.
    fn history(&self) -> Vec<String> {
        Vec::new()
    }

    fn remember(&self, _message: &str) {}

    /// Called at named points of the screen, so that tests can inject a panic there.
    fn failpoint(&self, _place: &str) {}
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    pub found: Vec<String>,
    pub missing: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notifications {
    pub form: NotificationForm,
    /// Whether the sequence must be wrapped, so that tmux passes it on to the terminal.
    pub in_tmux: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotificationForm {
    /// `OSC 9`, which most terminals understand or ignore.
    Osc9,
    /// `OSC 777`, of rxvt and of terminals with VTE.
    Osc777,
    /// `OSC 99`, of kitty.
    Osc99,
}

#[derive(Clone, Debug, Default)]
pub struct TuiOptions {
    pub theme: Theme,
    /// Asks the terminal for its background color and replaces the theme if the terminal replies.
    pub ask_background: bool,
    pub ascii: bool,
    /// Simplifies flags and other grapheme clusters whose width terminal multiplexers measure differently.
    pub simple_clusters: bool,
    /// Shows lines of text instead of a screen, for screen readers.
    pub plain: bool,
    pub bell: bool,
    pub mouse: bool,
    /// How to notify the user while the terminal does not have the focus. `None` disables notifications.
    pub notifications: Option<Notifications>,
    pub project: Option<String>,
    pub directory: Option<String>,
    /// Shows a workflow: the tasks panel is the lowest screen, and there is no chat agent.
    pub workflow: bool,
    /// Whether a chat agent replies to messages and launches runs. Otherwise each message starts a run.
    pub interactive: bool,
    pub team: Vec<Member>,
    pub modes: ModeChoice,
    pub first_message: Option<String>,
    /// What was found on this machine. `None` for a resumed session, or if a config or an option chooses the agents.
    pub welcome: Option<Welcome>,
    /// Warnings about the config. With errors in the config, no session starts.
    pub problems: Vec<String>,
    pub notes: Vec<String>,
    /// The plan that the first run executes; planning runs and subagent runs do not count as the first run.
    pub plan: Option<PlanRef>,
    /// Shows a recording, which accepts no ops.
    pub replay: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TuiExit {
    /// The user quit; with `plain`, also the end of the input.
    Quit,
    /// A signal arrived, or the terminal's input ended.
    Stopped,
    /// The workflow ended; only with `plain`.
    Ended,
    OpenSession(SessionId),
    OpenProject(String),
    /// Start a branch of this session before this message, with another message in its place.
    Branch {
        before: Seq,
        text: String,
    },
    /// Start another session.
    NewSession,
    /// Retry this task of a workflow that has ended.
    Retry(TaskId),
    UseOffline,
    Reload,
}
