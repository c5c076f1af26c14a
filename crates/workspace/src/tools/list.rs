//! The tools `list_directory` and `glob`.

use super::args::Args;
use super::globs;
use super::job::Job;
use super::text::CappedText;
use super::walk::{GitignoreMode, Walk};
use crate::access::{Refusal, RootSet};
use crate::confine::FileKind;
use althing_text::quoted_name;
use globset::GlobSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const INCOMPLETE: &str =
    " [not all files were checked: there are too many, or they are nested too deeply; use a narrower path]";

pub(crate) fn list_directory(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let resolved = job.directory(args.optional_text("path")?.unwrap_or("."))?;
    let mut names = resolved.dir.names().map_err(Refusal::io("list", &resolved.shown))?;
    names.sort_unstable();
    let (mut page, mut left) = (CappedText::default(), names.len());
    for name in &names {
        job.check_cancelled()?;
        left -= 1;
        if job.root_set.is_state(&resolved.real.join(name)) {
            continue;
        }
        let Ok(Some(found)) = resolved.dir.stat(name) else { continue };
        let text = name.to_string_lossy();
        let text = quoted_name(&text);
        let line = match found.kind {
            FileKind::Dir => format!("{text}/"),
            FileKind::File => format!("{text} ({} bytes)", found.stamp.size),
            FileKind::Link => match resolved.dir.read_link(name) {
                Ok(target) => format!("{text} -> {}", quoted_name(&target.to_string_lossy())),
                Err(error) => format!("{text} (an unreadable link: {error})"),
            },
            FileKind::Special => format!("{text} (special file)"),
        };
        if !page.line(&line) {
            let more = althing_text::count(left as u64 + 1, "more name");
            return Ok(
                page.end(&format!("[{more}; to see only some of them, call the tool `glob` with a pattern]"))
            );
        }
    }
    if page.is_empty() {
        return Ok(format!("{} is empty.", quoted_name(&resolved.shown)));
    }
    Ok(page.end(""))
}

pub(crate) fn compile(argument: &str, pattern: &str) -> Result<GlobSet, Refusal> {
    globs::compile(pattern).map_err(|why| Refusal::Argument { argument: argument.to_owned(), why })
}

pub(crate) fn glob(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let pattern = args.text("pattern")?;
    let given = args.optional_text("path")?.unwrap_or(".");
    let (start, pattern) = split(given, pattern);
    let matcher = compile("pattern", &pattern)?;
    let resolved = job.directory(&start)?;
    let (mut page, mut full) = (CappedText::default(), false);
    let shown = PathBuf::from(&resolved.shown);
    let whole = Walk::new(job, &resolved, GitignoreMode::Ignore).run(&resolved.dir, &mut |visit| {
        if matcher.is_match(visit.below) && !page.line(&display_path(job.root_set, &shown.join(visit.below)))
        {
            full = true;
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if page.is_empty() {
        let rest = if whole { "" } else { INCOMPLETE };
        let below = quoted_name(&resolved.shown);
        return Ok(format!("Nothing below {below} matches {pattern}.{rest}"));
    }
    let note = match (full, whole) {
        (true, _) => "[more files match; use a narrower pattern or path]",
        (false, false) => INCOMPLETE.trim_start(),
        (false, true) => "",
    };
    Ok(page.end(note))
}

/// Models often write absolute patterns: the start of such a pattern without wildcards becomes the directory.
fn split(path: &str, pattern: &str) -> (String, String) {
    if !pattern.starts_with('/') {
        return (path.to_owned(), pattern.trim_start_matches("./").to_owned());
    }
    let wild = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
    let cut = pattern.get(..wild).and_then(|plain| plain.rfind('/')).unwrap_or(0);
    let (start, rest) = pattern.split_at(cut);
    let start = if start.is_empty() { "/" } else { start };
    (start.to_owned(), rest.trim_start_matches('/').to_owned())
}

pub(crate) fn display_path(root_set: &RootSet, path: &Path) -> String {
    let workspace = root_set.roots.first().map(|root| root.shown.as_path());
    let short = workspace.and_then(|workspace| path.strip_prefix(workspace).ok());
    quoted_name(&short.unwrap_or(path).to_string_lossy()).into_owned()
}
