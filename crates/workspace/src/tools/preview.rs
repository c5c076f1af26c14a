//! What a call of a tool that changes files would change, as diffs for people. Nothing is written.

use super::args::Args;
use super::job::{Job, check_size, file_name};
use super::{apply, change};
use crate::access::{LastLink, Refusal, ResolvedPath, RootRole};
use althing_protocol::{EditPreview, FileChange, FileDiff};
use althing_text::{head_and_tail, sanitize};
use sha2::{Digest, Sha256};
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// How many unchanged lines are shown before and after a change.
const CONTEXT: usize = 3;

/// The maximum number of lines and bytes in the diff of one file.
const MAX_LINES: usize = 1000;
const MAX_BYTES: usize = 64 << 10;

/// A longer line is shown without its middle, so that one line cannot use up the whole diff.
const MAX_LINE_BYTES: usize = 8 << 10;

/// After this time, a diff is completed without looking for the smallest one.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);

/// The change of one file: its content before and after, if the file exists then.
struct ProposedChange<'a> {
    resolved: ResolvedPath<'a>,
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

/// What a call would change. [`EditPreview::ask`] is set if a file in a context path is among it.
pub(crate) fn preview(job: &Job<'_>, tool: &str, args: &Args) -> Result<EditPreview, Refusal> {
    job.check_cancelled()?;
    let changes = match tool {
        "write_file" => {
            let content = args.text("content")?;
            let resolved = job.writable(args.text("path")?, LastLink::Follow)?;
            check_size(content.len() as u64, &resolved.shown)?;
            file_name(&resolved)?;
            let (old, new) = (current_content(&resolved)?, Some(content.as_bytes().to_vec()));
            vec![ProposedChange { resolved, old, new }]
        }
        "edit_file" => {
            let edit = change::plan_edit(job, args)?;
            let (old, new) = (Some(edit.old.into_bytes()), Some(edit.new.into_bytes()));
            vec![ProposedChange { resolved: edit.resolved, old, new }]
        }
        "delete_file" => {
            let resolved = job.writable(args.text("path")?, LastLink::NoFollow)?;
            let old = current_content(&resolved)?;
            if old.is_none() {
                return Err(Refusal::NotFound { path: resolved.shown });
            }
            vec![ProposedChange { resolved, old, new: None }]
        }
        "apply_patch" => {
            let planned = apply::plan_patch(job, args)?.into_iter();
            let bytes = |text: Option<String>| text.map(String::into_bytes);
            planned
                .map(|one| ProposedChange {
                    resolved: one.resolved,
                    old: bytes(one.old),
                    new: bytes(one.new),
                })
                .collect()
        }
        _ => Vec::new(),
    };
    let is_context = |change: &ProposedChange<'_>| matches!(change.resolved.root.role, RootRole::Context(_));
    Ok(EditPreview {
        project: String::new(),
        ask: changes.iter().any(is_context),
        digest: digest(&changes),
        files: changes.iter().map(file_diff).collect(),
    })
}

/// The content of a file; None if the file does not exist. If it is too large or is no regular file (such as a link),
/// the content is replaced by the reason why it is not read, after a NUL byte, so that it is not compared as text.
fn current_content(resolved: &ResolvedPath<'_>) -> Result<Option<Vec<u8>>, Refusal> {
    if resolved.found.is_none() {
        return Ok(None);
    }
    match Job::read_whole(resolved) {
        Ok((bytes, _)) => Ok(Some(bytes)),
        Err(refusal @ (Refusal::TooLarge { .. } | Refusal::Special { .. })) => {
            Ok(Some(format!("\0{refusal}").into_bytes()))
        }
        Err(refusal) => Err(refusal),
    }
}

fn digest(changes: &[ProposedChange<'_>]) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: Option<&[u8]>| match part {
        None => hash.update([0]),
        Some(bytes) => {
            hash.update([1]);
            hash.update(bytes.len().to_le_bytes());
            hash.update(bytes);
        }
    };
    for change in changes {
        add(Some(change.resolved.real.as_os_str().as_encoded_bytes()));
        add(change.old.as_deref());
        add(change.new.as_deref());
    }
    althing_text::hex(&hash.finalize())
}

/// A content as text, and whether it is text. Bytes that are not UTF-8 are shown as symbols, so that they hide nothing.
fn as_text(content: Option<&[u8]>) -> (String, bool) {
    let content = content.unwrap_or_default();
    let is_text = std::str::from_utf8(content).is_ok() && !content.contains(&0);
    (String::from_utf8_lossy(content).into_owned(), is_text)
}

fn file_diff(change: &ProposedChange<'_>) -> FileDiff {
    let kind = match (&change.old, &change.new) {
        (None, _) => FileChange::New,
        (Some(_), Some(_)) => FileChange::Modified,
        (Some(_), None) => FileChange::Deleted,
    };
    let (old, is_old_text) = as_text(change.old.as_deref());
    let (new, is_new_text) = as_text(change.new.as_deref());
    let old = if is_old_text { old.as_str() } else { "" };
    let diff = ShownDiff::new(old, &new);
    let real = change.resolved.real.to_string_lossy();
    let path = sanitize::visible_line(&real);
    let code = change::code_note(&change.resolved).trim().to_owned();
    let code = Some(code).filter(|note| !note.is_empty() && change.new.is_some());
    let has_hidden = diff.has_hidden || path != real;
    let notes = [
        code,
        (!is_old_text).then(|| "the old content is not text, or is too large to show".to_owned()),
        (!is_new_text).then(|| "the new content is not text: NUL bytes are shown as ␀".to_owned()),
        has_hidden.then(|| "it contains invisible characters, shown as ␍ or \\u{…}".to_owned()),
        diff.has_cut_line.then(|| "the middle of long lines is not shown".to_owned()),
    ];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    let ShownDiff { added, removed, lines, .. } = diff;
    let count = lines.len();
    let mut bytes = 0;
    let fits = |line: &String| {
        bytes += line.len();
        bytes <= MAX_BYTES
    };
    let kept: Vec<String> = lines.into_iter().take(MAX_LINES).take_while(fits).collect();
    FileDiff { path, change: kind, added, removed, diff: kept.concat(), omitted: count - kept.len(), note }
}

/// The lines of a unified diff without its two header lines. Everything in them can be seen.
struct ShownDiff {
    added: usize,
    removed: usize,
    lines: Vec<String>,
    has_hidden: bool,
    has_cut_line: bool,
}

impl ShownDiff {
    fn new(old: &str, new: &str) -> Self {
        let mut shown =
            Self { added: 0, removed: 0, lines: Vec::new(), has_hidden: false, has_cut_line: false };
        // Only a line feed ends a line: the front ends, too, begin a new line nowhere else.
        let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
        let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
        let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_slices(&old_lines, &new_lines);
        for line in diff.iter_all_changes() {
            match line.tag() {
                ChangeTag::Insert => shown.added += 1,
                ChangeTag::Delete => shown.removed += 1,
                ChangeTag::Equal => {}
            }
        }
        let is_all_crlf = [old, new].iter().all(|text| has_only_crlf(text));
        for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
            shown.lines.push(format!("{}\n", hunk.header()));
            for line in hunk.iter_changes() {
                shown.add_line(line.tag(), line.value(), is_all_crlf);
            }
        }
        shown
    }

    /// Adds a line. A CR at its end is shown, unless all lines end with CR LF (`is_all_crlf`).
    fn add_line(&mut self, tag: ChangeTag, line: &str, is_all_crlf: bool) {
        let (content, is_ended) = line.strip_suffix('\n').map_or((line, false), |content| (content, true));
        let content =
            if is_all_crlf && is_ended { content.strip_suffix('\r').unwrap_or(content) } else { content };
        let visible = sanitize::visible(content);
        self.has_hidden |= visible != content;
        let cut = head_and_tail(&visible, MAX_LINE_BYTES / 2, MAX_LINE_BYTES / 2, |missing| {
            self.has_cut_line = true;
            format!(" … {missing} bytes are not shown … ")
        });
        self.lines.push(format!("{tag}{cut}\n"));
        if !is_ended {
            self.lines.push("\\ No newline at end of file\n".into());
        }
    }
}

fn has_only_crlf(text: &str) -> bool {
    text.matches('\n').count() == text.matches("\r\n").count()
}
