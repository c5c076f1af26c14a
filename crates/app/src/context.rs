//! The context that most functions of this crate take: the settings, the process's environment, and how to notify the
//! user.

use crate::base_dirs::BaseDirs;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::team;
use crate::trust::{self, Acceptance};
use crate::trust_question::AskTrust;
use althing_disk::{DirDisk, DiskError, Owners, real_path};
use althing_engine::CostAccount;
use althing_journal::SessionManager;
use althing_protocol::{SessionId, SessionStore, TaskId};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Shows the user a notice. May be called from any thread.
pub type Notify = Arc<dyn Fn(&str) + Send + Sync>;

/// The settings, the process's environment, and how to notify the user.
#[derive(Clone)]
pub struct AppContext {
    /// What the user asked for.
    pub settings: Settings,
    /// The environment of the process.
    pub environment: Environment,
    notify: Notify,
    /// What this process has checked, and what the user has accepted with `--trust`.
    pub(crate) acceptance: Arc<Acceptance>,
    /// `None` if there is no person to ask.
    pub(crate) ask_trust: Option<AskTrust>,
    /// The cost limit of all sessions together that are started with this context; `None` if they share none.
    pub(crate) account: Option<Arc<CostAccount>>,
}

impl AppContext {
    /// Creates a context that asks no person for trust.
    pub fn new(settings: Settings, environment: Environment, notify: Notify) -> Self {
        Self { settings, environment, notify, acceptance: Arc::default(), ask_trust: None, account: None }
    }

    /// Adds a callback that asks a person before something that was found is used.
    pub fn asking(self, ask_trust: AskTrust) -> Self {
        Self { ask_trust: Some(ask_trust), ..self }
    }

    /// The directory of sessions and other state.
    pub fn state_dir(&self) -> PathBuf {
        self.environment.state_dir(self.settings.state_dir.as_deref())
    }

    /// The store of sessions; created if it does not exist.
    pub fn store(&self) -> Result<Arc<dyn SessionStore>, Failure> {
        let owners = self.check_state()?;
        let store = althing_journal::open_state(&self.state_dir(), owners).map_err(|error| {
            Failure::from(error).hint("--state-dir or ALTHING_STATE_DIR chooses another state directory")
        })?;
        Ok(Arc::new(store))
    }

    /// The store of sessions, if it exists; nothing is created.
    pub fn existing_store(&self) -> Result<Option<Arc<dyn SessionStore>>, Failure> {
        Ok(self.existing_sessions()?.map(|store| Arc::new(store) as Arc<dyn SessionStore>))
    }

    /// The stored sessions with all that can be done with them, if there are any; nothing is created.
    pub fn existing_sessions(&self) -> Result<Option<SessionManager>, Failure> {
        let owners = self.check_state()?;
        Ok(althing_journal::open_existing_state(&self.state_dir(), owners)?)
    }

    /// Checks a state directory that the user did not name, because the author of a foreign project or another user of
    /// the machine could have made it. Makes it private if other users may write to it. Returns whose files in it may be
    /// used. Fails if
    /// - the state directory itself is a link, unless the link leads into the user's own state directory;
    /// - a directory above the state directory is a link that leads out of the working directory;
    /// - an entry of the state directory is a link;
    /// - the state directory, or an entry of it, belongs to another user.
    pub fn check_state(&self) -> Result<Owners, Failure> {
        let dir = self.state_dir();
        if self.environment.state_dir_is_named(self.settings.state_dir.as_deref()) {
            return Ok(Owners::Anybody);
        }
        if let Ok(target) = std::fs::read_link(&dir) {
            let own = self.environment.user_state_dir().and_then(|own| own.canonicalize().ok());
            let is_own = own.is_some_and(|own| dir.canonicalize().is_ok_and(|real| real.starts_with(own)));
            if is_own {
                return Ok(Owners::Anybody);
            }
            let hint = format!("name the state directory: --state-dir {}", target.display());
            return Err(found_link(&dir, &target).hint(hint));
        }
        let named = dir.strip_prefix(&self.environment.cwd).unwrap_or(&dir);
        if let Some(target) = BaseDirs::of(&self.environment).leaves_by_link(named) {
            let hint = format!("name the state directory: --state-dir {}", target.display());
            return Err(found_link(&dir, &target).hint(hint));
        }
        for entry in std::fs::read_dir(&dir).into_iter().flatten().filter_map(Result::ok) {
            if let Ok(target) = std::fs::read_link(entry.path()) {
                let hint = "remove the link, or name another state directory with --state-dir";
                return Err(found_link(&entry.path(), &target).hint(hint));
            }
        }
        let open = match DirDisk::open(&dir, Owners::Me).and_then(|disk| disk.close_to_others()) {
            Err(DiskError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Vec::new(),
            open => open?,
        };
        for dir in open {
            let path = dir.path.display();
            self.notify(&if dir.still {
                format!(
                    "other users can write to {path}, and its permissions cannot be changed; --state-dir chooses another state directory"
                )
            } else {
                format!("other users could write to {path}: now only you can access it")
            });
        }
        Ok(Owners::Me)
    }

    /// The directory for the files of CLI agents, without symbolic links in its path. It is not in a state directory
    /// that was found in the working directory (unless the user has no state directory of their own): the author of a
    /// foreign project could have put links or settings there.
    pub fn cli_agents_dir(&self) -> PathBuf {
        self.guessable_dir("agents")
    }

    /// The directories for the files of CLI agents of every state directory that has one beside this one's.
    pub(crate) fn all_cli_agents_dirs(&self) -> Vec<PathBuf> {
        let own = self.cli_agents_dir();
        let beside = self.environment.user_state_dir().map(|dir| real_path(&dir).join("agents"));
        let beside = beside.filter(|beside| own.parent() == Some(beside));
        let found = beside.iter().flat_map(std::fs::read_dir).flatten().flatten().map(|entry| entry.path());
        let found: Vec<PathBuf> = found.collect();
        if beside.is_some() { found } else { vec![own] }
    }

    /// The directory for the records of evaluations, chosen like [`Self::cli_agents_dir`] for the same reason.
    pub(crate) fn evals_dir(&self) -> PathBuf {
        self.guessable_dir("evals")
    }

    fn guessable_dir(&self, name: &str) -> PathBuf {
        let state_dir = real_path(&self.state_dir());
        let is_named = self.environment.state_dir_is_named(self.settings.state_dir.as_deref());
        let Some(own) = self.environment.user_state_dir().filter(|_| !is_named) else {
            return state_dir.join(name);
        };
        // Files of different state directories have the same names, so each state directory gets a directory of its
        // own.
        real_path(&own).join(name).join(team::digest(&trust::one_line(&state_dir)))
    }

    /// The directory of a session.
    pub fn session_dir(&self, id: &SessionId) -> PathBuf {
        althing_journal::session_dir(&self.state_dir(), id)
    }

    /// The directory of a session's task.
    pub fn task_dir(&self, id: &SessionId, task: &TaskId) -> PathBuf {
        althing_journal::task_dir(&self.session_dir(id), task)
    }

    /// Shows the user a notice.
    pub fn notify(&self, text: &str) {
        (self.notify)(text);
    }

    /// The notice callback, for code that outlives this call.
    pub fn notifier(&self) -> Notify {
        self.notify.clone()
    }
}

fn found_link(link: &Path, target: &Path) -> Failure {
    let (link, target) = (link.display(), target.display());
    Failure::usage(format!(
        "{link} is a symbolic link to {target}; Althing does not follow links that it finds in the working directory"
    ))
}
