//! The state directory: creates, opens, reads, repairs and deletes sessions. A session is opened again to be resumed,
//! for example after a crash. Only the holder of a session's lock file may write; another process may not. A damaged
//! tail of a log is saved to a separate file and truncated; a damaged middle only on request.

use crate::checkpoint::rebuild_checkpoint;
use crate::error::SessionError;
use crate::log::Log;
use crate::names::check_id;
use crate::reader::LogIndex;
use crate::saver;
use crate::scan::{Damage, DamageKind, NoSession, Scan, scan};
use crate::state_dir_mapping::StateDirMapping;
use crate::writer::SessionWriter;
use althing_disk::files::{Durability, create_dirs, parent, remove_tree, replace, sync_dir};
use althing_disk::names::{SESSIONS, session_dir};
use althing_disk::{DirDisk, Disk, DiskError, DiskLock, EntryKind, Lock, OpenMode, Owners, RealDisk};
use althing_protocol::{Checkpoint, Event, Notice, NoticeLevel, Seq, SessionId};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const LOG: &str = "events.jsonl";
/// The file in a session's directory that the process which uses the session locks, and writes its id to.
pub const LOCK: &str = "lock";
/// The prefix of the directory of a session that is being deleted; no session id starts with a dot.
const REMOVING: &str = ".removing-";

const IGNORE: &str = ".gitignore";
const IGNORE_ATTEMPTS: u32 = 100;
const MAX_IGNORE_BYTES: u64 = 64 << 10;

/// A larger checkpoint is not read; the log replaces it. Somebody else may have written the file.
const MAX_CHECKPOINT_BYTES: u64 = 16_000_000;

/// The sessions of one state directory.
#[derive(Clone)]
pub struct SessionManager {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) state: PathBuf,
}

/// A session that was opened for writing.
pub struct OpenedSession {
    /// Appends to the session.
    pub writer: SessionWriter,
    /// All events in the log.
    pub events: Vec<Arc<Event>>,
    /// Messages for the user about repairs.
    pub notices: Vec<Notice>,
}

/// A session that was opened for reading.
#[derive(Debug)]
pub struct ReadSession {
    /// All events up to the first damage.
    pub events: Vec<Arc<Event>>,
    /// The damage of the log, if any. While a writer appends, the last line may look truncated.
    pub damage: Option<Damage>,
}

/// Opens a state directory; creates it if it is missing. Everything in it is accessed through this one handle of the
/// directory, so that nobody can put another directory in its place.
pub fn open_state(dir: &Path, owners: Owners) -> Result<SessionManager, SessionError> {
    create_dirs(&RealDisk, dir, Durability::Synced)?;
    SessionManager::on_disk(Arc::new(opened(dir, owners)?), dir)
}

fn opened(dir: &Path, owners: Owners) -> Result<DirDisk, DiskError> {
    let disk = DirDisk::open(dir, owners)?;
    disk.close_to_others()?;
    Ok(disk)
}

/// Opens a state directory; `None` if it does not exist. Nothing is created.
pub fn open_existing_state(dir: &Path, owners: Owners) -> Result<Option<SessionManager>, SessionError> {
    match opened(dir, owners) {
        Ok(disk) => {
            refuse_link(&disk, &dir.join(SESSIONS))?;
            Ok(Some(SessionManager { disk: Arc::new(disk), state: dir.to_owned() }))
        }
        Err(DiskError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Fails if the path is a symbolic link, which would lead elsewhere, a named pipe, a socket or a device.
fn refuse_link(disk: &dyn Disk, path: &Path) -> Result<(), SessionError> {
    match disk.kind(path).map_err(SessionError::io("access", path))? {
        Some(EntryKind::Link) => Err(DiskError::Link { path: path.to_owned() }.into()),
        Some(EntryKind::Special(what)) => Err(DiskError::Special { path: path.to_owned(), what }.into()),
        None | Some(EntryKind::Dir | EntryKind::File { .. }) => Ok(()),
    }
}

/// Whether this is a `.gitignore` that excludes everything in its directory.
fn excludes_everything(disk: &dyn Disk, path: &Path) -> Result<bool, SessionError> {
    match disk.kind(path).map_err(SessionError::io("access", path))? {
        Some(EntryKind::File { len: 1..=MAX_IGNORE_BYTES }) => {}
        _ => return Ok(false),
    }
    let bytes = match disk.read_range(path, 0, MAX_IGNORE_BYTES) {
        // Another process has replaced the file.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        read => read.map_err(SessionError::io("read", path))?,
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut is_excluded = false;
    for line in text.strip_prefix('\u{feff}').unwrap_or(&text).lines() {
        match line.trim_end_matches(' ') {
            "*" | "**" | "/*" | "/**" => is_excluded = true,
            line if line.starts_with('!') => return Ok(false),
            _ => {}
        }
    }
    Ok(is_excluded)
}

impl SessionManager {
    /// Opens a state directory on this disk; creates it if it is missing.
    pub fn on_disk(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, SessionError> {
        create_dirs(&*disk, dir, Durability::Synced)?;
        let ignore = dir.join(IGNORE);
        // A crash may have left an empty file, and a foreign project may come with a file that excludes little.
        for attempt in 1..=IGNORE_ATTEMPTS {
            if excludes_everything(&*disk, &ignore)? {
                break;
            }
            match replace(&*disk, dir, IGNORE, b"*\n", Durability::Unsynced) {
                // Another process or thread that starts at the same time writes the file, too, and has just renamed the
                // temporary file of both.
                Err(DiskError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && attempt < IGNORE_ATTEMPTS => {}
                Err(_) if excludes_everything(&*disk, &ignore)? => break,
                written => {
                    written?;
                    break;
                }
            }
        }
        let sessions = Self { disk, state: dir.to_owned() };
        refuse_link(&*sessions.disk, &sessions.sessions_dir())?;
        create_dirs(&*sessions.disk, &sessions.sessions_dir(), Durability::Unsynced)?;
        Ok(sessions)
    }

    /// The state directory.
    pub fn state_dir(&self) -> &Path {
        &self.state
    }

    /// The directory of a session.
    pub fn session_dir(&self, id: &SessionId) -> PathBuf {
        session_dir(&self.state, id)
    }

    pub(crate) fn sessions_dir(&self) -> PathBuf {
        self.state.join(SESSIONS)
    }

    /// Creates a session and takes its lock. The session becomes durable with its first event.
    pub fn create(&self, id: &SessionId) -> Result<SessionWriter, SessionError> {
        check_id(id)?;
        let dir = self.session_dir(id);
        create_dirs(&*self.disk, &self.sessions_dir(), Durability::Unsynced)?;
        match self.disk.create_dir(&dir) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => self.check_left_behind(id, &dir)?,
            made => made.map_err(SessionError::io("create the directory", &dir))?,
        }
        let lock = self.lock(id, &dir)?;
        let path = dir.join(LOG);
        let mode = match self.disk.kind(&path).map_err(SessionError::io("access", &path))? {
            None => OpenMode::New,
            // An earlier attempt to create the session left an empty log.
            Some(EntryKind::File { len: 0 }) => OpenMode::Existing,
            Some(_) => return Err(SessionError::Exists { id: id.to_string() }),
        };
        let index =
            LogIndex::new(Arc::clone(&self.disk), path, StateDirMapping::default(), Vec::new(), 0, Seq(0));
        // A log is only as durable as the names on its path, and the process that created the parent directories may
        // have failed before its sync.
        let names = vec![dir.clone(), self.sessions_dir(), self.state.clone(), parent(&self.state)];
        let log = Log::open(&self.disk, mode, Arc::clone(&index), names)?;
        Ok(SessionWriter::new(Arc::clone(&self.disk), dir, log, index, lock))
    }

    /// Fails unless the directory is what an earlier attempt to create this session left behind.
    fn check_left_behind(&self, id: &SessionId, dir: &Path) -> Result<(), SessionError> {
        self.existing(id)?;
        let names = self.disk.list(dir).map_err(SessionError::io("list", dir))?;
        if names.iter().all(|name| name == LOCK || name == LOG) {
            return Ok(());
        }
        Err(SessionError::Exists { id: id.to_string() })
    }

    /// Opens a session for writing: takes its lock, reads its log, repairs a damaged tail.
    pub fn open(&self, id: &SessionId) -> Result<OpenedSession, SessionError> {
        self.open_and_repair(id, &[DamageKind::Tail])
    }

    /// Opens a session whose log is damaged in the middle: everything before the damage stays, the rest is saved to a
    /// separate file. Only for a user who has decided to continue without the rest.
    pub fn repair(&self, id: &SessionId) -> Result<OpenedSession, SessionError> {
        self.open_and_repair(id, &[DamageKind::Tail, DamageKind::Middle])
    }

    fn open_and_repair(
        &self,
        id: &SessionId,
        repairable: &[DamageKind],
    ) -> Result<OpenedSession, SessionError> {
        let dir = self.existing(id)?;
        let lock = self.lock(id, &dir)?;
        let checkpoint = self.checkpoint(id);
        let (path, bytes, found) = self.scan(id, checkpoint.as_ref())?;
        let repairs = match found.damage {
            Some(damage) if !repairable.contains(&damage.kind) => {
                return Err(SessionError::Damaged { path, damage });
            }
            damage => damage,
        };
        let last = found.events.last().map_or(Seq(0), |e| e.seq);
        let index = LogIndex::new(
            Arc::clone(&self.disk),
            path.clone(),
            found.mapping.clone(),
            found.marks,
            found.good,
            last,
        );
        let mut notices = Vec::new();
        if let Some(damage) = repairs {
            let good = usize::try_from(found.good).unwrap_or(usize::MAX);
            notices.push(self.cut_tail(&dir, bytes.get(good..).unwrap_or_default(), &damage)?);
        }
        let log = Log::open(&self.disk, OpenMode::Existing, Arc::clone(&index), Vec::new())?;
        let mut writer = SessionWriter::new(Arc::clone(&self.disk), dir, log, index, lock);
        if checkpoint.is_none_or(|c| c.seq != last)
            && let Some(rebuilt) = rebuild_checkpoint(&found.events)
        {
            writer.checkpoint(rebuilt);
        }
        Ok(OpenedSession { writer, events: found.events, notices })
    }

    /// Reads a session without its lock and without changing anything.
    pub fn read(&self, id: &SessionId) -> Result<ReadSession, SessionError> {
        self.existing(id)?;
        let (_, _, found) = self.scan(id, self.checkpoint(id).as_ref())?;
        Ok(ReadSession { events: found.events, damage: found.damage })
    }

    /// Takes the lock of a session without opening the session, for work on its files.
    pub fn hold(&self, id: &SessionId) -> Result<Box<dyn DiskLock>, SessionError> {
        let dir = self.existing(id)?;
        self.lock(id, &dir)
    }

    /// Deletes a session; refused while a process owns it.
    pub fn remove(&self, id: &SessionId) -> Result<(), SessionError> {
        let dir = self.found(id)?;
        // Nobody owns a session whose lock is not a regular file, or whose directory belongs to another user: no
        // process of ours would have accepted that lock.
        let lock = dir.join(LOCK);
        let _lock = match self.disk.kind(&lock).map_err(SessionError::io("access", &lock))? {
            _ if self.refuse_foreign(&dir).is_err() => None,
            None | Some(EntryKind::File { .. }) => Some(self.lock(id, &dir)?),
            Some(EntryKind::Dir | EntryKind::Link | EntryKind::Special(_)) => None,
        };
        self.sweep();
        // One rename makes the session invisible; `sweep` later deletes what a crash leaves behind.
        let renamed = self.sessions_dir().join(format!("{REMOVING}{id}"));
        self.disk.rename(&dir, &renamed).map_err(SessionError::io("delete", &dir))?;
        remove_tree(&*self.disk, &renamed)?;
        Ok(sync_dir(&*self.disk, &self.sessions_dir())?)
    }

    pub(crate) fn sweep(&self) {
        for name in self.disk.list(&self.sessions_dir()).unwrap_or_default() {
            if name.starts_with(REMOVING) {
                let _ = remove_tree(&*self.disk, &self.sessions_dir().join(name));
            }
        }
    }

    /// The directory of a session that exists and whose files may be used.
    pub(crate) fn existing(&self, id: &SessionId) -> Result<PathBuf, SessionError> {
        let dir = self.found(id)?;
        self.refuse_foreign(&dir)?;
        Ok(dir)
    }

    pub(crate) fn refuse_foreign(&self, path: &Path) -> Result<(), SessionError> {
        match self.disk.foreign_owner(path).map_err(SessionError::io("access", path))? {
            Some(uid) => Err(DiskError::Foreign { path: path.to_owned(), uid }.into()),
            None => Ok(()),
        }
    }

    /// The directory of a session that exists, whoever owns it.
    pub(crate) fn found(&self, id: &SessionId) -> Result<PathBuf, SessionError> {
        check_id(id)?;
        let dir = self.session_dir(id);
        match self.disk.kind(&dir).map_err(SessionError::io("access", &dir))? {
            Some(EntryKind::Dir) => Ok(dir),
            None | Some(EntryKind::File { .. } | EntryKind::Link | EntryKind::Special(_)) => {
                Err(self.not_found(id))
            }
        }
    }

    fn not_found(&self, id: &SessionId) -> SessionError {
        SessionError::NotFound { id: id.to_string(), state: self.state.clone() }
    }

    fn lock(&self, id: &SessionId, dir: &Path) -> Result<Box<dyn DiskLock>, SessionError> {
        let path = dir.join(LOCK);
        match self.disk.lock(&path) {
            Ok(Lock::Taken(lock)) => Ok(lock),
            Ok(Lock::Held { pid }) => Err(SessionError::Locked { id: id.to_string(), pid }),
            // The session was deleted meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(self.not_found(id)),
            Err(e) => Err(SessionError::io("lock", &path)(e)),
        }
    }

    /// The checkpoint on disk; `None` if it is missing, unreadable, too large or of another session.
    pub(crate) fn checkpoint(&self, id: &SessionId) -> Option<Checkpoint> {
        let path = self.session_dir(id).join(saver::NAME);
        let bytes = self.disk.read_range(&path, 0, MAX_CHECKPOINT_BYTES + 1).ok()?;
        if bytes.len() as u64 > MAX_CHECKPOINT_BYTES {
            return None;
        }
        serde_json::from_slice(&bytes).ok().filter(|c: &Checkpoint| c.id == *id)
    }

    pub(crate) fn scan(
        &self,
        id: &SessionId,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(PathBuf, Vec<u8>, Scan), SessionError> {
        let path = self.session_dir(id).join(LOG);
        refuse_link(&*self.disk, &path)?;
        let bytes = match self.disk.read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(SessionError::Blank { path, what: "the file is missing".to_owned() });
            }
            Err(e) => return Err(SessionError::io("read", &path)(e)),
        };
        match scan(&bytes, checkpoint.map_or(Seq(0), |c| c.seq), &self.state) {
            Ok(found) => Ok((path, bytes, found)),
            Err(NoSession::Blank(what)) => Err(SessionError::Blank { path, what }),
            Err(NoSession::Newer(found)) => Err(SessionError::NewerSchema { path, found }),
        }
    }

    /// Moves everything from the damage on to a separate file, which is durable before the log is truncated.
    fn cut_tail(&self, dir: &Path, tail: &[u8], damage: &Damage) -> Result<Notice, SessionError> {
        let taken = self.disk.list(dir).map_err(SessionError::io("list", dir))?;
        let free = |name: &String| !taken.contains(name);
        let names = (1u32..).map(|n| format!("{LOG}.damaged-{n}"));
        let aside = names.into_iter().find(free).unwrap_or_else(|| format!("{LOG}.damaged"));
        replace(&*self.disk, dir, &aside, tail, Durability::Synced)?;
        let path = dir.join(LOG);
        let mut file = self.disk.open(&path, OpenMode::Existing).map_err(SessionError::io("open", &path))?;
        file.truncate(damage.offset).map_err(SessionError::io("truncate", &path))?;
        file.sync_data().map_err(SessionError::io("sync", &path))?;
        Ok(Notice {
            level: NoticeLevel::Warning,
            text: format!(
                "the session's log was damaged ({damage}): everything from there on ({}) was moved to another \
                 file; everything before it is intact",
                althing_text::count(tail.len() as u64, "byte")
            ),
            hint: Some(format!("the moved bytes are in {}", dir.join(aside).display())),
        })
    }
}
