//! Tests of what a watch finds, for one directory at a time.

use super::*;
use crate::git_code::git_code;
use crate::listing::SearchLimits;
use std::path::Path;
use std::time::Duration;

fn put(root: &Path, path: &str, text: &str) {
    std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
    std::fs::write(root.join(path), text).unwrap();
}

fn watch(dir: &Path, work_dirs: &[&str], limits: SearchLimits) -> CodeWatch {
    let other_dirs = work_dirs.iter().map(|path| dir.join(path)).collect();
    let grant = Grant { other_dirs, ..Grant::project(dir.to_owned()) };
    CodeWatch { limits, ..CodeWatch::of(&grant) }.searched()
}

#[test]
fn a_search_that_stopped_at_any_limit_is_pointed_out_even_if_the_first_one_stopped_there_too() {
    let all = SearchLimits::default();
    for limits in [
        SearchLimits { entries: 100, ..all },
        SearchLimits { files: 100, ..all },
        SearchLimits { time: Duration::ZERO, ..all },
    ] {
        for existing in [0, 101] {
            let dir = tempfile::tempdir().unwrap();
            put(dir.path(), "src/main.rs", "before");
            let add = |numbers: std::ops::Range<usize>| {
                numbers.for_each(|n| put(dir.path(), &format!("a/{n}.code-workspace"), ""));
            };
            add(0..existing);
            let watch = watch(dir.path(), &[], limits);
            add(existing..101);
            put(dir.path(), "src/hidden/.envrc", "planted");
            let written = watch.written_now().unwrap();
            assert!(written.is_incomplete, "{limits:?} {existing}");
            let notice = written.notice().text;
            assert!(notice.contains("were searched"), "{notice}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "src/main.rs", "before");
    assert!(watch(dir.path(), &[], all).written_now().is_none());
}

#[test]
fn code_in_a_working_directory_and_above_it_is_found_even_if_there_are_too_many_files() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    (0..101).for_each(|n| put(&root, &n.to_string(), ""));
    put(&root, "a/b/c/x", "");
    put(&root, "bare/w/x", "");
    let limits = SearchLimits { entries: 100, ..SearchLimits::default() };
    let watch = watch(&root, &["a/b/c", "bare/w"], limits);
    let expected = ["a/b/.git", "a/b/c/.git", "a/b/x.code-workspace", "a/x.code-workspace", "bare"];
    for path in ["a/b/c/.git/config", "bare/HEAD", "bare/objects/x", "bare/refs/x"].iter().chain(&expected) {
        if root.join(path).symlink_metadata().is_err() {
            put(&root, path, "planted");
        }
    }
    let written = watch.written_now().unwrap();
    let found: Vec<&Path> = written.files.iter().map(|(path, _)| path.strip_prefix(&root).unwrap()).collect();
    assert_eq!(found, expected.map(Path::new));
}

#[test]
fn a_command_of_git_that_names_scripts_by_a_pattern_for_directories_counts_only_in_a_search() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for (alias, script, expected) in [
        ("!for f in t*/*.sh; do sh $f; done", "tools/x.sh", true),
        ("!sh tools/*/run", "tools/a/run", true),
        ("!make test", "tools/x.sh", false),
    ] {
        put(&root, ".git/config", &format!("[alias]\nzz = \"{alias}\"\n"));
        put(&root, script, "before");
        put(&root, ".althing/log", "before");
        let watch = watch(&root, &[], SearchLimits::default());
        put(&root, script, "after");
        put(&root, ".althing/log", "after");
        let found = watch.written_now().map(|written| written.files).unwrap_or_default();
        let found: Vec<&Path> = found.iter().map(|(path, _)| path.strip_prefix(&root).unwrap()).collect();
        let expected: &[&Path] = if expected { &[Path::new(script)] } else { &[] };
        assert_eq!(found, expected, "{alias}");
        let protected = git_code(std::slice::from_ref(&root), &[], &[]);
        assert!(protected.unknown.is_empty(), "{alias}: {protected:?}");
    }
}

#[tokio::test]
async fn code_for_git_is_named_whatever_the_name_of_its_directory_is() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    put(&root, ".git/config", "[core]\nhooksPath = tools/hooks\n");
    for path in [".git/hooks/pre-push", "tools/hooks/pre-commit", "old/HEAD", "old/objects/x", "old/refs/x"] {
        put(&root, path, "before");
    }
    let grant = Grant::project(root.clone());
    let watch = CodeWatch::start(&grant).await;
    put(&root, "old/objects/y", "after");
    put(&root, ".git/config", "[core]\nhooksPath = tools/hooks\n[user]\nname = x\n");
    assert!(watch.written().await.is_none());
    let watch = CodeWatch::start(&grant).await;
    for path in ["target/bare/HEAD", "target/bare/objects/x", "target/bare/refs/x", "target/bare/config"] {
        put(&root, path, "after");
    }
    put(&root, "node_modules/x/HEAD", "after");
    put(&root, "node_modules/x/commondir", "after");
    put(&root, ".git/hooks/pre-push", "after");
    put(&root, "tools/hooks/post-commit", "after");
    put(&root, "old/config", "[core]\nfsmonitor = touch x\n");
    let notice = watch.written().await.unwrap().notice().text;
    let expected =
        [".git/hooks/pre-push", "node_modules/x", "old/config", "target/bare", "tools/hooks/post-commit"];
    let named = expected.map(|path| format!("{} (runs code when git", root.join(path).display()));
    assert!(named.iter().all(|named| notice.contains(named)), "{notice}");
    assert_eq!(notice.matches("(runs code").count(), expected.len(), "{notice}");
}

#[tokio::test]
async fn new_and_changed_files_that_run_code_later_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for path in [".envrc", ".vscode/tasks.json", ".git/config", "src/main.rs", ".claude/settings.json"] {
        put(root, path, "before");
    }
    let grant = Grant::project(root.to_owned());
    assert!(CodeWatch::start(&grant).await.written().await.is_none());
    let watch = CodeWatch::start(&grant).await;
    let written =
        [".mcp.json", ".vscode/tasks.json", "althing.yaml", "sub/.git/config", ".claude/agents/x.md"];
    for path in written.iter().chain(&[".git/index", "src/main.rs", "Makefile", "package.json"]) {
        put(root, path, "after");
    }
    let notice = watch.written().await.unwrap().notice();
    for path in [".mcp.json", ".vscode/tasks.json", "althing.yaml", "sub/.git", ".claude/agents/x.md"] {
        assert!(
            notice.text.contains(&format!("{} (runs code when ", root.join(path).display())),
            "{notice:?}"
        );
    }
    for path in [".git/index", "main.rs", "Makefile", "package.json", ".envrc"] {
        assert!(!notice.text.contains(path), "{path}: {notice:?}");
    }
    let planning = Grant { planning: true, ..grant };
    assert!(CodeWatch::start(&planning).await.roots.is_empty());
}

#[tokio::test]
async fn every_file_of_an_existing_repository_that_leads_git_to_code_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let bare = |name: &str| {
        for file in ["HEAD", "objects/x", "refs/x"] {
            put(&root, &format!("{name}/{file}"), "");
        }
    };
    for name in ["a/.git", "b/.git", "c/.git", "d/.git", "d/.git/modules/sub", "e/.git", "e/.git/worktrees/w"]
    {
        bare(name);
        put(&root, &format!("{name}/config"), "[core]\nbare = false\n");
    }
    let grant = Grant::project(root.clone());
    assert!(CodeWatch::start(&grant).await.written().await.is_none());
    let watch = CodeWatch::start(&grant).await;
    let padding = format!("# {}\n", "x".repeat(2 << 20));
    put(&root, "a/.git/config", &format!("{padding}[core]\nfsmonitor = touch x\n"));
    std::fs::File::create(root.join("b/.git/config")).unwrap().set_len(65 << 20).unwrap();
    put(&root, "c/.git/commondir", "../../common\n");
    put(&root, "d/.git/modules/sub/hooks/pre-commit", "after");
    put(&root, "d/.git/config", "[extensions]\nworktreeConfig = true\n");
    put(&root, "e/.git/worktrees/w/config.worktree", "[core]\nfsmonitor = touch x\n");
    put(&root, "e/.git/config", "[core]\nworktree = ../../a\n");
    put(&root, "e/.git/modules/new/config", "x");
    let notice = watch.written().await.unwrap().notice().text;
    let expected = [
        "a/.git/config",
        "b/.git/config",
        "c/.git/commondir",
        "d/.git/config",
        "d/.git/modules/sub/hooks/pre-commit",
        "e/.git/config",
        "e/.git/worktrees/w/config.worktree",
    ];
    for path in expected {
        assert!(notice.contains(&format!("{} (runs code when git", root.join(path).display())), "{notice}");
    }
    assert_eq!(notice.matches("(runs code").count(), expected.len(), "{notice}");
}
