//! Regular expressions that a user wrote: whether they are ones, and small enough to be compiled at every start.
//!
//! It only judges; who uses a pattern compiles it.

use regex::RegexBuilder;

use crate::diagnostic::Problem;
use crate::limits;

/// What is wrong with a pattern, if anything is.
pub(crate) fn refusal(pattern: &str) -> Option<Problem> {
    if pattern.len() > limits::MAX_PATTERN {
        let problem = Problem::new(format!("a pattern may have at most {} bytes", limits::MAX_PATTERN));
        return Some(problem.hint("match a shorter part"));
    }
    let error = RegexBuilder::new(pattern).size_limit(limits::MAX_COMPILED_PATTERN).build().err()?;
    let problem = match error {
        regex::Error::CompiledTooBig(_) => {
            Problem::new("the pattern is too large once compiled").hint("repeat less: `x{1000}`, `\\w{200}`")
        }
        // The error's own lines quote the pattern; the last one says what is wrong with it.
        error => {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Problem::new(format!("not a regular expression: {reason}"))
                .hint("put a backslash before a character that stands for itself, such as `\\(`")
        }
    };
    Some(problem)
}
