//! The context paths of a launched run: the team's paths, and those that the launch adds for this run.
//!
//! A launch without a person's consent gets no path, for reading or writing, that the team's runs may not use anyway.
//! Protected paths stay protected in any case.

use super::Consent;
use althing_protocol::{ContextPath, PathGrant, Permission, TeamSpec};

/// The maximum number of paths that a launch may add.
const MAX_PATHS: usize = 32;

/// Adds the granted paths to the team's context paths, or returns what is wrong with a grant.
pub(super) fn resolve(
    team: &TeamSpec,
    grants: &[PathGrant],
    consent: Consent,
) -> Result<Vec<ContextPath>, String> {
    if grants.len() > MAX_PATHS {
        return Err(format!("`context_paths` has {} paths; at most {MAX_PATHS} can be added.", grants.len()));
    }
    let mut paths = team.context_paths.clone();
    for grant in grants {
        let path = normalize(&grant.path).map_err(|problem| format!("`context_paths`: {problem}"))?;
        let wants_write = grant.permission == Permission::Write;
        let guarded = |root: &ContextPath| root.protected.iter().any(|part| is_inside(&path, part));
        if wants_write && team.context_paths.iter().any(guarded) {
            return Err(format!("`context_paths`: `{path}` is protected and cannot be made writable."));
        }
        // A path inside an existing root that allows the requested access adds nothing.
        let covers = |root: &&ContextPath| is_inside(&path, &root.path) && (root.writable || !wants_write);
        if paths.iter().any(|root| covers(&root)) {
            continue;
        }
        if consent == Consent::Nobody {
            return Err(refusal(&path, wants_write, team));
        }
        if let Some(same) = paths.iter_mut().find(|root| root.path == path) {
            same.writable = true;
            continue;
        }
        let protected = team.context_paths.iter().flat_map(|root| &root.protected);
        let protected = protected.filter(|part| is_inside(part, &path)).cloned().collect();
        paths.push(ContextPath { path, writable: wants_write, protected });
    }
    Ok(paths)
}

fn refusal(path: &str, wants_write: bool, team: &TeamSpec) -> String {
    let what = if wants_write { "written to" } else { "read" };
    let open = team.context_paths.iter().filter(|root| root.writable || !wants_write);
    let open: Vec<&str> = open.map(|root| root.path.as_str()).collect();
    let open = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
    format!(
        "`context_paths`: `{path}` may not be {what} without the user's approval. Paths that may be {what}: {open}. \
         Ask the user to add `{path}` to the config."
    )
}

/// Normalizes an absolute path, so that paths can be compared as text. Rejects `..`.
fn normalize(path: &str) -> Result<String, String> {
    let trimmed = path.trim();
    if !trimmed.starts_with('/') {
        return Err(format!("`{path}` must be an absolute path."));
    }
    let mut parts = trimmed.split('/').filter(|part| !part.is_empty() && *part != ".");
    if parts.clone().any(|part| part == "..") || trimmed.chars().any(char::is_control) {
        return Err(format!("`{path}` must be written without `..` and control characters."));
    }
    let joined = parts.by_ref().fold(String::new(), |path, part| path + "/" + part);
    Ok(if joined.is_empty() { "/".into() } else { joined })
}

/// Whether a normalized path is a root or below it.
fn is_inside(path: &str, root: &str) -> bool {
    let root = root.trim_end_matches('/');
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
