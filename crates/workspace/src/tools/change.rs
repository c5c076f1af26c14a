//! `write_file`, `edit_file` and `delete_file`: each changes one file, atomically unless the file itself is a
//! context path.

use super::args::{Args, Flag};
use super::job::{Job, check_size, file_name};
use crate::access::{LastLink, Refusal, ResolvedPath, RootRole};
use crate::confine::ConfinedDir;
use althing_protocol::{RUNS_CODE_LATER, runs_code_in};
use althing_text::quoted_name;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

const DIR_MODE: u32 = 0o777;

pub(crate) fn write_file(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let content = args.text("content")?;
    let resolved = job.writable(args.text("path")?, LastLink::Follow)?;
    check_size(content.len() as u64, &resolved.shown)?;
    write_content(job, &resolved, content.as_bytes())?;
    let what = if resolved.found.is_some() { "Replaced" } else { "Wrote" };
    Ok(format!("{what} {} ({} bytes).{}", quoted_name(&resolved.shown), content.len(), code_note(&resolved)))
}

pub(crate) fn edit_file(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let edit = plan_edit(job, args)?;
    write_content(job, &edit.resolved, edit.new.as_bytes())?;
    let PlannedEdit { resolved, count, .. } = edit;
    let times = if count == 1 { "one place".to_owned() } else { format!("{count} places") };
    Ok(format!("Changed {} in {times}.{}", quoted_name(&resolved.shown), code_note(&resolved)))
}

/// What `edit_file` would do.
pub(crate) struct PlannedEdit<'a> {
    pub resolved: ResolvedPath<'a>,
    pub old: String,
    pub new: String,
    count: usize,
}

/// Reads the file and applies the replacement, without writing.
pub(crate) fn plan_edit<'a>(job: &Job<'a>, args: &Args) -> Result<PlannedEdit<'a>, Refusal> {
    let (old, new) = (args.text("old")?, args.text("new")?);
    let all = args.flag("replace_all", Flag::Off)?;
    let invalid_argument = |why: String| Refusal::Argument { argument: "old".to_owned(), why };
    if old.is_empty() {
        return Err(invalid_argument("must not be empty; write_file writes a whole file".to_owned()));
    }
    if old == new {
        return Err(invalid_argument("is the same as `new`".to_owned()));
    }
    let resolved = job.writable(args.text("path")?, LastLink::Follow)?;
    let text = read_text(&resolved)?;
    let (old, new) = with_line_ends(&text, old, new);
    let count = text.matches(&old).count();
    match count {
        0 => {
            return Err(invalid_argument(format!(
                "does not occur in {}; read the file again",
                resolved.shown
            )));
        }
        1 => {}
        _ if all => {}
        n => {
            return Err(invalid_argument(format!(
                "occurs {n} times in {}; give more of the surrounding text, or set replace_all",
                resolved.shown
            )));
        }
    }
    // Checked before the replacement, whose result may be millions of times larger than the arguments.
    let kept = (text.len() - count * old.len()) as u64;
    let added = (count as u64).saturating_mul(new.len() as u64);
    check_size(kept.saturating_add(added), &resolved.shown)?;
    let changed = text.replace(&old, &new);
    Ok(PlannedEdit { resolved, old: text, new: changed, count })
}

pub(crate) fn delete_file(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let resolved = job.writable(args.text("path")?, LastLink::NoFollow)?;
    if resolved.found.is_none() {
        return Err(Refusal::NotFound { path: resolved.shown });
    }
    job.check_cancelled()?;
    job.before_change(&resolved)?;
    resolved.dir.remove_file(file_name(&resolved)?).map_err(Refusal::io("delete", &resolved.shown))?;
    job.after_change(&resolved)?;
    Ok(format!("Deleted {}.", quoted_name(&resolved.shown)))
}

/// Points out a changed file in a context path that runs code later; empty for other files, and if writing such a
/// file is ordinary work.
pub(crate) fn code_note(resolved: &ResolvedPath<'_>) -> String {
    let is_context = matches!(resolved.root.role, RootRole::Context(_));
    // A context path that is a single file is judged by its own name.
    let below = resolved
        .real
        .strip_prefix(&resolved.root.real)
        .ok()
        .filter(|below| below.components().next().is_some());
    let below = below.or(resolved.real.file_name().map(Path::new)).filter(|_| is_context);
    let row = below.and_then(|below| runs_code_in(&resolved.root.real, below)).filter(|row| !row.ordinary);
    row.map_or_else(String::new, |row| format!(" {RUNS_CODE_LATER} {}.", row.when))
}

pub(crate) fn read_text(resolved: &ResolvedPath<'_>) -> Result<String, Refusal> {
    let (bytes, _) = Job::read_whole(resolved)?;
    String::from_utf8(bytes).map_err(|_| Refusal::WrongKind {
        path: resolved.shown.clone(),
        what: "not UTF-8 text; it cannot be edited",
    })
}

/// Adapts `old` and `new` to the file, because models write `\n` even if the file uses `\r\n`.
fn with_line_ends(text: &str, old: &str, new: &str) -> (String, String) {
    if !text.contains(old) && text.contains("\r\n") && !old.contains('\r') {
        return (old.replace('\n', "\r\n"), new.replace('\n', "\r\n"));
    }
    (old.to_owned(), new.to_owned())
}

fn write_content(job: &Job<'_>, resolved: &ResolvedPath<'_>, bytes: &[u8]) -> Result<(), Refusal> {
    job.check_cancelled()?;
    job.before_change(resolved)?;
    let failed = |e| Refusal::io("write", &resolved.shown)(e);
    let name = file_name(resolved)?;
    if resolved.root.single_file.is_some() {
        write_in_place(&resolved.dir, name, bytes).map_err(failed)?;
    } else {
        let (dir, _) = create_missing_dirs(resolved).map_err(failed)?;
        dir.replace(name, bytes, resolved.found.map(|found| found.mode)).map_err(failed)?;
    }
    job.after_change(resolved)
}

pub(crate) fn create_missing_dirs(resolved: &ResolvedPath<'_>) -> io::Result<(ConfinedDir, usize)> {
    let mut dir = resolved.dir.try_clone()?;
    for name in &resolved.missing {
        dir = dir.make_dir(name, DIR_MODE)?;
    }
    Ok((dir, resolved.missing.len()))
}

/// Writes a context path that is a single file. The agent has no access to its directory, so no temporary file may be
/// created there; and a bind mount of the file must show the change.
pub(crate) fn write_in_place(dir: &ConfinedDir, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    let mut file = match dir.open_in_place(name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => dir.create(name, 0o666)?,
        Ok((_, found)) if found.links > 1 => return Err(io::Error::other("it has several hard links")),
        opened => opened?.0,
    };
    file.set_len(0)?;
    file.write_all(bytes)
}
