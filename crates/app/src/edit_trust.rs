//! The projects in which the user lets the chat agent change files without asking: remembered by their real paths in
//! the user's own state directory, where no agent may write and where nothing that came with a project can be.

use crate::context::Notify;
use crate::environment::Environment;
use crate::trust::{one_line, own_to_change, read_remembered};
use althing_protocol::{
    ALWAYS_IN_PROJECT, Decision, Event, Fact, Interaction, InteractionId, InteractionKind,
};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The list of projects in which the chat agent may change files without asking.
#[derive(Clone, Debug)]
pub(crate) struct EditTrust {
    /// The file with one path per line; None if the user has no state directory.
    file: Option<PathBuf>,
}

impl EditTrust {
    pub(crate) fn of(environment: &Environment) -> Self {
        Self { file: environment.user_state_dir().map(|dir| dir.join("edits")) }
    }

    /// Whether the user allows the chat agent's changes in this project. If that cannot be read, the user is asked.
    pub(crate) fn is_given(&self, project: &str) -> bool {
        let Some(file) = &self.file else { return false };
        read_remembered(file).lines().any(|line| line == one_line(Path::new(project)))
    }

    /// Remembers that the user allows the chat agent's changes in this project.
    fn give(&self, project: &str) -> io::Result<()> {
        if self.is_given(project) {
            return Ok(());
        }
        let file = self.file.as_ref().ok_or_else(|| io::Error::other("there is no home directory"))?;
        own_to_change(file)?;
        // The entry is appended, so that no earlier entry can be lost.
        let mut opened = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
        writeln!(opened, "{}", one_line(Path::new(project)))
    }
}

/// Remembers the projects for which a person at this session chooses "always".
pub(crate) struct EditTrustRecorder {
    trust: EditTrust,
    notify: Notify,
    /// The open question about a change, with its project.
    open: Option<(InteractionId, String)>,
}

impl EditTrustRecorder {
    /// Permissions in the session's history are not recorded again: they were recorded when they were given, and the
    /// user may have revoked them since.
    pub(crate) fn new(trust: EditTrust, notify: Notify, history: &[Arc<Event>]) -> Self {
        let mut recorder = Self { trust, notify, open: None };
        for event in history {
            recorder.note_question(&event.fact);
        }
        recorder
    }

    /// Folds the question that is open; returns the project that a new answer allows, if any.
    fn note_question(&mut self, fact: &Fact) -> Option<String> {
        match fact {
            Fact::InteractionOpened(Interaction {
                id,
                kind: InteractionKind::EditApproval { preview, .. },
                ..
            }) => {
                self.open = Some((id.clone(), preview.project.clone()));
                None
            }
            Fact::InteractionClosed { id, decision } => {
                let (_, project) = self.open.take_if(|(open, _)| open == id)?;
                let always = matches!(decision, Decision::Choose { option } if option == ALWAYS_IN_PROJECT);
                always.then_some(project)
            }
            _ => None,
        }
    }

    /// Remembers the project if this fact allows all changes in it.
    pub(crate) fn observe(&mut self, event: &Event) {
        let Some(project) = self.note_question(&event.fact) else { return };
        if let Err(error) = self.trust.give(&project) {
            (self.notify)(&format!(
                "that the chat agent may always change files in {project} cannot be remembered: {error}"
            ));
        }
    }
}
