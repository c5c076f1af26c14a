//! Finds the code that the settings of CLI agents and editors start: if `.claude/settings.json` has the hook
//! `sh scripts/hook.sh`, then writing to that script changes code that Claude Code runs.
//!
//! Which files are settings comes from the adapters' table. What a command may run is decided in the same place as for
//! git's commands.

#[cfg(test)]
mod tests;
mod texts;

use crate::adapter::{Keys, SettingsFile, settings_files};
use crate::git_code::{CommandCode, command_code};
use crate::protected_paths::matching_row;
use crate::repositories::{MAX_BYTES, try_read_file};
use althing_protocol::{AGENT_KINDS, RunsCode, is_name};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Settings of editors.
const OF_EDITORS: [SettingsFile; 4] = [
    SettingsFile { names: &[".vscode", "tasks.json"], keys: Keys::Only(&["command", "args"]) },
    SettingsFile { names: &[".vscode", "mcp.json"], keys: Keys::Only(&["servers"]) },
    SettingsFile { names: &[".cursor", "mcp.json"], keys: Keys::Only(&["mcpServers"]) },
    SettingsFile { names: &[".cursor", "hooks.json"], keys: Keys::Only(&["hooks"]) },
];

/// For each CLI agent, the row of files that its settings do not name, but that their commands may run.
static UNNAMED: LazyLock<Vec<(&'static str, RunsCode)>> = LazyLock::new(|| {
    // The texts are leaked once, because the rows live as long as the process.
    let row = |adapter: &'static str, title: &str| RunsCode {
        names: vec!["settings", "of", adapter].leak(),
        protected: true,
        ordinary: false,
        when: format!("{title} starts the programs that its settings here name").leak(),
    };
    AGENT_KINDS.iter().map(|kind| (kind.adapter, row(kind.adapter, kind.title))).collect()
});

/// The row of files that a command in a config of git may run without naming them.
pub(crate) static UNNAMED_OF_GIT: RunsCode = RunsCode {
    names: &["config", "of", "git"],
    protected: true,
    ordinary: false,
    when: "git runs a command of its config",
};

#[derive(Debug, Default)]
pub(crate) struct SettingsCode {
    pub(crate) files: Vec<(PathBuf, &'static RunsCode)>,
    /// Directories in which the settings could start any file.
    pub(crate) unknown: Vec<(PathBuf, &'static RunsCode)>,
}

/// The rows of files that settings and configs do not name. The names of these rows are no names of files.
pub(crate) fn unnamed_rows() -> impl Iterator<Item = &'static RunsCode> {
    UNNAMED.iter().map(|(_, row)| row).chain([&UNNAMED_OF_GIT])
}

/// Whether a program of this adapter may run the code of a row. Code that the settings of a CLI agent do not name is
/// run only by that CLI agent, or by the user's own adapters, which may start it.
pub(crate) fn concerns(row: &RunsCode, adapter: &str) -> bool {
    let owner = UNNAMED.iter().find(|(_, unnamed)| unnamed == row).map(|(owner, _)| *owner);
    let is_user_defined = || adapter != "command" && AGENT_KINDS.iter().all(|kind| kind.adapter != adapter);
    owner.is_none_or(|owner| owner == adapter || is_user_defined())
}

/// What the settings may start in the directories and files `roots`. The settings are those among the paths `found`, and
/// those in the working directories, the directories above them and the home directory.
pub(crate) fn settings_code<'a>(
    found: impl Iterator<Item = &'a PathBuf>,
    work_dirs: &[PathBuf],
    roots: &[PathBuf],
) -> SettingsCode {
    let real = |dirs: &[PathBuf]| dirs.iter().filter_map(|dir| dir.canonicalize().ok()).collect::<Vec<_>>();
    let (work_dirs, roots) = (real(work_dirs), real(roots));
    let mut all: BTreeMap<PathBuf, Place> = BTreeMap::new();
    for path in found {
        all.extend(Place::of(path).map(|place| (path.clone(), place)));
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let above: BTreeSet<&Path> =
        work_dirs.iter().flat_map(|dir| dir.ancestors()).chain(home.as_deref()).collect();
    for top in above {
        for (adapter, settings) in every_kind() {
            for path in matching_paths(top, settings.names) {
                let is_of_user = home.as_deref() == Some(top);
                all.insert(path, Place { top: top.to_owned(), adapter, settings, is_of_user });
            }
        }
    }
    let mut code = SettingsCode::default();
    for (path, place) in all {
        code.add(&path, &place, &work_dirs, &roots);
    }
    code
}

fn every_kind() -> impl Iterator<Item = (Option<&'static str>, &'static SettingsFile)> {
    let of_agents = settings_files().map(|(adapter, settings)| (Some(adapter), settings));
    of_agents.chain(OF_EDITORS.iter().map(|settings| (None, settings)))
}

struct Place {
    /// The directory to which the settings apply.
    top: PathBuf,
    adapter: Option<&'static str>,
    settings: &'static SettingsFile,
    /// Whether the settings apply in every directory.
    is_of_user: bool,
}

impl Place {
    fn of(file: &Path) -> Option<Self> {
        every_kind().find_map(|(adapter, settings)| {
            let names = file.iter().rev().zip(settings.names.iter().rev());
            let top = file.ancestors().nth(settings.names.len())?.to_owned();
            let is_here = names.filter(|(name, known)| is_name(name, known)).count() == settings.names.len();
            is_here.then_some(Self { top, adapter, settings, is_of_user: false })
        })
    }
}

/// The existing paths below a directory that match the names.
pub(crate) fn matching_paths(dir: &Path, names: &[&str]) -> Vec<PathBuf> {
    let Some((name, below)) = names.split_first() else { return vec![dir.to_owned()] };
    let inner = if name.starts_with('*') {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter(|entry| is_name(&entry.file_name(), name)).map(|entry| entry.path()).collect()
    } else {
        vec![dir.join(name)]
    };
    let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
    inner.iter().filter(|path| exists(path)).flat_map(|path| matching_paths(path, below)).collect()
}

impl SettingsCode {
    fn add(&mut self, file: &Path, place: &Place, work_dirs: &[PathBuf], roots: &[PathBuf]) {
        let Some(row) = row_of(file) else { return };
        let commands = match try_read_file(file, MAX_BYTES) {
            Ok(None) => return,
            Ok(Some(bytes)) => Some(texts::commands(file, &bytes, &place.settings.keys)),
            Err(_) => None,
        };
        // A command runs where the CLI agent works, in the directory of its settings, or next to the file.
        let applies = |dir: &&PathBuf| place.is_of_user || dir.starts_with(&place.top);
        let mut tops = vec![place.top.clone()];
        tops.extend(file.parent().map(Path::to_owned));
        tops.extend(work_dirs.iter().filter(applies).cloned());
        tops.sort();
        tops.dedup();
        let code = match commands {
            Some(commands) => code_in_roots(roots, &tops, &commands),
            None => CommandCode { is_unknown: true, ..CommandCode::default() },
        };
        self.files.extend(code.named.into_iter().map(|path| (path, row)));
        let unnamed = UNNAMED.iter().find(|(adapter, _)| place.adapter == Some(*adapter));
        let Some((_, unnamed)) = unnamed else { return };
        self.files.extend(code.unnamed.into_iter().map(|path| (path, unnamed)));
        if code.is_unknown {
            let inside = tops.iter().filter(|top| roots.iter().any(|root| top.starts_with(root)));
            let around = roots.iter().filter(|root| tops.iter().any(|top| root.starts_with(top)));
            self.unknown.extend(inside.chain(around).map(|dir| (dir.clone(), unnamed)));
        }
    }
}

/// What the commands may run of the directories and files `roots`.
fn code_in_roots(roots: &[PathBuf], tops: &[PathBuf], commands: &[Vec<u8>]) -> CommandCode {
    let dir_of = |root: &PathBuf| match root.parent() {
        Some(dir) if !root.is_dir() => dir.to_owned(),
        _ => root.clone(),
    };
    let dirs: Vec<PathBuf> = roots.iter().map(dir_of).collect();
    let mut code = command_code(&dirs, tops, commands);
    let is_in_roots = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root));
    code.named.retain(is_in_roots);
    code.unnamed.retain(is_in_roots);
    code
}

fn row_of(file: &Path) -> Option<&'static RunsCode> {
    let mut rows = file.ancestors().filter_map(|path| matching_row(path.parent()?, path.file_name()?));
    rows.find(|row| row.protected)
}
