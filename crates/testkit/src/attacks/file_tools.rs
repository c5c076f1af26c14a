//! Attempts of a model to get out of its directories with the file tools.

use serde_json::{Value, json};

/// The description, the tool and its arguments.
pub type ToolAttempt = (String, &'static str, Value);

/// Paths that an agent may neither read nor write. `Outside::fill` replaces `{…}`; `src/link` is a link to the home.
const HIDDEN: [&str; 9] = [
    "{HOME}/.ssh/id",
    "~/.ssh/id",
    "file://{HOME}/.ssh/id",
    "{PROJECT}/../home/.ssh/id",
    "{PROJECT}/src/link/.ssh/id",
    "{PROJECT}/.althing/log",
    "/proc/self/root{HOME}/.ssh/id",
    "/proc/self/environ",
    "../../../../../../log",
];

/// Paths that an agent may not write. Reading them is not tried, and some of them do not exist.
const READ_ONLY: [&str; 8] = [
    "{PROJECT}/.git/config",
    "{PROJECT}/.git/hooks/pre-commit",
    "{PROJECT}/vendor/locked/file",
    "{PROJECT}/src/../vendor/locked/file",
    "{REFERENCE}/book.txt",
    "{REFERENCE}/new.txt",
    "{FRESH}/.git/hooks/pre-commit",
    "/etc/althing-was-here",
];

pub fn file_tool_attempts(fill: impl Fn(&str) -> String) -> Vec<ToolAttempt> {
    let mut attempts = Vec::new();
    for path in HIDDEN.map(&fill) {
        for (tool, arguments) in reads(&path).into_iter().chain(writes(&path)) {
            attempts.push((format!("{tool} {path}"), tool, arguments));
        }
    }
    for path in READ_ONLY.map(&fill) {
        for (tool, arguments) in writes(&path) {
            attempts.push((format!("{tool} {path}"), tool, arguments));
        }
    }
    attempts
}

fn reads(path: &str) -> Vec<(&'static str, Value)> {
    let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
    vec![
        ("read_file", json!({ "path": path })),
        ("search", json!({ "pattern": "CAN[A]RY.*", "path": path })),
        ("search", json!({ "pattern": "CAN[A]RY.*", "path": parent, "glob": name })),
    ]
}

fn writes(path: &str) -> Vec<(&'static str, Value)> {
    let patch = |change: &str| json!({ "patch": format!("*** Begin Patch\n{change}\n*** End Patch") });
    vec![
        ("write_file", json!({ "path": path, "content": "x" })),
        ("edit_file", json!({ "path": path, "old": "o", "new": "x" })),
        ("apply_patch", patch(&format!("*** Add File: {path}\n+x"))),
        ("apply_patch", patch(&format!("*** Delete File: {path}"))),
        ("delete_file", json!({ "path": path })),
    ]
}
