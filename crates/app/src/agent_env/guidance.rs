//! The prompt additions of an agent with tools: a project's instructions, skills and the agent's notes.

use althing_disk::DiskError;
use althing_engine::{AgentNotes, FileExcerpt, SkillEntry};
use althing_workspace::{Document, Memory, Skills};

fn page(document: Document) -> FileExcerpt {
    FileExcerpt { path: document.path, text: document.text, whole: document.whole }
}

pub fn instructions(documents: Vec<Document>) -> Vec<FileExcerpt> {
    documents.into_iter().map(page).collect()
}

pub fn skills(skills: &Skills) -> Vec<SkillEntry> {
    let entry = |skill: &althing_workspace::Skill| SkillEntry {
        name: skill.name.clone(),
        description: skill.description.clone(),
        path: skill.path.clone(),
    };
    skills.found.iter().map(entry).collect()
}

pub fn notes(memory: &Memory) -> Result<AgentNotes, DiskError> {
    let notes = memory.notes()?;
    Ok(AgentNotes {
        dir: memory.dir().display().to_string(),
        short_term: notes.short_term.into_iter().map(page).collect(),
        long_term: notes.long_term,
    })
}
