//! A fixture for an agent's file tools: a workspace, views, context paths, Althing's state, and a secret outside.

use crate::{FileHost, FilePolicy, Refusal, ToolSet};
use althing_protocol::{ContextAccess, ContextPath};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(super) const SECRET: &str = "canary-7f3a";

/// Deletes the directory even if it contains read-only snapshots.
pub(super) struct Temp(TempDir);

pub(super) fn temp() -> Temp {
    Temp(tempfile::tempdir().unwrap())
}

impl Temp {
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let above = crate::ConfinedDir::open(self.path().parent().unwrap()).unwrap();
        let _ = above.remove_tree(self.path().file_name().unwrap());
    }
}

pub(super) struct Fixture {
    _dir: Temp,
    pub base: PathBuf,
    pub policy: FilePolicy,
    pub host: FileHost,
}

pub(super) fn context(path: &Path, writable: bool, protected: &[&str]) -> ContextPath {
    let protected = protected.iter().map(|p| (*p).to_owned()).collect();
    ContextPath { path: path.to_str().unwrap().to_owned(), writable, protected }
}

pub(super) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

impl Fixture {
    pub(super) fn new() -> Self {
        let dir = temp();
        let base = fs::canonicalize(dir.path()).unwrap();
        for (path, text) in [
            ("project/.althing/run/workspaces/me/ok.txt", "fine\n"),
            ("project/.althing/run/workspaces/me/sub/deep.txt", "deep\n"),
            ("project/.althing/run/workspaces/other/secret.txt", SECRET),
            ("project/.althing/run/workspaces/me-twin/secret.txt", SECRET),
            ("project/.althing/run/views/me/agent2/shown.txt", "shown\n"),
            ("project/.althing/secret.txt", SECRET),
            ("project/src/main.rs", "fn main() {}\n"),
            ("project/.git/config", "[core]\n"),
            ("project/.env", "KEY=1\n"),
            ("project/locked/rules.md", "do not touch\n"),
            ("read-only/notes.txt", "notes\n"),
            ("single/only.txt", "one file\n"),
            ("single/secret.txt", SECRET),
            ("project-twin/secret.txt", SECRET),
            ("outside/secret.txt", SECRET),
            ("outside/dir/secret.txt", SECRET),
        ] {
            write(&base.join(path), text);
        }
        let policy = FilePolicy {
            workspace: base.join("project/.althing/run/workspaces/me"),
            start: None,
            views: vec![base.join("project/.althing/run/views/me")],
            context: vec![
                context(&base.join("project"), true, &["locked"]),
                context(&base.join("read-only"), false, &[]),
                context(&base.join("single/only.txt"), true, &[]),
            ],
            protected: Vec::new(),
            state_dir: Some(base.join("project/.althing")),
            planning: false,
        };
        let host = FileHost::open(&policy, ToolSet::All).unwrap();
        Self { _dir: dir, base, policy, host }
    }

    pub(super) fn at(&self, path: &str) -> String {
        self.base.join(path).to_str().unwrap().to_owned()
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.policy.workspace
    }

    pub(super) fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.workspace().join(name)).unwrap();
    }

    pub(super) fn call(&self, tool: &str, arguments: &Value) -> Result<String, Refusal> {
        self.host.call_blocking(tool, &arguments.to_string(), ContextAccess::Writable)
    }

    pub(super) fn call_reading(&self, tool: &str, arguments: &Value) -> Result<String, Refusal> {
        self.host.call_blocking(tool, &arguments.to_string(), ContextAccess::ReadOnly)
    }

    pub(super) fn write(&self, path: &str, content: &str) -> Result<String, Refusal> {
        self.call("write_file", &json!({"path": path, "content": content}))
    }

    pub(super) fn read(&self, path: &str) -> Result<String, Refusal> {
        self.call("read_file", &json!({"path": path}))
    }

    /// The content of files that an agent must never change: those outside of the context paths, and Althing's state
    /// except the workspace.
    pub(super) fn foreign(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        for dir in ["outside", "project-twin", "single", "project/.althing"] {
            files(&self.base.join(dir), &mut all);
        }
        all.retain(|path, _| !path.starts_with(self.workspace()) && !path.ends_with("only.txt"));
        all
    }
}

pub(super) fn files(dir: &Path, all: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            files(&path, all);
        } else if meta.is_symlink() {
            all.insert(path.clone(), format!("-> {}", fs::read_link(&path).unwrap().display()));
        } else if meta.is_file() {
            all.insert(path.clone(), String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
        }
    }
}

pub(super) fn tree(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    files(dir, &mut all);
    all.into_iter().map(|(path, text)| (path.strip_prefix(dir).unwrap().to_owned(), text)).collect()
}
