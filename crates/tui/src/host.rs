//! The port to the host machine, and the options of the screen. The crate `cli` provides both.

use crate::theme::Theme;
use althing_protocol::{Member, ModeChoice, PathGrant, PlanRef, Seq, SessionId, TaskId, Timestamp};
use althing_view::session_list::PreviewMessage;

/// A session that can be resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEntry {
    pub id: SessionId,
    pub title: String,
    /// The directory in which the session was started; empty if that is not known.
    pub directory: String,
    /// The session's state as a label.
    pub state: String,
    /// When the session was last changed.
    pub updated: Timestamp,
    /// The first and the last messages.
    pub preview: Vec<PreviewMessage>,
}

/// A project workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectEntry {
    pub name: String,
    pub path: String,
    /// A one-line description.
    pub about: String,
}

/// What the screen needs from the host: files, programs and the clock.
pub trait TuiHost: Send + Sync {
    fn now(&self) -> Timestamp;

    /// Sessions that can be resumed, newest first; or why they cannot be listed.
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

    /// Paths that start with a prefix, and then paths that contain its letters in this order, to complete `@path`.
    /// Directories end with a slash.
    fn paths(&self, _prefix: &str) -> Vec<String> {
        Vec::new()
    }

    /// Whether a mention (the word after `@`, possibly with `:w` and punctuation at its end) names an existing path;
    /// None if that is not known.
    fn path_exists(&self, _mention: &str) -> Option<bool> {
        None
    }

    /// A message with its `@path` and `@path:w` mentions expanded, and the access to these paths that the user grants
    /// with them.
    fn mentions(&self, text: &str) -> (String, Vec<PathGrant>) {
        (text.to_owned(), Vec::new())
    }

    /// Edits a text in the user's editor, which owns the terminal meanwhile.
    fn edit(&self, _text: &str) -> Result<String, String> {
        Err("no editor: set EDITOR".into())
    }

    /// Edits a plan in the user's editor, which owns the terminal meanwhile.
    fn edit_plan(&self, _plan: &PlanRef) -> Result<(), String> {
        Err("no editor: set EDITOR".into())
    }

    /// Shows a text in the user's pager, which owns the terminal meanwhile.
    fn page(&self, _text: &str) -> Result<(), String> {
        Err("no pager: set PAGER".into())
    }

    /// Writes a starter config and returns its path.
    fn write_config(&self) -> Result<String, String> {
        Err("writing a config is not available here: use `althing config init`".into())
    }

    /// Restores the files that a task changed; None means the last task of this session that changed files. Returns a
    /// summary for the user.
    fn undo(&self, _run: Option<&TaskId>) -> Result<String, String> {
        Err("undo is not available here: use `althing undo`".into())
    }

    /// Whether the changes of a run were undone.
    fn is_undone(&self, _run: &TaskId) -> bool {
        false
    }

    /// A unified diff of the files that a run changed.
    fn diff(&self, _run: &TaskId) -> Result<String, String> {
        Err("the earlier versions of the files are not available here".into())
    }

    /// Messages and commands of earlier sessions, oldest first.
    fn history(&self) -> Vec<String> {
        Vec::new()
    }

    /// Stores a message or a command for `history` in later sessions.
    fn remember(&self, _message: &str) {}

    /// A failpoint: called at named points of the screen, so that tests can inject a panic there.
    fn failpoint(&self, _place: &str) {}
}

/// What was found on this machine, for the welcome screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// API keys, CLI agents and models that are available.
    pub found: Vec<String>,
    /// API keys, CLI agents and models that are not available.
    pub missing: Vec<String>,
}

/// The escape sequence of a terminal's notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notifications {
    pub form: NotificationForm,
    /// Whether tmux passes the sequence on to the terminal.
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

/// Options of the screen.
#[derive(Clone, Debug, Default)]
pub struct TuiOptions {
    pub theme: Theme,
    /// Restrict the screen to ASCII.
    pub ascii: bool,
    /// Simplify flags and other clusters that terminal multiplexers measure differently.
    pub simple_clusters: bool,
    /// Show lines of text instead of a screen, for screen readers.
    pub plain: bool,
    /// Ring the bell when a task waits for the user.
    pub bell: bool,
    /// Take clicks and the wheel of the mouse.
    pub mouse: bool,
    /// How the terminal shows notifications while it has not the focus; None for none.
    pub notifications: Option<Notifications>,
    /// The name of the project workspace.
    pub project: Option<String>,
    /// The working directory, for the greeting.
    pub directory: Option<String>,
    /// Whether to show a workflow: the tasks panel is the lowest screen, and there is no chat agent.
    pub workflow: bool,
    /// Whether there is a chat agent that launches runs.
    pub interactive: bool,
    /// The members that may take part in runs.
    pub team: Vec<Member>,
    /// Modes set on the command line.
    pub modes: ModeChoice,
    /// The message that is sent as soon as the screen is shown.
    pub first_message: Option<String>,
    /// What was found on this machine; None if a config or an option chooses the agents, or for a resumed session.
    pub welcome: Option<Welcome>,
    /// The warnings about the config. (With an error in the config, no session starts.)
    pub problems: Vec<String>,
    /// Notes about how the session was started.
    pub notes: Vec<String>,
    /// The plan that the first run executes, not counting planning runs and subagent runs.
    pub plan: Option<PlanRef>,
    /// Whether to show a recording, which accepts no ops.
    pub replay: bool,
}

/// Why the screen was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TuiExit {
    /// The user quit, or without a screen (`plain`) the input ended.
    Quit,
    /// A signal ended the screen, or the terminal's input ended.
    Stopped,
    /// The workflow ended by itself; only without a screen (`plain`).
    Ended,
    /// Open this session.
    OpenSession(SessionId),
    /// Open this project workspace.
    OpenProject(String),
    /// Start a branch of this session before this message, with another message in its place.
    Branch { before: Seq, text: String },
    /// Start another session.
    NewSession,
    /// Retry this task of the workflow, which has ended.
    Retry(TaskId),
    /// Start over with the offline model.
    UseOffline,
    /// Start over with the config that was just written.
    Reload,
}
