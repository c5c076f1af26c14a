//! The one value that everything here works with: what the user asked for, what is around the process, and how the
//! user is told something.

use crate::environment::Environment;
use crate::settings::Settings;
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

    /// Tells the user something.
    pub fn notify(&self, text: &str) {
        (self.notify)(text);
    }

    /// How the user is told something, for code that outlives this call.
    pub fn notifier(&self) -> Notify {
        self.notify.clone()
    }
}
