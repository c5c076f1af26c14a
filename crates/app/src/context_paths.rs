//! Context paths: from the config, from `--context-path`, and from `@path` and `@path:w` in the task or in a message.

use crate::failure::Failure;
use althing_protocol::{ContextPath, PathGrant, Permission, RunSpec, private_name};
use std::path::{Component, Path, PathBuf};

/// The maximum number of directory entries that are searched for files with secrets.
const MAX_SEARCHED_ENTRIES: usize = 200_000;

/// The directories that relative paths and `~` are resolved against.
pub struct BaseDirs<'a> {
    /// The working directory.
    pub cwd: &'a Path,
    /// The home directory, for `~`.
    pub home: Option<&'a Path>,
}

impl BaseDirs<'_> {
    fn path(&self, text: &str) -> PathBuf {
        match (text.strip_prefix('~'), self.home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => self.cwd.join(text),
        }
    }
}

/// The context paths of a run, and the task with each `@path` that exists replaced by its absolute path. Fails if a
/// path of the config or of `--context-path` does not exist.
pub fn collect_paths(
    configured: &[ContextPath],
    named: &[String],
    task: &str,
    from: &BaseDirs<'_>,
) -> Result<(Vec<ContextPath>, String), Failure> {
    let cwd = from.cwd;
    let mut paths = Vec::new();
    for path in configured {
        let real = canonical(&from.path(&path.path)).ok_or_else(|| missing(&path.path, "the config", cwd))?;
        let protected = path.protected.iter().map(|inner| real.join(inner).display().to_string()).collect();
        add(&mut paths, ContextPath { path: real.display().to_string(), writable: path.writable, protected });
    }
    for text in named {
        let (path, writable) = match text.rsplit_once(':') {
            Some((path, "rw")) => (path, true),
            Some((path, "ro")) => (path, false),
            _ => (text.as_str(), false),
        };
        let real = canonical(&from.path(path)).ok_or_else(|| missing(path, "--context-path", cwd))?;
        add(&mut paths, context_path(&real, writable));
    }
    let task = replace_mentions(task, cwd, &mut paths);
    Ok((paths, task))
}

/// The protected parts of a configured context path, with symlinks resolved; empty if the path does not exist.
pub fn protected_parts(configured: &ContextPath, from: &BaseDirs<'_>) -> Vec<PathBuf> {
    let Some(real) = canonical(&from.path(&configured.path)) else { return Vec::new() };
    let parts = configured.protected.iter().map(|inner| real.join(inner));
    parts.map(|part| canonical(&part).unwrap_or(part)).collect()
}

/// The paths that a person grants with `@path` and `@path:w` in a message, and the message with each such path that
/// exists replaced by its absolute path. Only for text that a person typed: in text from a model or a client, the same
/// characters must grant nothing.
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
/// project, with links resolved. The home directory and directories that contain it are never returned: starting
/// Althing there must not make all of the user's files readable.
pub fn readable_dirs(cwd: &Path, home: Option<&Path>, project: Option<&Path>) -> Vec<PathBuf> {
    let home = home.and_then(canonical);
    let opens =
        |dir: &PathBuf| dir.parent().is_some() && !home.as_ref().is_some_and(|home| home.starts_with(dir));
    let mut dirs: Vec<PathBuf> = [Some(cwd), project].into_iter().flatten().filter_map(canonical).collect();
    dirs.retain(opens);
    dirs.dedup();
    dirs
}

/// The real path of a context path that no person approved. Fails if the path does not exist, if a link leads out of
/// `dirs` or to a file that often contains secrets, or if a directory contains such a file.
fn confined_path(path: &str, dirs: &[PathBuf]) -> Result<PathBuf, String> {
    let Some(real) = canonical(Path::new(path)) else {
        return Err(format!("`context_paths`: `{path}` does not exist, or cannot be accessed."));
    };
    let below = dirs.iter().find_map(|dir| real.strip_prefix(dir).ok());
    let is_open = match below {
        Some(below) => private_name(below).is_none(),
        // The path is not a link: it is exactly the path that was checked, and allowed, at the launch.
        None => real == Path::new(path),
    };
    if !is_open {
        return Err(format!(
            "`context_paths`: `{path}` is a link to `{}`, which may not be read without the user's approval.",
            real.display()
        ));
    }
    match secret_file_below(&real) {
        Some(found) => Err(format!(
            "`context_paths`: `{path}` may not be read without the user's approval, because `{found}` in it may contain \
             secrets. Name the files or directories that the run needs."
        )),
        None => Ok(real),
    }
}

/// A file below a directory that often contains secrets: `.env` or a file such as `.env.local`. Git directories and
/// directories of installed packages are not searched. A directory that is too large to be searched counts as such a file.
fn secret_file_below(dir: &Path) -> Option<String> {
    let mut left = MAX_SEARCHED_ENTRIES;
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
            let shown = || entry.path().strip_prefix(dir).unwrap_or(&entry.path()).display().to_string();
            left = left.checked_sub(1)?;
            if left == 0 {
                return Some(shown());
            }
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if name.starts_with(".env") && !is_dir {
                return Some(shown());
            }
            if is_dir && ![".git", "node_modules", "target", ".venv"].contains(&name.as_str()) {
                open.push(entry.path());
            }
        }
    }
    None
}

/// The context paths of a run as its agents get them: the paths that no person approved are replaced by their real
/// paths. Fails if such a path does not exist, or leads to something that a person would have to approve.
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

fn missing(path: &str, named_by: &str, cwd: &Path) -> Failure {
    Failure::usage(format!("the context path {path} (from {named_by}) does not exist"))
        .hint(format!("create it, or name another; relative paths are resolved against {}", cwd.display()))
}

/// Adds a path. If the list already contains the path, the two entries are merged: writable if one of them is, with
/// the protected parts of both.
fn add(paths: &mut Vec<ContextPath>, path: ContextPath) {
    match paths.iter_mut().find(|known| known.path == path.path) {
        Some(known) => {
            known.writable |= path.writable;
            known.protected.extend(path.protected);
        }
        None => paths.push(path),
    }
}

/// The canonical path; None if the path does not exist or cannot be resolved. Symlinks are resolved so that agents see
/// one name per file.
fn canonical(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

/// Replaces `@path` and `@path:w` where the path exists, and adds the path to `paths`; any other word that starts with
/// `@` stays as it is.
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

/// The path at the start of a word, whether it is writable, and the punctuation after it; None if no such path exists.
fn parse_mention<'a>(word: &'a str, cwd: &Path) -> Option<(PathBuf, bool, &'a str)> {
    let bare = word.trim_end_matches([',', ';', '.', '!', '?', ')', ']', '"', '\'']);
    // A path may itself end in a dot or a bracket: the longest existing path wins.
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
        let from = BaseDirs { cwd: &cwd, home: Some(&cwd) };
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
