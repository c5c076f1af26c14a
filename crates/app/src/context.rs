//! The context that most functions of this crate take: what the user asked for, the process's environment, and how to
//! notify the user.

use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::Settings;
use althing_protocol::{SessionId, SessionStore, TaskId};
use std::path::PathBuf;
use std::sync::Arc;

/// A callback that shows the user a notice. It is called from any thread, as notices arise.
pub type Notify = Arc<dyn Fn(&str) + Send + Sync>;

/// What the user asked for, the process's environment, and how to notify the user.
#[derive(Clone)]
pub struct AppContext {
    /// What the user asked for.
    pub settings: Settings,
    /// Environment variables, directories, terminals.
    pub environment: Environment,
    notify: Notify,
}

impl AppContext {
    /// Creates a context. `notify` is called from any thread.
    pub fn new(settings: Settings, environment: Environment, notify: Notify) -> Self {
        Self { settings, environment, notify }
    }

    /// The directory of sessions, plans and other state.
    pub fn state_dir(&self) -> PathBuf {
        self.environment.state_dir(self.settings.state_dir.as_deref())
    }

    /// The store of this user's sessions; created if it does not exist.
    pub fn store(&self) -> Result<Arc<dyn SessionStore>, Failure> {
        let store = althing_journal::open_state(&self.state_dir()).map_err(|error| {
            Failure::from(error).hint("--state-dir or ALTHING_STATE_DIR chooses another state directory")
        })?;
        Ok(Arc::new(store))
    }

    /// The store of this user's sessions, if it exists; nothing is created.
    pub fn existing_store(&self) -> Result<Option<Arc<dyn SessionStore>>, Failure> {
        let store = althing_journal::open_existing_state(&self.state_dir())?;
        Ok(store.map(|store| Arc::new(store) as Arc<dyn SessionStore>))
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
