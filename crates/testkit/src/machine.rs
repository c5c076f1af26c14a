//! Who runs the binary, and with which sandboxes: as root or as an ordinary user, with or without bubblewrap. If the
//! tests run as root, other users and machines are imitated with another user id, or with a mount namespace that hides
//! the program `bwrap`.

use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The user and group id of the ordinary user. No account has it.
pub const ORDINARY_ID: u32 = 61_184;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    Current,
    /// A user without any of root's rights. If the tests do not run as root, this is the current user.
    Ordinary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    pub user: User,
    pub bubblewrap: bool,
}

/// Hides `bwrap`, then executes the remaining arguments.
const HIDE: &str = "/usr/bin/mount --bind /dev/null /usr/bin/bwrap && exec \"$@\"";

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Machine {
    /// The machine that the variables `ALTHING_TEST_USER=ordinary` and `ALTHING_TEST_SANDBOX=landlock` select. Without
    /// them, the current user and every sandbox.
    pub fn from_environment() -> Self {
        let chosen = |name: &str, word: &str| match std::env::var(name) {
            Ok(value) if value == word => true,
            Ok(value) => panic!("{name} is {word} or not set, not {value}"),
            Err(_) => false,
        };
        let user = if chosen("ALTHING_TEST_USER", "ordinary") { User::Ordinary } else { User::Current };
        Self { user, bubblewrap: !chosen("ALTHING_TEST_SANDBOX", "landlock") }
    }

    pub fn uid(self) -> Option<u32> {
        (self.user == User::Ordinary && is_root()).then_some(ORDINARY_ID)
    }

    /// The command line that starts a program on this machine. Every step uses `exec`, so the process id is that of
    /// the program.
    pub(crate) fn command_line(self, program: &Path, arguments: &[OsString]) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if !self.bubblewrap {
            assert!(is_root(), "only root can hide bubblewrap");
            // `dash` drops variables with unusual names.
            words.extend(["/usr/bin/unshare", "--mount", "/bin/bash", "-c", HIDE, "bash"].map(Into::into));
        }
        if let Some(id) = self.uid() {
            let ids = [format!("--reuid={id}"), format!("--regid={id}")];
            words.push("/usr/bin/setpriv".into());
            words.extend(ids.map(Into::into));
            words.extend(["--clear-groups", "--"].map(Into::into));
            words.push(reachable(program).into());
        } else {
            words.push(program.into());
        }
        words.extend(arguments.iter().cloned());
        words
    }

    pub(crate) fn search_path(self) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if self.uid().is_none() {
            return path;
        }
        let open = std::env::split_paths(&path).filter(|dir| is_open(dir));
        std::env::join_paths(open).expect("a search path")
    }

    pub(crate) fn hand_over(self, dir: &Path) {
        if let Some(id) = self.uid() {
            hand_over(dir, id);
        }
    }
}

fn hand_over(path: &Path, id: u32) {
    let Ok(data) = path.symlink_metadata() else { return };
    if data.uid() != id {
        let _ = lchown(path, Some(id), Some(id));
    }
    if data.is_dir() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            hand_over(&entry.path(), id);
        }
    }
}

fn is_open(dir: &Path) -> bool {
    dir.ancestors().all(|dir| dir.metadata().is_ok_and(|data| data.mode() & 0o001 != 0))
}

/// A path of the program that every user can reach: its own, or that of a copy.
pub fn reachable(program: &Path) -> PathBuf {
    static COPIES: OnceLock<TempDir> = OnceLock::new();
    if !program.is_absolute() || program.parent().is_none_or(is_open) {
        return program.to_owned();
    }
    let dir = COPIES.get_or_init(|| {
        let dir = TempDir::new().expect("a directory for copies");
        open_to_all(dir.path());
        dir
    });
    let copy = dir.path().join(program.file_name().expect("a program has a name"));
    if !copy.exists() {
        // Copied under another name first, because tests that run at the same time may start the program.
        let part = tempfile::NamedTempFile::new_in(dir.path()).expect("a file for the copy");
        std::fs::copy(program, part.path()).expect("a copy of the program");
        part.persist(&copy).expect("a name for the copy");
    }
    copy
}

pub(crate) fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = if path.is_dir() { 0o755 } else { 0o666 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("other permissions");
}
