//! The tool `search`, with ripgrep's matcher and searcher.

use super::args::{Args, Flag};
use super::job::{Job, check_readable};
use super::list::{compile, display_path};
use super::text::{CappedText, shown_line};
use super::walk::{GitignoreMode, Visit, Walk};
use crate::access::{Refusal, ResolvedPath, RootSet};
use crate::confine::FileKind;
use althing_text::quoted_name;
use globset::GlobSet;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const MAX_CONTEXT: u64 = 20;
/// The memory limit in bytes; the search of a file ends at a line that is longer.
const HEAP: usize = 16 << 20;

const INCOMPLETE: &str =
    " [not all files were searched: there are too many, or they are nested too deeply; use a narrower path]";

struct Hits {
    page: CappedText,
    /// The name of the searched file, printed before its first match.
    heading: Option<String>,
    full: bool,
}

impl Hits {
    fn line(&mut self, line: &str) -> bool {
        let told = self.heading.take().is_none_or(|heading| self.page.line(&heading));
        self.full |= !told || !self.page.line(line);
        !self.full
    }

    fn numbered(&mut self, number: Option<u64>, sign: char, bytes: &[u8]) -> bool {
        let line = format!("{}{sign} {}", number.unwrap_or_default(), shown_line(bytes, bytes.len() as u64));
        self.line(&line)
    }
}

impl Sink for Hits {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, hit: &SinkMatch<'_>) -> io::Result<bool> {
        Ok(self.numbered(hit.line_number(), ':', hit.bytes()))
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.numbered(context.line_number(), '-', context.bytes()))
    }

    fn context_break(&mut self, _searcher: &Searcher) -> io::Result<bool> {
        Ok(self.line("--"))
    }
}

struct Search {
    matcher: RegexMatcher,
    searcher: Searcher,
    hits: Hits,
    only: Option<GlobSet>,
}

impl Search {
    fn new(args: &Args) -> Result<Self, Refusal> {
        let invalid_argument =
            |e: grep_regex::Error| Refusal::Argument { argument: "pattern".to_owned(), why: e.to_string() };
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(!args.flag("case_sensitive", Flag::On)?)
            .line_terminator(Some(b'\n'))
            .build(args.text("pattern")?)
            .map_err(invalid_argument)?;
        let around = args.optional_number("context", 0)?.unwrap_or(0).min(MAX_CONTEXT) as usize;
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(around)
            .after_context(around)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP))
            .build();
        // A pattern without a slash matches the file name in any directory.
        let anywhere = |glob: &str| if glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") };
        let only = args.optional_text("glob")?.map(|glob| compile("glob", &anywhere(glob))).transpose()?;
        let hits = Hits { page: CappedText::default(), heading: None, full: false };
        Ok(Self { matcher, searcher, hits, only })
    }

    fn file(&mut self, file: &File, path: String) -> Result<(), io::Error> {
        self.hits.heading = Some(path);
        self.searcher.search_file(&self.matcher, file, &mut self.hits)
    }

    fn visit(
        &mut self,
        root_set: &RootSet,
        resolved: &ResolvedPath<'_>,
        shown: &Path,
        visit: &Visit<'_>,
    ) -> ControlFlow<()> {
        let wanted = visit.found.kind == FileKind::File
            && self.only.as_ref().is_none_or(|only| only.is_match(visit.below));
        if wanted
            && let Ok((file, found)) = visit.dir.open_file(visit.name)
            && check_readable(resolved.root.role, found, "").is_ok()
        {
            let _ = self.file(&file, display_path(root_set, &shown.join(visit.below)));
        }
        if self.hits.full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

pub(crate) fn search(job: &Job<'_>, args: &Args) -> Result<String, Refusal> {
    let mut search = Search::new(args)?;
    let resolved = job.resolve(args.optional_text("path")?.unwrap_or("."))?;
    let shown = PathBuf::from(&resolved.shown);
    let mut whole = true;
    if resolved.found.is_some_and(|found| found.kind == FileKind::Dir) {
        let walk = Walk::new(job, &resolved, GitignoreMode::Respect);
        whole =
            walk.run(&resolved.dir, &mut |visit| Ok(search.visit(job.root_set, &resolved, &shown, visit)))?;
    } else {
        let (file, _) = Job::open(&resolved)?;
        search
            .file(&file, display_path(job.root_set, &shown))
            .map_err(Refusal::io("search", &resolved.shown))?;
    }
    if search.hits.page.is_empty() {
        let rest = if whole { "" } else { INCOMPLETE };
        return Ok(format!("No line in {} matches.{rest}", quoted_name(&resolved.shown)));
    }
    let note = match (search.hits.full, whole) {
        (true, _) => "[there are more matches; use a narrower pattern, path or glob]",
        (false, false) => INCOMPLETE.trim_start(),
        (false, true) => "",
    };
    Ok(search.hits.page.end(note))
}
