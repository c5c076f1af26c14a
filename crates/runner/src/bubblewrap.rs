//! Builds `bwrap` command lines: for a sandbox ([`Bubblewrap::args`]), and for a program that has the user's own
//! rights except that some paths are read-only ([`Bubblewrap::protecting_args`]).
//!
//! The sandbox must never expose `/run` (sockets of Docker and SSH agents), other processes, or anything of the
//! user's home that is not in the mounts.

use crate::mount_table::{ETC, MountMode, MountTable};
use crate::placeholders::MissingPath;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The size limit, in bytes, of the private `/tmp` and of `/dev/shm`. Both are file systems in memory.
const TMP_BYTES: &str = "2147483648";

/// The devices of the machine that `--dev` shows inside.
pub(crate) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Capabilities with which root could write to a path that is mounted read-only: undo the mounts, enter the mounts of
/// another process (`/proc/PID/root`), open a file by its handle instead of its path, or write to the disk or the
/// memory directly.
const AROUND_MOUNTS: [&str; 6] = [
    "CAP_SYS_ADMIN",
    "CAP_SYS_PTRACE",
    "CAP_DAC_READ_SEARCH",
    "CAP_SYS_RAWIO",
    "CAP_SYS_MODULE",
    "CAP_MKNOD",
];

/// A `bwrap` program on this machine that passed a test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bubblewrap {
    pub(crate) program: PathBuf,
    pub(crate) version: String,
    /// Whether this version has `--disable-userns`, which forbids nested user namespaces.
    pub(crate) can_disable_userns: bool,
}

impl Bubblewrap {
    /// The first non-blank line that `bwrap --version` printed, or `an unknown version`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Uses another executable in place of `bwrap`; for tests.
    #[must_use]
    pub fn with_program(self, program: PathBuf) -> Self {
        Self { program, ..self }
    }

    pub(crate) fn args(
        &self,
        mounts: &MountTable,
        sockets: &[PathBuf],
        cwd: &Path,
        network: bool,
        argv: &[&str],
    ) -> Vec<OsString> {
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
        // A read-only mount does not prevent a connection to a socket file, so `/dev/null` is mounted over it.
        for path in sockets {
            args.flags(&["--ro-bind"]);
            args.path("/dev/null", path);
        }
        for missing in mounts.missing() {
            if missing.is_file {
                args.bind("--ro-bind-try", &missing.path);
            } else {
                args.path("--tmpfs", &missing.path);
            }
        }
        // These directories become read-only last, because bubblewrap must first create the mount points inside them.
        let missing = mounts.missing().iter().filter(|missing| !missing.is_file).map(|missing| &missing.path);
        for path in mounts.hidden().chain(missing) {
            args.path("--remount-ro", path);
        }
        // Without this, a write outside the mounts would appear to succeed and be lost with the sandbox.
        args.flags(&["--remount-ro", "/"]);
        args.path("--chdir", cwd);
        args.flags(&["--"]);
        args.flags(argv);
        args.0
    }

    /// Arguments that run `argv` with the user's own rights, except that `paths` are mounted writable or (in any
    /// other mode) read-only, the `missing` paths cannot be created, and the capabilities in [`AROUND_MOUNTS`] are
    /// dropped. The program gets its own PID namespace: otherwise it could kill its guard, and the processes that it
    /// started would outlive it.
    pub(crate) fn protecting_args(
        paths: &[(PathBuf, MountMode)],
        missing: &[MissingPath],
        cwd: &Path,
        argv: &[&str],
    ) -> Vec<OsString> {
        let mut args = Args::default();
        args.flags(&["--die-with-parent", "--unshare-pid"]);
        for capability in AROUND_MOUNTS {
            args.flags(&["--cap-drop", capability]);
        }
        args.flags(&["--dev-bind", "/", "/", "--proc", "/proc"]);
        for (path, mode) in paths {
            args.bind(if *mode == MountMode::Writable { "--bind" } else { "--ro-bind" }, path);
        }
        for MissingPath { path, is_file } in missing {
            if *is_file {
                args.bind("--ro-bind-try", path);
            } else {
                args.path("--tmpfs", path);
                args.path("--remount-ro", path);
            }
        }
        args.path("--chdir", cwd);
        args.flags(&["--"]);
        args.flags(argv);
        args.0
    }
}

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
    // `/proc` becomes read-only, because the kernel lets root write to /proc/sys even without capabilities.
    args.flags(&["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]);
    // `/dev` is a file system in memory without a size limit, so it becomes read-only; `/dev/shm` gets a limit.
    args.flags(&["--size", TMP_BYTES, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]);
    args.flags(&["--size", TMP_BYTES, "--tmpfs", "/tmp", "--symlink", "../tmp", "/var/tmp"]);
}

#[derive(Default)]
struct Args(Vec<OsString>);

impl Args {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(|flag| OsString::from(*flag)));
    }

    fn path(&mut self, flag: &str, path: &Path) {
        self.0.extend([flag.into(), path.into()]);
    }

    fn bind(&mut self, flag: &str, path: &Path) {
        self.0.extend([flag.into(), path.into(), path.into()]);
    }
}
