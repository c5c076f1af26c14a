//! Tests of [`RUNS_CODE`], the table of files that run code later.

use super::*;

/// One path for every protected row.
const PROTECTED: &[&str] = &[
    "x/.claude/settings.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".opencode/plugin/x.js",
    "opencode.json",
    "opencode.jsonc",
    "sub/.git/hooks/pre-commit",
    ".gitconfig",
    ".hg/hgrc",
    ".hgrc",
    ".jj/repo/config.toml",
    ".pijul/config",
    ".sl/config",
    "_darcs/prefs/defaults",
    ".huskyrc",
    ".overcommit/x",
    ".simple-git-hooks.json",
    "lefthook-local.yaml",
    ".lefthook-local.yml",
    ".lefthook-local.yaml",
    ".xinitrc",
    ".login",
    ".cshrc",
    ".tcshrc",
    ".kshrc",
    ".bash_completion",
    ".xonshrc",
    ".direnvrc",
    ".config/direnv/direnvrc",
    ".config/nushell/config.nu",
    ".config/plasma-workspace/env/x.sh",
    ".config/sway/config",
    ".config/i3/config",
    ".config/hypr/hyprland.conf",
    ".ipython/profile_default/startup/x.py",
    ".local/bin/ls",
    ".cargo/bin/cargo",
    ".aws/config",
    ".kube/config",
    ".docker/config.json",
    ".gnupg/gpg.conf",
    ".bash_aliases",
    ".bash_logout",
    ".zlogin",
    ".zlogout",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".config/environment.d/x.conf",
    ".config/git/config",
    ".config/jj/config.toml",
    ".local/share/systemd/user/x.service",
    ".githooks/pre-commit",
    ".git-hooks/pre-commit",
    ".husky/pre-commit",
    ".overcommit.yml",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    "lefthook.yaml",
    "lefthook.toml",
    "lefthook.json",
    "lefthook-local.yml",
    ".lefthook.yml",
    ".lefthook.yaml",
    ".lefthook/pre-commit/x.sh",
    "a/.ENVRC",
    "a/.Env",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".profile",
    ".zshenv",
    ".zshrc",
    ".zprofile",
    ".config/fish/config.fish",
    ".config/autostart/x.desktop",
    ".config/systemd/user/x.service",
    ".ssh/authorized_keys",
    ".claude.json",
    ".config/opencode/plugin/x.js",
    ".local/share/opencode/bin/rg",
    ".local/state/opencode/kv.json",
    ".cache/opencode/node_modules/x/index.js",
    ".mcp.json",
    ".aider.conf.yml",
    ".amazonq/mcp.json",
    ".continue/config.yaml",
    ".crush.json",
    "crush.json",
    ".cursor/mcp.json",
    ".kilocode/mcp.json",
    ".kiro/settings/mcp.json",
    ".qwen/settings.json",
    ".roo/mcp.json",
    ".trae/mcp.json",
    ".windsurf/mcp.json",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".vscode/mcp.json",
    ".vscode/launch.json",
    ".zed/tasks.json",
    ".zed/settings.json",
    ".zed/debug.json",
    ".idea/runConfigurations/app.xml",
    ".idea/workspace.xml",
    ".idea/watcherTasks.xml",
    ".run/app.run.xml",
    ".devcontainer/devcontainer.json",
    ".devcontainer.json",
];

/// One path for every row that is not protected but only reported.
const POINTED_OUT: &[&str] = &[
    ".rvmrc",
    ".tmux.conf",
    ".emacs",
    ".emacs.d/init.el",
    ".vim/plugin/x.vim",
    ".config/nvim/init.lua",
    "althing.yaml",
    ".Rprofile",
    ".vimrc",
    "a/my.Code-Workspace",
    ".fleet/run.json",
    "mise.local.toml",
    ".mise.local.toml",
    ".mise/config.toml",
    ".config/mise.toml",
    ".config/mise/config.toml",
    ".exrc",
    ".nvim.lua",
    ".dir-locals.el",
    ".gdbinit",
    ".lldbinit",
    ".pdbrc",
    ".mise.toml",
    "mise.toml",
    "sitecustomize.py",
    "usercustomize.py",
    ".github/workflows/ci.yml",
    ".gitlab-ci.yml",
    ".circleci/config.yml",
    "Jenkinsfile",
    "venv/pyvenv.cfg",
    "venv/bin/activate",
    "venv/bin/activate.fish",
    "venv/bin/activate.csh",
    "venv/bin/activate.nu",
    "venv/bin/Activate.ps1",
    "web/node_modules/.bin/tsc",
    ".npmrc",
    ".yarnrc.yml",
    ".yarnrc",
    ".yarn/releases/yarn.cjs",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".pnpmfile.cjs",
    ".cargo/config",
    ".cargo/config.toml",
    "rust-toolchain.toml",
    "rust-toolchain",
    ".mvn/jvm.config",
    "mvnw",
    "gradlew",
    "gradle/wrapper/gradle-wrapper.jar",
    "init.gradle",
    ".bazelrc",
    "package.json",
    "web/tsconfig.json",
    "jsconfig.json",
    "a/Makefile",
    "GNUmakefile",
    "justfile",
    ".justfile",
    "build.gradle",
    "build.gradle.kts",
    "build.rs",
    "tests/conftest.py",
    "setup.py",
];

#[test]
fn a_file_that_runs_code_later_is_known_by_the_names_in_its_path() {
    let class = |path: &str| runs_code(Path::new(path)).map(|row| row.protected);
    for path in PROTECTED {
        assert_eq!(class(path), Some(true), "{path}");
    }
    for path in POINTED_OUT {
        assert_eq!(class(path), Some(false), "{path}");
    }
    for row in RUNS_CODE.iter() {
        let named = PROTECTED.iter().chain(POINTED_OUT).any(|path| runs_code(Path::new(path)) == Some(row));
        assert!(named, "this test has no file for {:?}", row.names);
    }
    for path in ["", "src/main.rs", ".vscode/extensions.json", "tasks.json", ".gitignore", "my.envrc.md"] {
        assert_eq!(class(path), None, "{path}");
    }
}

#[test]
fn names_of_the_context_path_count_for_rows_that_end_below_it() {
    let class =
        |root: &str, below: &str| runs_code_in(Path::new(root), Path::new(below)).map(|row| row.protected);
    for (root, below) in [
        ("/home/u/.config", "fish/config.fish"),
        ("/home/u/.config", "systemd/user/x.service"),
        ("/home/u/.config", "environment.d/x.conf"),
        ("/p/.vscode", "tasks.json"),
        ("/home/u/.local", "share/systemd/user/x.service"),
        ("/home/u/.local/share", "systemd/user/x.service"),
        ("/home/u/.config", "sub/.envrc"),
    ] {
        assert_eq!(class(root, below), Some(true), "{root} {below}");
    }
    for (root, below) in [
        ("/home/u/.config", "sub/fish/x"),
        ("/home/u/.config/fish", "config.fish"),
        ("/p/.envrc", ""),
        ("/home/u/.ssh", "notes.txt"),
        ("/p/.vscode/sub", "tasks.json"),
        ("", "tasks.json"),
    ] {
        assert_eq!(class(root, below), None, "{root} {below}");
    }
    assert!(RUNS_CODE.iter().all(|row| row.names.len() <= MAX_ROW_NAMES));
}

#[test]
fn the_project_dirs_of_every_agent_kind_are_protected() {
    static NEW: [AgentKind; 1] =
        [AgentKind { title: "Parrot", project_dirs: &[".parrot", "parrot.toml"], ..AGENT_KINDS[0] }];
    let made = rows(&NEW);
    for name in NEW[0].project_dirs {
        let row = made.iter().find(|row| row.names == [*name]).unwrap();
        assert_eq!((row.protected, row.when), (true, "Parrot starts here"));
    }
    for kind in AGENT_KINDS {
        for name in kind.project_dirs {
            let row = runs_code(&Path::new("sub").join(name).join("package.json")).unwrap();
            assert!(row.protected && row.when.contains(kind.title), "{name}: {row:?}");
        }
    }
    for name in [".claude", ".codex", ".gemini", ".opencode", "opencode.json", "opencode.jsonc"] {
        assert!(runs_code(Path::new(name)).is_some_and(|row| row.protected), "{name}");
    }
}
