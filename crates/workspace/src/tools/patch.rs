//! Parses the patch format of the tool `apply_patch`.

use crate::access::Refusal;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PatchOp {
    Add { path: String, content: String },
    Delete { path: String },
    Update { path: String, to: Option<String>, hunks: Vec<Hunk> },
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The line after which the hunk is searched for.
    pub after: Option<String>,
    pub lines: Vec<HunkLine>,
    pub at_end: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HunkLine {
    Keep(String),
    Remove(String),
    Add(String),
}

fn invalid_argument(number: usize, why: &str) -> Refusal {
    Refusal::Argument { argument: "patch".to_owned(), why: format!("line {number}: {why}") }
}

pub(crate) fn parse(text: &str) -> Result<Vec<PatchOp>, Refusal> {
    let mut ops = Vec::new();
    let trimmed = text.trim();
    let mut lines = trimmed.lines().enumerate().map(|(n, line)| (n + 1, line)).peekable();
    match lines.next() {
        Some((_, line)) if line.trim_end() == "*** Begin Patch" => {}
        _ => return Err(invalid_argument(1, "must be `*** Begin Patch`")),
    }
    while let Some((number, line)) = lines.next() {
        if line.trim_end() == "*** End Patch" {
            if lines.peek().is_some() {
                return Err(invalid_argument(number + 1, "nothing may follow `*** End Patch`"));
            }
            if ops.is_empty() {
                return Err(invalid_argument(number, "the patch changes nothing"));
            }
            return Ok(ops);
        }
        if let Some(path) = head(line, "*** Add File:") {
            let mut content = String::new();
            while let Some((_, added)) = lines.next_if(|(_, line)| line.starts_with('+')) {
                content.push_str(added.get(1..).unwrap_or_default());
                content.push('\n');
            }
            ops.push(PatchOp::Add { path, content });
        } else if let Some(path) = head(line, "*** Delete File:") {
            ops.push(PatchOp::Delete { path });
        } else if let Some(path) = head(line, "*** Update File:") {
            let to = lines.peek().and_then(|(_, line)| head(line, "*** Move to:"));
            if to.is_some() {
                lines.next();
            }
            let hunks = read_hunks(&mut lines)?;
            if hunks.is_empty() && to.is_none() {
                return Err(invalid_argument(number, "no hunk follows `*** Update File:`"));
            }
            ops.push(PatchOp::Update { path, to, hunks });
        } else {
            let expected = "expected `*** Add File: PATH`, `*** Update File: PATH`, `*** Delete File: PATH` or \
                            `*** End Patch`";
            return Err(invalid_argument(number, expected));
        }
    }
    Err(invalid_argument(trimmed.lines().count(), "`*** End Patch` is missing"))
}

fn head(line: &str, with: &str) -> Option<String> {
    line.strip_prefix(with).map(|path| path.trim().to_owned()).filter(|path| !path.is_empty())
}

type Lines<'l, I> = std::iter::Peekable<I>;

fn read_hunks<'l, I: Iterator<Item = (usize, &'l str)>>(
    lines: &mut Lines<'l, I>,
) -> Result<Vec<Hunk>, Refusal> {
    let mut hunks: Vec<Hunk> = Vec::new();
    while let Some((number, line)) =
        lines.next_if(|(_, line)| !line.starts_with("*** ") || line.trim_end() == "*** End of File")
    {
        if let Some(after) = line.strip_prefix("@@") {
            // Headers of unified diffs are accepted; their line numbers are ignored.
            let after = after.trim();
            let after = (!after.is_empty() && !after.starts_with('-')).then(|| after.to_owned());
            hunks.push(Hunk { after, ..Hunk::default() });
            continue;
        }
        if hunks.is_empty() {
            hunks.push(Hunk::default());
        }
        let Some(hunk) = hunks.last_mut() else { continue };
        if line.starts_with("*** ") {
            hunk.at_end = true;
            continue;
        }
        let rest = || line.get(1..).unwrap_or_default().to_owned();
        hunk.lines.push(match line.chars().next() {
            None => HunkLine::Keep(String::new()),
            Some(' ') => HunkLine::Keep(rest()),
            Some('-') => HunkLine::Remove(rest()),
            Some('+') => HunkLine::Add(rest()),
            Some(_) => {
                return Err(invalid_argument(number, "a line of a hunk must begin with a space, -, + or @@"));
            }
        });
    }
    let changes = |hunk: &Hunk| hunk.lines.iter().any(|line| !matches!(line, HunkLine::Keep(_)));
    if hunks.iter().all(changes) {
        return Ok(hunks);
    }
    Err(invalid_argument(lines.peek().map_or(0, |(n, _)| *n), "a hunk before this line changes nothing"))
}
