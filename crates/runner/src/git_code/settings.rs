//! The settings of git with which git runs code, and the files that these settings name.

use super::config_syntax::Setting;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Hooks(Vec<u8>),
    /// A directory whose content git copies into new repositories, with hooks.
    Template(Vec<u8>),
    /// Another config file, relative to the file that contains the setting.
    Config(Vec<u8>),
    /// The top of the working tree, relative to the git directory.
    WorkTree(Vec<u8>),
    Command(Vec<u8>),
    /// Arguments for git itself, which may contain commands.
    Arguments(Vec<u8>),
    /// A setting of another program or of a newer version of git, which may be a command.
    Unknown(Vec<u8>),
}

/// Settings whose value is a command. `*` stands for any key.
const COMMANDS: [&str; 42] = [
    "core.alternaterefscommand",
    "core.askpass",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.pager",
    "core.sshcommand",
    "browser.cmd",
    "browser.path",
    "credential.helper",
    "diff.command",
    "diff.external",
    "diff.textconv",
    "difftool.cmd",
    "difftool.path",
    "filter.clean",
    "filter.process",
    "filter.smudge",
    "gc.recentobjectshook",
    "gpg.defaultkeycommand",
    "gpg.program",
    "guitool.cmd",
    "hook.command",
    "imap.tunnel",
    "instaweb.httpd",
    "interactive.difffilter",
    "lfs.clean",
    "lfs.path",
    "lfs.smudge",
    "man.cmd",
    "man.path",
    "merge.driver",
    "mergetool.cmd",
    "mergetool.path",
    "pager.*",
    "remote.receivepack",
    "remote.uploadpack",
    "sendemail.*",
    "sequence.editor",
    "tar.command",
    "trailer.*",
    "uploadpack.packobjectshook",
];

const MARKED_COMMANDS: [(&str, &str); 4] =
    [("alias.*", "!"), ("submodule.update", "!"), ("remote.url", "ext::"), ("remote.pushurl", "ext::")];

/// The start of an address that is a command.
const COMMAND_ADDRESS: &[u8] = b"ext::";

/// Settings of git that are no commands, but may contain the names of files. Settings in no list are treated as
/// commands if they name an executable file.
const DATA: [&str; 34] = [
    "advice.*",
    "alias.*",
    "author.*",
    "blame.*",
    "branch.*",
    "color.*",
    "column.*",
    "commit.template",
    "committer.*",
    "core.attributesfile",
    "core.excludesfile",
    "core.gitdir",
    "diff.orderfile",
    "diff.wordregex",
    "diff.xfuncname",
    "diff.funcname",
    "extensions.*",
    "fetch.*",
    "format.*",
    "gui.*",
    "http.*",
    "init.defaultbranch",
    "log.*",
    "mailmap.*",
    "maintenance.*",
    "merge.name",
    "pretty.*",
    "push.*",
    "remote.*",
    "safe.*",
    "status.*",
    "submodule.*",
    "url.*",
    "user.*",
];

/// The names of git's hooks (`git help hooks`).
pub(super) const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// What a setting names; `None` if git runs no code because of it.
pub(super) fn named(setting: &Setting) -> Option<Named> {
    let is = |known: &str| match known.strip_suffix('*') {
        Some(section) => setting.name.starts_with(section),
        None => setting.name == known,
    };
    let value = || setting.value.clone();
    let is_marked = |(known, mark): &(&str, &str)| is(known) && setting.value.starts_with(mark.as_bytes());
    match setting.name.as_str() {
        _ if setting.value.is_empty() => None,
        "core.hookspath" => Some(Named::Hooks(value())),
        "init.templatedir" => Some(Named::Template(value())),
        "include.path" | "includeif.path" => Some(Named::Config(value())),
        // `url.NEW.insteadOf = OLD`: in an address that starts with OLD (the value), git replaces OLD by NEW (the
        // subsection), so the address becomes a command if NEW begins with `ext::`.
        name if name.starts_with("url.")
            && setting.subsection.as_ref().is_some_and(|address| address.starts_with(COMMAND_ADDRESS)) =>
        {
            Some(Named::Command(setting.subsection.clone().unwrap_or_default()))
        }
        "core.worktree" => Some(Named::WorkTree(value())),
        _ if COMMANDS.iter().any(|known| is(known)) || MARKED_COMMANDS.iter().any(is_marked) => {
            Some(Named::Command(value()))
        }
        // In newer versions of git, the name of an alias can also be a subsection.
        name if name.starts_with("alias.") => Some(Named::Arguments(value())),
        _ if DATA.iter().any(|known| is(known)) => None,
        _ => Some(Named::Unknown(value())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git_code::config_syntax::settings;

    fn of(line: &str) -> Option<Named> {
        settings(line.as_bytes()).first().and_then(named)
    }

    #[test]
    fn settings_with_which_git_runs_code_are_recognized() {
        assert_eq!(of("[core] hooksPath = a b"), Some(Named::Hooks("a b".into())));
        assert_eq!(of("[core] hooksPath = \"a \""), Some(Named::Hooks("a ".into())));
        assert_eq!(of("[core] workTree = ../a"), Some(Named::WorkTree("../a".into())));
        assert_eq!(of("[includeIf \"x\"] path = y"), Some(Named::Config("y".into())));
        assert_eq!(of("[init] templateDir = y"), Some(Named::Template("y".into())));
        for line in [
            "[core] fsmonitor = ./x -a",
            "[Filter \"y\"] PROCESS = ./x -a",
            "[diff \"y\"] textconv = ./x -a",
            "[pager] log = ./x -a",
            "[gpg \"ssh\"] program = ./x -a",
            "[merge \"y\"] driver = ./x -a",
            "[lfs \"customtransfer.y\"] path = ./x -a",
        ] {
            assert_eq!(of(line), Some(Named::Command("./x -a".into())), "{line}");
        }
        for line in
            ["[credential \"https://y\"] helper = !./x", "[alias] y = !./x", "[alias \"y\"] command = !./x"]
        {
            assert_eq!(of(line), Some(Named::Command("!./x".into())), "{line}");
        }
        assert_eq!(of("[remote \"y\"] url = ext::./x"), Some(Named::Command("ext::./x".into())));
        assert_eq!(of("[url \"ext::./x\"] insteadOf = y"), Some(Named::Command("ext::./x".into())));
        assert_eq!(of("[url \"https://x\"] insteadOf = ext::y"), None);
        assert_eq!(of("[alias] y = log --all"), Some(Named::Arguments("log --all".into())));
        assert_eq!(of("[new \"y\"] program = ./x"), Some(Named::Unknown("./x".into())));
        for line in
            ["[remote \"y\"] url = ./x", "[core] fsmonitor", "[user] name = ./x", "[merge \"y\"] name = ./x"]
        {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
