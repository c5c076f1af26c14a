//! `write_file`, `edit_file`, `delete_file`: one file, whole or not at all.

use super::args::{Args, Flag};
use super::job::{Job, check_size, name};
use crate::access::{LastLink, Refusal, Spot};
use crate::confine::ConfinedDir;
use std::ffi::OsStr;
use std::io::{self, Write};

/// What directories that an agent makes are made with, before the umask.
const DIR_MODE: u32 = 0o777;

pub(crate) fn write_file(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let content = args.text("content")?;
    let spot = job.writable(args.text("path")?, LastLink::Follow)?;
    check_size(content.len() as u64, &spot.shown)?;
    put(job, &spot, content.as_bytes())?;
    let what = if spot.found.is_some() { "Replaced" } else { "Wrote" };
    Ok(format!("{what} {} ({} bytes).", spot.shown, content.len()))
}

pub(crate) fn edit_file(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let (old, new) = (args.text("old")?, args.text("new")?);
    let all = args.flag("replace_all", Flag::Off)?;
    let wrong = |why: String| Refusal::Argument { argument: "old".to_owned(), why };
    if old.is_empty() {
        return Err(wrong("must not be empty; write_file writes a whole file".to_owned()));
    }
    if old == new {
        return Err(wrong("is the same as `new`".to_owned()));
    }
    let spot = job.writable(args.text("path")?, LastLink::Follow)?;
    let text = text_of(&spot)?;
    let (old, new) = with_line_ends(&text, old, new);
    let count = text.matches(&old).count();
    match count {
        0 => return Err(wrong(format!("does not occur in {}; read the file again", spot.shown))),
        1 => {}
        _ if all => {}
        n => {
            return Err(wrong(format!(
                "occurs {n} times in {}; give more of it, or replace_all",
                spot.shown
            )));
        }
    }
    let changed = text.replace(&old, &new);
    check_size(changed.len() as u64, &spot.shown)?;
    put(job, &spot, changed.as_bytes())?;
    let times = if count == 1 { "one place".to_owned() } else { format!("{count} places") };
    Ok(format!("Changed {} in {times}.", spot.shown))
}

pub(crate) fn delete_file(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let spot = job.writable(args.text("path")?, LastLink::Keep)?;
    if spot.found.is_none() {
        return Err(Refusal::NotFound { path: spot.shown });
    }
    job.go_on()?;
    job.about_to_change(&spot)?;
    spot.dir.remove_file(name(&spot)?).map_err(Refusal::io("delete", &spot.shown))?;
    job.changed(&spot)?;
    Ok(format!("Deleted {}.", spot.shown))
}

/// A whole text file.
pub(crate) fn text_of(spot: &Spot<'_>) -> Result<String, Refusal> {
    let (bytes, _) = Job::take_in(spot)?;
    String::from_utf8(bytes).map_err(|_| Refusal::WrongKind {
        path: spot.shown.clone(),
        what: "not UTF-8 text; it cannot be edited",
    })
}

/// Models write `\n` also where the file has `\r\n`.
fn with_line_ends(text: &str, old: &str, new: &str) -> (String, String) {
    if !text.contains(old) && text.contains("\r\n") && !old.contains('\r') {
        return (old.replace('\n', "\r\n"), new.replace('\n', "\r\n"));
    }
    (old.to_owned(), new.to_owned())
}

fn put(job: &Job<'_>, spot: &Spot<'_>, bytes: &[u8]) -> Result<(), Refusal> {
    job.go_on()?;
    job.about_to_change(spot)?;
    let failed = |e| Refusal::io("write", &spot.shown)(e);
    let name = name(spot)?;
    if spot.root.only.is_some() {
        in_place(&spot.dir, name, bytes).map_err(failed)?;
    } else {
        let (dir, _) = make_missing(spot).map_err(failed)?;
        dir.replace(name, bytes, spot.found.map(|found| found.mode)).map_err(failed)?;
    }
    job.changed(spot)
}

/// Makes the directories that are missing on the way; says how many.
pub(crate) fn make_missing(spot: &Spot<'_>) -> io::Result<(ConfinedDir, usize)> {
    let mut dir = spot.dir.again()?;
    for name in &spot.missing {
        dir = dir.make_dir(name, DIR_MODE)?;
    }
    Ok((dir, spot.missing.len()))
}

/// Of a single file's directory nothing is given, so no other file may be put beside it; and whoever has mounted the
/// file must see the change.
pub(crate) fn in_place(dir: &ConfinedDir, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    let mut file = match dir.open_in_place(name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => dir.create(name, 0o666)?,
        Ok((_, found)) if found.links > 1 => return Err(io::Error::other("it has several hard links")),
        opened => opened?.0,
    };
    file.set_len(0)?;
    file.write_all(bytes)
}
