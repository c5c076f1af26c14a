//! Finds the installed CLI agents and their versions.

use super::{Adapters, version_cache};
use crate::git_code::places;
use crate::guarded::GuardLauncher;
use crate::probe::version;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const MAX_PACKAGE_BYTES: u64 = 16 << 20;

/// A program that an adapter runs, and where it is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInstallation {
    /// The adapter's name.
    pub name: String,
    /// The executable that was searched for.
    pub program: String,
    /// The path of the executable; `None` if the program is not installed.
    pub path: Option<PathBuf>,
    /// The version in the program's npm package, or else the first non-blank line that `--version` prints. `None` if
    /// neither is known.
    pub version: Option<String>,
}

/// Finds the executable and version of every adapter that has an executable. The version comes from the program's npm
/// package, or else from running it with `--version` for at most `limit`. A program that is found only in a directory
/// to which agents may write is not run. What a program prints is stored in the directory `cache`; for a day, the
/// program is run again only if its file has changed.
pub async fn find_agents(
    adapters: &Adapters,
    launcher: &GuardLauncher,
    (search, agents_write): (&str, &[PathBuf]),
    limit: Duration,
    cache: Option<&Path>,
) -> Vec<AgentInstallation> {
    let now = SystemTime::now();
    let kept = &SearchPath::without(search, agents_write).kept;
    let looks = adapters.all().filter_map(|adapter| {
        let program = adapter.executable()?.to_owned();
        let trusted = find_program(&program, kept);
        Some(async move {
            let path = trusted.clone().or_else(|| find_program(&program, search));
            let npm = path.as_ref().and_then(|path| npm_version(path, &program));
            let known = npm.or_else(|| version_cache::get(cache?, trusted.as_ref()?, now));
            let mut printed = None;
            if known.is_none()
                && let Some(path) = trusted
            {
                printed = version(launcher, &path, Some(kept), limit).await.map(|version| (path, version));
            }
            let version = known.or_else(|| printed.as_ref().map(|(_, version)| version.clone()));
            let found = AgentInstallation { name: adapter.name().to_owned(), program, path, version };
            (found, printed)
        })
    });
    let (found, printed): (Vec<_>, Vec<_>) = futures_util::future::join_all(looks).await.into_iter().unzip();
    if let Some(cache) = cache {
        version_cache::put(cache, &printed.into_iter().flatten().collect::<Vec<_>>(), now);
    }
    found
}

/// A `PATH` without the directories to which agents may write: an agent could put a program there that has the name
/// of a program of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPath {
    /// The directories in which programs are searched for, as the value of `PATH`.
    pub kept: String,
    /// The removed absolute directories, to which agents may write.
    pub removed: Vec<PathBuf>,
}

impl SearchPath {
    /// Removes directories inside `writable` and directories that are reached through a path inside `writable`, even
    /// if they do not exist yet. Relative directories are removed, too, but `removed` does not name them.
    pub fn without(search: &str, writable: &[PathBuf]) -> Self {
        let is_writable = |place: &PathBuf| writable.iter().any(|root| place.starts_with(root));
        let dirs = search.split(':').filter(|dir| dir.starts_with('/'));
        let (removed, kept): (Vec<&str>, Vec<&str>) =
            dirs.partition(|dir| places(Path::new("/"), Path::new(dir)).iter().any(is_writable));
        Self { kept: kept.join(":"), removed: removed.into_iter().map(PathBuf::from).collect() }
    }

    /// The absolute directories of `search`, even if they do not exist yet, and the symlinks that lead to them.
    pub fn places(search: &str) -> Vec<PathBuf> {
        let dirs = search.split(':').filter(|dir| dir.starts_with('/'));
        dirs.flat_map(|dir| places(Path::new("/"), Path::new(dir))).collect()
    }

    /// [`Self::removed`] as a text.
    pub fn removed_text(&self) -> String {
        self.removed.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// The first non-blank line that a program prints with `--version`, within `limit`. `search` is its `PATH`.
pub async fn program_version(
    launcher: &GuardLauncher,
    program: &Path,
    search: &str,
    limit: Duration,
) -> Option<String> {
    version(launcher, program, Some(search), limit).await
}

/// The version is read from a file, because some CLI agents take many seconds to print it.
fn npm_version(path: &Path, program: &str) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let is_package = |dir: &&Path| {
        let mut above = dir.ancestors().skip(1).take(2);
        above.any(|above| above.ends_with("node_modules")) && dir.join("package.json").exists()
    };
    let package = real.ancestors().skip(1).take(5).find(is_package)?;
    let text = althing_disk::read_regular(&package.join("package.json"), MAX_PACKAGE_BYTES).ok()?;
    let package: serde_json::Value = serde_json::from_slice(&text).ok()?;
    package.pointer("/bin")?.get(program)?;
    let version = crate::clean(package.get("version")?.as_str()?);
    Some(version).filter(|version| !version.is_empty())
}

/// The path of an executable file: `program` itself if it contains a `/`, or else one of that name in an absolute
/// directory of `search`.
pub fn find_program(program: &str, search: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    let dirs = search.split(':').filter(|dir| dir.starts_with('/'));
    dirs.map(|dir| Path::new(dir).join(program)).find(|path| is_program(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn programs_are_not_searched_for_where_agents_may_write() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for path in ["proj/bin", "home/bin", "projects"] {
            std::fs::create_dir_all(base.join(path)).unwrap();
        }
        symlink(base.join("proj/bin"), base.join("home/linked")).unwrap();
        symlink(base.join("home/bin"), base.join("proj/out")).unwrap();
        let full = |path: &str| base.join(path).display().to_string();
        let search =
            ["proj/bin", "home/bin", "proj/new/bin", "home/linked", "proj/out", "projects"].map(full);
        let found = SearchPath::without(&format!(".::{}", search.join(":")), &[base.join("proj")]);
        assert_eq!(found.kept, [full("home/bin"), full("projects")].join(":"));
        let removed = ["proj/bin", "proj/new/bin", "home/linked", "proj/out"];
        assert_eq!(found.removed, removed.map(|path| base.join(path)));
    }
}
