//! The context paths of a launched run. With a person's consent a launch may add any path, but protected paths cannot
//! be made writable. Without consent it may only read, in the team's `readable_dirs`, and no files that often contain
//! secrets. This module compares texts; the app makes sure that no link leads out of those directories.

use super::Consent;
use althing_protocol::{ContextPath, PathGrant, Permission, TeamSpec, private_name};
use althing_text::sanitize;
use std::path::Path;

const MAX_PATHS: usize = 32;

/// Adds the granted paths to those of the team. Also returns the paths that were added without a person's consent.
pub(super) fn resolve(
    team: &TeamSpec,
    grants: &[PathGrant],
    consent: Consent,
) -> Result<(Vec<ContextPath>, Vec<String>), String> {
    if grants.len() > MAX_PATHS {
        return Err(format!("`context_paths` has {} paths; at most {MAX_PATHS} can be added.", grants.len()));
    }
    let (mut paths, mut unapproved) = (team.context_paths.clone(), Vec::new());
    for grant in grants {
        let path = normalize(&grant.path).map_err(|problem| format!("`context_paths`: {problem}"))?;
        let wants_write = grant.permission == Permission::Write;
        let guarded = |root: &ContextPath| root.protected.iter().any(|part| is_inside(&path, part));
        if wants_write && team.context_paths.iter().any(guarded) {
            return Err(format!("`context_paths`: `{path}` is protected and cannot be made writable."));
        }
        // If an existing context path already allows the requested access, nothing is added.
        let covers = |root: &&ContextPath| is_inside(&path, &root.path) && (root.writable || !wants_write);
        if paths.iter().any(|root| covers(&root)) {
            continue;
        }
        if consent == Consent::Nobody {
            check_readable(&path, wants_write, team)?;
            unapproved.push(path.clone());
        }
        if let Some(same) = paths.iter_mut().find(|root| root.path == path) {
            same.writable = true;
            continue;
        }
        let protected = team.context_paths.iter().flat_map(|root| &root.protected);
        let protected = protected.filter(|part| is_inside(part, &path)).cloned().collect();
        paths.push(ContextPath { path, writable: wants_write, protected });
    }
    Ok((paths, unapproved))
}

fn check_readable(path: &str, wants_write: bool, team: &TeamSpec) -> Result<(), String> {
    let mut dirs = team.readable_dirs.iter();
    let Some(dir) = dirs.find(|dir| is_inside(path, dir)).filter(|_| !wants_write) else {
        return Err(refusal(path, wants_write, team));
    };
    match private_name(Path::new(path.strip_prefix(dir.as_str()).unwrap_or(path))) {
        Some(name) => Err(format!(
            "`context_paths`: `{path}` may not be read without the user's approval, because `{name}` may contain secrets."
        )),
        None => Ok(()),
    }
}

fn refusal(path: &str, wants_write: bool, team: &TeamSpec) -> String {
    let what = if wants_write { "written to" } else { "read" };
    let roots = team.context_paths.iter().filter(|root| root.writable || !wants_write);
    let dirs = team.readable_dirs.iter().filter(|_| !wants_write);
    let mut open: Vec<&str> = roots.map(|root| &root.path).chain(dirs).map(String::as_str).collect();
    open.dedup();
    let open = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
    format!(
        "`context_paths`: `{path}` may not be {what} without the user's approval. Paths that may be {what}: {open}. \
         Ask the user to add `{path}` to the config."
    )
}

/// Paths are compared as text, so relative paths and `..` are rejected. A person must see the whole path, so control
/// characters and invisible ones are rejected, too.
fn normalize(path: &str) -> Result<String, String> {
    let trimmed = path.trim();
    if !trimmed.starts_with('/') {
        return Err(format!("`{path}` must be an absolute path."));
    }
    let mut parts = trimmed.split('/').filter(|part| !part.is_empty() && *part != ".");
    let visible = sanitize::visible_line(trimmed);
    if parts.clone().any(|part| part == "..") || visible != trimmed {
        return Err(format!("`{visible}` must be written without `..`, control and invisible characters."));
    }
    let joined = parts.by_ref().fold(String::new(), |path, part| path + "/" + part);
    Ok(if joined.is_empty() { "/".into() } else { joined })
}

fn is_inside(path: &str, root: &str) -> bool {
    let root = root.trim_end_matches('/');
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
