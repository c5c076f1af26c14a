//! Environment variables with which git runs none of the code that foreign repositories name. CLI agents run git when
//! they start, before anybody is asked.
//!
//! Git gets a harmless value for every setting of these repositories that names code. Settings in the environment
//! override those in files.

use super::config::{Config, ConfigFile};
use super::config_syntax::Setting;
use super::repository::{Repository, repositories};
use super::settings::{self, HOOKS, Named};
use crate::listing::MAX_ENTRIES;
use althing_protocol::GIT_DIR;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const COUNT: &str = "GIT_CONFIG_COUNT";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GitOverrides {
    /// The config files and directories of hooks that git would run code from.
    pub(crate) found: Vec<PathBuf>,
    settings: BTreeMap<String, &'static str>,
    has_proxy: bool,
}

/// Why it is unknown what git would run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnknownCode {
    /// A config file that cannot be read completely, or that contains a setting that cannot be overridden.
    Config(PathBuf),
    /// A directory that cannot be listed.
    Unlisted(PathBuf),
    /// The working directory contains too much.
    TooLarge,
}

impl GitOverrides {
    /// Looks at the repositories in `cwd`, and at those in the directories `above`, which contain `cwd`. May take long.
    pub(crate) fn find<'a>(cwd: &Path, above: impl Iterator<Item = &'a Path>) -> Result<Self, UnknownCode> {
        Self::find_in(cwd, above, MAX_ENTRIES)
    }

    fn find_in<'a>(
        cwd: &Path,
        above: impl Iterator<Item = &'a Path>,
        max_entries: usize,
    ) -> Result<Self, UnknownCode> {
        let mut entries = 0;
        let inside = repositories(cwd, &mut entries, max_entries);
        if entries > max_entries {
            return Err(UnknownCode::TooLarge);
        }
        if let Some(dir) = inside.unsearched {
            return Err(UnknownCode::Unlisted(dir));
        }
        let outside = above.flat_map(|dir| {
            let is_git_dir = althing_protocol::is_git_dir(|name| dir.join(name).symlink_metadata().is_ok());
            let own = is_git_dir.then(|| Repository::all_at(dir));
            own.into_iter().flatten().chain(Repository::all_at(&dir.join(GIT_DIR))).collect::<Vec<_>>()
        });
        let mut overrides = Self::default();
        for repository in inside.all.into_iter().chain(outside) {
            for dir in &repository.git_dirs {
                overrides.add_git_dir(dir)?;
            }
        }
        overrides.found.sort();
        overrides.found.dedup();
        Ok(overrides)
    }

    fn add_git_dir(&mut self, dir: &Path) -> Result<(), UnknownCode> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        for name in ["config", "config.worktree"] {
            let mut config = Config::default();
            config.add_file(&ConfigFile::new(dir, name), home.as_deref(), 0);
            let path = dir.join(name);
            if config.is_incomplete {
                return Err(UnknownCode::Config(path));
            }
            for setting in config.settings.iter().filter(|setting| runs_code(setting)) {
                self.add(setting).ok_or_else(|| UnknownCode::Config(path.clone()))?;
                self.found.push(path.clone());
            }
        }
        let hooks = dir.join("hooks");
        let is_executable = |name: &&'static str| {
            let data = hooks.join(name).metadata();
            data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        };
        if HOOKS.iter().any(is_executable) {
            self.settings.insert("core.hooksPath".to_owned(), "/dev/null");
            self.found.push(hooks);
        }
        Ok(())
    }

    /// `None` if the environment cannot contain the name of the setting.
    fn add(&mut self, setting: &Setting) -> Option<()> {
        match harmless_value(&setting.name) {
            // Git uses the first proxy whose domain fits, so that a later one overrides nothing.
            _ if setting.name == "core.gitproxy" => self.has_proxy = true,
            Some(value) => drop(self.settings.insert(full_name(setting)?, value)),
            None => {}
        }
        Some(())
    }

    /// The variables for a program. The program may already have settings in its environment: then the new settings
    /// follow them.
    pub(crate) fn variables(&self, variable: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
        if self.found.is_empty() {
            return Vec::new();
        }
        let first = variable(COUNT).and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
        // Git knows one transport that runs a command: `ext`.
        let transport = ("protocol.ext.allow".to_owned(), "never");
        let settings = self.settings.iter().map(|(name, value)| (name.clone(), *value)).chain([transport]);
        let mut variables = vec![(COUNT.to_owned(), (first + self.settings.len() + 1).to_string())];
        for (n, (name, value)) in (first..).zip(settings) {
            variables.push((format!("GIT_CONFIG_KEY_{n}"), name));
            variables.push((format!("GIT_CONFIG_VALUE_{n}"), value.to_owned()));
        }
        if self.has_proxy {
            variables.push(("GIT_PROXY_COMMAND".to_owned(), "false".to_owned()));
        }
        variables
    }
}

fn runs_code(setting: &Setting) -> bool {
    // Of these sections, git runs only some settings; the others are addresses and words.
    let is_data = ["sendemail.", "trailer."].iter().any(|section| setting.name.starts_with(section))
        && !["cmd", "command", "smtpserver"].iter().any(|end| setting.name.ends_with(end));
    let is_command =
        matches!(settings::named(setting), Some(Named::Hooks(_) | Named::Template(_) | Named::Command(_)));
    (is_command && !is_data) || setting.name == "protocol.allow"
}

/// The value with which git runs nothing, and still works as well as it can. Where git needs a program, it gets one
/// that fails. `None` if the setting is harmless as soon as the transport `ext` is forbidden.
fn harmless_value(name: &str) -> Option<&'static str> {
    let section = name.split('.').next().unwrap_or_default();
    Some(match name {
        "core.hookspath" => "/dev/null",
        "init.templatedir" | "core.askpass" | "credential.helper" => "",
        "core.pager" | "diff.textconv" | "interactive.difffilter" => "cat",
        "core.alternaterefscommand" | "hook.command" => "true",
        "submodule.update" => "none",
        "protocol.allow" | "remote.url" | "remote.pushurl" => return None,
        _ => match section {
            "filter" => "",
            "alias" => "!false",
            "url" => return None,
            _ => "false",
        },
    })
}

/// The name as git knows it: `filter.clean` of the subsection `x` is `filter.x.clean`.
fn full_name(setting: &Setting) -> Option<String> {
    let (section, key) = setting.name.rsplit_once('.')?;
    match &setting.subsection {
        None => Some(setting.name.clone()),
        Some(subsection) => {
            let subsection = std::str::from_utf8(subsection).ok().filter(|text| !text.contains('\0'))?;
            Some(format!("{section}.{subsection}.{key}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    const CONFIG: &str = r#"
[core]
repositoryFormatVersion = 1
hooksPath = HERE/more-hooks
fsmonitor = HERE/evil fsmonitor
pager = HERE/evil pager
editor = HERE/evil editor
askPass = HERE/evil
sshCommand = HERE/evil ssh
gitProxy = HERE/evil
alternateRefsCommand = HERE/evil alternates
[credential]
helper = "!HERE/evil credential"
[credential "https://example.org"]
helper = "!HERE/evil credential"
[diff]
external = HERE/evil external
[diff "x"]
textconv = HERE/evil textconv
[filter "x"]
clean = HERE/evil clean
smudge = HERE/evil smudge
required = true
[filter.dotted "y"]
clean = HERE/evil clean
[gpg]
program = HERE/evil
[log]
showSignature = true
[hook "x"]
event = post-index-change
command = HERE/evil hook
[protocol "ext"]
allow = always
[alias]
x = !HERE/evil alias
[url "ext::HERE/evil replaced"]
insteadOf = https://replaced.example/
[extensions]
partialClone = up
[remote "up"]
url = ssh://host/x
promisor = true
partialCloneFilter = blob:none
uploadpack = HERE/evil
[remote "ext"]
url = ext::HERE/evil url
[remote "replaced"]
url = https://replaced.example/x
[remote "git"]
url = git://127.0.0.1:9/x
"#;

    const COMMANDS: [&[&str]; 11] = [
        &["status"],
        &["diff"],
        &["diff", "--no-ext-diff"],
        &["log", "-p"],
        &["show", "0123456789012345678901234567890123456789"],
        &["fetch", "ext"],
        &["fetch", "replaced"],
        &["fetch", "git"],
        &["x"],
        &["add", "a.txt"],
        &["checkout", "-f", "-B", "y"],
    ];

    fn write(path: &Path, text: &str, mode: u32) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn git(dir: &Path, args: &[&str], variables: &[(String, String)]) {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args).current_dir(dir);
        command.env("HOME", dir.parent().unwrap()).env("GIT_CONFIG_NOSYSTEM", "1");
        command.env_remove("SSH_ASKPASS").env("GIT_TERMINAL_PROMPT", "0");
        command.envs(variables.iter().cloned());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("git is installed");
    }

    /// A repository with a commit and a changed file, whose config and hooks name a program that records its start.
    fn foreign_repository(dir: &Path) {
        let here = dir.to_str().unwrap();
        std::fs::create_dir_all(dir).unwrap();
        git(dir, &["init", "-q", "."], &[]);
        write(&dir.join("a.txt"), "one\n", 0o644);
        write(&dir.join("b.y"), "one\n", 0o644);
        git(dir, &["add", "."], &[]);
        git(dir, &["commit", "-q", "-m", "x"], &[]);
        write(&dir.join("a.txt"), "two\n", 0o644);
        write(&dir.join("b.y"), "two\n", 0o644);
        write(&dir.join(".gitattributes"), "*.txt filter=x diff=x\n*.y filter=dotted.y\n", 0o644);
        write(
            &dir.join("evil"),
            &format!("#!/bin/sh\necho \"$0 $*\" >> {here}/ran\n[ \"$1\" = clean ] && cat\n"),
            0o755,
        );
        for hook in [".git/hooks/post-checkout", "more-hooks/post-checkout", "more-hooks/post-index-change"] {
            write(&dir.join(hook), &format!("#!/bin/sh\necho {hook} >> {here}/ran\n"), 0o755);
        }
        write(&dir.join(".git/config"), &CONFIG.replace("HERE", here), 0o644);
    }

    #[test]
    fn with_the_variables_git_runs_nothing_that_a_foreign_repository_names() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap().join("top");
        foreign_repository(&top);
        foreign_repository(&top.join("nested"));
        let overrides = GitOverrides::find(&top, std::iter::empty()).unwrap();
        let found = |path: &str| overrides.found.contains(&top.join(path));
        assert!(found(".git/config") && found(".git/hooks") && found("nested/.git/config"), "{overrides:?}");
        let variables = overrides.variables(|_| None);
        let ran = |dir: &Path| std::fs::read_to_string(dir.join("ran")).unwrap_or_default();
        for dir in [top.clone(), top.join("nested")] {
            for command in COMMANDS {
                git(&dir, command, &variables);
                assert_eq!(ran(&dir), "", "git {}", command.join(" "));
            }
            let reading = GitOverrides::find(&dir.join("more-hooks"), [dir.as_path()].into_iter()).unwrap();
            assert_eq!(reading.found.first(), Some(&dir.join(".git/config")), "repositories above count");
        }
        // Without the variables, git runs the code: the repository is as hostile as it looks.
        let (mut quiet, plain) = (Vec::new(), temp.path().canonicalize().unwrap().join("plain"));
        foreign_repository(&plain);
        for command in COMMANDS {
            let _ = std::fs::remove_file(plain.join("ran"));
            git(&plain, command, &[]);
            if ran(&plain).is_empty() {
                quiet.push(command.join(" "));
            }
        }
        assert!(quiet.is_empty(), "these commands run nothing, so they prove nothing: {quiet:?}");
    }

    #[test]
    fn a_directory_that_is_too_large_is_told_from_one_that_cannot_be_listed() {
        let temp = tempfile::tempdir().unwrap();
        write(&temp.path().join("a/b/c"), "", 0o644);
        let find = |max| GitOverrides::find_in(temp.path(), std::iter::empty(), max);
        assert_eq!(find(3), Ok(GitOverrides::default()));
        assert_eq!(find(2), Err(UnknownCode::TooLarge));
        let deep = temp.path().join(format!("{}/", "d".repeat(250)).repeat(14));
        std::fs::create_dir_all(&deep).unwrap();
        assert!(matches!(find(100), Err(UnknownCode::Unlisted(dir)) if deep.starts_with(&dir)));
    }

    #[test]
    fn an_ordinary_repository_needs_no_variables() {
        let temp = tempfile::tempdir().unwrap();
        let config = "[core]\nbare = false\n[remote \"o\"]\nurl = https://x\n[branch \"main\"]\nremote = o\n[user]\nname = x\n";
        write(&temp.path().join(".git/config"), config, 0o644);
        write(&temp.path().join(".git/HEAD"), "ref: refs/heads/main\n", 0o644);
        write(&temp.path().join(".git/hooks/pre-commit.sample"), "#!/bin/sh\n", 0o755);
        let overrides = GitOverrides::find(temp.path(), std::iter::empty()).unwrap();
        assert_eq!(overrides, GitOverrides::default());
        assert_eq!(overrides.variables(|_| None), Vec::new());
    }

    #[test]
    fn settings_in_the_environment_stay_and_the_new_ones_follow() {
        let overrides = GitOverrides {
            found: vec!["x".into()],
            settings: BTreeMap::from([("core.pager".to_owned(), "cat")]),
            has_proxy: false,
        };
        let variables = overrides.variables(|name| (name == COUNT).then(|| "2".to_owned()));
        let value =
            |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(value(COUNT), Some("4"));
        assert_eq!(value("GIT_CONFIG_KEY_2"), Some("core.pager"));
        assert_eq!(value("GIT_CONFIG_KEY_3"), Some("protocol.ext.allow"));
    }
}
