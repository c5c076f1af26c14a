//! The kinds of walls that a command can run inside.
//!
//! Running without walls takes a value that only says what it means: that the user accepted it. Nothing here picks a
//! weaker wall by itself.

use crate::bubblewrap::Bubblewrap;
use crate::docker::Container;
use std::sync::Arc;

/// Proof that the user was asked, or said unasked, that commands may run without any confinement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedByUser(());

impl AcceptedByUser {
    /// To be called only where the user's own words (a flag, a config key, an answer) were just read.
    pub fn explicitly() -> Self {
        Self(())
    }
}

/// Inside what a command runs.
#[derive(Clone, Debug)]
pub enum Confinement {
    /// Own namespaces: it sees only what it was given. The default where it works.
    Bubblewrap(Bubblewrap),
    /// The kernel refuses what it was not given. Narrower than bubblewrap: no private `/tmp`, no unix sockets, no change of
    /// modes, owners or times of any file (so what a linker makes is not executable), and in a writable context path
    /// nothing can be made or deleted directly beside `.git`. Names (not contents) of other files stay visible.
    Landlock,
    /// In the agent's container.
    Docker(Arc<Container>),
    /// With the user's own rights.
    Unconfined(AcceptedByUser),
    /// Nothing can be enforced here and nobody waived it: every call is refused.
    Refused {
        /// What is missing, for people.
        why: String,
    },
}

impl Confinement {
    /// Its kind.
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

/// The kinds of confinement, for showing and choosing.
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
