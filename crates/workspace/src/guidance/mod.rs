//! What files have to tell an agent before it begins: a project's instructions, skills, its own notes of earlier runs.
//!
//! Everything is read through confined handles and cut to fixed sizes: it is sent with every model call. Nothing here
//! says how an agent is told; that is the prompt's matter.

mod front_matter;
mod instructions;
mod memory;
mod skills;

pub use instructions::project_instructions;
pub use memory::{Memory, Notes};
pub use skills::{Skill, Skills, find_skills};

use crate::confine::ConfinedDir;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};

/// A text file, or its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Where it is.
    pub path: String,
    /// What it says.
    pub text: String,
    /// Whether that is all.
    pub whole: bool,
}

/// The beginning of a file, if it is text.
pub(crate) fn read_prefix(file: File, most: usize) -> io::Result<Option<(String, bool)>> {
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    let whole = bytes.len() <= most;
    bytes.truncate(most);
    if bytes.contains(&0) {
        return Ok(None);
    }
    // A character that the cut went through is left out.
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text.to_owned(),
        Err(e) if !whole && e.error_len().is_none() => {
            String::from_utf8_lossy(bytes.get(..e.valid_up_to()).unwrap_or_default()).into_owned()
        }
        Err(_) => return Ok(None),
    };
    Ok(Some((text, whole)))
}

/// The beginning of a text file in a directory; None if there is none.
fn text_in(dir: &ConfinedDir, name: &str, most: usize) -> io::Result<Option<(String, bool)>> {
    match dir.open_file(OsStr::new(name)) {
        Ok((file, _)) => read_prefix(file, most),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The names in a directory, sorted; those that are not text are left out.
fn names_in(dir: &ConfinedDir) -> io::Result<Vec<String>> {
    let mut names: Vec<String> =
        dir.names()?.into_iter().filter_map(|name| name.into_string().ok()).collect();
    names.sort();
    Ok(names)
}
