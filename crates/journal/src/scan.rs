//! Reads a whole log and classifies its damage. The log is good up to the first line that is not the expected event.
//! The rest is a damaged *tail* (as after a crash) unless a good line proves that the expected event was once durable:
//! then it is a damaged *middle*.

use crate::line::{self, BadLine};
use crate::state_dir_mapping::StateDirMapping;
use althing_protocol::{Event, Fact, LOG_SCHEMA, Seq};
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub(crate) const STRIDE: u64 = 64;
/// The minimum size of the part that one thread reads, in bytes; for smaller parts, a further thread costs more than it
/// saves.
const MIN_CHUNK: usize = 1 << 20;
/// More threads do not help, because memory bandwidth is the limit.
const MAX_THREADS: usize = 8;

/// How a log is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The log is damaged at its end, as after a crash. Opening the session for writing repairs the log.
    Tail,
    /// Events that were once durable are lost. Reading stops there, and writing is refused until the user has the log
    /// repaired.
    Middle,
    /// The line is intact, but this version does not understand its content.
    NotUnderstood,
}

/// Where and how a log is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The kind of damage.
    pub kind: DamageKind,
    /// The first bad line, counted from 1; also the number of the event that belongs there.
    pub line: u64,
    /// The offset of the first bad line in the log, in bytes.
    pub offset: u64,
    /// What is wrong with the first bad line, for the user.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} (byte {}): {}", self.line, self.offset, self.what)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) mapping: StateDirMapping,
    pub(crate) events: Vec<Arc<Event>>,
    /// The number of bytes up to the end of the last good line.
    pub(crate) good: u64,
    /// The offset of every `STRIDE`th event, starting with the first.
    pub(crate) marks: Vec<u64>,
    pub(crate) damage: Option<Damage>,
}

#[derive(Debug)]
pub(crate) enum NoSession {
    Blank(String),
    Newer(u32),
}

struct FirstBadLine {
    offset: usize,
    what: String,
    understood: bool,
}

#[derive(Default)]
struct ScannedPart {
    events: Vec<Arc<Event>>,
    marks: Vec<u64>,
    /// The offset of the part's first event, whose number is checked only when the parts are joined.
    start: usize,
    end: usize,
    bad: Option<FirstBadLine>,
}

/// `acknowledged` is the last event that the checkpoint shows to have been durable.
pub(crate) fn scan(bytes: &[u8], acknowledged: Seq, state: &Path) -> Result<Scan, NoSession> {
    let recorded = read_header(bytes)?;
    let mapping = StateDirMapping::new(recorded.as_deref(), state);
    let mut scan = Scan::default();
    let mut bad = None;
    for part in parts(bytes, &mapping) {
        let expected = scan.events.len() as u64 + 1;
        if let Some(first) = part.events.first()
            && first.seq != Seq(expected)
        {
            bad = Some(FirstBadLine {
                offset: part.start,
                what: wrong_number(first.seq, expected),
                understood: true,
            });
            break;
        }
        scan.events.extend(part.events);
        scan.marks.extend(part.marks);
        scan.good = part.end as u64;
        if part.bad.is_some() {
            bad = part.bad;
            break;
        }
    }
    scan.damage = bad.map(|bad| {
        let line = scan.events.len() as u64 + 1;
        let kind = if bad.understood {
            classify(bytes, bad.offset, line, acknowledged)
        } else {
            DamageKind::NotUnderstood
        };
        Damage { kind, line, offset: bad.offset as u64, what: bad.what }
    });
    scan.mapping = mapping;
    match scan.events.first().map(|e| &e.fact) {
        Some(Fact::SessionOpened(_)) => Ok(scan),
        _ => Err(NoSession::Blank(match scan.damage {
            Some(damage) => damage.to_string(),
            None => "it does not begin with `session_opened`".to_owned(),
        })),
    }
}

/// Reads only the first line: a log with a newer schema must be refused before its lines are classified as damage.
/// Returns the state directory that the line records, if any.
fn read_header(bytes: &[u8]) -> Result<Option<String>, NoSession> {
    #[derive(Deserialize)]
    struct Header {
        data: HeaderData,
    }
    #[derive(Deserialize)]
    struct HeaderData {
        schema: u32,
        #[serde(default)]
        state_dir: Option<String>,
    }
    if bytes.is_empty() {
        return Err(NoSession::Blank("it is empty".to_owned()));
    }
    let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    match (line::position(first), serde_json::from_slice::<Header>(first)) {
        (Some(_), Ok(head)) if head.data.schema > LOG_SCHEMA => Err(NoSession::Newer(head.data.schema)),
        (Some(_), Ok(head)) => Ok(head.data.state_dir),
        _ => Ok(None),
    }
}

fn parts(bytes: &[u8], mapping: &StateDirMapping) -> Vec<ScannedPart> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let chunk = (bytes.len() / threads + 1).max(MIN_CHUNK);
    let mut rest = 0..0;
    let mut ranges = Vec::new();
    while rest.end < bytes.len() {
        let begin = rest.end;
        let reach = (begin + chunk).min(bytes.len());
        let end = bytes
            .get(reach..)
            .and_then(|after| memchr::memchr(b'\n', after))
            .map_or(bytes.len(), |n| reach + n + 1);
        rest = begin..end;
        ranges.push(rest.clone());
    }
    if let [only] = ranges.as_slice() {
        return vec![read_part(bytes, only.clone(), mapping)];
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            ranges.into_iter().map(|r| scope.spawn(move || read_part(bytes, r, mapping))).collect();
        // A worker does not panic; if it did, the rest of the log would count as unreadable, not as empty.
        workers.into_iter().map(|w| w.join().unwrap_or_else(|_| unread())).collect()
    })
}

fn unread() -> ScannedPart {
    let bad = FirstBadLine { offset: 0, what: "it could not be read".to_owned(), understood: false };
    ScannedPart { bad: Some(bad), ..ScannedPart::default() }
}

fn read_part(bytes: &[u8], range: std::ops::Range<usize>, mapping: &StateDirMapping) -> ScannedPart {
    let mut part = ScannedPart { start: range.start, end: range.start, ..ScannedPart::default() };
    while part.end < range.end {
        let here = part.end;
        let rest = bytes.get(here..range.end).unwrap_or_default();
        let expected = part.events.last().map(|e: &Arc<Event>| e.seq.next().0);
        let found = match memchr::memchr(b'\n', rest).and_then(|n| rest.get(..n)) {
            Some(text) => line::decode(text, mapping).map(|event| (event, text.len() + 1)),
            None => Err(BadLine::Torn),
        };
        match (found, expected) {
            (Ok((event, _)), Some(expected)) if event.seq.0 != expected => {
                let what = wrong_number(event.seq, expected);
                part.bad = Some(FirstBadLine { offset: here, what, understood: true });
                return part;
            }
            (Ok((event, len)), _) => {
                if event.seq.0 % STRIDE == 1 {
                    part.marks.push(here as u64);
                }
                part.events.push(Arc::new(event));
                part.end += len;
            }
            (Err(bad), _) => {
                part.bad = Some(FirstBadLine {
                    offset: here,
                    understood: !matches!(bad, BadLine::NotUnderstood(_)),
                    what: match bad {
                        BadLine::Torn => "it is truncated or overwritten".to_owned(),
                        BadLine::Checksum => "its checksum does not match".to_owned(),
                        BadLine::NotUnderstood(why) => why,
                    },
                });
                return part;
            }
        }
    }
    part
}

fn wrong_number(found: Seq, expected: u64) -> String {
    format!("found event {found} instead of event {expected}")
}

/// An append starts only when everything before it is durable. So the expected event was durable if an append begins
/// after the bad line, if a good line belongs to an append that began after the expected event, or if the checkpoint
/// includes it and good lines follow.
fn classify(bytes: &[u8], bad: usize, expected: u64, acknowledged: Seq) -> DamageKind {
    let rest = bytes.get(bad..).unwrap_or_default();
    let whole = memchr::memrchr(b'\n', rest).and_then(|last| rest.get(..last)).unwrap_or_default();
    let proof = whole.split(|b| *b == b'\n').enumerate().any(|(n, text)| {
        line::position(text).is_some_and(|position| {
            let behind = n > 0 && (position.seq == position.batch || acknowledged.0 >= expected);
            behind || position.batch.0 > expected
        })
    });
    if proof { DamageKind::Middle } else { DamageKind::Tail }
}
