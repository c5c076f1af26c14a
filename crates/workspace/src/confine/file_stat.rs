//! File metadata, reduced to the fields that are compared.

use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileKind {
    File,
    Dir,
    Link,
    /// A pipe, a socket or a device; never opened.
    Special,
}

/// Identifies the state of a file without reading it. A program cannot set the change time, so a rewrite that
/// restores size and modification time is still detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, i64, i64, u64, u64)", into = "(u64, i64, i64, u64, u64)")]
pub(crate) struct Stamp {
    pub size: u64,
    /// In nanoseconds since 1970.
    pub mtime: i64,
    pub ctime: i64,
    pub ino: u64,
    pub dev: u64,
}

impl From<(u64, i64, i64, u64, u64)> for Stamp {
    fn from((size, mtime, ctime, ino, dev): (u64, i64, i64, u64, u64)) -> Self {
        Self { size, mtime, ctime, ino, dev }
    }
}

impl From<Stamp> for (u64, i64, i64, u64, u64) {
    fn from(stamp: Stamp) -> Self {
        (stamp.size, stamp.mtime, stamp.ctime, stamp.ino, stamp.dev)
    }
}

/// The assumed resolution of a file system's clock, in nanoseconds: two changes within one tick may have equal
/// stamps.
pub(crate) const CLOCK_TICK: i64 = 20_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    pub kind: FileKind,
    pub stamp: Stamp,
    pub mode: u32,
    pub links: u64,
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    clippy::cast_possible_wrap,
    reason = "the fields' types differ between systems"
)]
impl FileStat {
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        let nanos = |secs: i64, nanos: i64| secs.saturating_mul(1_000_000_000).saturating_add(nanos);
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Dir,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Special,
        };
        Self {
            kind,
            stamp: Stamp {
                size: stat.st_size.cast_unsigned(),
                mtime: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
                ctime: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
                ino: stat.st_ino as u64,
                dev: stat.st_dev as u64,
            },
            mode: (stat.st_mode & 0o7777) as u32,
            links: stat.st_nlink as u64,
        }
    }
}
