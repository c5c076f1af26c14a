//! Skills: directories with a `SKILL.md` whose front matter describes them.

use super::{front_matter, names_in, text_in};
use crate::confine::ConfinedDir;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

const MAX_SKILLS: usize = 100;
/// The maximum length of a skill's name and of its description, in characters.
const MAX_DESCRIPTION: usize = 1024;
/// How many bytes of a `SKILL.md` are read for its front matter.
const MAX_READ: usize = 64 * 1024;

/// Instructions for one kind of task, which an agent reads when it needs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// The name of the skill.
    pub name: String,
    /// What the skill is for.
    pub description: String,
    /// The path of the skill's `SKILL.md`.
    pub path: String,
}

/// The result of a search for skills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skills {
    /// The skills, sorted by name.
    pub found: Vec<Skill>,
    /// The directories that were searched; agents must be able to read them.
    pub dirs: Vec<PathBuf>,
    /// Notices for the user about skills that cannot be used.
    pub notices: Vec<String>,
}

/// Searches directories for skills. Of two skills with the same name, the first is used. Below `cwd`, symbolic links
/// are not followed: a foreign project may contain a link to any directory of the user, and agents can read the
/// directories of skills.
pub fn find_skills(dirs: &[PathBuf], cwd: &Path) -> Skills {
    let mut skills = Skills::default();
    for dir in dirs {
        let mut inside = dir.ancestors().take_while(|at| *at != cwd && at.starts_with(cwd));
        if let Some(link) = inside.find(|at| at.is_symlink()) {
            skills.notices.push(format!(
                "{} is a symbolic link; the skills in {} are not used",
                link.display(),
                dir.display()
            ));
            continue;
        }
        let Ok(real) = dir.canonicalize() else { continue };
        if skills.dirs.contains(&real) {
            continue;
        }
        match scan_dir(&real, &mut skills) {
            Ok(()) => skills.dirs.push(real),
            Err(e) => skills.notices.push(format!("the skills in {} cannot be read: {e}", real.display())),
        }
    }
    skills.found.sort_by(|a, b| a.name.cmp(&b.name));
    if skills.found.len() > MAX_SKILLS {
        skills.notices.push(format!(
            "there are {} skills; only {MAX_SKILLS} are offered to agents",
            skills.found.len()
        ));
        skills.found.truncate(MAX_SKILLS);
    }
    skills
}

fn scan_dir(path: &Path, skills: &mut Skills) -> io::Result<()> {
    let dir = ConfinedDir::open(path)?;
    for folder in names_in(&dir)? {
        let Ok(inside) = dir.open_dir(OsStr::new(&folder)) else { continue };
        let Some((text, _)) = text_in(&inside, "SKILL.md", MAX_READ)? else { continue };
        let at = path.join(&folder).join("SKILL.md");
        match skill(&text, &folder, &at) {
            Ok(skill) if skills.found.iter().any(|known| known.name == skill.name) => {
                skills.notices.push(format!(
                    "{}: there is already a skill `{}`; this one is not used",
                    at.display(),
                    skill.name
                ));
            }
            Ok(skill) => skills.found.push(skill),
            Err(why) => skills.notices.push(format!("{}: {why}; the skill is not used", at.display())),
        }
    }
    Ok(())
}

fn skill(text: &str, folder: &str, at: &Path) -> Result<Skill, &'static str> {
    let (fields, _) = front_matter::parse(text).ok_or("its front matter is not YAML")?;
    let field = |name: &str| {
        let text = fields.get(name).map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
        text.filter(|text| !text.is_empty())
    };
    let description = field("description").ok_or("its front matter has no `description`")?;
    let name = field("name").unwrap_or_else(|| folder.to_owned());
    let cut = |text: String| {
        if text.len() > MAX_DESCRIPTION { text.chars().take(MAX_DESCRIPTION).collect() } else { text }
    };
    Ok(Skill { name: cut(name), description: cut(description), path: at.display().to_string() })
}
