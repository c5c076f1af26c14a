//! What a call of a tool that changes files would change, as diffs for people. Nothing is written.

use super::args::Args;
use super::job::{Job, check_size, file_name};
use super::{apply, change};
use crate::access::{LastLink, Refusal, ResolvedPath, RootRole};
use althing_protocol::{EditPreview, FileChange, FileDiff};
use althing_text::sanitize;
use sha2::{Digest, Sha256};
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// How many unchanged lines are shown before and after a change.
const CONTEXT: usize = 3;

/// The maximum number of lines and bytes in the diff of one file.
const MAX_LINES: usize = 1000;
const MAX_BYTES: usize = 64 << 10;

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

/// The content of an existing file; None if there is none. A text that says so, and that is no text to compare, stands
/// for what cannot be read: a link, or a file that is too large.
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

/// A content as text; None if it is not text.
fn as_text(content: Option<&[u8]>) -> Option<&str> {
    let content = content.unwrap_or_default();
    std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'))
}

fn file_diff(change: &ProposedChange<'_>) -> FileDiff {
    let kind = match (&change.old, &change.new) {
        (None, _) => FileChange::New,
        (Some(_), Some(_)) => FileChange::Modified,
        (Some(_), None) => FileChange::Deleted,
    };
    let note = change::code_note(&change.resolved).trim().to_owned();
    let note = Some(note).filter(|note| !note.is_empty() && change.new.is_some());
    let path = sanitize::line(&change.resolved.real.to_string_lossy()).into_owned();
    let mut shown =
        FileDiff { path, change: kind, added: 0, removed: 0, diff: String::new(), omitted: 0, note };
    let (Some(old), Some(new)) = (as_text(change.old.as_deref()), as_text(change.new.as_deref())) else {
        shown.note.get_or_insert_with(|| "its content is not text, or too large to show".to_owned());
        return shown;
    };
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(old, new);
    for line in diff.iter_all_changes() {
        match line.tag() {
            ChangeTag::Insert => shown.added += 1,
            ChangeTag::Delete => shown.removed += 1,
            ChangeTag::Equal => {}
        }
    }
    let whole = diff.unified_diff().context_radius(CONTEXT).to_string();
    let mut bytes = 0;
    let fits = |line: &&str| {
        bytes += line.len();
        bytes <= MAX_BYTES
    };
    let kept: Vec<&str> = whole.split_inclusive('\n').take(MAX_LINES).take_while(fits).collect();
    shown.omitted = whole.split_inclusive('\n').count() - kept.len();
    shown.diff = kept.concat();
    shown
}
