//! One call at work: the rules it is under, and whether it is still wanted.

use crate::access::{Grants, Ground, LastLink, Refusal, Spot};
use crate::confine::{Found, Kind};
use althing_protocol::ContextAccess;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

/// The largest file that is taken in whole, to be edited or written.
pub(crate) const FILE_CAP: u64 = 8 << 20;

/// Told before a file in a context path is changed, so that the change can be undone, and after it was.
pub(crate) trait Witness: Send + Sync {
    /// An error means no.
    fn before_change(&self, spot: &Spot<'_>) -> Result<(), Refusal>;

    /// An error is told; the change stays.
    fn after_change(&self, spot: &Spot<'_>) -> Result<(), Refusal> {
        let _ = spot;
        Ok(())
    }
}

pub(crate) struct Job<'a> {
    pub grants: &'a Grants,
    pub access: ContextAccess,
    pub cancelled: &'a AtomicBool,
    pub witness: Option<&'a dyn Witness>,
}

/// The name of something that is not a root; roots are directories and fail earlier.
pub(crate) fn name<'s>(spot: &'s Spot<'_>) -> Result<&'s OsStr, Refusal> {
    let what = "a directory, not a file";
    spot.name.as_deref().ok_or_else(|| Refusal::WrongKind { path: spot.shown.clone(), what })
}

impl<'a> Job<'a> {
    /// Ends the call here if nobody waits for it any more.
    pub(crate) fn go_on(&self) -> Result<(), Refusal> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Refusal::Cancelled) } else { Ok(()) }
    }

    pub(crate) fn spot(&self, path: &str) -> Result<Spot<'a>, Refusal> {
        self.grants.resolve(path, LastLink::Follow)
    }

    /// A directory that is there.
    pub(crate) fn directory(&self, path: &str) -> Result<Spot<'a>, Refusal> {
        let spot = self.spot(path)?;
        match spot.found.map(|found| found.kind) {
            Some(Kind::Dir) => Ok(spot),
            Some(Kind::File | Kind::Link | Kind::Special) => {
                Err(Refusal::WrongKind { path: spot.shown, what: "no directory" })
            }
            None => Err(Refusal::NotFound { path: spot.shown }),
        }
    }

    /// Opens a file for reading.
    pub(crate) fn open(spot: &Spot<'_>) -> Result<(File, Found), Refusal> {
        match spot.found.map(|found| found.kind) {
            Some(Kind::File) => {}
            Some(Kind::Dir) => {
                let what = "a directory, not a file; list_directory shows it";
                return Err(Refusal::WrongKind { path: spot.shown.clone(), what });
            }
            Some(Kind::Link | Kind::Special) => return Err(Refusal::Special { path: spot.shown.clone() }),
            None => return Err(Refusal::NotFound { path: spot.shown.clone() }),
        }
        let opened = spot.dir.open_file(name(spot)?).map_err(Refusal::io("open", &spot.shown))?;
        readable(spot.root.ground, opened.1, &spot.shown)?;
        Ok(opened)
    }

    /// A whole file, up to the cap.
    pub(crate) fn take_in(spot: &Spot<'_>) -> Result<(Vec<u8>, Found), Refusal> {
        let (file, found) = Self::open(spot)?;
        check_size(found.stamp.size, &spot.shown)?;
        let mut bytes = Vec::new();
        // It may grow meanwhile.
        file.take(FILE_CAP + 1).read_to_end(&mut bytes).map_err(Refusal::io("read", &spot.shown))?;
        check_size(bytes.len() as u64, &spot.shown)?;
        Ok((bytes, found))
    }

    /// What an agent wants to write, change or delete, checked against every rule.
    pub(crate) fn writable(&self, path: &str, last: LastLink) -> Result<Spot<'a>, Refusal> {
        let spot = self.grants.resolve(path, last)?;
        self.grants.may_write(spot.root, &spot.real, &spot.shown, self.access)?;
        match spot.found {
            Some(found) if found.kind == Kind::Dir => {
                Err(Refusal::WrongKind { path: spot.shown, what: "a directory; only files can be changed" })
            }
            Some(found) if found.kind == Kind::Special => Err(Refusal::Special { path: spot.shown }),
            Some(found) if found.kind == Kind::File && found.links > 1 => Err(Refusal::HardLinked {
                path: spot.shown,
                links: found.links,
                instead: "write a file of another name",
            }),
            Some(_) | None => Ok(spot),
        }
    }

    /// Tells the witness; to be called directly before the first change.
    pub(crate) fn about_to_change(&self, spot: &Spot<'_>) -> Result<(), Refusal> {
        self.witness_of(spot).map_or(Ok(()), |witness| witness.before_change(spot))
    }

    /// Tells the witness; to be called when the change is in place.
    pub(crate) fn changed(&self, spot: &Spot<'_>) -> Result<(), Refusal> {
        self.witness_of(spot).map_or(Ok(()), |witness| witness.after_change(spot))
    }

    /// Whoever watches over changes there.
    fn witness_of(&self, spot: &Spot<'_>) -> Option<&'a dyn Witness> {
        self.witness.filter(|_| matches!(spot.root.ground, Ground::Context(_)))
    }
}

pub(crate) fn check_size(size: u64, path: &str) -> Result<(), Refusal> {
    if size > FILE_CAP {
        return Err(Refusal::TooLarge { path: path.to_owned(), size, limit: FILE_CAP });
    }
    Ok(())
}

/// In a workspace, a file with further names may be somebody else's; a context path was given with all that is in it.
pub(crate) fn readable(ground: Ground, found: Found, path: &str) -> Result<(), Refusal> {
    if ground == Ground::Workspace && found.links > 1 {
        let instead = "copy it with a command, if you may";
        return Err(Refusal::HardLinked { path: path.to_owned(), links: found.links, instead });
    }
    Ok(())
}
