//! Tests of the list of code that agents wrote: what keeps a program from starting without a sandbox, also after
//! Althing was killed. Tests with real programs are in `tests/suite/confined.rs`.

use super::*;
use althing_protocol::{GrantRoot, RootKind};
use std::sync::Mutex;

const HOOK: &str = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"sh tools/hook.sh"}]}]}}"#;

struct World {
    _dir: tempfile::TempDir,
    base: PathBuf,
    told: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let world = Self { _dir: dir, base, told: Arc::default() };
        for (path, text) in [(".claude/settings.json", HOOK), ("tools/hook.sh", "before"), ("notes.txt", "")]
        {
            world.put(path, text);
        }
        std::fs::create_dir_all(world.project("sub")).unwrap();
        world
    }

    fn project(&self, path: &str) -> PathBuf {
        self.base.join("project").join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.project(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn task(&self, name: &str) -> PathBuf {
        self.base.join("tasks").join(name)
    }

    fn grant(&self, path: &str) -> Grant {
        let root = GrantRoot {
            path: self.project(path),
            kind: RootKind::Context,
            writable: true,
            protected: Vec::new(),
        };
        Grant { roots: vec![root], other_dirs: vec![self.project("")], ..Grant::default() }
    }

    fn notices(&self) -> NoticeSink {
        let told = Arc::clone(&self.told);
        Arc::new(move |notice: Notice| told.lock().unwrap().push(notice.text))
    }

    async fn open(&self, list: &Arc<PlantedCode>, path: &str) {
        list.open(&self.task("run"), &self.grant(path), &self.notices()).await.unwrap();
    }

    /// The list of a session that was resumed.
    async fn resumed(&self) -> Arc<PlantedCode> {
        let list = Arc::new(PlantedCode::default());
        list.load(&self.task("other"), &self.notices()).await;
        list
    }

    #[track_caller]
    fn assert_named(&self, problem: impl Into<Option<String>>, path: &str) {
        let problem = problem.into();
        let named = format!("{} (runs code when", self.project(path).display());
        assert!(problem.as_ref().is_some_and(|problem| problem.contains(&named)), "{path}: {problem:?}");
    }
}

async fn problem(list: &PlantedCode, cwd: &Path) -> Option<String> {
    list.problem(cwd, "claude").await
}

#[tokio::test]
async fn what_an_agent_wrote_counts_while_it_can_write_and_afterwards_until_it_is_deleted() {
    let (world, list) = (World::new(), Arc::new(PlantedCode::default()));
    let (cwd, elsewhere) = (world.project(""), world.base.join("elsewhere"));
    world.open(&list, "").await;
    world.put("src/main.rs", "fn main() {}");
    assert_eq!(problem(&list, &cwd).await, None);
    world.put(".mcp.json", "{}");
    world.assert_named(problem(&list, &cwd).await, ".mcp.json");
    list.close(&world.task("run")).await;
    world.assert_named(problem(&list, &world.project("sub")).await, ".mcp.json");
    assert_eq!(problem(&list, &elsewhere).await, None);
    std::fs::remove_file(world.project(".mcp.json")).unwrap();
    assert_eq!(problem(&list, &cwd).await, None);
    // What somebody else writes after the agent does not count.
    world.put("tools/hook.sh", "changed");
    assert_eq!(problem(&list, &cwd).await, None);
}

/// Each row: the context path, what the agent writes, and the directory of the program that is not started.
#[tokio::test]
async fn a_context_path_may_be_any_file_or_directory_of_the_project() {
    for (root, written, cwd) in [
        ("tools/hook.sh", "tools/hook.sh", ""),
        ("tools", "tools/hook.sh", "sub"),
        (".envrc", ".envrc", "sub"),
        (".claude", ".claude/settings.local.json", "sub"),
        (".claude/agents", ".claude/agents/x.md", "sub"),
        (".claude/settings.json", ".claude/settings.json", "sub"),
    ] {
        let (world, list) = (World::new(), Arc::new(PlantedCode::default()));
        if root != written {
            std::fs::create_dir_all(world.project(root)).unwrap();
        }
        world.open(&list, root).await;
        world.put(written, "written by the agent");
        list.close(&world.task("run")).await;
        world.assert_named(problem(&list, &world.project(cwd)).await, written);
    }
    let (world, list) = (World::new(), Arc::new(PlantedCode::default()));
    world.open(&list, "notes.txt").await;
    world.put("notes.txt", "written by the agent");
    list.close(&world.task("run")).await;
    assert_eq!(problem(&list, &world.project("")).await, None);
}

#[tokio::test]
async fn a_resume_accepts_what_an_agent_wrote_only_after_an_error_named_it() {
    let (world, list) = (World::new(), Arc::new(PlantedCode::default()));
    let cwd = world.project("");
    world.open(&list, "").await;
    world.put("tools/hook.sh", "written by the agent");
    list.close(&world.task("run")).await;
    world.assert_named(problem(&*world.resumed().await, &cwd).await, "tools/hook.sh");
    assert_eq!(problem(&*world.resumed().await, &cwd).await, None);
}

#[tokio::test]
async fn an_agent_that_was_interrupted_while_it_could_write_is_watched_from_the_resume_on() {
    let (world, list) = (World::new(), Arc::new(PlantedCode::default()));
    let (cwd, run) = (world.project(""), world.task("run"));
    world.open(&list, "").await;
    world.put("tools/hook.sh", "written before the crash");
    drop(list);
    let list = world.resumed().await;
    world.assert_named(problem(&list, &cwd).await, "tools/hook.sh");
    assert!(world.told.lock().unwrap()[0].contains("tools/hook.sh"));
    list.reopen(&run, &world.grant(""), &world.notices()).await.unwrap();
    world.put(".mcp.json", "{}");
    list.open(&run, &world.grant(""), &world.notices()).await.unwrap();
    list.close(&run).await;
    world.assert_named(problem(&list, &cwd).await, ".mcp.json");
    // An agent that was not interrupted is not watched before it may write.
    list.reopen(&world.task("other"), &world.grant(""), &world.notices()).await.unwrap();
    world.put(".gemini/settings.json", "{}");
    assert!(!problem(&list, &cwd).await.unwrap().contains(".gemini"));
}

#[tokio::test]
async fn several_at_once_in_one_task_are_watched_and_survive_a_crash() {
    let (world, list) = (World::new(), Arc::new(PlantedCode::default()));
    let (cwd, run, notices) = (world.project(""), world.task("run"), world.notices());
    let (grant, inner) = (world.grant("tools"), world.grant("sub"));
    let stored = list.during(&run, &grant, &notices, async {
        let write = || world.put("sub/.envrc", "written by the second agent");
        list.during_blocking(&run, &inner, &notices, write).unwrap();
        world.put("tools/hook.sh", "written by the first agent");
        world.resumed().await
    });
    let stored = stored.await.unwrap();
    for list in [list, stored] {
        let found = problem(&list, &cwd).await;
        world.assert_named(found.clone(), "tools/hook.sh");
        world.assert_named(found, "sub/.envrc");
    }
}

/// A repository planted below more files than a search once read.
#[tokio::test]
async fn code_in_a_project_with_many_files_is_found_wherever_it_is() {
    let (world, list) = (World::new(), Arc::new(PlantedCode::default()));
    std::fs::create_dir_all(world.project("data")).unwrap();
    for n in 0..=20_000 {
        std::fs::File::create(world.project(&format!("data/{n}"))).unwrap();
    }
    std::fs::create_dir_all(world.project("a/b/c")).unwrap();
    world.open(&list, "").await;
    for (path, text) in [("HEAD", ""), ("config", "[core]\nfsmonitor = touch x\n"), ("objects/x", "")] {
        world.put(&format!("a/b/.git/{path}"), text);
    }
    list.close(&world.task("run")).await;
    for cwd in ["a/b", "a/b/c"] {
        world.assert_named(problem(&list, &world.project(cwd)).await, "a/b/.git");
    }
    assert_eq!(problem(&list, &world.project("data")).await, None);
}

#[tokio::test]
async fn a_deleted_file_that_a_command_names_counts_as_written() {
    let (world, list) = (World::new(), Arc::new(PlantedCode::default()));
    let hook = HOOK.replace("sh tools/hook.sh", "test -e tools/safe || sh tools/hook.sh");
    world.put(".claude/settings.json", &hook);
    for path in ["tools/safe", ".envrc", "old.git/HEAD", "old.git/objects/x", "old.git/refs/x"] {
        world.put(path, "");
    }
    world.open(&list, "").await;
    for path in ["notes.txt", ".envrc"] {
        std::fs::remove_file(world.project(path)).unwrap();
    }
    std::fs::remove_dir_all(world.project("old.git")).unwrap();
    assert_eq!(problem(&list, &world.project("")).await, None);
    std::fs::remove_file(world.project("tools/safe")).unwrap();
    list.close(&world.task("run")).await;
    world.assert_named(problem(&*world.resumed().await, &world.project("sub")).await, "tools/safe");
    world.assert_named(problem(&list, &world.project("")).await, "tools/safe");
}
