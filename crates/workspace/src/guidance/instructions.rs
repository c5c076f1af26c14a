//! A project's instructions for agents: `AGENTS.md` and `CLAUDE.md` in its context paths.

use super::Document;
use crate::tools::FileHost;
use althing_protocol::ContextPath;
use std::path::Path;

/// The more common name comes first.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// How many bytes of a file are read.
const MAX_PER_FILE: usize = 16 * 1024;
/// How many bytes of instructions an agent is given in total.
const MAX_TOTAL: usize = 32 * 1024;

/// The instructions in these context paths, from the deepest directory to the highest, since the closest ones matter
/// most. Files that the agent may not read are left out.
pub fn project_instructions(files: &FileHost, context: &[ContextPath]) -> Vec<Document> {
    let mut dirs: Vec<&Path> = context.iter().map(|path| Path::new(&path.path)).collect();
    dirs.sort_by_key(|dir| std::cmp::Reverse(dir.components().count()));
    let mut found: Vec<Document> = Vec::new();
    let mut left = MAX_TOTAL;
    for path in dirs.into_iter().flat_map(|dir| NAMES.map(|name| dir.join(name))) {
        let Some(document) = files.text(&path.to_string_lossy(), MAX_PER_FILE.min(left)) else { continue };
        // Many projects have the same text under both names.
        let is_new = !found.iter().any(|known| known.text == document.text);
        if is_new && !document.text.trim().is_empty() {
            left -= document.text.len();
            found.push(document);
        }
    }
    found
}
