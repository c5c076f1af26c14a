//! The one value that everything here works with: what the user asked for, what is around the process, and how the
//! user is told something.

use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::Settings;
use althing_protocol::{SessionId, SessionStore, TaskId};
use std::path::PathBuf;
use std::sync::Arc;

/// Tells the user something, as it arises.
pub type Notify = Arc<dyn Fn(&str) + Send + Sync>;

/// What the user asked for, what is around the process, and how the user is told something.
#[derive(Clone)]
pub struct AppContext {
    /// What the user asked for.
    pub settings: Settings,
    /// Environment variables, directories, terminals.
    pub environment: Environment,
    notify: Notify,
}

impl AppContext {
    /// A context. `notify` is called from any thread.
    pub fn new(settings: Settings, environment: Environment, notify: Notify) -> Self {
        Self { settings, environment, notify }
    }

    /// Where sessions, plans and other state are kept.
    pub fn state_dir(&self) -> PathBuf {
        self.environment.state_dir(self.settings.state_dir.as_deref())
    }

    /// The store of this user's sessions; made if there is none yet.
    pub fn store(&self) -> Result<Arc<dyn SessionStore>, Failure> {
        let store = althing_journal::open_state(&self.state_dir()).map_err(|error| {
            Failure::from(error).hint("--state-dir or ALTHING_STATE_DIR names another place for sessions")
        })?;
        Ok(Arc::new(store))
    }

    /// The store of this user's sessions, if there is one: looking makes nothing.
    pub fn existing_store(&self) -> Result<Option<Arc<dyn SessionStore>>, Failure> {
        let store = althing_journal::open_existing_state(&self.state_dir())?;
        Ok(store.map(|store| Arc::new(store) as Arc<dyn SessionStore>))
    }

    /// Where the files of a session are.
    pub fn session_dir(&self, id: &SessionId) -> PathBuf {
        althing_journal::session_dir(&self.state_dir(), id)
    }

    /// Where the files of a session's task are.
    pub fn task_dir(&self, id: &SessionId, task: &TaskId) -> PathBuf {
        althing_journal::task_dir(&self.session_dir(id), task)
    }

    /// Tells the user something.
    pub fn notify(&self, text: &str) {
        (self.notify)(text);
    }

    /// How the user is told something, for code that outlives this call.
    pub fn notifier(&self) -> Notify {
        self.notify.clone()
    }
}
