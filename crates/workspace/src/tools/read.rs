//! The tool `read_file`: numbered lines of a text file, from a given offset.

use super::args::Args;
use super::job::Job;
use super::text::{CappedText, LINE_CAP, binary_kind, shown_line};
use crate::access::Refusal;
use althing_text::quoted_name;
use std::fs::File;
use std::io::{BufRead, BufReader};

const DEFAULT_LINES: u64 = 2000;
/// Reading fails at a line that is longer than this number of bytes.
const LONGEST_LINE: u64 = 1 << 30;
const CHECK_EVERY: u64 = 4096;

pub(crate) fn read_file(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let offset = args.optional_number("offset", 1)?.unwrap_or(1);
    let limit = args.optional_number("limit", 1)?.unwrap_or(DEFAULT_LINES);
    let resolved = job.resolve(args.text("path")?)?;
    let (file, found) = Job::open(&resolved)?;
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let failed = |e| Refusal::io("read", &resolved.shown)(e);
    let head = reader.fill_buf().map_err(failed)?;
    if head.is_empty() {
        return Ok(format!("{} is empty.", quoted_name(&resolved.shown)));
    }
    if let Some(kind) = binary_kind(head.get(..8192).unwrap_or(head)) {
        return Ok(format!(
            "{} is not text: {kind}, {} bytes.",
            quoted_name(&resolved.shown),
            found.stamp.size
        ));
    }
    let (mut page, mut number, mut lossy) = (CappedText::default(), 0, false);
    let mut line = Vec::new();
    loop {
        if number % CHECK_EVERY == 0 {
            job.check_cancelled()?;
        }
        line.clear();
        let whole = next_line(job, &mut reader, &mut line, &resolved.shown)?;
        if whole == 0 {
            break;
        }
        number += 1;
        if number < offset {
            continue;
        }
        lossy |= whole <= line.len() as u64 && std::str::from_utf8(&line).is_err();
        let past = number >= offset.saturating_add(limit);
        if past || !page.line(&format!("{number:>6}\t{}", shown_line(&line, whole))) {
            let shown = format!("[lines {offset} to {} shown; continue with offset {number}]", number - 1);
            return Ok(page.end(&with_encoding(&shown, lossy)));
        }
    }
    if page.is_empty() {
        let why =
            format!("{} has only {}", quoted_name(&resolved.shown), althing_text::count(number, "line"));
        return Err(Refusal::Argument { argument: "offset".to_owned(), why });
    }
    Ok(page.end(&with_encoding("", lossy)))
}

fn with_encoding(note: &str, lossy: bool) -> String {
    let failed = if lossy { "[not UTF-8: unreadable bytes are shown as \u{fffd}]" } else { "" };
    [note, failed].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("\n")
}

/// Stores at most the first `LINE_CAP + 8` bytes of a line in `line`. Returns the line's full length in bytes,
/// including the line break, or 0 at the end of the file.
fn next_line(
    job: &Job<'_>,
    reader: &mut BufReader<File>,
    line: &mut Vec<u8>,
    path: &str,
) -> Result<u64, Refusal> {
    let mut whole = 0;
    loop {
        let buffer = reader.fill_buf().map_err(Refusal::io("read", path))?;
        if buffer.is_empty() {
            return Ok(whole);
        }
        let end = memchr::memchr(b'\n', buffer);
        let taken = end.map_or(buffer.len(), |end| end + 1);
        // Slightly more is stored than is shown, so that a character at the cut is complete.
        let room = (LINE_CAP + 8).saturating_sub(line.len());
        line.extend_from_slice(buffer.get(..taken.min(room)).unwrap_or_default());
        reader.consume(taken);
        whole += taken as u64;
        if end.is_some() {
            return Ok(whole);
        }
        // A sparse file with a hole of terabytes is a single line, so the length is limited.
        job.check_cancelled()?;
        if whole > LONGEST_LINE {
            return Err(Refusal::TooLarge {
                path: format!("a line of {path}"),
                size: whole,
                limit: LONGEST_LINE,
            });
        }
    }
}
