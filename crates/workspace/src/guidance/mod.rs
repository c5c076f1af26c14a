//! Texts for an agent from files: a project's instructions, skills, and the agent's notes from earlier runs. They are
//! truncated to fixed sizes, because their text is sent with every model call (of a skill, only its name, description
//! and path).

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

/// A text file, possibly truncated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The path of the file.
    pub path: String,
    /// The text of the file.
    pub text: String,
    /// Whether the text is complete.
    pub whole: bool,
}

/// The second value says whether the text is the whole file; `None` if the file is not text.
pub(crate) fn read_prefix(file: File, most: usize) -> io::Result<Option<(String, bool)>> {
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    let whole = bytes.len() <= most;
    bytes.truncate(most);
    if bytes.contains(&0) {
        return Ok(None);
    }
    // The truncation may have split a character.
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text.to_owned(),
        Err(e) if !whole && e.error_len().is_none() => {
            String::from_utf8_lossy(bytes.get(..e.valid_up_to()).unwrap_or_default()).into_owned()
        }
        Err(_) => return Ok(None),
    };
    Ok(Some((text, whole)))
}

fn text_in(dir: &ConfinedDir, name: &str, most: usize) -> io::Result<Option<(String, bool)>> {
    match dir.open_file(OsStr::new(name)) {
        Ok((file, _)) => read_prefix(file, most),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn names_in(dir: &ConfinedDir) -> io::Result<Vec<String>> {
    let mut names: Vec<String> =
        dir.names()?.into_iter().filter_map(|name| name.into_string().ok()).collect();
    names.sort();
    Ok(names)
}
