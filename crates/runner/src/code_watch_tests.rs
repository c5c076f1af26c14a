//! Tests of what a watch finds, for one directory at a time.

use super::*;
use std::path::Path;

fn put(root: &Path, path: &str, text: &str) {
    std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
    std::fs::write(root.join(path), text).unwrap();
}

#[tokio::test]
async fn so_many_new_files_that_not_all_are_searched_are_pointed_out() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    put(root, "src/main.rs", "before");
    let watch = CodeWatch::start(&Grant::project(root.to_owned())).await;
    for n in 0..=MAX_ENTRIES {
        std::fs::File::create(root.join(format!("{n}"))).unwrap();
    }
    put(root, "src/hidden/.envrc", "planted");
    let notice = watch.written().await.unwrap().notice();
    assert!(notice.text.contains("not all of them were searched"), "{}", notice.text);
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
