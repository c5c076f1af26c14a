//! `apply_patch`: all new contents are written to temporary files before the first of them is renamed. If a rename
//! fails, the earlier ones are reverted; if that fails as well, the error says so.

use super::args::Args;
use super::change::{code_note, create_missing_dirs, read_text, write_in_place};
use super::hunks;
use super::job::{Job, check_size, file_name};
use super::patch::{PatchOp, parse};
use crate::access::{LastLink, ReadOnlyReason, Refusal, ResolvedPath, RootRole, makes_git_dir};
use crate::confine::ConfinedDir;
use althing_text::quoted_name;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

/// The maximum number of bytes of all old and new contents of the files of a patch together: a short patch can name
/// many large files.
const PATCH_CAP: u64 = 64 << 20;

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

#[derive(Default)]
struct PatchPlan<'a> {
    changes: Vec<PlannedChange<'a>>,
    seen: BTreeSet<PathBuf>,
    bytes: u64,
}

impl<'a> PatchPlan<'a> {
    fn add(&mut self, change: PlannedChange<'a>) -> Result<(), Refusal> {
        let size = |text: Option<&str>| text.map_or(0, |text| text.len() as u64);
        let (old, new) = (size(change.old.as_deref()), size(change.new.as_deref()));
        check_size(new, &change.resolved.shown)?;
        if !self.seen.insert(change.resolved.real.clone()) {
            let why = format!("{} is changed twice", quoted_name(&change.resolved.shown));
            return Err(Refusal::Argument { argument: "patch".to_owned(), why });
        }
        self.bytes += old + new;
        if self.bytes > PATCH_CAP {
            let path = "all files of the patch together".to_owned();
            return Err(Refusal::TooLarge { path, size: self.bytes, limit: PATCH_CAP });
        }
        self.changes.push(change);
        Ok(())
    }
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
    let mut plan = PatchPlan::default();
    for op in ops {
        job.check_cancelled()?;
        match op {
            PatchOp::Add { path, content } => {
                let resolved = job.writable(&path, LastLink::Follow)?;
                if resolved.found.is_some() {
                    return Err(Refusal::WrongKind {
                        path: resolved.shown,
                        what: "already there; use Update File",
                    });
                }
                let message = format!("Added {}.{}", quoted_name(&resolved.shown), code_note(&resolved));
                plan.add(PlannedChange { resolved, new: Some(content), old: None, mode: None, message })?;
            }
            PatchOp::Delete { path } => {
                let resolved = job.writable(&path, LastLink::Follow)?;
                let old = Some(read_text(&resolved)?);
                let message = format!("Deleted {}.", quoted_name(&resolved.shown));
                let mode = resolved.found.map(|found| found.mode);
                plan.add(PlannedChange { resolved, new: None, old, mode, message })?;
            }
            PatchOp::Update { path, to, hunks } => plan_update(job, &path, to, &hunks, &mut plan)?,
        }
    }
    refuse_git_dirs(&plan.changes)?;
    Ok(plan.changes)
}

/// Fails if the files of a patch make a git directory together, although each of them alone would not.
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
    plan: &mut PatchPlan<'a>,
) -> Result<(), Refusal> {
    let resolved = job.writable(path, LastLink::Follow)?;
    let text = read_text(&resolved)?;
    let new = hunks::apply(&text, hunks).map_err(|why| Refusal::Argument {
        argument: "patch".to_owned(),
        why: format!("{}: {why}", quoted_name(&resolved.shown)),
    })?;
    let mode = resolved.found.map(|found| found.mode);
    let Some(to) = to else {
        let message = format!("Updated {}.{}", quoted_name(&resolved.shown), code_note(&resolved));
        return plan.add(PlannedChange { resolved, new: Some(new), old: Some(text), mode, message });
    };
    let target = job.writable(&to, LastLink::Follow)?;
    if target.found.is_some() {
        return Err(Refusal::WrongKind {
            path: target.shown,
            what: "already there; nothing can be moved there",
        });
    }
    let message = format!(
        "Moved {} to {}.{}",
        quoted_name(&resolved.shown),
        quoted_name(&target.shown),
        code_note(&target)
    );
    plan.add(PlannedChange { resolved: target, new: Some(new), old: None, mode, message })?;
    plan.add(PlannedChange { resolved, new: None, old: Some(text), mode, message: String::new() })
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
        // A write in place may have failed after it had changed a part of the file.
        let changed = n + usize::from(plan.new.is_some() && one.temporary.is_none());
        let undone = plans.iter().zip(&staged).take(changed).rev().map(|(plan, one)| revert(plan, one));
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
