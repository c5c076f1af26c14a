//! Checks that a user's regular expression is valid, and small enough to be compiled. It is only parsed here, because
//! compiling a hostile one is expensive.

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::diagnostic::Problem;
use crate::limits;

pub(crate) fn pattern_problem(pattern: &str) -> Option<Problem> {
    if pattern.len() > limits::MAX_PATTERN {
        let problem = Problem::new(format!("a pattern may have at most {} bytes", limits::MAX_PATTERN));
        return Some(problem.hint("match a shorter part"));
    }
    match regex_syntax::parse(pattern) {
        Ok(hir) => (ranges(&hir) > limits::MAX_PATTERN_RANGES).then(|| {
            Problem::new("the pattern is too large")
                .hint("use smaller repetitions than `x{1000}` or `\\w{200}`")
        }),
        Err(error) => {
            // The last line says what is wrong; the others quote the pattern.
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let problem = Problem::new(format!("not a regular expression: {reason}"));
            Some(problem.hint("escape special characters with a backslash, such as `\\(`"))
        }
    }
}

fn ranges(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) => class.ranges().len(),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len(),
        HirKind::Capture(capture) => ranges(&capture.sub).saturating_add(1),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            ranges(&repetition.sub).saturating_mul(usize::try_from(times).unwrap_or(usize::MAX))
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(ranges).fold(0, usize::saturating_add)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pattern_problem;

    #[test]
    fn ordinary_patterns_are_accepted_and_expensive_ones_are_not() {
        for pattern in [
            "rm .*",
            r"^\(Y\)es/\(N\)o\s*$",
            r"(?i)do you want to (proceed|create .{1,80})\?",
            r"\w{100}",
            "❯",
        ] {
            assert!(pattern_problem(pattern).is_none(), "{pattern}");
        }
        for pattern in [r"(\w{100}){100}", "(((a{1000}){1000}){1000}){1000}", &"x".repeat(257)] {
            assert!(pattern_problem(pattern).is_some(), "{pattern}");
        }
    }
}
