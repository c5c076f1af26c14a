//! Compiles glob patterns that others wrote: models, and `.gitignore` files of a directory.

use globset::{GlobBuilder, GlobSet};

/// The maximum length of a pattern, in bytes.
const MAX_LENGTH: usize = 4096;
/// The maximum number of `{` in a pattern: the library compiles nested braces recursively, so they could use up the
/// stack, which ends the whole process.
const MAX_BRACES: usize = 50;

/// Why a pattern may not be compiled; `None` if it may.
pub(crate) fn refusal(pattern: &str) -> Option<String> {
    if pattern.len() > MAX_LENGTH {
        return Some(format!("is longer than {MAX_LENGTH} bytes"));
    }
    let braces = pattern.bytes().filter(|byte| *byte == b'{').count();
    (braces > MAX_BRACES).then(|| format!("contains more than {MAX_BRACES} times `{{`"))
}

/// The error is written for the model.
pub(crate) fn compile(pattern: &str) -> Result<GlobSet, String> {
    if let Some(why) = refusal(pattern) {
        return Err(why);
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    // The matcher of a single glob panics if its regular expression is refused; a set returns an error.
    glob.and_then(|glob| GlobSet::new([glob])).map_err(|error| error.to_string())
}
