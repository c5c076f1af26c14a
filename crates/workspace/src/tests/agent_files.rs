//! An agent's files as a whole: context paths are writable only while they are open, and changes are reported.

use super::fixture::{Temp, context, temp, write};
use crate::{AgentFiles, AgentFilesOptions, ToolSet, UndoCoverage, UndoLimits, Workspace, undo};
use althing_protocol::{
    AgentId, AnswerLabel, ContextAccess, ContextPath, EXCLUDED_NAMES, FileChange, FileWrite, Grant,
    GrantRoot, Member, Modes, RUNS_CODE, RunRules, RunSpec, ToolCall, ToolHost, ToolOutcome,
};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

pub(super) struct RunFixture {
    _dir: Temp,
    pub base: PathBuf,
    pub run: PathBuf,
    pub spec: RunSpec,
    pub coverage: UndoCoverage,
    pub limits: UndoLimits,
}

fn member(id: &str) -> Member {
    Member {
        id: AgentId::from(id),
        backend: "openai".into(),
        model: "m".into(),
        offline: false,
        system_message: None,
        has_tools: true,
        voting_sensitivity: None,
    }
}

impl RunFixture {
    pub(super) fn new(paths: impl FnOnce(&Path) -> Vec<ContextPath>) -> Self {
        let dir = temp();
        let base = fs::canonicalize(dir.path()).unwrap();
        write(&base.join("project/src/a.txt"), "a before\n");
        write(&base.join("project/b.txt"), "b before\n");
        let spec = RunSpec {
            task: "t".into(),
            context: None,
            history: Vec::new(),
            members: vec![member("gem"), member("gpt"), member("sol")],
            context_paths: paths(&base),
            modes: Modes::default(),
            rules: RunRules::default(),
            subagent_of: None,
            plan: None,
            execution: None,
            unapproved_paths: Vec::new(),
            tie_break_seed: 0,
        };
        let run = base.join("project/.althing/sessions/s/tasks/r1");
        fs::create_dir_all(&run).unwrap();
        Self { _dir: dir, base, run, spec, coverage: UndoCoverage::ToolWrites, limits: UndoLimits::default() }
    }

    pub(super) fn writable() -> Self {
        Self::new(|base| vec![context(&base.join("project"), true, &[])])
    }

    fn workspace(&self, member_index: usize) -> PathBuf {
        self.run.join("workspaces").join(self.spec.members[member_index].id.as_str())
    }

    pub(super) fn files(&self, member_index: usize) -> AgentFiles {
        let workspace = self.workspace(member_index);
        let view = GrantRoot::view(Workspace::view_dir_of(&self.run, &workspace));
        let context = self.spec.context_paths.iter().map(GrantRoot::from);
        let grant = Grant {
            workspace: Some(workspace),
            roots: [view].into_iter().chain(context).collect(),
            state_dir: Some(self.base.join("project/.althing")),
            ..Grant::default()
        };
        let options = AgentFilesOptions {
            grant,
            tools: ToolSet::All,
            coverage: self.coverage,
            limits: self.limits,
            max_snapshot_bytes: None,
            disk_limit: u64::MAX,
        };
        AgentFiles::open(&self.run, &options).unwrap()
    }

    pub(super) fn at(&self, path: &str) -> String {
        self.base.join(path).to_str().unwrap().to_owned()
    }

    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.base.join(path)).unwrap()
    }
}

pub(super) async fn call(files: &AgentFiles, tool: &str, arguments: Value) -> ToolOutcome {
    let call = ToolCall { id: "c".into(), name: tool.into(), arguments: arguments.to_string() };
    files.files().call(&call, ContextAccess::Writable).await
}

pub(super) async fn put(files: &AgentFiles, path: &str, content: &str) -> ToolOutcome {
    call(files, "write_file", json!({"path": path, "content": content})).await
}

#[tokio::test]
async fn files_that_run_code_later_are_writable_only_if_the_user_names_them() {
    let fixture = RunFixture::new(|base| {
        write(&base.join("project/named/.envrc"), "");
        write(&base.join("project/.codex/config.toml"), "");
        let named = ["project", "project/named/.envrc", "project/.codex"];
        named.map(|path| context(&base.join(path), true, &[])).to_vec()
    });
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    for path in
        [".envrc", "src/.envrc", ".vscode/tasks.json", ".claude/settings.json", "src/.Husky/pre-commit"]
    {
        let done = put(&files, &fixture.at(&format!("project/{path}")), "x").await;
        assert!(done.is_error && done.content.contains("runs code when"), "{path}: {}", done.content);
        assert!(!fixture.base.join("project").join(path).exists(), "{path}");
    }
    for path in ["named/.envrc", ".codex/config.toml", ".vscode/extensions.json", "src/Makefile"] {
        let done = put(&files, &fixture.at(&format!("project/{path}")), "x").await;
        assert!(!done.is_error, "{path}: {}", done.content);
    }
    assert!(!put(&files, ".envrc", "x").await.is_error);
    for row in RUNS_CODE.iter() {
        let path = fixture.at(&format!("project/every/{}", row.names.join("/")));
        let excluded = row.names.iter().any(|name| EXCLUDED_NAMES.contains(name));
        let done = put(&files, &path, "x").await;
        assert_eq!(done.is_error, row.protected || excluded, "{path}: {}", done.content);
    }
    let writes = files.close_context().await.unwrap();
    let noted = writes.iter().filter_map(|write| write.note.as_deref()).collect::<Vec<_>>();
    assert!(noted.contains(&"runs code when make runs"), "{writes:?}");
    for row in RUNS_CODE.iter().filter(|row| !row.protected && !row.names.contains(&"node_modules")) {
        assert!(noted.contains(&&*format!("runs code when {}", row.when)), "{row:?}: {writes:?}");
    }
}

#[tokio::test]
async fn context_paths_are_writable_only_between_open_and_close() {
    let fixture = RunFixture::writable();
    let files = fixture.files(0);
    let path = fixture.at("project/src/a.txt");
    let early = put(&files, &path, "early").await;
    assert!(early.is_error && early.content.contains("not open for writing"), "{}", early.content);
    files.open_context().await.unwrap();
    let done = put(&files, &path, "after\n").await;
    assert!(!done.is_error, "{}", done.content);
    assert!(!put(&files, &fixture.at("project/new.txt"), "new\n").await.is_error);
    assert!(!call(&files, "delete_file", json!({"path": fixture.at("project/b.txt")})).await.is_error);
    let writes = files.close_context().await.unwrap();
    let write = |path: &str, change| FileWrite { path: fixture.at(path), change, note: None };
    assert_eq!(
        writes,
        [
            write("project/b.txt", FileChange::Deleted),
            write("project/new.txt", FileChange::New),
            write("project/src/a.txt", FileChange::Modified),
        ]
    );
    assert!(put(&files, &path, "late").await.is_error);
    assert_eq!(fixture.text("project/src/a.txt"), "after\n");
    assert!(files.take_notices().is_empty());
}

#[tokio::test]
async fn a_resumed_run_compares_with_the_first_recorded_state() {
    let fixture = RunFixture::writable();
    let first = fixture.files(0);
    first.open_context().await.unwrap();
    put(&first, &fixture.at("project/one.txt"), "1").await;
    drop(first);
    let second = fixture.files(0);
    second.open_context().await.unwrap();
    put(&second, &fixture.at("project/two.txt"), "2").await;
    let writes = second.close_context().await.unwrap();
    let paths: Vec<_> = writes.into_iter().map(|write| write.path).collect();
    assert_eq!(paths, [fixture.at("project/one.txt"), fixture.at("project/two.txt")]);
    let third = fixture.files(0);
    assert_eq!(third.close_context().await.unwrap().len(), 2, "closing again returns the same");
}

#[tokio::test]
async fn without_writable_paths_there_is_nothing_to_open() {
    let fixture = RunFixture::new(|base| {
        vec![context(&base.join("project"), false, &[]), context(&base.join("missing"), false, &[])]
    });
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    assert!(put(&files, &fixture.at("project/b.txt"), "x").await.is_error);
    assert_eq!(files.close_context().await.unwrap(), []);
    assert!(!fixture.run.join("preimages").exists());
    assert!(files.take_notices()[0].contains("missing does not exist"));
}

#[tokio::test]
async fn agents_can_read_but_not_change_each_others_snapshots() {
    let fixture = RunFixture::writable();
    let (one, two) = (fixture.files(0), fixture.files(1));
    assert_eq!(one.path(), fixture.workspace(0).to_str().unwrap());
    put(&one, "report.md", "found it\n").await;
    one.take_snapshot(AnswerLabel { agent: 1, nth: 1 }).await.unwrap();
    two.show_snapshots(vec![AnswerLabel { agent: 1, nth: 1 }]).await.unwrap();
    let path = format!("{}/report.md", two.view_of(1));
    assert!(call(&two, "read_file", json!({"path": path})).await.content.contains("found it"));
    for (tool, arguments) in [
        ("write_file", json!({"path": path, "content": "x"})),
        ("edit_file", json!({"path": path, "old": "found", "new": "lost"})),
        ("delete_file", json!({"path": path})),
    ] {
        let refused = call(&two, tool, arguments).await;
        assert!(
            refused.is_error && refused.content.contains("snapshot of another agent"),
            "{}",
            refused.content
        );
    }
    let live = format!("{}/report.md", one.path());
    assert!(
        call(&two, "read_file", json!({"path": live})).await.is_error,
        "an agent cannot read another agent's workspace"
    );
    let reopened = fixture.files(1);
    assert!(call(&reopened, "read_file", json!({"path": path})).await.content.contains("found it"));
}

#[tokio::test]
async fn beyond_the_limits_a_notice_is_given_and_tool_changes_can_still_be_undone() {
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    fixture.limits = UndoLimits { bytes: 10, files: 50_000 };
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    assert!(files.take_notices()[0].contains("undo"));
    put(&files, &fixture.at("project/b.txt"), "by a tool").await;
    write(&fixture.base.join("project/src/a.txt"), "by a command");
    files.close_context().await.unwrap();
    let report = undo(&fixture.run).unwrap();
    assert_eq!(report.restored, [fixture.at("project/b.txt")]);
    assert_eq!(report.not_covered, [fixture.at("project/src/a.txt")]);
    assert_eq!(fixture.text("project/b.txt"), "b before\n");
    assert_eq!(fixture.text("project/src/a.txt"), "by a command");
}
