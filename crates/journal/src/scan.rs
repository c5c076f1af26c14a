//! Reads a whole log and decides what is good, what is a bad tail and what is a bad middle.
//!
//! The rule: events count up from 1, one good line each. At the first line that is not the expected one, the log is
//! good up to there. The rest is a *tail* if nothing in it proves that it was ever acknowledged: a crash can leave any
//! mixture of the last append's pages behind. It is a *middle* if a later good line proves that the bad part was once
//! durable. Must never change the file, and never give an event after a bad line.

use crate::line::{self, BadLine};
use crate::state_dir_mapping::StateDirMapping;
use althing_protocol::{Event, Fact, LOG_SCHEMA, Seq};
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Every so many events the reader keeps where one begins.
pub(crate) const STRIDE: u64 = 64;
/// Below this a second thread costs more than it saves.
const MIN_CHUNK: usize = 1 << 20;
/// More threads than this do not help: memory is the limit by then.
const MAX_THREADS: usize = 8;

/// How a log is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// At its end, where a crash or a cut leaves it: opening the session repairs it.
    Tail,
    /// Before its end: facts that were once safe are lost. Reading stops there, writing is refused.
    Middle,
    /// The line is whole, but this Althing does not know what it says.
    NotUnderstood,
}

/// Where and how a log is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// How.
    pub kind: DamageKind,
    /// The first line that is not good, counted from 1; also the number of the event that belongs there.
    pub line: u64,
    /// Where that line begins, in bytes.
    pub offset: u64,
    /// What is wrong with it, for people.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} (byte {}): {}", self.line, self.offset, self.what)
    }
}

/// A log as it was found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The state directory that the log names, and the one that it is in.
    pub(crate) mapping: StateDirMapping,
    pub(crate) events: Vec<Arc<Event>>,
    /// How many bytes are good.
    pub(crate) good: u64,
    /// Where every `STRIDE`th event begins, from the first.
    pub(crate) marks: Vec<u64>,
    pub(crate) damage: Option<Damage>,
}

/// Why a log gives no session at all.
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

/// What one thread made of its part.
#[derive(Default)]
struct ScannedPart {
    events: Vec<Arc<Event>>,
    marks: Vec<u64>,
    /// Where the first event of the part begins: a wrong number there is only seen when parts are joined.
    start: usize,
    end: usize,
    bad: Option<FirstBadLine>,
}

/// Reads a log. `acknowledged` is the last event known to have been durable from elsewhere (the checkpoint).
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

/// Looks at the first line alone: a log of a newer schema must be refused before its lines are taken for damage.
/// Gives the state directory that it names.
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

/// Reads the parts of a log, several at a time where that pays.
fn parts(bytes: &[u8], mapping: &StateDirMapping) -> Vec<ScannedPart> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let chunk = (bytes.len() / threads + 1).max(MIN_CHUNK);
    let mut rest = 0..0;
    let mut ranges = Vec::new();
    while rest.end < bytes.len() {
        let begin = rest.end;
        let reach = (begin + chunk).min(bytes.len());
        // A part ends with a line.
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
        // Nothing in a worker panics; if it did, the rest of the log counts as unread rather than as empty.
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
                        BadLine::Torn => "it is cut off or overwritten".to_owned(),
                        BadLine::Checksum => "its checksum does not fit".to_owned(),
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
    format!("event {found} stands where event {expected} belongs")
}

/// Tail or middle? An append starts only when everything before it is durable. So the bad part was durable once if,
/// behind it, an append begins, or a line belongs to an append that began behind the expected event, or the expected
/// event is known to have been acknowledged and more came after it.
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
