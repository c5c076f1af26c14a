//! What an agent is told besides its place, put together from what `workspace` finds.

use althing_disk::DiskError;
use althing_engine::{AgentNotes, FileExcerpt, SkillEntry};
use althing_workspace::{Document, Memory, Skills};

fn page(document: Document) -> FileExcerpt {
    FileExcerpt { path: document.path, text: document.text, whole: document.whole }
}

/// A project's instructions.
pub fn instructions(documents: Vec<Document>) -> Vec<FileExcerpt> {
    documents.into_iter().map(page).collect()
}

/// Skills, as they are listed.
pub fn skills(skills: &Skills) -> Vec<SkillEntry> {
    let entry = |skill: &althing_workspace::Skill| SkillEntry {
        name: skill.name.clone(),
        description: skill.description.clone(),
        path: skill.path.clone(),
    };
    skills.found.iter().map(entry).collect()
}

/// An agent's notes as they are now.
pub fn notes(memory: &Memory) -> Result<AgentNotes, DiskError> {
    let notes = memory.notes()?;
    Ok(AgentNotes {
        dir: memory.dir().display().to_string(),
        short_term: notes.short_term.into_iter().map(page).collect(),
        long_term: notes.long_term,
    })
}
