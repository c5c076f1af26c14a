//! Which of a CLI agent's own files a program in a sandbox gets as a private copy, and what becomes of its changes.
//!
//! With access to the user's own settings, it could add a hook, a plugin or an MCP server that the next start without
//! a sandbox would run. Files that no table names are missing in the copy.

use std::path::{Path, PathBuf};

/// A directory where a CLI agent stores its settings, credentials and conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnDir {
    /// The directory's name inside the private copy.
    pub name: &'static str,
    /// The path, relative to the home directory.
    pub in_home: &'static str,
    /// If this variable is set, the directory is `below` its value instead of in the home directory.
    pub variable: &'static str,
    /// The directory's path relative to the value of `variable`.
    pub below: &'static str,
    /// What the private copy contains at the start.
    pub files: &'static [OwnFiles],
}

/// Files and directories in an [`OwnDir`] that are treated alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnFiles {
    /// The names, each with at most one `*`, which stands for any characters.
    pub names: &'static [&'static str],
    /// What the program gets instead of the user's own, and what becomes of its changes.
    pub treatment: Treatment,
    /// Why the CLI agent needs them, or why it may not write to the user's own.
    pub why: &'static str,
}

/// What a program in a sandbox gets instead of the user's own file, and what becomes of its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// A copy, made anew at every start; changes are lost. A file that matches `names` is left out if it is too large.
    /// In a directory that matches `names`, an entry that is too large to copy, or contains a symlink, becomes a
    /// symlink to the user's own, which the sandbox makes read-only.
    Copied,
    /// A copy of a JSON file, made anew at every start; changes are lost. The file is in the home directory itself or,
    /// if [`OwnDir::variable`] is set, in the directory that the variable names.
    CopiedFromHome {
        /// Keys that are left out of the copy.
        without: &'static [&'static str],
    },
    /// A copy of a JSON file with credentials, made anew at every start. New tokens replace those in the user's file,
    /// unless the copy also has other changes or the user's file was changed in the meantime. Other changes are lost.
    Credentials,
    /// Nothing of the user's. What the program writes is kept for the next start of the same agent or task.
    Kept,
    /// Nothing of the user's. What the program writes is kept for all starts of the CLI agent in a sandbox.
    KeptForAll,
}

impl OwnDir {
    pub(crate) fn path(&self, home: &Path, env: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
        env(self.variable).map_or_else(|| home.join(self.in_home), |named| named.join(self.below))
    }

    pub(crate) fn treatment(&self, name: &str) -> Option<Treatment> {
        let files = self.files.iter().find(|files| files.names.iter().any(|known| matches(known, name)));
        files.map(|files| files.treatment)
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => pattern == name,
    }
}

impl Treatment {
    #[cfg(test)]
    const fn in_words(self) -> &'static str {
        match self {
            Self::Copied => "a copy, made anew at every start",
            Self::CopiedFromHome { .. } => {
                "a copy without MCP servers and projects, made anew at every start"
            }
            Self::Credentials => "a copy, made anew at every start; new tokens are written back",
            Self::Kept => {
                "nothing of yours; what it writes is kept for later starts of the same agent or task"
            }
            Self::KeptForAll => {
                "nothing of yours; what it writes is kept for all its later starts in a sandbox"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::registry::built_in;
    use super::{Treatment, matches};
    use std::path::Path;

    #[test]
    fn a_pattern_has_at_most_one_star() {
        assert!(matches("opencode.db*", "opencode.db") && matches("opencode.db*", "opencode.db-wal"));
        assert!(matches("mcp-*.json", "mcp-a.json") && !matches("mcp-*.json", "mcp-a.toml"));
        assert!(!matches("ab*ba", "aba") && !matches("settings.json", "settings.json.bak"));
    }

    #[test]
    fn only_one_rule_applies_to_each_file_and_every_cli_agent_has_a_private_copy() {
        for adapter in built_in() {
            let dirs = adapter.own_dirs();
            assert!(!dirs.is_empty(), "{}", adapter.name());
            for dir in dirs {
                let names: Vec<&str> = dir.files.iter().flat_map(|files| files.names).copied().collect();
                for (at, name) in names.iter().enumerate() {
                    let others = names.iter().enumerate().filter(|(other, _)| *other != at);
                    let twice: Vec<_> = others.filter(|(_, other)| matches(other, name)).collect();
                    assert!(twice.is_empty() && name.matches('*').count() <= 1, "{}: {name}", dir.in_home);
                    assert!(!name.contains('/'), "{}: {name}", dir.in_home);
                }
            }
        }
    }

    #[test]
    fn the_directories_of_every_cli_agent_are_protected_in_a_writable_home() {
        for adapter in built_in() {
            for dir in adapter.own_dirs() {
                let row = althing_protocol::runs_code(&Path::new(dir.in_home).join("x"));
                assert!(row.is_some_and(|row| row.protected), "{}: {}", adapter.name(), dir.in_home);
            }
        }
    }

    #[test]
    fn the_documentation_has_the_table_of_every_cli_agent() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli-agents.md");
        let page = std::fs::read_to_string(page).unwrap();
        let mut expected = Vec::new();
        for adapter in built_in() {
            for dir in adapter.own_dirs() {
                for files in dir.files {
                    let at = match files.treatment {
                        Treatment::CopiedFromHome { .. } => "~".to_owned(),
                        _ => format!("~/{}", dir.in_home),
                    };
                    let names: Vec<String> = files.names.iter().map(|name| format!("`{name}`")).collect();
                    let (names, words) = (names.join(", "), files.treatment.in_words());
                    expected.push(format!("| `{at}` | {names} | {words} | {} |", files.why));
                }
            }
        }
        let missing: Vec<&String> =
            expected.iter().filter(|row| !page.lines().any(|line| line == **row)).collect();
        assert!(missing.is_empty(), "docs/cli-agents.md lacks these rows:\n{missing:#?}");
        let rows = page.lines().filter(|line| expected.iter().any(|row| row == line)).count();
        let table = page.lines().filter(|line| line.starts_with("| `~")).count();
        assert_eq!((rows, table), (expected.len(), expected.len()), "docs/cli-agents.md has other rows");
    }
}
