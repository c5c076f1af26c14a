//! The changes of a run as a unified diff.

use althing_protocol::FileChange;
use althing_text::sanitize;
use althing_workspace::{ChangedFile, FileContent};
use similar::TextDiff;
use std::fmt::Write;

const CONTEXT: usize = 3;

/// Content that is not text is only described.
pub fn diff(reviewed: &ChangedFile) -> String {
    let path = sanitize::line(&reviewed.write.path);
    let (old, new) = match reviewed.write.change {
        FileChange::New => ("/dev/null", &*path),
        FileChange::Modified => (&*path, &*path),
        FileChange::Deleted => (&*path, "/dev/null"),
    };
    match (&reviewed.before, &reviewed.now) {
        (FileContent::Text(_) | FileContent::Absent, FileContent::Text(_) | FileContent::Absent) => {
            let (before, now) = (text(&reviewed.before), text(&reviewed.now));
            let diff = TextDiff::from_lines(before, now);
            let mut unified = diff.unified_diff();
            sanitize::output(&unified.context_radius(CONTEXT).header(old, new).to_string()).into_owned()
        }
        (before, now) => {
            let mut text = format!("--- {old}\n+++ {new}\n");
            let _ = writeln!(text, "-{}\n+{}", describe(before), describe(now));
            text
        }
    }
}

fn text(content: &FileContent) -> &str {
    match content {
        FileContent::Text(text) => text,
        FileContent::Absent | FileContent::Link(_) | FileContent::Opaque { .. } | FileContent::Unknown => "",
    }
}

fn describe(content: &FileContent) -> String {
    match content {
        FileContent::Absent => "(no file)".into(),
        FileContent::Text(text) => format!("(a text of {} bytes)", text.len()),
        FileContent::Link(to) => format!("(a link to {})", sanitize::line(to)),
        FileContent::Opaque { bytes } => format!("({bytes} bytes: binary, or too large to show)"),
        FileContent::Unknown => "(the earlier content was not stored)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::FileWrite;

    fn reviewed(change: FileChange, before: FileContent, now: FileContent) -> ChangedFile {
        ChangedFile { write: FileWrite { path: "/p/a.txt".into(), change, note: None }, before, now }
    }

    #[test]
    fn a_changed_text_is_a_unified_diff_without_terminal_sequences() {
        let before = "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\nline 9\n".to_owned();
        let now = before.replace("line 5", "line \x1b[31mfive");
        let shown = diff(&reviewed(FileChange::Modified, FileContent::Text(before), FileContent::Text(now)));
        assert_eq!(
            shown,
            "--- /p/a.txt\n+++ /p/a.txt\n@@ -2,7 +2,7 @@\n line 2\n line 3\n line 4\n-line 5\n+line ␛[31mfive\n line 6\n \
             line 7\n line 8\n"
        );
    }

    #[test]
    fn a_new_file_has_no_old_side_and_binary_content_is_described() {
        let new = diff(&reviewed(FileChange::New, FileContent::Absent, FileContent::Text("one\n".into())));
        assert_eq!(new, "--- /dev/null\n+++ /p/a.txt\n@@ -0,0 +1 @@\n+one\n");
        let binary =
            diff(&reviewed(FileChange::Modified, FileContent::Unknown, FileContent::Opaque { bytes: 7 }));
        assert!(binary.contains("-(the earlier content was not stored)\n+(7 bytes"), "{binary}");
    }
}
