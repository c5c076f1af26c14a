//! Bubblewrap: a command in namespaces of its own, with a file system that holds only what it was given.
//!
//! Knows how to ask `bwrap` for a view; must never show the user's home, `/run` (sockets of Docker and agents) or
//! another process. What bubblewrap leaves open is closed before it starts, by the sandbox process.

use crate::mount_table::{ETC, MountMode, MountTable};
use std::path::{Path, PathBuf};

/// The private `/tmp` lives in memory, so it has a size.
const TMP_BYTES: &str = "2147483648";

/// A `bwrap` program that was tried on this machine and works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bubblewrap {
    pub(crate) program: PathBuf,
    pub(crate) version: String,
    /// Whether it can forbid further user namespaces inside; old ones cannot.
    pub(crate) can_disable_userns: bool,
}

impl Bubblewrap {
    /// Its version, as it says itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Arguments that put `argv` into the view.
    pub(crate) fn args(&self, mounts: &MountTable, cwd: &Path, network: bool, argv: &[&str]) -> Vec<String> {
        let mut args = Args::default();
        args.flags(&[
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
        ]);
        args.flags(&["--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
        if self.can_disable_userns {
            args.flags(&["--disable-userns"]);
        }
        if !network {
            args.flags(&["--unshare-net"]);
        }
        system(&mut args);
        for rule in mounts.rules() {
            match rule.mode {
                MountMode::Hidden => args.path("--tmpfs", &rule.path),
                MountMode::ReadOnly => args.bind("--ro-bind", &rule.path),
                MountMode::Writable => args.bind("--bind", &rule.path),
            }
        }
        // Where the place does not exist, bubblewrap makes it on our disk: the caller removes it.
        for path in mounts.missing() {
            args.path("--tmpfs", path);
        }
        // Empty directories that stay empty, shut only now that whatever lies deeper has its mount point there.
        for path in mounts.hidden().chain(mounts.missing()) {
            args.path("--remount-ro", path);
        }
        // Else a write to a place outside the view would seem to work, and be gone with the sandbox.
        args.flags(&["--remount-ro", "/"]);
        args.path("--chdir", cwd);
        args.flags(&["--"]);
        args.flags(argv);
        args.0
    }

    /// Arguments that run `argv` with the user's own rights, but for these places.
    pub(crate) fn protecting_args(paths: &[(PathBuf, MountMode)], cwd: &Path, argv: &[&str]) -> Vec<String> {
        let mut args = Args::default();
        // Without this right, the mounts cannot be undone from inside.
        args.flags(&["--die-with-parent", "--cap-drop", "CAP_SYS_ADMIN", "--dev-bind", "/", "/"]);
        for (path, mode) in paths {
            args.bind(if *mode == MountMode::Writable { "--bind" } else { "--ro-bind" }, path);
        }
        args.path("--chdir", cwd);
        args.flags(&["--"]);
        args.flags(argv);
        args.0
    }
}

/// The machine's programs and libraries, and nothing of its people.
fn system(args: &mut Args) {
    args.bind("--ro-bind", Path::new("/usr"));
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let path = Path::new("/").join(name);
        match path.read_link() {
            Ok(target) => args.flags(&["--symlink", &target.to_string_lossy(), &path.to_string_lossy()]),
            Err(_) => args.bind("--ro-bind-try", &path),
        }
    }
    args.bind("--ro-bind-try", Path::new("/nix/store"));
    for path in ETC {
        args.bind("--ro-bind-try", Path::new(path));
    }
    // Read-only, because to the kernel a root without capabilities still owns the settings in /proc/sys.
    args.flags(&["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]);
    args.flags(&["--size", TMP_BYTES, "--tmpfs", "/tmp", "--symlink", "../tmp", "/var/tmp"]);
}

#[derive(Default)]
struct Args(Vec<String>);

impl Args {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(|flag| (*flag).to_owned()));
    }

    fn path(&mut self, flag: &str, path: &Path) {
        // Lossless: paths of a view were checked to be text.
        self.flags(&[flag, &path.to_string_lossy()]);
    }

    fn bind(&mut self, flag: &str, path: &Path) {
        self.flags(&[flag, &path.to_string_lossy(), &path.to_string_lossy()]);
    }
}
