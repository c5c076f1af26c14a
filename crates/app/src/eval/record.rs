//! The record of an evaluation: which session belongs to which run, so that an interrupted evaluation continues with
//! the same sessions.

use crate::context::AppContext;
use crate::environment::create_private_dir;
use crate::failure::Failure;
use althing_protocol::SessionId;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

const MAX_BYTES: u64 = 64 << 20;

/// One run of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The index of the team.
    pub team: usize,
    /// The id of the task.
    pub task: String,
    /// The number of the repetition, counted from 1.
    pub repeat: u32,
}

/// Only one process at a time can hold the record of an evaluation.
pub(super) struct Record {
    file: PathBuf,
    sessions: BTreeMap<Cell, SessionId>,
    _lock: File,
}

impl Record {
    pub(super) fn open(id: &str, app: &AppContext) -> Result<Self, Failure> {
        // This refuses a found state directory with links, and creates the directory with its `.gitignore`.
        app.store()?;
        let evals = app.evals_dir();
        let dir = evals.join(id);
        let failed =
            |error: std::io::Error| Failure::usage(format!("{} cannot be used: {error}", dir.display()));
        if let Some(link) = [&evals, &dir].into_iter().find(|dir| dir.is_symlink()) {
            return Err(Failure::usage(format!("{} is a link, which is not followed", link.display())));
        }
        create_private_dir(&evals).and_then(|()| create_private_dir(&dir)).map_err(failed)?;
        let lock = althing_disk::append_own(&dir.join("lock")).map_err(failed)?;
        if lock.try_lock().is_err() {
            return Err(Failure::usage("another process is running this evaluation")
                .hint("wait for it, or stop it: the evaluation continues where it stopped"));
        }
        let file = dir.join("runs.jsonl");
        let sessions = read(&file).map_err(failed)?;
        Ok(Self { file, sessions, _lock: lock })
    }

    pub(super) fn session(&self, cell: &Cell) -> Option<&SessionId> {
        self.sessions.get(cell)
    }

    pub(super) fn has(&self, session: &SessionId) -> bool {
        self.sessions.values().any(|known| known == session)
    }

    /// Must be called before the session is created: after a crash, the evaluation then finds the session and repeats
    /// none of its model calls.
    pub(super) fn add(&mut self, cell: Cell, session: SessionId) -> Result<(), Failure> {
        let line = json!({"team": cell.team, "task": cell.task, "repeat": cell.repeat, "session": session});
        let append = || {
            let mut file = althing_disk::append_own(&self.file)?;
            file.write_all(format!("{line}\n").as_bytes())?;
            file.sync_data()
        };
        append()
            .map_err(|error| Failure::usage(format!("{} cannot be written: {error}", self.file.display())))?;
        self.sessions.insert(cell, session);
        Ok(())
    }
}

/// Of several sessions of a run, the last counts. A line that a crash cut off is skipped.
fn read(file: &Path) -> std::io::Result<BTreeMap<Cell, SessionId>> {
    let bytes = match althing_disk::read_regular(file, MAX_BYTES) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        read => read?,
    };
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let team = usize::try_from(line.get("team")?.as_u64()?).ok()?;
        let repeat = u32::try_from(line.get("repeat")?.as_u64()?).ok()?;
        let task = line.get("task")?.as_str()?.to_owned();
        Some((Cell { team, task, repeat }, SessionId::new(line.get("session")?.as_str()?)))
    };
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(line).collect())
}
