//! Checks a new sandbox before any code of an agent runs in it.
//!
//! Bubblewrap resolves the paths of its mounts itself. Before it does, another agent could replace a directory with a
//! symlink, whose target would be mounted. So bubblewrap executes Althing's own executable ([`mounts_main`]), which
//! compares the mounts with the [`ExpectedMount`]s and only then executes the command. It also checks that files that
//! bubblewrap shares with the machine cannot be changed, and separates the command from bubblewrap's own process, which
//! runs beside it as the same user.

use crate::kernel;
use crate::mount_table::{MountMode, MountRule};
use crate::placeholders::MissingPath;
use crate::reexec::MOUNTS;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The maximum size of one argument, in bytes; the kernel allows 128 KiB.
const MAX_ARGUMENT: usize = 64 * 1024;

const CHANGED: &str = "the sandbox was not entered: ";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExpectedMount {
    #[serde(with = "crate::os_text")]
    pub(crate) path: PathBuf,
    pub(crate) content: MountContent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MountContent {
    Same {
        id: FileId,
        read_only: bool,
    },
    /// An empty directory in memory that is read-only, except for mounts in it.
    EmptyDir,
    EmptyFile,
    NullDevice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// The mounts that must be found in the sandbox. Fails if the path of a rule (unless the rule hides it) does not
/// exist or leads through a symlink.
pub(crate) fn expected_mounts(
    rules: &[MountRule],
    missing: &[MissingPath],
    sockets: &[PathBuf],
) -> io::Result<Vec<ExpectedMount>> {
    let mut expected = Vec::new();
    for MountRule { path, mode } in rules {
        let content = match mode {
            MountMode::Hidden => MountContent::EmptyDir,
            MountMode::ReadOnly | MountMode::Writable => {
                let id = kernel::file_id(path).map_err(|error| changed(path, &error))?;
                MountContent::Same { id, read_only: *mode == MountMode::ReadOnly }
            }
        };
        expected.push(ExpectedMount { path: path.clone(), content });
    }
    expected.extend(missing.iter().map(|missing| ExpectedMount {
        path: missing.path.clone(),
        content: if missing.is_file { MountContent::EmptyFile } else { MountContent::EmptyDir },
    }));
    let sockets = sockets.iter().cloned();
    expected.extend(sockets.map(|path| ExpectedMount { path, content: MountContent::NullDevice }));
    Ok(expected)
}

pub(crate) fn changed(path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!(
        "{CHANGED}{} was replaced while the sandbox was set up ({why}); nothing was run",
        path.display()
    ))
}

/// Whether a start failed because a path was replaced meanwhile, so that another attempt may succeed.
pub(crate) fn was_changed(error: &io::Error) -> bool {
    error.to_string().starts_with(CHANGED)
}

/// The arguments with which our executable checks the sandbox and then executes the command that follows, which is
/// confined or (if only some paths are protected) not. Our executable writes errors to the descriptor `errors`.
pub(crate) fn check_args(
    expected: &[ExpectedMount],
    is_confined: bool,
    errors: i32,
) -> io::Result<Vec<String>> {
    let mut rest = serde_json::to_string(&(is_confined, expected))?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let mut end = rest.len().min(MAX_ARGUMENT);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let next = rest.split_off(end);
        parts.push(std::mem::replace(&mut rest, next));
    }
    let mut args = vec![MOUNTS.to_owned(), errors.to_string(), parts.len().to_string()];
    args.append(&mut parts);
    Ok(args)
}

pub(crate) fn mounts_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut args = args;
    let Some(errors) = args.next().and_then(|arg| arg.into_string().ok()) else { return ExitCode::FAILURE };
    // The descriptor is a pipe, so opening it again gives the same pipe.
    let opened = OpenOptions::new().write(true).open(format!("/proc/self/fd/{errors}"));
    let Ok(mut pipe) = opened else { return ExitCode::FAILURE };
    let Err(error) = check_and_execute(args);
    let _ = pipe.write_all(error.to_string().as_bytes());
    ExitCode::FAILURE
}

fn check_and_execute(mut args: impl Iterator<Item = OsString>) -> io::Result<std::convert::Infallible> {
    let mut text = || args.next().and_then(|arg| arg.into_string().ok()).ok_or(io::ErrorKind::InvalidInput);
    let count: usize = text()?.parse().map_err(io::Error::other)?;
    let mut expected = String::new();
    for _ in 0..count {
        expected.push_str(&text()?);
    }
    let (is_confined, expected): (bool, Vec<ExpectedMount>) = serde_json::from_str(&expected)?;
    for mount in &expected {
        kernel::check_mount(mount).map_err(|error| changed(&mount.path, &error))?;
    }
    if is_confined {
        kernel::check_own_files()?;
    }
    kernel::enter_own_domain(is_confined);
    let program = args.next().ok_or(io::ErrorKind::InvalidInput)?;
    // The pipe must close when the command starts, and our executable must not stay open in the command.
    close_fds::set_fds_cloexec(3, &[]);
    let error = Command::new(&program).args(args).exec();
    Err(io::Error::other(format!("cannot execute {}: {error}", Path::new(&program).display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_at_a_symlink_or_a_missing_path_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        let rule = |path: &str| MountRule { path: root.join(path), mode: MountMode::Writable };
        assert!(expected_mounts(&[rule("real/inner")], &[], &[]).is_ok());
        for path in ["link", "link/inner", "none"] {
            let error = expected_mounts(&[rule(path)], &[], &[]).unwrap_err();
            assert!(was_changed(&error), "{path}: {error}");
        }
    }

    #[test]
    fn expected_mounts_of_any_number_fit_into_arguments() {
        let id = FileId { device: 1, inode: u64::MAX };
        let content = MountContent::Same { id, read_only: true };
        let expected: Vec<ExpectedMount> = (0..5_000)
            .map(|number| ExpectedMount { path: PathBuf::from(format!("/päth/{number}")), content })
            .collect();
        let args = check_args(&expected, true, 7).unwrap();
        assert_eq!(args[..3], [MOUNTS.to_owned(), "7".to_owned(), (args.len() - 3).to_string()]);
        assert!(args.iter().all(|arg| arg.len() <= MAX_ARGUMENT));
        let sent: (bool, Vec<ExpectedMount>) = serde_json::from_str(&args[3..].concat()).unwrap();
        assert_eq!(sent, (true, expected));
    }
}
