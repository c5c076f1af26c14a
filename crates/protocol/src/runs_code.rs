//! The table of files that run code later, such as git hooks, shell profiles, and the settings and hooks of Claude Code
//! and other programs. File tools refuse to write the protected ones, sandboxes make them read-only, and reports point
//! out what was written.

use crate::{AGENT_KINDS, AgentKind, GIT_DIR};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

/// A kind of file whose code runs later, when a person or a program uses the directory that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunsCode {
    /// Consecutive path components, compared case-insensitively; a leading `*` stands for any text. Everything below a
    /// matching directory matches, too.
    pub names: &'static [&'static str],
    /// Whether agents must not write to such a file in a context path. A context path that itself has such a name is not
    /// protected for that reason. Writing an unprotected file is only reported.
    pub protected: bool,
    /// Whether writing such a file is ordinary work: it has a note in lists of written files, but no notice of its own.
    pub ordinary: bool,
    /// When the code in such a file runs; completes the sentence "runs code when …".
    pub when: &'static str,
}

impl RunsCode {
    /// The note on such a file in lists of written files.
    pub fn note(&self) -> String {
        format!("runs code when {}", self.when)
    }
}

const fn protected(names: &'static [&'static str], when: &'static str) -> RunsCode {
    RunsCode { names, protected: true, ordinary: false, when }
}

const fn reported(names: &'static [&'static str], when: &'static str) -> RunsCode {
    RunsCode { names, protected: false, ordinary: false, when }
}

const fn ordinary(names: &'static [&'static str], when: &'static str) -> RunsCode {
    RunsCode { names, protected: false, ordinary: true, when }
}

/// The table of files that run code later. The first matching row applies.
pub static RUNS_CODE: LazyLock<Vec<RunsCode>> = LazyLock::new(|| rows(AGENT_KINDS));

fn rows(kinds: &'static [AgentKind]) -> Vec<RunsCode> {
    let of_kind = |kind: &'static AgentKind| {
        // The text is leaked once, because the table lives as long as the process.
        let when: &'static str = format!("{} starts here", kind.title).leak();
        kind.project_dirs.iter().map(move |name| protected(std::slice::from_ref(name), when))
    };
    kinds.iter().flat_map(of_kind).chain(of_editors()).chain(OTHERS.iter().copied()).collect()
}

/// The user's own settings of VS Code and of editors made from it, on Linux and macOS.
fn of_editors() -> impl Iterator<Item = RunsCode> {
    let places = [".config", "Application Support"].into_iter().flat_map(|place| {
        let editors = ["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];
        editors.into_iter().map(move |editor| (place, editor))
    });
    places.flat_map(|(place, editor)| {
        let files = ["tasks.json", "settings.json", "mcp.json"].into_iter();
        files.map(move |file| {
            protected(vec![place, editor, "User", file].leak(), "VS Code, or an editor made from it, starts")
        })
    })
}

const OTHERS: &[RunsCode] = &[
    protected(&[GIT_DIR], "git works in this repository"),
    protected(&[".gitconfig"], "git runs"),
    protected(&[".hg"], "Mercurial works in this repository"),
    protected(&[".hgrc"], "Mercurial runs"),
    protected(&[".jj"], "Jujutsu works in this repository"),
    protected(&[".pijul"], "Pijul works in this repository"),
    protected(&[".sl"], "Sapling works in this repository"),
    protected(&["_darcs"], "Darcs works in this repository"),
    protected(&[".githooks"], "git runs its hooks"),
    protected(&[".git-hooks"], "git runs its hooks"),
    protected(&[".husky"], "git runs its hooks"),
    protected(&[".huskyrc"], "git runs its hooks"),
    protected(&[".overcommit"], "git runs its hooks (overcommit)"),
    protected(&[".overcommit.yml"], "git runs its hooks (overcommit)"),
    protected(&[".simple-git-hooks.json"], "git runs its hooks (simple-git-hooks)"),
    protected(&[".pre-commit-config.yaml"], "git runs its hooks (pre-commit)"),
    protected(&["lefthook.yml"], "git runs its hooks (lefthook)"),
    protected(&["lefthook.yaml"], "git runs its hooks (lefthook)"),
    protected(&["lefthook.toml"], "git runs its hooks (lefthook)"),
    protected(&["lefthook.json"], "git runs its hooks (lefthook)"),
    protected(&["lefthook-local.yml"], "git runs its hooks (lefthook)"),
    protected(&["lefthook-local.yaml"], "git runs its hooks (lefthook)"),
    protected(&[".lefthook-local.yml"], "git runs its hooks (lefthook)"),
    protected(&[".lefthook-local.yaml"], "git runs its hooks (lefthook)"),
    protected(&[".lefthook.yml"], "git runs its hooks (lefthook)"),
    protected(&[".lefthook.yaml"], "git runs its hooks (lefthook)"),
    protected(&[".lefthook"], "git runs its hooks (lefthook)"),
    protected(&[".envrc"], "a shell enters the directory (direnv)"),
    // Variables such as `NODE_OPTIONS` and `LD_PRELOAD` run code in the programs that get them.
    protected(&[".env"], "Gemini CLI or another program that reads its variables starts here"),
    protected(&[".bashrc"], "a shell starts"),
    protected(&[".bash_profile"], "a shell starts"),
    protected(&[".bash_login"], "a shell starts"),
    protected(&[".bash_aliases"], "a shell starts"),
    protected(&[".bash_logout"], "a shell ends"),
    protected(&[".profile"], "a shell starts"),
    protected(&[".zshenv"], "a shell starts"),
    protected(&[".zshrc"], "a shell starts"),
    protected(&[".zprofile"], "a shell starts"),
    protected(&[".zlogin"], "a shell starts"),
    protected(&[".zlogout"], "a shell ends"),
    protected(&[".xprofile"], "the user logs in"),
    protected(&[".xsession"], "the user logs in"),
    protected(&[".xsessionrc"], "the user logs in"),
    protected(&[".pam_environment"], "the user logs in"),
    protected(&[".config", "fish"], "a shell starts"),
    protected(&[".config", "autostart"], "the user logs in"),
    protected(&[".config", "environment.d"], "the user logs in"),
    protected(&[".config", "git"], "git runs"),
    protected(&[".config", "jj"], "Jujutsu runs"),
    protected(&[".config", "systemd"], "the user logs in"),
    protected(&[".local", "share", "systemd"], "the user logs in"),
    protected(&[".xinitrc"], "the user logs in"),
    protected(&[".login"], "a shell starts"),
    protected(&[".cshrc"], "a shell starts"),
    protected(&[".tcshrc"], "a shell starts"),
    protected(&[".kshrc"], "a shell starts"),
    protected(&[".bash_completion"], "a shell starts"),
    protected(&[".xonshrc"], "a shell starts"),
    protected(&[".direnvrc"], "a shell enters a directory (direnv)"),
    protected(&[".config", "direnv"], "a shell enters a directory (direnv)"),
    protected(&[".config", "nushell"], "a shell starts"),
    protected(&[".config", "plasma-workspace", "env"], "the user logs in"),
    protected(&[".config", "sway"], "the user logs in"),
    protected(&[".config", "i3"], "the user logs in"),
    protected(&[".config", "hypr"], "the user logs in"),
    protected(&[".ipython"], "IPython starts"),
    protected(&[".local", "bin"], "a program in it is called by its name"),
    protected(&[".cargo", "bin"], "a program in it is called by its name"),
    protected(&[".aws", "config"], "the AWS CLI runs"),
    protected(&[".kube", "config"], "kubectl runs"),
    protected(&[".docker", "config.json"], "docker runs"),
    protected(&[".gnupg"], "GnuPG runs"),
    protected(&[".ssh"], "somebody logs in with ssh"),
    protected(&[".claude.json"], "Claude Code starts its MCP servers"),
    protected(&[".config", "opencode"], "OpenCode starts"),
    protected(&[".local", "share", "opencode"], "OpenCode starts"),
    protected(&[".local", "state", "opencode"], "OpenCode starts"),
    protected(&[".cache", "opencode"], "OpenCode starts"),
    protected(&[".mcp.json"], "an agent starts its MCP servers"),
    protected(&[".aider.conf.yml"], "Aider starts here"),
    protected(&[".amazonq"], "Amazon Q starts here"),
    protected(&[".continue"], "Continue opens the directory"),
    protected(&[".crush.json"], "Crush starts here"),
    protected(&["crush.json"], "Crush starts here"),
    protected(&[".cursor"], "Cursor opens the directory"),
    protected(&[".kilocode"], "Kilo Code opens the directory"),
    protected(&[".kiro"], "Kiro opens the directory"),
    protected(&[".qwen"], "Qwen Code starts here"),
    protected(&[".roo"], "Roo Code opens the directory"),
    protected(&[".trae"], "Trae opens the directory"),
    protected(&[".windsurf"], "Windsurf opens the directory"),
    protected(&[".vscode", "tasks.json"], "VS Code opens the directory"),
    protected(&[".vscode", "settings.json"], "VS Code opens the directory"),
    protected(&[".vscode", "mcp.json"], "VS Code opens the directory"),
    protected(&[".vscode", "launch.json"], "VS Code starts a program"),
    protected(&[".zed", "tasks.json"], "Zed starts a task"),
    protected(&[".zed", "settings.json"], "Zed opens the directory"),
    protected(&[".zed", "debug.json"], "Zed starts a program"),
    protected(&[".idea", "runConfigurations"], "a JetBrains IDE starts a program"),
    protected(&[".idea", "workspace.xml"], "a JetBrains IDE starts a program"),
    protected(&[".idea", "watcherTasks.xml"], "a JetBrains IDE sees that a file changed"),
    protected(&[".run"], "a JetBrains IDE starts a program"),
    protected(&[".devcontainer"], "an editor opens the directory in a development container"),
    protected(&[".devcontainer.json"], "an editor opens the directory in a development container"),
    protected(&[".bashrc.d"], "a shell starts"),
    protected(&[".bash_functions"], "a shell starts"),
    protected(&[".zshrc.d"], "a shell starts"),
    protected(&[".zsh"], "a shell starts"),
    protected(&[".zfunc"], "a shell starts"),
    protected(&[".aliases"], "a shell starts"),
    protected(&[".alias"], "a shell starts"),
    protected(&[".functions"], "a shell starts"),
    protected(&[".exports"], "a shell starts"),
    protected(&[".shrc"], "a shell starts"),
    protected(&[".mkshrc"], "a shell starts"),
    protected(&[".bash_it"], "a shell starts"),
    protected(&[".oh-my-bash"], "a shell starts"),
    protected(&[".oh-my-zsh"], "a shell starts"),
    protected(&[".zprezto"], "a shell starts"),
    protected(&[".zpreztorc"], "a shell starts"),
    protected(&[".zim"], "a shell starts"),
    protected(&[".zimrc"], "a shell starts"),
    protected(&[".zinit"], "a shell starts"),
    protected(&[".zplug"], "a shell starts"),
    protected(&[".antigen"], "a shell starts"),
    protected(&[".antigenrc"], "a shell starts"),
    protected(&[".antidote"], "a shell starts"),
    protected(&[".fzf"], "a shell starts"),
    protected(&[".fzf.bash"], "a shell starts"),
    protected(&[".fzf.zsh"], "a shell starts"),
    protected(&[".p10k.zsh"], "a shell starts"),
    protected(&[".nvm"], "a shell starts"),
    protected(&[".asdf"], "a shell starts"),
    protected(&[".sdkman"], "a shell starts"),
    protected(&[".pyenv"], "a shell starts"),
    protected(&[".rbenv"], "a shell starts"),
    protected(&[".nodenv"], "a shell starts"),
    protected(&[".goenv"], "a shell starts"),
    protected(&[".jenv"], "a shell starts"),
    protected(&[".rvm"], "a shell starts"),
    protected(&[".volta"], "a shell starts"),
    protected(&[".fnm"], "a shell starts"),
    protected(&[".phpbrew"], "a shell starts"),
    protected(&[".opam"], "a shell starts"),
    protected(&[".ghcup"], "a shell starts"),
    protected(&[".cargo", "env"], "a shell starts"),
    protected(&[".cargo", "env.fish"], "a shell starts"),
    protected(&[".cargo", "env.nu"], "a shell starts"),
    protected(&[".config", "zsh"], "a shell starts"),
    protected(&[".config", "bash"], "a shell starts"),
    protected(&[".config", "powershell"], "a shell starts"),
    protected(&[".config", "elvish"], "a shell starts"),
    protected(&[".config", "starship.toml"], "a shell starts"),
    protected(&[".config", "sheldon"], "a shell starts"),
    protected(&[".inputrc"], "somebody types in a shell"),
    protected(&[".xserverrc"], "the user logs in"),
    protected(&[".xinputrc"], "the user logs in"),
    protected(&[".gnomerc"], "the user logs in"),
    protected(&[".vnc"], "the user logs in"),
    protected(&[".xmonad"], "the user logs in"),
    protected(&[".fluxbox"], "the user logs in"),
    protected(&[".icewm"], "the user logs in"),
    protected(&[".stumpwmrc"], "the user logs in"),
    protected(&[".stumpwm.d"], "the user logs in"),
    protected(&[".config", "openbox"], "the user logs in"),
    protected(&[".config", "awesome"], "the user logs in"),
    protected(&[".config", "bspwm"], "the user logs in"),
    protected(&[".config", "sxhkd"], "the user logs in"),
    protected(&[".config", "qtile"], "the user logs in"),
    protected(&[".config", "herbstluftwm"], "the user logs in"),
    protected(&[".config", "river"], "the user logs in"),
    protected(&[".config", "labwc"], "the user logs in"),
    protected(&[".config", "niri"], "the user logs in"),
    protected(&[".config", "wayfire.ini"], "the user logs in"),
    protected(&[".config", "xmonad"], "the user logs in"),
    protected(&[".config", "leftwm"], "the user logs in"),
    protected(&[".config", "spectrwm"], "the user logs in"),
    protected(&[".config", "polybar"], "the user logs in"),
    protected(&[".config", "waybar"], "the user logs in"),
    protected(&[".config", "lxsession"], "the user logs in"),
    protected(&[".config", "autostart-scripts"], "the user logs in"),
    protected(&[".config", "plasma-workspace", "shutdown"], "the user logs in"),
    protected(&[".local", "share", "dbus-1"], "the user logs in"),
    protected(&[".local", "share", "gnome-shell"], "the user logs in"),
    protected(&[".local", "share", "plasma"], "the user logs in"),
    protected(&["Library", "LaunchAgents"], "the user logs in"),
    protected(&[".deno", "bin"], "a program in it is called by its name"),
    protected(&[".bun", "bin"], "a program in it is called by its name"),
    protected(&[".npm-global"], "a program in it is called by its name"),
    protected(&[".npm-packages"], "a program in it is called by its name"),
    protected(&[".krew"], "a program in it is called by its name"),
    protected(&[".dotnet", "tools"], "a program in it is called by its name"),
    protected(&[".composer"], "a program in it is called by its name"),
    protected(&[".config", "composer"], "a program in it is called by its name"),
    protected(&[".pixi", "bin"], "a program in it is called by its name"),
    protected(&[".rustup"], "a program in it is called by its name"),
    protected(&[".local", "share", "pnpm"], "a program in it is called by its name"),
    protected(&[".local", "share", "mise"], "a program in it is called by its name"),
    protected(&[".linuxbrew"], "a program in it is called by its name"),
    protected(&[".local", "lib"], "Python, or another program with libraries in it, starts"),
    protected(&[".jupyter"], "Jupyter starts"),
    protected(&[".gradle", "init.d"], "Gradle runs"),
    protected(&[".gradle", "init.gradle"], "Gradle runs"),
    protected(&[".m2", "extensions.xml"], "Maven runs"),
    protected(&[".config", "gh"], "the GitHub CLI runs"),
    protected(&[".forward"], "a mail arrives"),
    protected(&[".procmailrc"], "a mail arrives"),
    protected(&[".vscode", "extensions"], "VS Code starts"),
    protected(&[".vscode-oss"], "VS Code starts"),
    protected(&[".vscode-server"], "VS Code starts"),
    protected(&[".vscode-insiders"], "VS Code starts"),
    protected(&[".cursor-server"], "Cursor starts"),
    protected(&[".codeium"], "Windsurf starts"),
    protected(&[".config", "zed"], "Zed starts"),
    protected(&[".config", "helix"], "Helix starts"),
    protected(&[".helix"], "Helix starts here"),
    protected(&[".clinerules"], "Cline works here"),
    protected(&["Documents", "Cline"], "Cline starts"),
    protected(&[".factory"], "Droid starts here"),
    protected(&[".github", "hooks"], "GitHub Copilot works here"),
    protected(&[".copilot"], "GitHub Copilot starts"),
    reported(&["althing.yaml"], "Althing starts here and the config is trusted"),
    reported(&[".Rprofile"], "R starts here"),
    reported(&[".vimrc"], "Vim starts"),
    reported(&[".rvmrc"], "a shell enters the directory (RVM)"),
    reported(&[".tmux.conf"], "tmux starts"),
    reported(&[".emacs"], "Emacs starts"),
    reported(&[".emacs.d"], "Emacs starts"),
    reported(&[".vim"], "Vim starts"),
    reported(&[".config", "nvim"], "Neovim starts"),
    reported(&["*.code-workspace"], "VS Code opens the workspace"),
    reported(&[".fleet", "run.json"], "Fleet starts a program"),
    reported(&[".exrc"], "vi or Vim starts here, if its option `exrc` is set"),
    reported(&[".nvim.lua"], "Neovim starts here, if its option `exrc` is set"),
    reported(&[".dir-locals.el"], "Emacs opens a file here"),
    reported(&[".gdbinit"], "gdb starts here"),
    reported(&[".lldbinit"], "lldb starts here"),
    reported(&[".pdbrc"], "the Python debugger starts here"),
    reported(&[".mise.toml"], "a shell enters the directory (mise)"),
    reported(&["mise.toml"], "a shell enters the directory (mise)"),
    reported(&["mise.local.toml"], "a shell enters the directory (mise)"),
    reported(&[".mise.local.toml"], "a shell enters the directory (mise)"),
    reported(&[".mise"], "a shell enters the directory (mise)"),
    reported(&[".config", "mise"], "a shell enters the directory (mise)"),
    reported(&["sitecustomize.py"], "Python starts here"),
    reported(&["usercustomize.py"], "Python starts here"),
    reported(&[".ghci"], "GHCi starts here"),
    reported(&[".irbrc"], "irb starts"),
    reported(&[".pryrc"], "pry starts"),
    reported(&[".lvimrc"], "Vim starts here, if it has the plugin localvimrc"),
    reported(&[".ycm_extra_conf.py"], "Vim opens a file here, if it has the plugin YouCompleteMe"),
    reported(&[".psqlrc"], "psql starts"),
    reported(&[".sqliterc"], "sqlite3 starts"),
    reported(&[".octaverc"], "Octave starts"),
    reported(&[".julia", "config"], "Julia starts"),
    reported(&[".screenrc"], "screen starts"),
    reported(&[".config", "tmux"], "tmux starts"),
    reported(&[".config", "kitty"], "a terminal starts"),
    reported(&[".config", "wezterm"], "a terminal starts"),
    reported(&[".wezterm.lua"], "a terminal starts"),
    reported(&[".config", "alacritty"], "a terminal starts"),
    reported(&[".config", "ghostty"], "a terminal starts"),
    reported(&[".local", "share", "applications"], "a program is started from the menu"),
    reported(&[".m2", "settings.xml"], "Maven runs"),
    reported(&[".gradle", "gradle.properties"], "Gradle runs"),
    reported(&["bunfig.toml"], "Bun runs"),
    reported(&[".bunfig.toml"], "Bun runs"),
    reported(&["site-packages", "*.pth"], "Python starts in this environment"),
    reported(&[".config", "pip"], "pip installs"),
    reported(&[".pip"], "pip installs"),
    reported(&[".github", "workflows"], "GitHub Actions runs"),
    reported(&[".gitlab-ci.yml"], "GitLab runs its pipeline"),
    reported(&[".circleci"], "CircleCI runs its pipeline"),
    reported(&["Jenkinsfile"], "Jenkins runs its pipeline"),
    reported(&["pyvenv.cfg"], "Python starts in this virtual environment"),
    reported(&["bin", "activate"], "a shell activates this virtual environment"),
    reported(&["bin", "activate.fish"], "a shell activates this virtual environment"),
    reported(&["bin", "activate.csh"], "a shell activates this virtual environment"),
    reported(&["bin", "activate.nu"], "a shell activates this virtual environment"),
    reported(&["bin", "Activate.ps1"], "a shell activates this virtual environment"),
    reported(&["node_modules", ".bin"], "npm runs a script"),
    reported(&[".npmrc"], "npm runs"),
    reported(&[".yarnrc.yml"], "yarn runs"),
    reported(&[".yarnrc"], "yarn runs"),
    reported(&[".yarn"], "yarn runs"),
    reported(&[".pnp.cjs"], "node runs a script (yarn)"),
    reported(&[".pnp.loader.mjs"], "node runs a script (yarn)"),
    reported(&[".pnpmfile.cjs"], "pnpm installs"),
    reported(&[".cargo", "config"], "cargo runs"),
    reported(&[".cargo", "config.toml"], "cargo runs"),
    reported(&["rust-toolchain.toml"], "cargo runs"),
    reported(&["rust-toolchain"], "cargo runs"),
    reported(&[".mvn"], "Maven runs"),
    reported(&["mvnw"], "Maven runs"),
    reported(&["gradlew"], "Gradle runs"),
    reported(&["gradle", "wrapper"], "Gradle runs"),
    reported(&["init.gradle"], "Gradle runs"),
    reported(&[".bazelrc"], "Bazel runs"),
    reported(&["tsconfig.json"], "opencode, or another program made with Bun, starts here"),
    reported(&["jsconfig.json"], "opencode, or another program made with Bun, starts here"),
    ordinary(&["go", "bin"], "a program in it is called by its name"),
    ordinary(&["package.json"], "npm installs, or runs a script"),
    ordinary(&["Makefile"], "make runs"),
    ordinary(&["GNUmakefile"], "make runs"),
    ordinary(&["justfile"], "just runs"),
    ordinary(&[".justfile"], "just runs"),
    ordinary(&["build.gradle"], "Gradle builds"),
    ordinary(&["build.gradle.kts"], "Gradle builds"),
    ordinary(&["build.rs"], "cargo builds"),
    ordinary(&["conftest.py"], "pytest runs"),
    ordinary(&["setup.py"], "pip installs"),
];

/// Whether a directory is a git directory, whatever its name. Git runs the hooks in such a directory and the programs
/// that its config names. `has` says whether the directory has an entry with the given name.
pub fn is_git_dir(has: impl Fn(&str) -> bool) -> bool {
    // With a `commondir`, `objects` and `refs` are in the directory that it names.
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

/// The row of [`RUNS_CODE`] for everything in a git directory.
pub fn git_dir_row() -> Option<&'static RunsCode> {
    RUNS_CODE.iter().find(|row| row.names == [GIT_DIR])
}

/// Begins the sentence with which a file tool points out a file that runs code later; the row's `when` completes it.
pub const RUNS_CODE_LATER: &str = "This file runs code when";

/// The maximum number of names in a row of [`RUNS_CODE`].
pub const MAX_ROW_NAMES: usize = 4;

/// Whether a file's name matches a name in a row of [`RUNS_CODE`].
pub fn is_name(name: &OsStr, known: &str) -> bool {
    let end = known.strip_prefix('*').and_then(|end| {
        let name = name.as_encoded_bytes();
        name.get(name.len().checked_sub(end.len())?..).map(|name| name.eq_ignore_ascii_case(end.as_bytes()))
    });
    end.unwrap_or(name.eq_ignore_ascii_case(known))
}

/// The first row that matches a path relative to its context path.
pub fn runs_code(path: &Path) -> Option<&'static RunsCode> {
    runs_code_in(Path::new(""), path)
}

/// The first row that matches `below`, a path relative to the context path `root`. A row may begin with names of the
/// root, but its last name must be in `below`.
pub fn runs_code_in(root: &Path, below: &Path) -> Option<&'static RunsCode> {
    let mut names: Vec<&OsStr> = root.iter().rev().take(MAX_ROW_NAMES - 1).collect();
    names.reverse();
    let of_root = names.len();
    names.extend(below.iter());
    let matches = |row: &RunsCode, at: usize| {
        let part = names.get(at..at + row.names.len()).filter(|_| at + row.names.len() > of_root);
        part.is_some_and(|part| part.iter().zip(row.names).all(|(name, known)| is_name(name, known)))
    };
    let rows_at = |at: usize, name: &OsStr| {
        let rows = name.to_ascii_lowercase().to_str().and_then(|name| BY_FIRST_NAME.get(name));
        let rows = rows.into_iter().flatten().chain(PATTERNS.iter());
        rows.copied().filter(|row| RUNS_CODE.get(*row).is_some_and(|row| matches(row, at))).min()
    };
    let first = names.iter().enumerate().filter_map(|(at, name)| rows_at(at, name)).min()?;
    RUNS_CODE.get(first)
}

static PATTERNS: LazyLock<Vec<usize>> = LazyLock::new(|| {
    let is_pattern = |row: &RunsCode| row.names.first().is_some_and(|name| name.starts_with('*'));
    RUNS_CODE.iter().enumerate().filter(|(_, row)| is_pattern(row)).map(|(index, _)| index).collect()
});

/// The rows by their first names in lower case: a path can have thousands of components, too many to compare each with
/// every row.
static BY_FIRST_NAME: LazyLock<HashMap<String, Vec<usize>>> = LazyLock::new(|| {
    let mut rows: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, row) in RUNS_CODE.iter().enumerate() {
        if let Some(name) = row.names.first() {
            rows.entry(name.to_ascii_lowercase()).or_default().push(index);
        }
    }
    rows
});

#[cfg(test)]
mod tests;
