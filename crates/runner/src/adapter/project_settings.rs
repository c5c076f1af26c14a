//! Settings that CLI agents read from the directory in which they work. They can start programs, and choose the
//! server that gets the prompts and the user's key. Somebody else may have written them, so a CLI agent that asks no
//! person uses them only if the user trusts the directory.

use super::{LaunchConfig, gemini};
use std::path::{Path, PathBuf};

struct ProjectSettings {
    adapter: &'static str,
    names: &'static [&'static str],
    ignored_by: Option<IgnoredBy>,
}

#[derive(Clone, Copy)]
struct IgnoredBy {
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

const PROJECT_SETTINGS: [ProjectSettings; 3] = [
    ProjectSettings {
        adapter: "claude",
        names: &[".claude", ".mcp.json"],
        ignored_by: Some(IgnoredBy { args: &["--setting-sources", "user", "--strict-mcp-config"], env: &[] }),
    },
    ProjectSettings { adapter: "gemini", names: &[".gemini", ".env"], ignored_by: None },
    ProjectSettings {
        adapter: "opencode",
        names: &["opencode.json", "opencode.jsonc", ".opencode"],
        ignored_by: Some(IgnoredBy { args: &[], env: &[("OPENCODE_DISABLE_PROJECT_CONFIG", "1")] }),
    },
];

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
    let mut entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_alone = path.ends_with(".gemini") && entries.all(|entry| entry.file_name() == "settings.json");
    is_alone && std::fs::read(path.join("settings.json")).is_ok_and(|text| gemini::is_generated(&text))
}

pub(crate) fn ignore_project_settings(adapter: &str, config: &mut LaunchConfig) -> bool {
    let Some(IgnoredBy { args, env }) = of_adapter(adapter).and_then(|settings| settings.ignored_by) else {
        return false;
    };
    config.args.extend(args.iter().map(|arg| (*arg).to_owned()));
    config.env.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    true
}
