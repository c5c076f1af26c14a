//! The limits on the input of this crate: a config may come from a stranger's repository, so reading it must take a
//! bounded amount of time and memory, for any content.

/// The maximum size of a config in bytes. The largest of MassGen's own configs is under 20 KiB.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// Real configs use about ten levels of lists and maps.
pub(crate) const MAX_DEPTH: usize = 64;

/// Values are counted after aliases are expanded, to stop an alias bomb. Real configs have a few hundred values.
pub(crate) const MAX_VALUES: usize = 20_000;

/// The maximum size of all texts after aliases are expanded: an alias repeats a long text for few bytes.
pub(crate) const MAX_EXPANDED_BYTES: usize = 4 * 1024 * 1024;

/// The limit per severity; further problems are only counted. Finding the nearest key for each of 10,000 would be a
/// denial of service.
pub(crate) const MAX_DIAGNOSTICS: usize = 200;

/// The maximum length of a quoted line, in characters.
pub(crate) const MAX_QUOTED_LINE: usize = 160;

/// The limit per agent. Each server gets a copy of the agent's tool lists.
pub(crate) const MAX_SERVERS: usize = 64;

/// With how many names a wrong name is compared, where the file determines how many names there are.
pub(crate) const MAX_COMPARED: usize = 500;

pub(crate) const MAX_PATTERNS: usize = 64;

/// The maximum length of a regular expression, in bytes.
pub(crate) const MAX_PATTERN: usize = 256;

/// The maximum number of character ranges in a pattern, with repetitions expanded. Smaller patterns compile within
/// the limits of the `regex` crate.
pub(crate) const MAX_PATTERN_RANGES: usize = 100_000;

pub(crate) const MAX_LISTED_TOOLS: usize = 1000;

/// The maximum length of a tool's name, in bytes.
pub(crate) const MAX_TOOL_NAME: usize = 256;
