//! `apply_patch`: all the files of a patch, or none.
//!
//! First everything is checked and computed; then everything is written under other names; only then are the names put in
//! place. If that fails half way, what was put in place is taken back.

use super::args::Args;
use super::change::{in_place, make_missing, text_of};
use super::hunks;
use super::job::{Job, check_size, name};
use super::patch::{PatchOp, parse};
use crate::access::{LastLink, Refusal, Spot};
use crate::confine::ConfinedDir;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// One file's change.
struct Planned<'a> {
    spot: Spot<'a>,
    /// What it will hold; None deletes it.
    new: Option<String>,
    /// What it held.
    old: Option<String>,
    /// Its permissions, where it or the file that is moved here had some.
    mode: Option<u32>,
    told: String,
}

/// A change that is written, but not in place yet.
struct Staged {
    dir: ConfinedDir,
    temporary: Option<OsString>,
}

pub(crate) fn apply_patch(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let plans = plan(job, parse(args.text("patch")?)?)?;
    job.go_on()?;
    for plan in &plans {
        job.about_to_change(&plan.spot)?;
    }
    commit(&plans)?;
    for plan in &plans {
        job.changed(&plan.spot)?;
    }
    let told = plans.iter().map(|plan| plan.told.as_str()).filter(|told| !told.is_empty());
    Ok(told.collect::<Vec<_>>().join("\n"))
}

fn plan<'a>(job: &Job<'a>, ops: Vec<PatchOp>) -> Result<Vec<Planned<'a>>, Refusal> {
    let mut plans = Vec::new();
    for op in ops {
        match op {
            PatchOp::Add { path, content } => {
                let spot = job.writable(&path, LastLink::Follow)?;
                if spot.found.is_some() {
                    return Err(Refusal::WrongKind {
                        path: spot.shown,
                        what: "there already; use Update File",
                    });
                }
                let told = format!("Added {}.", spot.shown);
                plans.push(Planned { spot, new: Some(content), old: None, mode: None, told });
            }
            PatchOp::Delete { path } => {
                let spot = job.writable(&path, LastLink::Follow)?;
                let old = Some(text_of(&spot)?);
                let told = format!("Deleted {}.", spot.shown);
                let mode = spot.found.map(|found| found.mode);
                plans.push(Planned { spot, new: None, old, mode, told });
            }
            PatchOp::Update { path, to, hunks } => plan_update(job, &path, to, &hunks, &mut plans)?,
        }
    }
    let mut seen = BTreeSet::new();
    for plan in &plans {
        if let Some(new) = &plan.new {
            check_size(new.len() as u64, &plan.spot.shown)?;
        }
        if !seen.insert(&plan.spot.real) {
            let why = format!("{} is changed twice", plan.spot.shown);
            return Err(Refusal::Argument { argument: "patch".to_owned(), why });
        }
    }
    Ok(plans)
}

fn plan_update<'a>(
    job: &Job<'a>,
    path: &str,
    to: Option<String>,
    hunks: &[super::patch::Hunk],
    plans: &mut Vec<Planned<'a>>,
) -> Result<(), Refusal> {
    let spot = job.writable(path, LastLink::Follow)?;
    let text = text_of(&spot)?;
    let new = hunks::apply(&text, hunks).map_err(|why| Refusal::Argument {
        argument: "patch".to_owned(),
        why: format!("{}: {why}", spot.shown),
    })?;
    let mode = spot.found.map(|found| found.mode);
    let Some(to) = to else {
        let told = format!("Updated {}.", spot.shown);
        plans.push(Planned { spot, new: Some(new), old: Some(text), mode, told });
        return Ok(());
    };
    let target = job.writable(&to, LastLink::Follow)?;
    if target.found.is_some() {
        return Err(Refusal::WrongKind {
            path: target.shown,
            what: "there already; nothing can be moved there",
        });
    }
    let told = format!("Moved {} to {}.", spot.shown, target.shown);
    plans.push(Planned { spot: target, new: Some(new), old: None, mode, told });
    plans.push(Planned { spot, new: None, old: Some(text), mode, told: String::new() });
    Ok(())
}

fn commit(plans: &[Planned<'_>]) -> Result<(), Refusal> {
    let mut staged = Vec::new();
    for plan in plans {
        match stage(plan) {
            Ok(one) => staged.push(one),
            Err(e) => {
                drop_staged(&staged);
                unmake(plans);
                return Err(Refusal::io("write", &plan.spot.shown)(e));
            }
        }
    }
    for (n, (plan, one)) in plans.iter().zip(&staged).enumerate() {
        let Err(e) = place(plan, one) else { continue };
        let undone = plans.iter().zip(&staged).take(n).rev().map(|(plan, one)| take_back(plan, one));
        let failed = undone.filter(Result::is_err).count();
        drop_staged(staged.get(n..).unwrap_or_default());
        unmake(plans);
        let rest = if failed == 0 { "nothing was changed" } else { "some files could not be put back" };
        let why = format!("{e}; {rest}");
        return Err(Refusal::Io { doing: "put in place", path: plan.spot.shown.clone(), why });
    }
    Ok(())
}

fn stage(plan: &Planned<'_>) -> io::Result<Staged> {
    let (dir, _) = make_missing(&plan.spot)?;
    let temporary = match &plan.new {
        Some(new) if plan.spot.root.only.is_none() => Some(dir.stage(new.as_bytes(), plan.mode)?),
        Some(_) | None => None,
    };
    Ok(Staged { dir, temporary })
}

fn drop_staged(staged: &[Staged]) {
    for one in staged {
        if let Some(temporary) = &one.temporary {
            let _ = one.dir.remove_file(temporary);
        }
    }
}

/// Removes the directories that were made on the way, if they are empty.
fn unmake(plans: &[Planned<'_>]) {
    for spot in plans.iter().map(|plan| &plan.spot) {
        for depth in (0..spot.missing.len()).rev() {
            let (above, name) = spot.missing.split_at(depth);
            let dir = spot.dir.enter(&above.iter().collect::<PathBuf>());
            if let (Ok(dir), Some(name)) = (dir, name.first()) {
                let _ = dir.remove_dir(name);
            }
        }
    }
}

fn place(plan: &Planned<'_>, staged: &Staged) -> io::Result<()> {
    let name = name(&plan.spot).map_err(|e| io::Error::other(e.to_string()))?;
    match (&plan.new, &staged.temporary) {
        (Some(_), Some(temporary)) => staged.dir.rename(temporary, name),
        (Some(new), None) => in_place(&staged.dir, name, new.as_bytes()),
        (None, _) => staged.dir.remove_file(name),
    }
}

fn take_back(plan: &Planned<'_>, staged: &Staged) -> io::Result<()> {
    let name = name(&plan.spot).map_err(|e| io::Error::other(e.to_string()))?;
    match &plan.old {
        Some(old) if plan.spot.root.only.is_some() => in_place(&staged.dir, name, old.as_bytes()),
        Some(old) => staged.dir.replace(name, old.as_bytes(), plan.mode),
        None => staged.dir.remove_file(name),
    }
}
