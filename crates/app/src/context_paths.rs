//! Context paths: from the config, from `--context-path`, and from `@file` mentions in a task or message (`@path` to
//! read, `@path:w` to write).

use crate::base_dirs::BaseDirs;
use crate::failure::Failure;
use althing_disk::real_path;
use althing_protocol::{ContextPath, LaunchRun, PathGrant, Permission, RunSpec, private_name};
use std::path::{Component, Path, PathBuf};

const MAX_SEARCHED_ENTRIES: usize = 200_000;

/// The context paths of a run, with symbolic links resolved, and the task with each existing `@path` replaced by its
/// absolute path. Fails if a path of the config or of `--context-path` does not exist, or if a path of the config
/// leaves the working directory through a link.
pub fn collect_paths(
    configured: &[ContextPath],
    named: &[String],
    task: &str,
    from: &BaseDirs,
) -> Result<(Vec<ContextPath>, String), Failure> {
    let cwd = &from.cwd;
    let mut paths = Vec::new();
    for path in configured {
        let what = format!("the context path {} (from the config)", path.path);
        let real = from.real_path(&what, Path::new(&path.path))?.canonicalize();
        let real = real.map_err(|error| unusable(&path.path, "the config", &error, cwd))?;
        let protected = path.protected.iter().map(|inner| real.join(inner).display().to_string()).collect();
        add(&mut paths, ContextPath { path: real.display().to_string(), writable: path.writable, protected });
    }
    for text in named {
        let (path, writable) = match text.rsplit_once(':') {
            Some((path, "rw")) => (path, true),
            Some((path, "ro")) => (path, false),
            _ => (text.as_str(), false),
        };
        let real = from.path(Path::new(path)).canonicalize();
        let real = real.map_err(|error| unusable(path, "--context-path", &error, cwd))?;
        add(&mut paths, context_path(&real, writable));
    }
    let task = replace_mentions(task, cwd, &mut paths);
    Ok((paths, task))
}

/// Notices about paths of `--context-path` that leave the working directory through a link.
pub fn link_notices(named: &[String], from: &BaseDirs) -> Vec<String> {
    let path = |text: &'_ String| match text.rsplit_once(':') {
        Some((path, "rw" | "ro")) => path.to_owned(),
        _ => text.clone(),
    };
    let notice = |path: String| {
        let target = from.leaves_by_link(Path::new(&path))?;
        Some(format!("the context path {path} is a link; agents get access to {}", target.display()))
    };
    named.iter().map(path).filter_map(notice).collect()
}

/// Resolves the symbolic links in a launch's context paths, so that a person approves the paths that agents really
/// get. A path that is relative or contains `..` stays as it is; such a launch is refused later.
pub fn with_real_paths(mut launch: LaunchRun) -> LaunchRun {
    for grant in &mut launch.context_paths {
        let path = Path::new(grant.path.trim());
        let is_plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
        if is_plain && let Some(real) = real_path(path).to_str() {
            real.clone_into(&mut grant.path);
        }
    }
    launch
}

/// The protected parts of a configured context path, as named and with symlinks resolved; empty if the context path
/// does not exist.
pub fn protected_parts(configured: &ContextPath, from: &BaseDirs) -> Vec<PathBuf> {
    let Some(real) = canonical(&from.path(Path::new(&configured.path))) else { return Vec::new() };
    let parts = configured.protected.iter().map(|inner| real.join(inner));
    let both = parts.flat_map(|part| [canonical(&part).unwrap_or_else(|| part.clone()), part]);
    let mut both: Vec<PathBuf> = both.collect();
    both.dedup();
    both
}

/// The paths that a person grants with `@path` and `@path:w`, and the message with each existing path made absolute.
/// Only for text that a person typed: the same characters from a model or a client must grant nothing.
pub fn mentions(message: &str, cwd: &Path) -> (String, Vec<PathGrant>) {
    let mut paths = Vec::new();
    let message = replace_mentions(message, cwd, &mut paths);
    let grant = |path: ContextPath| PathGrant {
        path: path.path,
        permission: if path.writable { Permission::Write } else { Permission::Read },
    };
    (message, paths.into_iter().map(grant).collect())
}

/// The directories in which a launch may read paths without a person's approval: the working directory and the opened
/// project, except for directories that are or contain the home directory.
pub fn readable_dirs(cwd: &Path, home: Option<&Path>, project: Option<&Path>) -> Vec<PathBuf> {
    let home = home.and_then(canonical);
    let opens =
        |dir: &PathBuf| dir.parent().is_some() && !home.as_ref().is_some_and(|home| home.starts_with(dir));
    let mut dirs: Vec<PathBuf> = [Some(cwd), project].into_iter().flatten().filter_map(canonical).collect();
    dirs.retain(opens);
    dirs.dedup();
    dirs
}

/// Checks a context path that no person approved. Fails if it does not exist, if a link leads out of `dirs` or to a
/// file that often contains secrets, or if the directory contains such a file.
fn confined_path(path: &str, dirs: &[PathBuf]) -> Result<PathBuf, String> {
    let Some(real) = canonical(Path::new(path)) else {
        return Err(format!("`context_paths`: `{path}` does not exist, or cannot be accessed."));
    };
    let below = dirs.iter().find_map(|dir| real.strip_prefix(dir).ok());
    let is_open = match below {
        Some(below) => private_name(below).is_none(),
        // Outside `dirs`, exactly this path was allowed at the launch, so it must not lead elsewhere through a link.
        None => real == Path::new(path),
    };
    if !is_open {
        return Err(format!(
            "`context_paths`: `{path}` is a link to `{}`, which may not be read without the user's approval.",
            real.display()
        ));
    }
    match secret_file_below(&real) {
        Some(why) => Err(format!(
            "`context_paths`: `{path}` may not be read without the user's approval, because {why}. Name the files or \
             directories that the run needs."
        )),
        None => Ok(real),
    }
}

/// Why `dir` may contain secrets: a file whose name begins with `.env`, or `dir` cannot be searched completely. Git
/// directories, installed packages and `target` are not searched.
fn secret_file_below(dir: &Path) -> Option<String> {
    let mut left = MAX_SEARCHED_ENTRIES;
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        let entries = match std::fs::read_dir(&at) {
            // An agent could still reach such a path, one directory at a time.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidFilename => {
                return Some("it is nested too deeply to be searched for files with secrets".to_owned());
            }
            entries => entries,
        };
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
            left = left.checked_sub(1)?;
            if left == 0 {
                return Some("it has too many files to be searched for files with secrets".to_owned());
            }
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if name.starts_with(".env") && !is_dir {
                let path = entry.path();
                let shown = path.strip_prefix(dir).unwrap_or(&path).display();
                return Some(format!("`{shown}` in it may contain secrets"));
            }
            if is_dir && ![".git", "node_modules", "target", ".venv"].contains(&name.as_str()) {
                open.push(entry.path());
            }
        }
    }
    None
}

/// The context paths of a run, with those that no person approved replaced by their real paths. Fails if such a path
/// does not exist or needs a person's approval.
pub fn confined_context(spec: &RunSpec, dirs: &[PathBuf]) -> Result<Vec<ContextPath>, String> {
    let mut paths = Vec::with_capacity(spec.context_paths.len());
    for context in &spec.context_paths {
        if spec.unapproved_paths.contains(&context.path) {
            let real = confined_path(&context.path, dirs)?;
            paths.push(ContextPath { path: real.display().to_string(), ..context.clone() });
        } else {
            paths.push(context.clone());
        }
    }
    Ok(paths)
}

fn context_path(path: &Path, writable: bool) -> ContextPath {
    ContextPath { path: path.display().to_string(), writable, protected: Vec::new() }
}

fn unusable(path: &str, named_by: &str, error: &std::io::Error, cwd: &Path) -> Failure {
    if error.kind() == std::io::ErrorKind::NotFound {
        return Failure::usage(format!("the context path {path} (from {named_by}) does not exist")).hint(
            format!("create it, or name another; relative paths are resolved against {}", cwd.display()),
        );
    }
    Failure::usage(format!("the context path {path} (from {named_by}) cannot be accessed: {error}"))
        .hint("make it accessible to you, or name another")
}

fn add(paths: &mut Vec<ContextPath>, path: ContextPath) {
    match paths.iter_mut().find(|known| known.path == path.path) {
        Some(known) => {
            known.writable |= path.writable;
            known.protected.extend(path.protected);
        }
        None => paths.push(path),
    }
}

fn canonical(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

fn replace_mentions(task: &str, cwd: &Path, paths: &mut Vec<ContextPath>) -> String {
    let mut out = String::with_capacity(task.len());
    for piece in task.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        match word.strip_prefix('@').and_then(|rest| parse_mention(rest, cwd)) {
            Some((path, writable, rest)) => {
                out.push_str(&path.display().to_string());
                out.push_str(rest);
                out.push_str(piece.get(word.len()..).unwrap_or_default());
                add(paths, context_path(&path, writable));
            }
            None => out.push_str(piece),
        }
    }
    out
}

fn parse_mention<'a>(word: &'a str, cwd: &Path) -> Option<(PathBuf, bool, &'a str)> {
    let bare = word.trim_end_matches([',', ';', '.', '!', '?', ')', ']', '"', '\'']);
    // A path may itself end in a dot or a bracket.
    for text in [word, bare] {
        let (path, writable) = match text.strip_suffix(":w") {
            Some(path) => (path, true),
            None => (text, false),
        };
        let only_dots = Path::new(path).components().all(|part| matches!(part, Component::CurDir));
        if !path.is_empty()
            && (!only_dots || path == ".")
            && let Some(real) = canonical(&cwd.join(path))
        {
            return Some((real, writable, word.get(text.len()..).unwrap_or_default()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_paths_come_from_config_options_and_mentions_and_must_exist() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        std::fs::create_dir(cwd.join("src")).unwrap();
        std::fs::write(cwd.join("notes.md"), "").unwrap();
        let configured =
            [ContextPath { path: "src".into(), writable: false, protected: vec!["keep".into()] }];
        let from = BaseDirs { cwd: cwd.clone(), home: Some(cwd.clone()) };
        let task = "Mend @src:w, read @notes.md. Ask @alice about @missing.txt";
        let (paths, task) =
            collect_paths(&configured, &["notes.md:ro".into(), "~/src".into()], task, &from).unwrap();
        let src = cwd.join("src").display().to_string();
        let notes = cwd.join("notes.md").display().to_string();
        let protected = vec![format!("{src}/keep")];
        assert_eq!(
            paths,
            [
                ContextPath { path: src.clone(), writable: true, protected },
                ContextPath { path: notes.clone(), writable: false, protected: Vec::new() },
            ]
        );
        assert_eq!(task, format!("Mend {src}, read {notes}. Ask @alice about @missing.txt"));
        let refused = collect_paths(&[], &["nowhere:rw".into()], "task", &from).unwrap_err();
        assert!(refused.message.contains("nowhere"), "{}", refused.message);
    }
}
