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
