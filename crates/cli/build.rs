//! Writes the long form of `althing --version`: commit, target, profile, compiler.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a build script runs programs, prints for cargo and may panic"
)]

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let profile = env::var("PROFILE").unwrap_or_default();
    // Only release builds name the commit: otherwise every commit would rebuild the program during development.
    let source = if profile == "release" { source() } else { None };
    let source = source.map_or_else(String::new, |source| format!("{source}\n"));
    let target = env::var("TARGET").unwrap_or_default();
    let compiler = env::var("RUSTC").ok().and_then(|rustc| stdout_of(Command::new(rustc).arg("--version")));
    let compiler = compiler.unwrap_or_default();
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let out = env::var("OUT_DIR").expect("cargo names it");
    let text = format!("{version}\n{source}{target}, {profile} build, {compiler}");
    std::fs::write(Path::new(&out).join("version.txt"), text).expect("cargo's directory can be written");
}

fn source() -> Option<String> {
    let git = |arguments: &[&str]| stdout_of(Command::new("git").args(arguments));
    let commit = git(&["log", "-1", "--format=%h of %cs"])?;
    for file in ["HEAD", "logs/HEAD"] {
        let file = git(&["rev-parse", "--git-path", file])?;
        println!("cargo::rerun-if-changed={file}");
    }
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
    Some(format!("commit {commit}{}", if changed { ", with local changes" } else { "" }))
}

fn stdout_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
