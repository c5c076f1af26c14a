//! Reads git's config files with the files that they include.

use super::config_syntax::{self, Setting};
use super::settings::{self, Named};
use crate::repositories::{MAX_BYTES, try_read_file};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How deep includes are followed, as in git.
const MAX_INCLUDES: usize = 10;
const MAX_CONFIGS: usize = 200;

#[derive(Default)]
pub(super) struct Config {
    pub(super) settings: Vec<Setting>,
    pub(super) files: Vec<ConfigFile>,
    pub(super) is_incomplete: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct ConfigFile {
    /// The canonical path at which `path` starts.
    pub(super) base: PathBuf,
    pub(super) path: PathBuf,
}

impl ConfigFile {
    pub(super) fn new(base: &Path, path: impl Into<PathBuf>) -> Self {
        Self { base: base.to_owned(), path: path.into() }
    }
}

impl Config {
    pub(super) fn add_file(&mut self, file: &ConfigFile, home: Option<&Path>, depth: usize) {
        if self.files.contains(file) {
            return;
        }
        if self.files.len() >= MAX_CONFIGS {
            self.is_incomplete = true;
            return;
        }
        self.files.push(file.clone());
        let Ok(bytes) = try_read_file(&file.base.join(&file.path), MAX_BYTES) else {
            self.is_incomplete = true;
            return;
        };
        for setting in config_syntax::settings(&bytes.unwrap_or_default()) {
            match settings::named(&setting) {
                Some(Named::Config(path)) if !is_plain(&path) => self.is_incomplete = true,
                Some(Named::Config(path)) if depth < MAX_INCLUDES => {
                    let path = file.path.parent().unwrap_or(Path::new("")).join(expanded(&path, home));
                    self.add_file(&ConfigFile::new(&file.base, path), home, depth + 1);
                }
                Some(Named::Config(_)) | None => {}
                Some(_) => self.settings.push(setting),
            }
        }
    }
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The config of the user and of the system, which applies to every repository.
#[derive(Default)]
pub(super) struct UserConfig {
    pub(super) home: Option<PathBuf>,
    pub(super) config: Config,
}

impl UserConfig {
    pub(super) fn home() -> Option<PathBuf> {
        variable("HOME")
    }

    pub(super) fn read() -> Self {
        let home = Self::home();
        let in_home = |path: &str| home.as_ref().map(|home| home.join(path));
        let files = [
            Some("/etc/gitconfig".into()),
            Some("/usr/local/etc/gitconfig".into()),
            Some("/opt/homebrew/etc/gitconfig".into()),
            variable("GIT_CONFIG_SYSTEM"),
            variable("XDG_CONFIG_HOME").map(|dir| dir.join("git/config")),
            in_home(".config/git/config"),
            in_home(".gitconfig"),
            variable("GIT_CONFIG_GLOBAL"),
        ];
        Self::of(files.into_iter().flatten(), home)
    }

    pub(super) fn of(files: impl Iterator<Item = PathBuf>, home: Option<PathBuf>) -> Self {
        let mut config = Config::default();
        for file in files {
            config.add_file(&ConfigFile::new(Path::new("/"), file), home.as_deref(), 0);
        }
        Self { home, config }
    }
}

/// Whether every version of git takes a path as it is: git replaces `%(prefix)`, and older versions replace other
/// whitespace than spaces.
fn is_plain(path: &[u8]) -> bool {
    !path.starts_with(b"%(") && !path.iter().any(u8::is_ascii_control)
}

/// A path of a config, with `~` and `~user` replaced by the home directory. It may be relative.
pub(super) fn expanded(path: &[u8], home: Option<&Path>) -> PathBuf {
    // Newer versions of git ignore a missing file whose path has this prefix.
    let path = path.strip_prefix(b":(optional)").unwrap_or(path);
    let as_it_is = || PathBuf::from(OsStr::from_bytes(path));
    let Some(rest) = path.strip_prefix(b"~") else { return as_it_is() };
    let slash = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let (user, below) = rest.split_at(slash);
    let below = OsStr::from_bytes(below.strip_prefix(b"/").unwrap_or(below));
    let home = if user.is_empty() { home.map(Path::to_owned) } else { home_of(user) };
    home.map_or_else(as_it_is, |home| home.join(below))
}

fn home_of(user: &[u8]) -> Option<PathBuf> {
    let users = try_read_file(Path::new("/etc/passwd"), MAX_BYTES).ok().flatten().unwrap_or_default();
    let listed = users.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        let is_user = fields.next() == Some(user);
        fields.nth(4).filter(|_| is_user).map(|home| PathBuf::from(OsStr::from_bytes(home)))
    });
    // Not all users are in /etc/passwd: some can be listed in a directory service.
    let is_own = || std::env::var_os("USER").is_some_and(|own| own.as_bytes() == user);
    let own = || std::env::var_os("HOME").filter(|_| is_own()).map(PathBuf::from);
    listed.or_else(own).or_else(|| Some(Path::new("/home").join(OsStr::from_bytes(user))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_start_at_the_home_directory_of_the_named_user() {
        let home = Some(Path::new("/h"));
        let users = std::fs::read_to_string("/etc/passwd").unwrap();
        let root =
            users.lines().find(|line| line.starts_with("root:")).and_then(|line| line.split(':').nth(5));
        let of_root = format!("{}/x", root.unwrap());
        for (path, expected) in [
            ("~/x", "/h/x"),
            ("~", "/h"),
            ("~root/x", of_root.as_str()),
            ("~nobody-knows/x", "/home/nobody-knows/x"),
            ("a/~/x", "a/~/x"),
            ("/a b ", "/a b "),
            (":(optional)x", "x"),
        ] {
            assert_eq!(expanded(path.as_bytes(), home), Path::new(expected), "{path}");
        }
    }
}
