//! Copies a run's deliverables, the `deliverables/` directory of the presenter's workspace, into the project. A file
//! that somebody edited or created in the project is not replaced: the run's version is stored next to it. Files that
//! would run code later (hooks, settings, git directories) are not copied.

use super::{DELIVERABLES, ProjectError, ProjectWorkspace};
use crate::confine::{ConfinedDir, FileKind, FileStat};
use crate::digest::{ComparedFile, digest};
use crate::sparse::{CopyBudget, HoleDetection};
use althing_disk::DiskError;
use althing_disk::names::is_plain_name;
use althing_protocol::{RunsCode, SEALED_NAMES, git_dir_row, is_git_dir, runs_code};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// The file that maps the path of each delivered file to its digest.
const RECORD: &str = ".delivered.json";
const MAX_FILES: usize = 10_000;
/// The maximum total size of a delivery, in bytes.
const MAX_BYTES: u64 = 4 << 30;
const MAX_DEPTH: usize = 32;

/// The result of a delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryReport {
    /// New and replaced files, relative to `deliverables/`.
    pub copied: Vec<String>,
    /// Files that somebody had edited or created, each with the path of the run's version next to it.
    pub beside: Vec<(String, String)>,
    /// Files that could not be copied, with the reason.
    pub left_out: Vec<(String, String)>,
}

struct Delivery<'a> {
    run: &'a str,
    record: BTreeMap<String, String>,
    report: DeliveryReport,
    files: usize,
    bytes: u64,
}

impl ProjectWorkspace {
    /// Copies the `deliverables/` of a workspace, if that directory exists, into the project. `run` becomes part of
    /// the names of files that are stored next to edited ones.
    pub fn deliver(&self, workspace: &Path, run: &str) -> Result<DeliveryReport, ProjectError> {
        if !is_plain_name(run) {
            return Err(ProjectError::Refused(format!("`{}` is not a run id", run.escape_debug())));
        }
        let from = ConfinedDir::open(workspace).and_then(|dir| dir.open_dir(OsStr::new(DELIVERABLES)));
        let from = match from {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(DeliveryReport::default()),
            from => from.map_err(DiskError::io("open", &workspace.join(DELIVERABLES)))?,
        };
        let failed = |e| DiskError::io("copy deliverables to", &self.deliverables_dir())(e);
        let to = self.root.make_dir(OsStr::new(DELIVERABLES), 0o777).map_err(failed)?;
        // Without the record every existing file counts as the user's and is not replaced.
        let record = self.read_json(RECORD).ok().flatten().unwrap_or_default();
        let mut delivery = Delivery { run, record, report: DeliveryReport::default(), files: 0, bytes: 0 };
        let done = delivery.directory(&from, &to, Path::new(""), 0);
        let json = serde_json::to_string(&delivery.record).map_err(io::Error::from);
        let json = json.map_err(DiskError::io("write", &self.dir().join(RECORD)))?;
        self.write_durably(RECORD, json.as_bytes())?;
        done.map_err(failed)?;
        Ok(delivery.report)
    }
}

impl Delivery<'_> {
    fn directory(&mut self, from: &ConfinedDir, to: &ConfinedDir, at: &Path, depth: usize) -> io::Result<()> {
        let mut names = from.names()?;
        names.sort();
        // A delivered file may complete a git directory of which the project already has other files.
        let existing = to.names()?;
        let has = |known: &str| names.iter().chain(&existing).any(|name| name.eq_ignore_ascii_case(known));
        if let Some(row) = is_git_dir(has).then(git_dir_row).flatten() {
            let shown = if at.as_os_str().is_empty() { Path::new(DELIVERABLES) } else { at };
            self.report.left_out.push((shown.display().to_string(), row.note()));
            return Ok(());
        }
        for name in names {
            let path = at.join(&name);
            let Some(found) = from.stat(&name)? else { continue };
            if let Some(why) = why_protected(&path) {
                self.report.left_out.push((path.display().to_string(), why));
                continue;
            }
            let why = match found.kind {
                FileKind::Dir if depth >= MAX_DEPTH => "it is nested too deeply",
                FileKind::Dir => match to.make_dir(&name, 0o777) {
                    Ok(below) => {
                        self.directory(&from.open_dir(&name)?, &below, &path, depth + 1)?;
                        continue;
                    }
                    Err(_) => "the project has something else under this name",
                },
                FileKind::File if self.files >= MAX_FILES || self.bytes + found.stamp.size > MAX_BYTES => {
                    "the number or size limit of a delivery is reached"
                }
                FileKind::File => {
                    self.file(from, to, &name, &path)?;
                    continue;
                }
                FileKind::Link => "it is a link",
                FileKind::Special => "it is not a regular file",
            };
            self.report.left_out.push((path.display().to_string(), why.to_owned()));
        }
        Ok(())
    }

    fn file(&mut self, from: &ConfinedDir, to: &ConfinedDir, name: &OsStr, path: &Path) -> io::Result<()> {
        let shown = path.display().to_string();
        let (staged, sha) = match stage(from, to, name) {
            Ok((staged, sha, found)) => {
                self.files += 1;
                self.bytes += found.stamp.size;
                (staged, sha)
            }
            Err(e) => {
                self.report.left_out.push((shown, e.to_string()));
                return Ok(());
            }
        };
        let existing = existing_at(to, name)?;
        let ours = |now: &ComparedFile| match self.record.get(&shown) {
            Some(recorded) => is_same(now, recorded),
            None => Ok(false),
        };
        match existing {
            Existing::File(now) if is_same(&now, &sha)? => to.remove_file(&staged)?,
            Existing::Nothing => {
                to.rename(&staged, name)?;
                self.report.copied.push(shown.clone());
            }
            Existing::File(now) if ours(&now)? => {
                to.rename(&staged, name)?;
                self.report.copied.push(shown.clone());
            }
            Existing::File(_) | Existing::Other => {
                let beside = self.free_name(to, name, &sha)?;
                to.rename(&staged, &beside)?;
                let beside = path.with_file_name(&beside).display().to_string();
                self.report.beside.push((shown, beside));
                return Ok(());
            }
        }
        self.record.insert(shown, sha);
        Ok(())
    }

    /// A free name next to a file: `report.<run>.md`. A name whose file has the same content counts as free.
    fn free_name(&self, to: &ConfinedDir, name: &OsStr, sha: &str) -> io::Result<OsString> {
        let path = PathBuf::from(name);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let end = path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
        for n in 1..=1000 {
            let suffix = if n == 1 { String::new() } else { format!("-{n}") };
            let beside = OsString::from(format!("{stem}.{}{suffix}{end}", self.run));
            match existing_at(to, &beside)? {
                Existing::Nothing => return Ok(beside),
                Existing::File(existing) if is_same(&existing, sha)? => return Ok(beside),
                Existing::File(_) | Existing::Other => {}
            }
        }
        Err(io::Error::other(format!(
            "there is no free name for the run's version of {} beside the existing file",
            path.display()
        )))
    }
}

pub(crate) fn why_protected(path: &Path) -> Option<String> {
    let is_sealed = |name: &OsStr| SEALED_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    let row = runs_code(path).filter(|row| row.protected);
    let sealed = || path.file_name().filter(|name| is_sealed(name));
    row.map(RunsCode::note)
        .or_else(|| sealed().map(|_| "agents may not write to files with this name".to_owned()))
}

enum Existing {
    Nothing,
    File(ComparedFile),
    Other,
}

fn is_same(file: &ComparedFile, digest: &str) -> io::Result<bool> {
    file.is(digest, &CopyBudget::default())
}

fn existing_at(dir: &ConfinedDir, name: &OsStr) -> io::Result<Existing> {
    match dir.stat(name)?.map(|found| found.kind) {
        None => Ok(Existing::Nothing),
        Some(FileKind::File) => Ok(Existing::File(ComparedFile::new(dir.open_file(name)?))),
        Some(FileKind::Dir | FileKind::Link | FileKind::Special) => Ok(Existing::Other),
    }
}

/// Copies a file to a temporary name. The digest is that of the copy, because the original may change meanwhile.
fn stage(from: &ConfinedDir, to: &ConfinedDir, name: &OsStr) -> io::Result<(OsString, String, FileStat)> {
    let (mut source, found) = from.open_file(name)?;
    let mode = if found.mode & 0o100 == 0 { None } else { Some(0o755) };
    let staged = to.stage_with(mode, |file| {
        HoleDetection::default().copy(
            &mut source,
            file,
            found.stamp.size,
            &mut Vec::new(),
            &CopyBudget::default(),
        )?;
        file.sync_data()
    })?;
    let sha = digest(&to.open_file(&staged)?.0, &CopyBudget::default())?;
    Ok((staged, sha, found))
}
