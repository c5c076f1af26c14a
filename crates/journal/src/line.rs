//! One line of the log: an event's JSON with its checksum, there and back.
//!
//! Decides what a good line is, and nothing about the lines around it. The form is frozen (see the README): a byte
//! changed here is a log that an older Althing cannot read.

use crate::event_json::read_event;
use crate::state_dir_mapping::StateDirMapping;
use althing_protocol::{Event, Seq};

/// `,"crc":"` + 8 digits + `"}`.
const TAIL: usize = 18;
const CRC_FIELD: &[u8] = b",\"crc\":\"";
const BATCH_FIELD: &[u8] = b",\"batch\":";

/// Why a line is not good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadLine {
    /// It does not end as a line of the log does.
    Torn,
    /// Its bytes are not those that were written.
    Checksum,
    /// Its bytes are as they were written, but this Althing does not know what they mean.
    NotUnderstood(String),
}

/// What a line says about its place, without its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinePosition {
    pub(crate) seq: Seq,
    /// The first event of the append it was written with. Everything before that event was durable by then.
    pub(crate) batch: Seq,
}

/// Puts an event's line at the end of a buffer; adds nothing if the event has no JSON form.
pub(crate) fn encode(
    event: &Event,
    batch: Seq,
    mapping: &StateDirMapping,
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    let json = serde_json::to_string(event)?;
    let json = mapping.to_recorded(&json);
    let open = json.strip_suffix('}').unwrap_or(&json);
    let start = out.len();
    out.extend_from_slice(open.as_bytes());
    if batch != event.seq {
        out.extend_from_slice(BATCH_FIELD);
        out.extend_from_slice(batch.0.to_string().as_bytes());
    }
    let crc = crc32c::crc32c(out.get(start..).unwrap_or_default());
    out.extend_from_slice(CRC_FIELD);
    out.extend_from_slice(format!("{crc:08x}").as_bytes());
    out.extend_from_slice(b"\"}\n");
    Ok(())
}

/// The checked part of a line (given without its line end): everything before the checksum.
fn check(line: &[u8]) -> Result<&[u8], BadLine> {
    let at = line.len().checked_sub(TAIL).ok_or(BadLine::Torn)?;
    let (head, tail) = line.split_at_checked(at).ok_or(BadLine::Torn)?;
    let digits = tail
        .strip_prefix(CRC_FIELD)
        .and_then(|rest| rest.strip_suffix(b"\"}"))
        .and_then(parse_hex)
        .ok_or(BadLine::Torn)?;
    if crc32c::crc32c(head) == digits { Ok(head) } else { Err(BadLine::Checksum) }
}

/// Lower case only: a flipped bit that turns `a` into `A` is damage too.
fn parse_hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |sum, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(sum << 4 | u32::from(digit))
    })
}

/// The event of a line (given without its line end).
pub(crate) fn decode(line: &[u8], mapping: &StateDirMapping) -> Result<Event, BadLine> {
    check(line)?;
    let text = std::str::from_utf8(line).map_err(|e| BadLine::NotUnderstood(e.to_string()))?;
    read_event(&mapping.to_current(text))
        .map_err(|e| BadLine::NotUnderstood(format!("not an event of this log: {e}")))
}

/// The place of a line whose checksum is good; None for any other.
pub(crate) fn position(line: &[u8]) -> Option<LinePosition> {
    let head = check(line).ok()?;
    let digits = head.strip_prefix(b"{\"seq\":")?;
    let seq = Seq(number(digits.split(|b| !b.is_ascii_digit()).next()?)?);
    let written = head.iter().rposition(|b| !b.is_ascii_digit()).and_then(|last| {
        let (before, digits) = head.split_at_checked(last + 1)?;
        if before.ends_with(BATCH_FIELD) { number(digits) } else { None }
    });
    Some(LinePosition { seq, batch: written.map_or(seq, Seq) })
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
