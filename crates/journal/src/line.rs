//! Encodes and decodes one line of the log: an event's JSON with its checksum. The format of a line is frozen, because
//! older versions could not read another one; they ignore new fields inside an event.

use crate::event_json::read_event;
use crate::state_dir_mapping::StateDirMapping;
use althing_protocol::{Event, Seq};

/// The size in bytes of the end of a line: `,"crc":"` + 8 digits + `"}`.
const TAIL: usize = 18;
const CRC_FIELD: &[u8] = b",\"crc\":\"";
const BATCH_FIELD: &[u8] = b",\"batch\":";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadLine {
    /// The line does not end with a checksum field.
    Torn,
    Checksum,
    /// The checksum matches, but this version does not understand the content.
    NotUnderstood(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinePosition {
    pub(crate) seq: Seq,
    /// The first event of the append that wrote this line. All earlier events were durable when that append began.
    pub(crate) batch: Seq,
}

/// Appends an event's line to `out`, which stays unchanged if the event has no JSON form.
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

/// Verifies the checksum of a line (without its line end), and returns everything before the checksum.
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

/// Only lower-case digits are valid: a flipped bit that turns `a` into `A` is damage, too.
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

pub(crate) fn decode(line: &[u8], mapping: &StateDirMapping) -> Result<Event, BadLine> {
    check(line)?;
    let text = std::str::from_utf8(line).map_err(|e| BadLine::NotUnderstood(e.to_string()))?;
    read_event(&mapping.to_current(text))
        .map_err(|e| BadLine::NotUnderstood(format!("not an event of this log: {e}")))
}

/// The position of a line. `None` if the checksum is missing or wrong, or if the line does not begin with an event
/// number.
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
