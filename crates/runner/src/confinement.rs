//! The ways to confine a command.
//!
//! Running unconfined requires an [`AcceptedByUser`] value. Nothing in this module falls back to a weaker
//! confinement.

use crate::bubblewrap::Bubblewrap;
use crate::docker::Container;
use std::sync::Arc;

/// Proof that the user accepted that commands run without any confinement.
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
pub enum Confinement {
    /// The command runs in its own namespaces and sees only what it was given. This is preferred where it
    /// works.
    Bubblewrap(Bubblewrap),
    /// Kernel access rules. More limited than bubblewrap: no private `/tmp`, no unix sockets, no change of any
    /// file's mode, owner or times (so the output of a linker is not executable), and no creating or deleting
    /// entries directly next to `.git` in a writable context path. The names (not the contents) of other files
    /// stay visible.
    Landlock,
    /// The command runs inside the agent's container.
    Docker(Arc<Container>),
    /// The command runs with the user's own rights.
    Unconfined(AcceptedByUser),
    /// No sandbox works here and the user did not accept running unconfined: every call is refused.
    Refused {
        /// What is missing, as a message for the user.
        why: String,
    },
}

impl Confinement {
    /// The variant without its data.
    pub fn kind(&self) -> ConfinementKind {
        match self {
            Self::Bubblewrap(_) => ConfinementKind::Bubblewrap,
            Self::Landlock => ConfinementKind::Landlock,
            Self::Docker(_) => ConfinementKind::Docker,
            Self::Unconfined(_) => ConfinementKind::Unconfined,
            Self::Refused { .. } => ConfinementKind::Refused,
        }
    }
}

/// The variants of [`Confinement`] without their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfinementKind {
    /// See [`Confinement::Bubblewrap`].
    Bubblewrap,
    /// See [`Confinement::Landlock`].
    Landlock,
    /// See [`Confinement::Docker`].
    Docker,
    /// See [`Confinement::Unconfined`].
    Unconfined,
    /// See [`Confinement::Refused`].
    Refused,
}
