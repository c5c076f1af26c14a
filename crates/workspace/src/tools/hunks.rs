//! Applies the hunks of a patch to a text. Each hunk is searched for after the previous one: first exactly, then
//! ignoring white space at line ends, then ignoring white space at both ends of lines.

use super::patch::{Hunk, HunkLine};

const LINE_COMPARISONS: &[fn(&str, &str) -> bool] =
    &[|a, b| a == b, |a, b| a.trim_end() == b.trim_end(), |a, b| a.trim() == b.trim()];

pub(crate) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, String> {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let closed = text.is_empty() || text.ends_with('\n');
    let old: Vec<&str> = text.lines().collect();
    let mut new: Vec<&str> = Vec::with_capacity(old.len());
    let mut at = 0;
    for (n, hunk) in hunks.iter().enumerate() {
        let failed = |why: &str| format!("hunk {}: {why}", n + 1);
        let mut from = at;
        if let Some(after) = &hunk.after {
            let found = find(&old, &[after.as_str()], at, End::Anywhere);
            from = found.map(|found| found + 1).ok_or_else(|| {
                failed(&format!("the line `{after}` does not occur from line {} on", at + 1))
            })?;
        }
        let wanted: Vec<&str> = hunk.lines.iter().filter_map(HunkLine::before).collect();
        let start_line = if wanted.is_empty() {
            if hunk.after.is_some() && !hunk.at_end { Some(from) } else { Some(old.len()) }
        } else {
            find(&old, &wanted, from, if hunk.at_end { End::Last } else { End::Anywhere })
        };
        let first = wanted.first().copied().unwrap_or_default();
        let start_line = start_line.ok_or_else(|| {
            let place = if hunk.at_end {
                format!("are not the last lines of the file (searched from line {} on)", from + 1)
            } else {
                format!("do not occur together from line {} on", from + 1)
            };
            let count = wanted.len();
            failed(&format!("its unchanged and removed lines ({count} in all, first `{first}`) {place}"))
        })?;
        new.extend(old.get(at..start_line).unwrap_or_default());
        let mut line_index = start_line;
        for line in &hunk.lines {
            match line {
                HunkLine::Keep(_) => {
                    new.extend(old.get(line_index));
                    line_index += 1;
                }
                HunkLine::Remove(_) => line_index += 1,
                HunkLine::Add(line) => new.push(line),
            }
        }
        at = line_index;
    }
    new.extend(old.get(at..).unwrap_or_default());
    let mut out = new.join(end);
    if closed && !out.is_empty() {
        out.push_str(end);
    }
    Ok(out)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Anywhere,
    Last,
}

fn find(lines: &[&str], wanted: &[&str], from: usize, end: End) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len())?;
    let first = if end == End::Last { last.max(from) } else { from };
    LINE_COMPARISONS.iter().find_map(|equal| {
        (first..=last).find(|start| {
            let candidate = lines.get(*start..start + wanted.len()).unwrap_or_default();
            candidate.iter().zip(wanted).all(|(line, wanted)| equal(line, wanted))
        })
    })
}

impl HunkLine {
    fn before(&self) -> Option<&str> {
        match self {
            Self::Keep(line) | Self::Remove(line) => Some(line),
            Self::Add(_) => None,
        }
    }
}
