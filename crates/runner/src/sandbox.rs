//! The sandboxes in which a command can run. Running unconfined requires an [`AcceptedByUser`] value; nothing here
//! falls back to a weaker sandbox. Which paths are writable is decided in `althing_app` (`agent_env/grant.rs`);
//! `mount_table.rs` turns that into the mode of each path.

use crate::bubblewrap::Bubblewrap;
use crate::docker::Container;
use std::sync::Arc;

/// Proof that the user accepted that commands run without any sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedByUser(());

impl AcceptedByUser {
    /// Call this only where the user's consent (a flag, a config key, an answer) was just read.
    pub fn explicitly() -> Self {
        Self(())
    }
}

/// The sandbox in which a command runs.
#[derive(Clone, Debug)]
pub enum Sandbox {
    /// The command runs in its own namespaces and sees only what it was given. Preferred where it works.
    Bubblewrap(Bubblewrap),
    /// Kernel access rules, more limited than bubblewrap: no private `/tmp`, no Unix sockets, no message queues or
    /// semaphores, no file watches, and no change of any file's mode, owner or times. No entry can be created or
    /// deleted directly in a directory that contains, at any depth, a protected path; the names of hidden files in it
    /// stay visible. Whether a known path exists, and the arguments of all processes, are not hidden.
    Landlock,
    /// The command runs inside the agent's container.
    Docker(Arc<Container>),
    /// The command runs with the user's own rights.
    Unconfined(AcceptedByUser),
    /// No sandbox can be used: every call of `run_command` is refused.
    Refused {
        /// The reason, as a message for the user.
        why: String,
    },
}

impl Sandbox {
    /// The variant without its data.
    pub fn kind(&self) -> SandboxKind {
        match self {
            Self::Bubblewrap(_) => SandboxKind::Bubblewrap,
            Self::Landlock => SandboxKind::Landlock,
            Self::Docker(_) => SandboxKind::Docker,
            Self::Unconfined(_) => SandboxKind::Unconfined,
            Self::Refused { .. } => SandboxKind::Refused,
        }
    }
}

/// The variants of [`Sandbox`] without their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SandboxKind {
    /// See [`Sandbox::Bubblewrap`].
    Bubblewrap,
    /// See [`Sandbox::Landlock`].
    Landlock,
    /// See [`Sandbox::Docker`].
    Docker,
    /// See [`Sandbox::Unconfined`].
    Unconfined,
    /// See [`Sandbox::Refused`].
    Refused,
}
