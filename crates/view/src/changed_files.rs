//! What front ends say about the files that a run changed in context paths: a footer below the final answer if it wrote
//! files, and a note if it only deleted some, or changed nothing although it could.

use althing_protocol::{FileChange, FileWrite, MAX_NAMED_FILES, RunResult, WRITES_FILE};
use althing_text::{count, quoted_name};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedFiles<'a> {
    pub written: Vec<&'a FileWrite>,
    /// The deleted files, which do not count as written.
    pub deleted: Vec<&'a FileWrite>,
    /// The path of the file that lists all changed files. It exists only if more than [`MAX_NAMED_FILES`] files were
    /// written, or more than that were deleted.
    pub list: String,
    /// The writable context paths, if the run changed nothing in any of them.
    pub unchanged: &'a [String],
}

impl<'a> ChangedFiles<'a> {
    pub fn of(result: &'a RunResult) -> Self {
        let (written, deleted) =
            result.context_path_writes.iter().partition(|write| write.change != FileChange::Deleted);
        let list = format!("{}/{WRITES_FILE}", result.log_dir.trim_end_matches('/'));
        Self { written, deleted, list, unchanged: &result.unchanged_paths }
    }

    /// The heading of the footer; None if the run wrote nothing: then there is no footer, even if it deleted files.
    pub fn heading(&self) -> Option<String> {
        match self.written.len() {
            0 => None,
            1..=MAX_NAMED_FILES => Some("Files written to context paths:".into()),
            many => Some(format!("{many} files written to context paths")),
        }
    }

    pub fn only_counts(&self) -> bool {
        self.written.len() > MAX_NAMED_FILES
    }

    /// The written files that the footer names: all or, if there are too many, only the first few of those with a note
    /// (such as files that run code later).
    pub fn named(&self) -> Vec<&'a FileWrite> {
        let named = self.written.iter().copied();
        if self.only_counts() {
            named.filter(|write| write.note.is_some()).take(MAX_NAMED_FILES).collect()
        } else {
            named.collect()
        }
    }

    /// A note for a run that wrote nothing: about the files that it deleted, else about the paths in which it could
    /// have written. (The footer of a run that wrote files also names or counts the deleted ones.)
    pub fn note(&self) -> Option<String> {
        if !self.written.is_empty() {
            return None;
        }
        if self.deleted.is_empty() {
            let paths = self.unchanged.join(", ");
            return (!paths.is_empty()).then(|| format!("the run changed nothing in {paths}"));
        }
        let files = count(self.deleted.len() as u64, "file");
        if self.deleted.len() > MAX_NAMED_FILES {
            return Some(format!("the run deleted {files}, listed in {}", self.list));
        }
        let paths: Vec<_> = self.deleted.iter().map(|write| quoted_name(&write.path)).collect();
        Some(format!("the run deleted {files}: {}", paths.join(", ")))
    }

    pub fn footer(&self) -> Option<String> {
        let mut text = self.heading()?;
        if self.only_counts() {
            text = format!("{text}\n  Details: {}", self.list);
        }
        for write in self.named() {
            text = format!("{text}\n  {}", row(write));
        }
        match self.deleted.len() {
            0 => {}
            1..=MAX_NAMED_FILES => {
                text.push_str("\nFiles deleted from context paths:");
                for write in &self.deleted {
                    text = format!("{text}\n  {}", row(write));
                }
            }
            many => {
                text = format!("{text}\n{many} files deleted from context paths\n  Details: {}", self.list);
            }
        }
        Some(text)
    }
}

/// A file in a list, with its note, in one line.
pub fn row(write: &FileWrite) -> String {
    FileWrite { path: quoted_name(&write.path).into_owned(), ..write.clone() }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::FileChange::{Deleted, Modified, New};

    fn many(count: usize, change: FileChange) -> Vec<FileWrite> {
        (1..=count).map(|n| FileWrite { path: format!("/p/{n}.txt"), change, note: None }).collect()
    }

    fn files(writes: &[FileWrite]) -> ChangedFiles<'_> {
        let (written, deleted) = writes.iter().partition(|write| write.change != Deleted);
        ChangedFiles { written, deleted, list: "/logs/context_path_writes.txt".into(), unchanged: &[] }
    }

    // spec: modes/context-path-write-tracking/display-written-files-in-final-answer-few-files
    #[test]
    fn up_to_five_written_files_are_named_in_the_footer() {
        let mut list = many(4, New);
        list[3].change = Modified;
        let text = "Files written to context paths:\n  /p/1.txt\n  /p/2.txt\n  /p/3.txt\n  /p/4.txt";
        assert_eq!(files(&list).footer().as_deref(), Some(text));
        assert_eq!(files(&many(5, Modified)).footer().unwrap().lines().count(), 6);
        list.push(FileWrite { path: "/p/gone.txt".into(), change: Deleted, note: None });
        let with_deleted = format!("{text}\nFiles deleted from context paths:\n  /p/gone.txt");
        assert_eq!(files(&list).footer(), Some(with_deleted), "deleted files are named apart");
        assert_eq!(files(&list).note(), None, "and only there");
    }

    // spec: modes/context-path-write-tracking/display-written-files-in-final-answer-many-files
    #[test]
    fn more_than_five_written_files_are_counted_and_the_footer_names_the_list() {
        let mut list = many(6, New);
        list.extend(many(2, Deleted));
        let text = files(&list).footer().unwrap();
        let head = "6 files written to context paths\n  Details: /logs/context_path_writes.txt\n";
        assert!(text.starts_with(head), "deleted files do not count: {text}");
        assert!(!text.contains("/p/3.txt"), "{text}");
    }

    #[test]
    fn a_file_that_runs_code_later_is_always_named() {
        let line = "\n  /p/package.json (runs code when npm installs, or runs a script)";
        for count in [1, 9] {
            let mut list = many(count, New);
            list.push(FileWrite::new("/p/package.json".into(), Modified, "package.json".as_ref()));
            list.push(FileWrite::new("/p/Makefile".into(), Deleted, "Makefile".as_ref()));
            let text = files(&list).footer().unwrap();
            assert!(text.contains(line) && !text.contains("when make runs"), "{text}");
        }
    }

    // spec: modes/context-path-write-tracking/no-footer-when-no-writes
    #[test]
    fn without_written_files_there_is_no_footer_and_deleted_files_are_noted() {
        assert_eq!((files(&[]).footer(), files(&[]).note()), (None, None));
        for (count, note) in [
            (1, "the run deleted 1 file: /p/1.txt"),
            (2, "the run deleted 2 files: /p/1.txt, /p/2.txt"),
            (6, "the run deleted 6 files, listed in /logs/context_path_writes.txt"),
        ] {
            let deleted = many(count, Deleted);
            assert_eq!(files(&deleted).footer(), None);
            assert_eq!(files(&deleted).note().as_deref(), Some(note));
        }
        let unchanged = ["/p".to_owned(), "/q".to_owned()];
        let nothing = ChangedFiles { unchanged: &unchanged, ..files(&[]) };
        assert_eq!(nothing.footer(), None);
        assert_eq!(nothing.note().as_deref(), Some("the run changed nothing in /p, /q"));
    }
}
