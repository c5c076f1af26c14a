//! What the screen needs of the machine, and what it is told when it starts. The composition root fills both in.

use crate::theme::Theme;
use althing_protocol::{Member, ModeChoice, PathGrant, PlanRef, SessionId, TaskId, Timestamp};

/// A session that can be gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEntry {
    /// Which.
    pub id: SessionId,
    /// What it is for.
    pub goal: String,
    /// Where it stands, in a word.
    pub state: String,
    /// When it was last worked on.
    pub updated: Timestamp,
}

/// A project workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectEntry {
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub path: String,
    /// What it is about, in a line.
    pub about: String,
}

/// What the screen needs of the machine: files, programs and the clock are not its business.
pub trait TuiHost: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Sessions that can be gone on with, newest first; or why they are not known.
    fn sessions(&self) -> Result<Vec<SessionEntry>, String> {
        Ok(Vec::new())
    }

    /// The project workspaces; or why they are not known.
    fn projects(&self) -> Result<Vec<ProjectEntry>, String> {
        Ok(Vec::new())
    }

    /// Paths that begin like this, to complete `@path`. Directories end in a slash.
    fn paths(&self, _prefix: &str) -> Vec<String> {
        Vec::new()
    }

    /// The paths that a person grants by `@path` and `@path:w` in a message, and the message with these paths written out.
    fn mentions(&self, text: &str) -> (String, Vec<PathGrant>) {
        (text.to_owned(), Vec::new())
    }

    /// Lets the user edit a text in their own editor; the terminal is theirs meanwhile.
    fn edit(&self, _text: &str) -> Result<String, String> {
        Err("no editor: set EDITOR".into())
    }

    /// Lets the user edit a plan in their own editor; the terminal is theirs meanwhile.
    fn edit_plan(&self, _plan: &PlanRef) -> Result<(), String> {
        Err("no editor: set EDITOR".into())
    }

    /// Shows a text in the user's pager; the terminal is its own meanwhile.
    fn page(&self, _text: &str) -> Result<(), String> {
        Err("no pager: set PAGER".into())
    }

    /// Writes a starter config here. Gives where it is.
    fn write_config(&self) -> Result<String, String> {
        Err("a config cannot be written here".into())
    }

    /// Puts back the files that a run changed; without one, those that were changed last in this session. Gives what was done, for people.
    fn undo(&self, _run: Option<&TaskId>) -> Result<String, String> {
        Err("undo is not available here: use `althing undo`".into())
    }

    /// What the files that a run changed look like now and looked like before, as a unified diff.
    fn diff(&self, _run: &TaskId) -> Result<String, String> {
        Err("what the files were before is not known here".into())
    }

    /// Messages sent in earlier sessions, oldest first.
    fn history(&self) -> Vec<String> {
        Vec::new()
    }

    /// Remembers a message for later sessions.
    fn remember(&self, _message: &str) {}

    /// A place of the screen is reached. Tests of what a panic leaves behind have one happen there.
    fn failpoint(&self, _place: &str) {}
}

/// What was found on this machine, for the first start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// Keys, programs and models that are here.
    pub found: Vec<String>,
    /// Those that are not.
    pub missing: Vec<String>,
}

/// How the screen starts.
#[derive(Clone, Debug, Default)]
pub struct TuiOptions {
    /// The colours.
    pub theme: Theme,
    /// Only ASCII.
    pub ascii: bool,
    /// Lines of text instead of a screen, for screen readers.
    pub plain: bool,
    /// Ring when a task waits for the user.
    pub bell: bool,
    /// The project workspace's name.
    pub project: Option<String>,
    /// Whether a workflow is shown: its tasks are what one sees first, and there is nobody to talk to.
    pub workflow: bool,
    /// Whether the user talks to an agent that launches runs.
    pub interactive: bool,
    /// Who takes part in runs.
    pub team: Vec<Member>,
    /// Modes that the command line set.
    pub modes: ModeChoice,
    /// Said as soon as the screen is there.
    pub first_message: Option<String>,
    /// What was found, where there is no config.
    pub welcome: Option<Welcome>,
    /// Problems of the config, as the config's own report says them.
    pub problems: Vec<String>,
    /// What the user should know of how it was started, in plain words.
    pub notes: Vec<String>,
    /// A plan that the first run carries out.
    pub plan: Option<PlanRef>,
    /// Whether a recording is shown: nothing can be asked of it.
    pub replay: bool,
}

/// Why the screen was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TuiExit {
    /// The user is done.
    Quit,
    /// A signal asked us to stop.
    Stopped,
    /// The session ended by itself.
    Ended,
    /// Go on with this session instead.
    OpenSession(SessionId),
    /// Go on in this project workspace.
    OpenProject(String),
    /// Begin another session.
    NewSession,
    /// Start over with the offline model.
    UseOffline,
    /// Start over with the config that was just written.
    Reload,
}
