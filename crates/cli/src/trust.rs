//! Trust in configs that were found rather than named: remembered by path and content, so that a changed file has to
//! be trusted anew.

use crate::exit::Failure;
use crate::surroundings::Surroundings;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// One found config, as it is remembered.
pub struct Trust<'a> {
    pub path: &'a Path,
    pub digest: &'a str,
}

impl Trust<'_> {
    fn line(&self) -> String {
        format!("{}  {}", self.digest, self.path.display())
    }

    /// Whether the user has trusted exactly this.
    pub fn is_given(&self, surroundings: &Surroundings) -> bool {
        let known = store(surroundings).and_then(|store| std::fs::read_to_string(store).ok());
        known.is_some_and(|known| known.lines().any(|line| line == self.line()))
    }

    /// Remembers that the user trusts this.
    pub fn give(&self, surroundings: &Surroundings) -> Result<(), Failure> {
        if self.is_given(surroundings) {
            return Ok(());
        }
        let store = store(surroundings).ok_or_else(|| {
            Failure::usage("there is no home directory to remember the trust in").hint("set HOME")
        })?;
        let failed = |error| Failure::usage(format!("{} cannot be written: {error}", store.display()));
        if let Some(dir) = store.parent() {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        // Added at the end, so that nothing that was trusted before can be lost.
        let opened = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&store);
        opened.and_then(|mut file| writeln!(file, "{}", self.line())).map_err(failed)
    }
}

fn store(surroundings: &Surroundings) -> Option<PathBuf> {
    Some(surroundings.user_state_dir()?.join("trusted"))
}
