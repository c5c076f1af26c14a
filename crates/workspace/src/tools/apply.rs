//! `apply_patch`: all new contents are written to temporary files before the first of them is renamed. If a rename
//! fails, the earlier ones are reverted; if that fails as well, the error says so.

use super::args::Args;
use super::change::{code_note, create_missing_dirs, read_text, write_in_place};
use super::hunks;
use super::job::{Job, check_size, file_name};
use super::patch::{PatchOp, parse};
use crate::access::{LastLink, ReadOnlyReason, Refusal, ResolvedPath, RootRole, makes_git_dir};
use crate::confine::ConfinedDir;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

/// The change of one file.
pub(crate) struct PlannedChange<'a> {
    pub resolved: ResolvedPath<'a>,
    /// The new content; `None` deletes the file.
    pub new: Option<String>,
    /// The old content; `None` if the file does not exist yet.
    pub old: Option<String>,
    /// The permissions of the existing file, or of the file that is moved here; `None` for an added file.
    mode: Option<u32>,
    message: String,
}

/// A change that is prepared but not visible yet. `temporary` is `None` for a deletion and for a context path that is
/// a single file, which is written in place.
struct StagedChange {
    dir: ConfinedDir,
    temporary: Option<OsString>,
}

pub(crate) fn apply_patch(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let plans = plan_patch(job, args)?;
    job.check_cancelled()?;
    for plan in &plans {
        job.before_change(&plan.resolved)?;
    }
    commit(&plans)?;
    for plan in &plans {
        job.after_change(&plan.resolved)?;
    }
    let message = plans.iter().map(|plan| plan.message.as_str()).filter(|message| !message.is_empty());
    Ok(message.collect::<Vec<_>>().join("\n"))
}

/// The changes of a patch, without making them.
pub(crate) fn plan_patch<'a>(job: &Job<'a>, args: &Args) -> Result<Vec<PlannedChange<'a>>, Refusal> {
    plan(job, parse(args.text("patch")?)?)
}

fn plan<'a>(job: &Job<'a>, ops: Vec<PatchOp>) -> Result<Vec<PlannedChange<'a>>, Refusal> {
    let mut plans = Vec::new();
    for op in ops {
        match op {
            PatchOp::Add { path, content } => {
                let resolved = job.writable(&path, LastLink::Follow)?;
                if resolved.found.is_some() {
                    return Err(Refusal::WrongKind {
                        path: resolved.shown,
                        what: "already there; use Update File",
                    });
                }
                let message = format!("Added {}.{}", resolved.shown, code_note(&resolved));
                plans.push(PlannedChange { resolved, new: Some(content), old: None, mode: None, message });
            }
            PatchOp::Delete { path } => {
                let resolved = job.writable(&path, LastLink::Follow)?;
                let old = Some(read_text(&resolved)?);
                let message = format!("Deleted {}.", resolved.shown);
                let mode = resolved.found.map(|found| found.mode);
                plans.push(PlannedChange { resolved, new: None, old, mode, message });
            }
            PatchOp::Update { path, to, hunks } => plan_update(job, &path, to, &hunks, &mut plans)?,
        }
    }
    let mut seen = BTreeSet::new();
    for plan in &plans {
        if let Some(new) = &plan.new {
            check_size(new.len() as u64, &plan.resolved.shown)?;
        }
        if !seen.insert(&plan.resolved.real) {
            let why = format!("{} is changed twice", plan.resolved.shown);
            return Err(Refusal::Argument { argument: "patch".to_owned(), why });
        }
    }
    refuse_git_dirs(&plans)?;
    Ok(plans)
}

/// The files of a patch may make a git directory together, although each of them alone would not.
fn refuse_git_dirs(plans: &[PlannedChange<'_>]) -> Result<(), Refusal> {
    let mut added: BTreeMap<PathBuf, BTreeSet<OsString>> = BTreeMap::new();
    let is_context = |plan: &&PlannedChange<'_>| matches!(plan.resolved.root.role, RootRole::Context(_));
    for plan in plans.iter().filter(|plan| plan.new.is_some()).filter(is_context) {
        let (root, mut dir) = (&plan.resolved.root.real, plan.resolved.real.as_path());
        while let (Some(above), Some(name)) =
            (dir.parent().filter(|above| above.starts_with(root)), dir.file_name())
        {
            let names = added.entry(above.to_owned()).or_default();
            names.insert(name.to_owned());
            let has = |name: &str| above.join(name).symlink_metadata().is_ok();
            if makes_git_dir(has, |name| names.contains(OsStr::new(name))) {
                let (path, why) = (plan.resolved.shown.clone(), ReadOnlyReason::Repository);
                return Err(Refusal::ReadOnly { path, why });
            }
            dir = above;
        }
    }
    Ok(())
}

fn plan_update<'a>(
    job: &Job<'a>,
    path: &str,
    to: Option<String>,
    hunks: &[super::patch::Hunk],
    plans: &mut Vec<PlannedChange<'a>>,
) -> Result<(), Refusal> {
    let resolved = job.writable(path, LastLink::Follow)?;
    let text = read_text(&resolved)?;
    let new = hunks::apply(&text, hunks).map_err(|why| Refusal::Argument {
        argument: "patch".to_owned(),
        why: format!("{}: {why}", resolved.shown),
    })?;
    let mode = resolved.found.map(|found| found.mode);
    let Some(to) = to else {
        let message = format!("Updated {}.{}", resolved.shown, code_note(&resolved));
        plans.push(PlannedChange { resolved, new: Some(new), old: Some(text), mode, message });
        return Ok(());
    };
    let target = job.writable(&to, LastLink::Follow)?;
    if target.found.is_some() {
        return Err(Refusal::WrongKind {
            path: target.shown,
            what: "already there; nothing can be moved there",
        });
    }
    let message = format!("Moved {} to {}.{}", resolved.shown, target.shown, code_note(&target));
    plans.push(PlannedChange { resolved: target, new: Some(new), old: None, mode, message });
    plans.push(PlannedChange { resolved, new: None, old: Some(text), mode, message: String::new() });
    Ok(())
}

fn commit(plans: &[PlannedChange<'_>]) -> Result<(), Refusal> {
    let mut staged = Vec::new();
    for plan in plans {
        match stage(plan) {
            Ok(one) => staged.push(one),
            Err(e) => {
                drop_staged(&staged);
                remove_created_dirs(plans);
                return Err(Refusal::io("write", &plan.resolved.shown)(e));
            }
        }
    }
    for (n, (plan, one)) in plans.iter().zip(&staged).enumerate() {
        let Err(e) = install(plan, one) else { continue };
        let undone = plans.iter().zip(&staged).take(n).rev().map(|(plan, one)| revert(plan, one));
        let failed = undone.filter(Result::is_err).count();
        drop_staged(staged.get(n..).unwrap_or_default());
        remove_created_dirs(plans);
        let rest = if failed == 0 { "nothing was changed" } else { "some files could not be restored" };
        let why = format!("{e}; {rest}");
        return Err(Refusal::Io { doing: "replace", path: plan.resolved.shown.clone(), why });
    }
    Ok(())
}

fn stage(plan: &PlannedChange<'_>) -> io::Result<StagedChange> {
    let (dir, _) = create_missing_dirs(&plan.resolved)?;
    let temporary = match &plan.new {
        Some(new) if plan.resolved.root.single_file.is_none() => Some(dir.stage(new.as_bytes(), plan.mode)?),
        Some(_) | None => None,
    };
    Ok(StagedChange { dir, temporary })
}

fn drop_staged(staged: &[StagedChange]) {
    for one in staged {
        if let Some(temporary) = &one.temporary {
            let _ = one.dir.remove_file(temporary);
        }
    }
}

fn remove_created_dirs(plans: &[PlannedChange<'_>]) {
    for resolved in plans.iter().map(|plan| &plan.resolved) {
        for depth in (0..resolved.missing.len()).rev() {
            let (above, name) = resolved.missing.split_at(depth);
            let dir = resolved.dir.open_dir_path(&above.iter().collect::<PathBuf>());
            if let (Ok(dir), Some(name)) = (dir, name.first()) {
                let _ = dir.remove_dir(name);
            }
        }
    }
}

fn install(plan: &PlannedChange<'_>, staged: &StagedChange) -> io::Result<()> {
    let name = file_name(&plan.resolved).map_err(|e| io::Error::other(e.to_string()))?;
    match (&plan.new, &staged.temporary) {
        (Some(_), Some(temporary)) => staged.dir.rename(temporary, name),
        (Some(new), None) => write_in_place(&staged.dir, name, new.as_bytes()),
        (None, _) => staged.dir.remove_file(name),
    }
}

fn revert(plan: &PlannedChange<'_>, staged: &StagedChange) -> io::Result<()> {
    let name = file_name(&plan.resolved).map_err(|e| io::Error::other(e.to_string()))?;
    match &plan.old {
        Some(old) if plan.resolved.root.single_file.is_some() => {
            write_in_place(&staged.dir, name, old.as_bytes())
        }
        Some(old) => staged.dir.replace(name, old.as_bytes(), plan.mode),
        None => staged.dir.remove_file(name),
    }
}
