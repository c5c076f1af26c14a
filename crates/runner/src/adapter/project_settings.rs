//! Settings that CLI agents read from the directory in which they work. They can start programs, and choose the
//! server that gets the prompts and the user's key. Somebody else may have written them, so a CLI agent that asks no
//! person uses them only if the user trusts the directory.

use super::{LaunchConfig, gemini, opencode};
use crate::repositories::try_read_file;
use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};

const MAX_GENERATED: u64 = 64 << 10;

struct ProjectSettings {
    adapter: &'static str,
    names: &'static [&'static str],
    ignored_by: Option<IgnoredBy>,
    /// The settings that can name commands, in a project and in the home directory.
    files: &'static [SettingsFile],
}

/// Settings that can name commands.
pub(crate) struct SettingsFile {
    /// The names of the file and of the directories that contain it; a leading `*` stands for any text.
    pub(crate) names: &'static [&'static str],
    pub(crate) keys: Keys,
}

/// Which values of settings may be commands.
pub(crate) enum Keys {
    /// All except the values of these keys, which are data: so the keys of newer versions are not missed.
    AllBut(&'static [&'static str]),
    Only(&'static [&'static str]),
}

const fn file(names: &'static [&'static str], data: &'static [&'static str]) -> SettingsFile {
    SettingsFile { names, keys: Keys::AllBut(data) }
}

const fn servers(names: &'static [&'static str]) -> SettingsFile {
    SettingsFile { names, keys: Keys::Only(&["mcpServers"]) }
}

const CLAUDE_DATA: [&str; 12] = [
    "$schema",
    "permissions",
    "sandbox",
    "claudeMdExcludes",
    "companyAnnouncements",
    "attribution",
    "description",
    "spinnerVerbs",
    "enabledPlugins",
    "enabledMcpjsonServers",
    "disabledMcpjsonServers",
    "worktree",
];
const GEMINI_DATA: [&str; 13] = [
    "$schema",
    "context",
    "contextFileName",
    "fileFiltering",
    "includeDirectories",
    "core",
    "coreTools",
    "allowed",
    "exclude",
    "excludeTools",
    "description",
    "ui",
    "security",
];
const OPENCODE_DATA: [&str; 9] = [
    "$schema",
    "permission",
    "watcher",
    "instructions",
    "prompt",
    "description",
    "keybinds",
    "extensions",
    "theme",
];
const CODEX_DATA: [&str; 9] = [
    "projects",
    "tui",
    "history",
    "notice",
    "features",
    "sandbox_workspace_write",
    "permissions",
    "analytics",
    "description",
];

#[derive(Clone, Copy)]
struct IgnoredBy {
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

const PROJECT_SETTINGS: [ProjectSettings; 4] = [
    ProjectSettings {
        adapter: "claude",
        names: &[".claude", ".mcp.json"],
        ignored_by: Some(IgnoredBy { args: &["--setting-sources", "user", "--strict-mcp-config"], env: &[] }),
        files: &[
            file(&[".mcp.json"], &[]),
            file(&[".claude", "settings.json"], &CLAUDE_DATA),
            file(&[".claude", "settings.local.json"], &CLAUDE_DATA),
            file(&[".claude", "agents", "*.md"], &[]),
            file(&[".claude", "commands", "*.md"], &[]),
            file(&[".claude", "skills", "*", "*.md"], &[]),
            servers(&[".claude.json"]),
        ],
    },
    ProjectSettings {
        adapter: "codex",
        names: &[],
        ignored_by: None,
        files: &[file(&[".codex", "*.toml"], &CODEX_DATA), file(&[".codex", "hooks.json"], &[])],
    },
    ProjectSettings {
        adapter: "gemini",
        names: &[".gemini", ".env"],
        ignored_by: None,
        files: &[
            file(&[".gemini", "settings.json"], &GEMINI_DATA),
            file(&[".gemini", "extensions", "*", "gemini-extension.json"], &GEMINI_DATA),
            file(&[".gemini", "extensions", "*", "hooks", "hooks.json"], &[]),
        ],
    },
    ProjectSettings {
        adapter: "opencode",
        names: &["opencode.json", "opencode.jsonc", ".opencode"],
        ignored_by: Some(IgnoredBy { args: &[], env: &[("OPENCODE_DISABLE_PROJECT_CONFIG", "1")] }),
        files: &[
            file(&["opencode.json"], &OPENCODE_DATA),
            file(&["opencode.jsonc"], &OPENCODE_DATA),
            file(&[".opencode", "opencode.json"], &OPENCODE_DATA),
            file(&[".opencode", "opencode.jsonc"], &OPENCODE_DATA),
            file(&[".config", "opencode", "config.json"], &OPENCODE_DATA),
            file(&[".config", "opencode", "opencode.json"], &OPENCODE_DATA),
            file(&[".config", "opencode", "opencode.jsonc"], &OPENCODE_DATA),
        ],
    },
];

/// The settings that can name commands, with the adapter of the CLI agent that reads them.
pub(crate) fn settings_files() -> impl Iterator<Item = (&'static str, &'static SettingsFile)> {
    PROJECT_SETTINGS.iter().flat_map(|row| row.files.iter().map(|file| (row.adapter, file)))
}

fn of_adapter(adapter: &str) -> Option<&'static ProjectSettings> {
    PROJECT_SETTINGS.iter().find(|settings| settings.adapter == adapter)
}

pub(crate) fn find_project_settings<'a>(adapter: &str, dirs: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let names = of_adapter(adapter).map_or(&[][..], |settings| settings.names);
    let paths = dirs.flat_map(|dir| names.iter().map(move |name| dir.join(name)));
    paths.filter(|path| path.symlink_metadata().is_ok() && !is_ours(path)).collect()
}

/// Whether Althing made this: a placeholder, or settings of Gemini CLI that name only our MCP server and were left
/// behind when Althing was killed.
fn is_ours(path: &Path) -> bool {
    if crate::placeholders::is_placeholder(path) {
        return true;
    }
    // Files in a directory that cannot be listed can still be read by name.
    let Ok(mut entries) = std::fs::read_dir(path) else { return false };
    let is_settings =
        |entry: io::Result<DirEntry>| entry.is_ok_and(|entry| entry.file_name() == "settings.json");
    let is_alone = path.ends_with(".gemini") && entries.all(is_settings);
    let text = || try_read_file(&path.join("settings.json"), MAX_GENERATED).ok().flatten();
    is_alone && text().is_some_and(|text| gemini::is_generated(&text))
}

/// Switches off what a CLI agent starts from the directory itself if the *user's own* settings ask for it: language
/// servers and formatters that are installed in the directory.
pub(crate) fn start_nothing_of_the_project(adapter: &str, config: &mut LaunchConfig) {
    if adapter == opencode::NAME {
        opencode::switch_off_programs_of_the_project(config);
    }
}

pub(crate) fn ignore_project_settings(adapter: &str, config: &mut LaunchConfig) -> bool {
    let Some(IgnoredBy { args, env }) = of_adapter(adapter).and_then(|settings| settings.ignored_by) else {
        return false;
    };
    config.args.extend(args.iter().map(|arg| (*arg).to_owned()));
    config.env.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    true
}

#[cfg(test)]
mod tests {
    use super::settings_files;
    use althing_protocol::AGENT_KINDS;

    #[test]
    fn the_settings_of_every_cli_agent_that_can_name_commands_are_known() {
        for kind in AGENT_KINDS {
            for dir in kind.project_dirs {
                let is_known = |(adapter, file): (&str, &super::SettingsFile)| {
                    adapter == kind.adapter && file.names.first() == Some(dir)
                };
                assert!(settings_files().any(is_known), "{dir}");
            }
        }
    }
}
