//! Changes of files that the chat agent proposes: what they would change, and how a person allows them.

use crate::FileChange;
use serde::{Deserialize, Serialize};

/// The file tools that change files. In a conversation, what a call of one of them would change is recorded first
/// ([`crate::Item::EditProposed`]).
pub const EDIT_TOOLS: [&str; 4] = ["write_file", "edit_file", "apply_patch", "delete_file"];

/// The option of [`crate::Decision::Choose`] that allows a proposed change and all later ones of the chat agent in the
/// same project.
pub const ALWAYS_IN_PROJECT: &str = "always";

/// What a call of a file tool would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditPreview {
    /// The directory that the chat agent works in.
    pub project: String,
    /// The files, in the order of the call. Empty if the call has no preview, because its tool is not a file tool of
    /// Althing.
    pub files: Vec<FileDiff>,
    /// Whether a person must allow the change first.
    #[serde(default)]
    pub ask: bool,
    /// SHA-256 of the files' old and new contents. The call is executed only if it would still change exactly this.
    pub digest: String,
}

/// The proposed change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// The path: relative to the project for a file in it.
    pub path: String,
    /// How the file would be changed.
    pub change: FileChange,
    /// The number of added lines.
    pub added: usize,
    /// The number of removed lines.
    pub removed: usize,
    /// A unified diff without its two header lines. Empty if a content is not text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff: String,
    /// The number of lines that the diff leaves out at its end, because it is too long.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: usize,
    /// A note for people, for example that the file runs code later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl FileDiff {
    /// One line for people, such as `notes.txt +2 −1`.
    pub fn summary(&self) -> String {
        let kind = match self.change {
            FileChange::New => " (new)",
            FileChange::Modified => "",
            FileChange::Deleted => " (deleted)",
        };
        let lines = |sign: char, count: usize| {
            if count > 0 { format!(" {sign}{count}") } else { String::new() }
        };
        format!("{}{kind}{}{}", self.path, lines('+', self.added), lines('−', self.removed))
    }

    /// The lines that show the whole change: the summary, the note and the diff.
    pub fn lines(&self) -> Vec<String> {
        let note = self.note.as_ref().map(|note| format!("({note})"));
        let omitted = (self.omitted > 0).then(|| format!("… {} more lines are not shown", self.omitted));
        let diff = self.diff.lines().map(str::to_owned);
        [self.summary()].into_iter().chain(note).chain(diff).chain(omitted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_the_file_and_counts_its_lines() {
        let mut diff = FileDiff {
            path: "notes.txt".into(),
            change: FileChange::Modified,
            added: 2,
            removed: 1,
            diff: "@@ -1 +1,2 @@\n-a\n+b\n+c\n".into(),
            omitted: 0,
            note: None,
        };
        assert_eq!(diff.summary(), "notes.txt +2 −1");
        assert_eq!(diff.lines(), ["notes.txt +2 −1", "@@ -1 +1,2 @@", "-a", "+b", "+c"]);
        (diff.change, diff.removed, diff.omitted) = (FileChange::New, 0, 3);
        assert_eq!(diff.summary(), "notes.txt (new) +2");
        assert_eq!(diff.lines().last().unwrap(), "… 3 more lines are not shown");
    }
}
