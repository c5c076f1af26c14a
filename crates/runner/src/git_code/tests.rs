//! Tests of what git runs: which paths are found in directories with repositories.

use super::*;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

fn put(root: &Path, path: &str, text: &str) {
    std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
    std::fs::write(root.join(path), text).unwrap();
}

fn found(root: &Path, user: &UserConfig) -> Vec<String> {
    let top = root.join("top");
    let code = code_within(std::slice::from_ref(&top), &[], &[], MAX_ENTRIES, user);
    assert!(code.config_files.iter().all(|file| code.paths.contains(file)));
    code.paths.iter().map(|path| path.strip_prefix(&top).unwrap().display().to_string()).collect()
}

#[test]
fn what_the_config_of_a_repository_names_is_found_even_if_it_is_missing() {
    for (config, expected) in [
        ("[core]\nhooksPath = tools/hooks\n", &["tools/hooks"] as &[&str]),
        ("[core] hooksPath = \"tools/hooks\" ; ours\n", &["tools/hooks"]),
        ("[core]\nhooksPath = not/yet\n", &["not/yet"]),
        // Git runs the hooks of a push in the git directory, so the path is relative to it.
        ("[core]\nhooksPath = ../elsewhere\n", &["elsewhere"]),
        ("[core]\nhooksPath = ../../elsewhere\n", &[]),
        ("[core]\nhooksPath = link/hooks\n", &["link", "tools/hooks"]),
        ("[core]\nhooksPath = link/new\n", &["link", "tools/new"]),
        ("[include]\npath = ../team.gitconfig\n", &["ci/hooks", "more.gitconfig", "team.gitconfig"]),
        ("[includeIf \"gitdir:x\"]\npath = ../local\n", &["local"]),
        ("[core]\nfsmonitor = tools/x\n", &["tools/x"]),
        ("[filter \"a\"]\nclean = python3 tools/x %f\nsmudge = cat\n", &["tools/x"]),
        ("[alias]\na = !\"$(git rev-parse --show-toplevel)/tools/x\"\n", &["tools/x"]),
        ("[core]\neditor = ./not/there -w\n", &["not/there"]),
        ("[core]\neditor = node_modules/.bin/there\n", &[]),
        ("[core]\neditor = vim -u none\n[user]\nname = tools/x\n", &[]),
        // Spaces in a value are kept, and `..` after a symlink means the directory above the symlink's target.
        ("[core]\nhooksPath = \"hooks \"\n", &["hooks "]),
        ("[core]\nhooksPath = link/../hooks\n", &["hooks", "link", "tools"]),
        ("[core]\nhooksPath = tools/hooks/../../new\n", &["new", "tools", "tools/hooks"]),
        ("[core]\nworktree = ../../elsewhere\nhooksPath = ../top/h\n", &["h", "top/h"]),
        ("[core]\nfsmonitor = $PWD/tools/x\n", &["tools/x"]),
        ("[core]\nfsmonitor = cd tools && ./x\n", &["tools/x", "x"]),
        ("[core]\nfsmonitor = PATH=$PATH:tools x\n", &["tools/x"]),
        ("[core]\nfsmonitor = sh fsm\n", &["fsm"]),
        ("[core]\nfsmonitor = sh tools/new\n", &["tools/new"]),
        ("[core]\npager = \"\\\"$GIT_DIR/../tools/x\\\"\"\n", &["tools/x"]),
        (
            "[merge \"a\"]\ndriver = node tools/drv %O\n",
            &["tools/drv", "tools/drv.cjs", "tools/drv.js", "tools/drv.mjs"],
        ),
        ("[merge \"a\"]\ndriver = node lib/pkg %O\n", &["lib/pkg/index.js"]),
        ("[diff \"a\"]\ntextconv = run-parts tools/h*\n", &["tools"]),
        ("[alias]\nt = rebase -x ./tools/x HEAD~1\nu = -c core.fsmonitor=tools/x status\n", &["tools/x"]),
        ("[alias]\nt = -c core.hooksPath=tools/hooks commit\n", &["tools/hooks"]),
        ("[alias]\nt = checkout main\nu = log --all\n", &[]),
        ("[new \"a\"]\nprogram = ./run.sh fsm\n", &["run.sh"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in [
            "top/tools/hooks/pre-commit",
            "top/tools/x",
            "top/tools/drv.js",
            "top/lib/pkg/index.js",
            "top/fsm",
            "top/main.py",
        ] {
            put(&root, path, "");
        }
        put(&root, "elsewhere/x", "");
        put(&root, "top/run.sh", "");
        std::fs::set_permissions(root.join("top/run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("tools", root.join("top/link")).unwrap();
        put(&root, "top/team.gitconfig", "[include]\npath = more.gitconfig\n");
        put(&root, "top/more.gitconfig", "[core]\nhooksPath = ci/hooks\n");
        put(&root, "top/.git/config", config);
        assert_eq!(found(&root, &UserConfig::default()), expected, "{config}");
    }
}

#[test]
fn a_git_file_that_leads_anywhere_switches_off_no_protection() {
    for target in ["/", "..", "../..", "."] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        put(&root, "top/.git/config", "[core]\nhooksPath = hooks\n");
        put(&root, "top/sub/.git", &format!("gitdir: {target}\n"));
        let user = UserConfig::of(std::iter::empty(), None);
        let code = code_within(&[root.join("top")], &[], &[], MAX_ENTRIES, &user);
        assert!(code.paths.contains(&root.join("top/hooks")), "{target}: {:?}", code.paths);
    }
}

#[test]
fn every_repository_in_a_directory_and_the_one_around_it_are_asked() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    put(&root, ".git/config", "[core]\nhooksPath = top/outer-hooks\n");
    put(&root, "top/nested/.git/config", "[core]\nhooksPath = hooks\n");
    put(&root, "top/tree/.git", "gitdir: ../split/own\n");
    put(&root, "top/split/own/commondir", "../shared\n");
    put(&root, "top/split/own/config.worktree", "[core]\nhooksPath = of-worktree\n");
    put(&root, "top/split/shared/config", "[diff \"x\"]\ncommand = ./shared.sh\n");
    for file in ["HEAD", "objects/x", "refs/x"] {
        put(&root, &format!("top/bare/{file}"), "");
    }
    put(&root, "top/bare/config", "[core]\nhooksPath = ../for-bare\n");
    put(&root, "home/.gitconfig", "[core]\nhooksPath = .team\n[include]\npath = ~/../top/dotfiles/git\n");
    put(&root, "top/dotfiles/git", "[gpg]\nprogram = /bin/true\n");
    let user = UserConfig::of([root.join("home/.gitconfig")].into_iter(), Some(root.join("home")));
    let expected = [
        "bare",
        "dotfiles/git",
        "for-bare",
        "nested/.team",
        "nested/hooks",
        "outer-hooks",
        "split/own",
        "split/shared",
        "tree/.team",
        "tree/of-worktree",
        "tree/shared.sh",
    ];
    assert_eq!(found(&root, &user), expected);
}

#[test]
fn hooks_that_are_symlinks_lead_to_files_that_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    put(&root, "top/.git/hooks/x.sample", "");
    put(&root, "top/scripts/pre-commit", "");
    for (target, link) in [("../../scripts/pre-commit", "pre-commit"), ("../../scripts/none", "pre-push")] {
        std::os::unix::fs::symlink(target, root.join("top/.git/hooks").join(link)).unwrap();
    }
    assert_eq!(found(&root, &UserConfig::default()), ["scripts/none", "scripts/pre-commit"]);
}

#[test]
fn hooks_in_the_top_directory_are_protected_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    put(&root, "top/.git/config", "[core]\nhooksPath = .\n");
    let found = found(&root, &UserConfig::default());
    assert_eq!(found, HOOKS);
    put(&root, "top/.git/config", "[core]\nhooksPath = /dev/null\n[include]\npath = /dev/zero\n");
    assert!(code_within(&[root.join("top")], &[], &[], MAX_ENTRIES, &UserConfig::default()).paths.is_empty());
}

#[test]
fn includes_that_never_end_are_followed_to_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    put(&root, "top/.git/config", "[include]\npath = ../a\npath = config\n");
    put(&root, "top/a", "[include]\npath = a\npath = b\n");
    put(&root, "top/b", "[include]\npath = a\n[core]\nhooksPath = deep\n");
    assert_eq!(found(&root, &UserConfig::default()), ["a", "b", "deep"]);
    assert!(
        code_within(&[root.join("missing")], &[], &[], MAX_ENTRIES, &UserConfig::default()).paths.is_empty()
    );
}

#[test]
fn symlinks_in_the_middle_of_a_path_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    put(&root, "top/v1/scripts/pre-commit", "");
    put(&root, "top/.git/hooks/x.sample", "");
    put(&root, "top/tree/.git", "gitdir: ../to/store\n");
    put(&root, "top/v1/store/config", "");
    for (target, link) in
        [("v1", "top/cur"), ("v1", "top/to"), ("../../cur/scripts/pre-commit", "top/.git/hooks/pre-commit")]
    {
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
    let expected = ["cur", "to", "v1/scripts/pre-commit", "v1/store"];
    assert_eq!(found(&root, &UserConfig::default()), expected);
}

#[test]
fn repositories_take_code_from_other_directories() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["proj", "read-only", "around/sub"] {
        let config = format!("[core]\nhooksPath = {}/shared/of-{}\n", root.display(), name.replace('/', "-"));
        put(&root, &format!("{}/.git/config", name.trim_end_matches("/sub")), &config);
        put(&root, &format!("{name}/file"), "");
    }
    put(&root, "shared/file", "");
    let user = format!("[core]\nfsmonitor = {}/shared/monitor\n", root.display());
    put(&root, "home/.gitconfig", &user);
    let user = UserConfig::of([root.join("home/.gitconfig")].into_iter(), Some(root.join("home")));
    let paths = |names: &[&str]| names.iter().map(|name| root.join(name)).collect::<Vec<_>>();
    let code = code_within(
        &paths(&["proj", "shared"]),
        &paths(&["read-only", "around/sub"]),
        &[],
        MAX_ENTRIES,
        &user,
    );
    let expected = ["shared/monitor", "shared/of-around-sub", "shared/of-proj", "shared/of-read-only"];
    assert_eq!(code.paths, paths(&expected));
    let code = code_within(&paths(&["shared"]), &[], &[], MAX_ENTRIES, &user);
    assert_eq!(code.paths, paths(&["shared/monitor"]));
    assert!(code_within(&[], &paths(&["proj"]), &[], MAX_ENTRIES, &user).paths.is_empty());
}

#[test]
fn submodules_and_worktrees_are_asked_even_if_nothing_is_checked_out() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for inner in ["top/.git/modules/a/b", "top/.git/worktrees/w"] {
        for file in ["HEAD", "objects/x", "refs/x"] {
            put(&root, &format!("{inner}/{file}"), "");
        }
    }
    put(&root, "top/b/file", "");
    put(&root, "top/w/file", "");
    put(&root, "top/.git/modules/a/b/config", "[core]\nworktree = ../../../../b\nhooksPath = hooks\n");
    put(&root, "top/.git/worktrees/w/gitdir", &format!("{}/top/w/.git\n", root.display()));
    put(&root, "top/.git/worktrees/w/config.worktree", "[core]\nhooksPath = hooks\n");
    assert_eq!(found(&root, &UserConfig::default()), ["b/hooks", "w/hooks"]);
}

#[test]
fn a_directory_whose_repository_has_a_config_that_cannot_be_read_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let unknown = || code_within(&[root.join("top")], &[], &[], MAX_ENTRIES, &UserConfig::default()).unknown;
    let long = format!("# {}\n", "x".repeat(2 << 20));
    put(&root, "top/sub/.git/config", &format!("{long}[core]\nhooksPath = hooks\n"));
    assert_eq!(found(&root, &UserConfig::default()), ["sub/hooks"], "a long config");
    assert!(unknown().is_empty());
    put(&root, "top/sub/.git/config", &format!("[core]\nfsmonitor = {}\n", "x ".repeat(20_000)));
    assert_eq!(unknown(), [root.join("top")], "a long command");
    let sparse = std::fs::File::create(root.join("top/sub/.git/config")).unwrap();
    sparse.set_len(MAX_BYTES + 1).unwrap();
    assert_eq!(unknown(), [root.join("top")], "a config that is too large");
}

#[test]
fn a_path_that_is_not_utf_8_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    put(&root, "top/.git/HEAD", "");
    std::fs::write(root.join("top/.git/config"), b"[core]\nhooksPath = h\xe4ken\nfsmonitor = ./\xe4\n")
        .unwrap();
    let code = code_within(&[root.join("top")], &[], &[], MAX_ENTRIES, &UserConfig::default());
    let expected = [b"h\xe4ken".as_slice(), b"\xe4"]
        .map(|name| root.join("top").join(std::ffi::OsStr::from_bytes(name)));
    assert_eq!(code.paths, expected);
}
