//! Arguments of the file tools as models write them: one call per line, the tool's name, a space, its arguments. The
//! calls run in a directory with an agent's workspace, a view, context paths, and canary files around them. Whatever is
//! called, nothing outside changes, no canary is revealed, and every call has its own outcome.

use althing_protocol::{ContextAccess, ContextPath, ToolCall, ToolHost};
use althing_workspace::{FileHost, FilePolicy, ToolSet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The content of every file that the agent has no access to.
const CANARY: &str = "canary-7f3a-outside";
/// Enough that a call can build on earlier calls.
const MOST_CALLS: usize = 8;
const MOST_RESULT: usize = 1024 * 1024;

thread_local! {
    static YARD: RefCell<TestDir> = RefCell::new(TestDir::new());
}

pub(crate) fn check(bytes: &[u8]) {
    YARD.with_borrow_mut(|yard| yard.check(&String::from_utf8_lossy(bytes)));
}

struct TestDir {
    _dir: TempDir,
    base: PathBuf,
    host: FileHost,
    runtime: Runtime,
    outside: BTreeMap<PathBuf, String>,
}

impl TestDir {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let base = fs::canonicalize(dir.path()).expect("it is there");
        for (path, text) in [
            ("project/.althing/run/views/me/agent2/shown.txt", "shown\n"),
            ("project/.althing/run/workspaces/other/secret.txt", CANARY),
            ("project/.althing/secret.txt", CANARY),
            ("project/.git/config", "[core]\n"),
            ("project/locked/rules.md", "do not touch\n"),
            ("read-only/notes.txt", "notes\n"),
            ("single/secret.txt", CANARY),
            ("single/only.txt", "one file\n"),
            ("outside/secret.txt", CANARY),
        ] {
            put(&base.join(path), text);
        }
        fs::create_dir_all(base.join("project/.althing/run/workspaces/me")).expect("room");
        let context = |path: &str, writable: bool, protected: &[&str]| ContextPath {
            path: base.join(path).to_string_lossy().into_owned(),
            writable,
            protected: protected.iter().map(|name| (*name).to_owned()).collect(),
        };
        let policy = FilePolicy {
            workspace: base.join("project/.althing/run/workspaces/me"),
            start: None,
            views: vec![base.join("project/.althing/run/views/me")],
            context: vec![
                context("project", true, &["locked"]),
                context("read-only", false, &[]),
                context("single/only.txt", false, &[]),
            ],
            protected: Vec::new(),
            state_dir: Some(base.join("project/.althing")),
            planning: false,
        };
        let host = FileHost::open(&policy, ToolSet::All).expect("a host");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut yard = Self { _dir: dir, base, host, runtime, outside: BTreeMap::new() };
        yard.reset();
        yard.outside = yard.read_outside();
        yard
    }

    fn workspace(&self) -> PathBuf {
        self.base.join("project/.althing/run/workspaces/me")
    }

    fn reset(&self) {
        let given = [self.workspace(), self.base.join("project")];
        for dir in &given {
            for entry in fs::read_dir(dir).expect("it is there").flatten() {
                if [".althing", ".git", "locked"].iter().any(|kept| entry.file_name() == *kept) {
                    continue;
                }
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    fs::remove_dir_all(&path).expect("it is ours");
                } else {
                    fs::remove_file(&path).expect("it is ours");
                }
            }
        }
        let workspace = self.workspace();
        put(&workspace.join("ok.txt"), "one\ntwo\nthree\n");
        put(&workspace.join("sub/deep.txt"), "deep\n");
        put(&self.base.join("project/src/main.rs"), "fn main() {}\n");
        for (name, target) in [
            ("out", self.base.join("outside")),
            ("out.txt", self.base.join("outside/secret.txt")),
            ("up", PathBuf::from("../../..")),
            ("round", workspace.join("round")),
            ("in", PathBuf::from("sub")),
        ] {
            symlink(target, workspace.join(name)).expect("room");
        }
    }

    fn check(&mut self, text: &str) {
        let calls: Vec<ToolCall> = text.lines().take(MOST_CALLS).map(|line| self.call(line)).collect();
        for (call, access) in
            calls.iter().zip([ContextAccess::Writable, ContextAccess::ReadOnly].into_iter().cycle())
        {
            let outcome = self.runtime.block_on(self.host.call(call, access));
            assert!(!outcome.content.starts_with("the tool failed unexpectedly"), "{}", outcome.content);
            assert!(!outcome.is_error || !outcome.content.is_empty(), "a refusal without a word");
            assert!(outcome.content.len() <= MOST_RESULT, "{} bytes of result", outcome.content.len());
            assert!(
                !outcome.content.contains(CANARY) || text.contains("canary"),
                "{call:?}: {}",
                outcome.content
            );
        }
        let outside = self.read_outside();
        assert_eq!(outside, self.outside, "something outside changed");
        self.reset();
    }

    /// Parses a line as a call. `@` stands for the test directory.
    fn call(&self, line: &str) -> ToolCall {
        let line = line.replace('@', &self.base.to_string_lossy());
        let (name, arguments) = line.split_once(' ').unwrap_or((&line, "{}"));
        ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    fn read_outside(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        walk(&self.base, &mut all);
        let (workspace, project) = (self.workspace(), self.base.join("project"));
        let closed = [".althing", ".git", "locked"].map(|name| project.join(name));
        all.retain(|path, _| {
            let theirs = path.starts_with(&workspace)
                || (path.starts_with(&project) && !closed.iter().any(|closed| path.starts_with(closed)));
            !theirs
        });
        all
    }
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("room");
    fs::write(path, text).expect("room");
}

fn walk(dir: &Path, all: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(dir).expect("it is there") {
        let path = entry.expect("an entry").path();
        let meta = fs::symlink_metadata(&path).expect("it is there");
        let what = if meta.is_dir() {
            walk(&path, all);
            "directory".to_owned()
        } else if meta.is_symlink() {
            format!("link to {}", fs::read_link(&path).expect("a link").display())
        } else {
            String::from_utf8_lossy(&fs::read(&path).expect("a file")).into_owned()
        };
        all.insert(path, what);
    }
}
