//! The limits on the input of this crate: a config may come from a stranger's repository, so reading it must take a
//! bounded amount of time and memory, for any content.

/// In bytes. The largest of MassGen's own configs is under 20 KiB.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// Real configs use about ten levels of lists and maps.
pub(crate) const MAX_DEPTH: usize = 64;

/// Counted after aliases are expanded, to stop an alias bomb. Real configs have a few hundred values.
pub(crate) const MAX_VALUES: usize = 20_000;

/// Of text after aliases are expanded: an alias repeats a long text for few bytes.
pub(crate) const MAX_EXPANDED_BYTES: usize = 4 * 1024 * 1024;

/// Per severity; further problems are only counted. Finding the nearest key for each of 10,000 would be a denial of
/// service.
pub(crate) const MAX_DIAGNOSTICS: usize = 200;

/// In characters.
pub(crate) const MAX_QUOTED_LINE: usize = 160;

/// Per agent. Each server gets a copy of the agent's tool lists.
pub(crate) const MAX_SERVERS: usize = 64;

/// Of names that a wrong name is compared with, where the file determines how many names there are.
pub(crate) const MAX_COMPARED: usize = 500;

/// Per file.
pub(crate) const MAX_PATTERNS: usize = 64;

/// In bytes.
pub(crate) const MAX_PATTERN: usize = 256;

/// Character ranges in a pattern, with repetitions expanded. Smaller patterns compile within the limits of the
/// `regex` crate.
pub(crate) const MAX_PATTERN_RANGES: usize = 100_000;

pub(crate) const MAX_LISTED_TOOLS: usize = 1000;

/// In bytes.
pub(crate) const MAX_TOOL_NAME: usize = 256;
