//! Builds `bwrap` command lines: for a sandbox ([`Bubblewrap::args`]) and for a program that has the user's own
//! rights except that some paths are read-only ([`Bubblewrap::protecting_args`]).
//!
//! In the sandbox a command has its own namespaces and sees only the system's programs and its mounts. The sandbox
//! must never expose `/run` (sockets of Docker and SSH agents), other processes, or anything of the user's home that
//! is not in the mounts. The rights that bubblewrap itself does not restrict are dropped by the sandbox process
//! before it executes bubblewrap (see `kernel::confine`).

use crate::mount_table::{ETC, MountMode, MountTable};
use std::path::{Path, PathBuf};

/// The size limit of the private `/tmp`, in bytes; the directory is a tmpfs and could otherwise fill the
/// memory.
const TMP_BYTES: &str = "2147483648";

/// A `bwrap` program on this machine that passed a test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bubblewrap {
    pub(crate) program: PathBuf,
    pub(crate) version: String,
    /// Whether this version supports `--disable-userns`, which forbids nested user namespaces.
    pub(crate) can_disable_userns: bool,
}

impl Bubblewrap {
    /// The first non-blank line that `bwrap --version` printed, or `an unknown version`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The `bwrap` arguments that run `argv` with these mounts.
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
        // Bubblewrap creates the missing directory on the real disk as a mount point; the caller removes it.
        for path in mounts.missing() {
            args.path("--tmpfs", path);
        }
        // These paths are remounted read-only only after all deeper mount points have been created inside.
        for path in mounts.hidden().chain(mounts.missing()) {
            args.path("--remount-ro", path);
        }
        // Without this, a write outside the mounts would appear to succeed and be lost with the sandbox.
        args.flags(&["--remount-ro", "/"]);
        args.path("--chdir", cwd);
        args.flags(&["--"]);
        args.flags(argv);
        args.0
    }

    /// The `bwrap` arguments that run `argv` with the user's own rights, except that these paths are mounted writable
    /// or (in any other mode) read-only.
    pub(crate) fn protecting_args(paths: &[(PathBuf, MountMode)], cwd: &Path, argv: &[&str]) -> Vec<String> {
        let mut args = Args::default();
        // Without CAP_SYS_ADMIN the command cannot undo the mounts.
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

/// Mounts the system's programs, libraries and parts of `/etc` read-only, and a private `/proc`, `/dev` and `/tmp`;
/// no user data.
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
    // `/proc` is read-only, because the kernel lets root write to /proc/sys even without capabilities.
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
        // The conversion is lossless for granted paths: `SandboxPaths::checked` refuses those that are not UTF-8.
        self.flags(&[flag, &path.to_string_lossy()]);
    }

    fn bind(&mut self, flag: &str, path: &Path) {
        self.flags(&[flag, &path.to_string_lossy(), &path.to_string_lossy()]);
    }
}
