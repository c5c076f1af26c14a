//! The limits of this crate on its input.
//!
//! A config may come from a stranger's repository, so reading it must take a bounded amount of time and memory, for
//! any content (row S14 in `docs/reliability.md`). The limits that ensure this are in this file, so that one page
//! answers the question how much a hostile file can cost.

/// The largest config text that is read, in bytes. The largest of MassGen's own configs is under 20 KiB.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// The deepest nesting of lists and maps. Real configs use about ten levels.
pub(crate) const MAX_DEPTH: usize = 64;

/// The maximum number of values in a document, counted after aliases are expanded: this is what stops an
/// alias bomb. Real configs have a few hundred.
pub(crate) const MAX_VALUES: usize = 20_000;

/// The maximum size of the text in a document, in bytes, counted after aliases are expanded: an alias repeats
/// a long text for few bytes.
pub(crate) const MAX_EXPANDED_BYTES: usize = 4 * 1024 * 1024;

/// The maximum number of problems that are stored per severity; the rest is only counted. Nobody reads the
/// 201st warning, and finding the nearest key for each of 10,000 would be a denial of service.
pub(crate) const MAX_DIAGNOSTICS: usize = 200;

/// The longest part of a source line that a diagnostic quotes, in characters.
pub(crate) const MAX_QUOTED_LINE: usize = 160;

/// The maximum number of MCP servers of one agent. Each server gets a copy of the agent's tool lists, so this
/// bounds the total size of the copies.
pub(crate) const MAX_SERVERS: usize = 64;

/// The maximum number of names that a wrong name is compared with, where the file determines how many names
/// there are.
pub(crate) const MAX_COMPARED: usize = 500;

/// The maximum number of patterns in a file.
pub(crate) const MAX_PATTERNS: usize = 64;

/// The maximum length of a pattern, in bytes.
pub(crate) const MAX_PATTERN: usize = 256;

/// The maximum number of character ranges in a pattern, with repetitions expanded. Smaller patterns compile
/// within the limits of the `regex` crate.
pub(crate) const MAX_PATTERN_RANGES: usize = 100_000;

/// The maximum number of tools in one list of an agent.
pub(crate) const MAX_LISTED_TOOLS: usize = 1000;

/// The maximum length of a tool's name in a list, in bytes.
pub(crate) const MAX_TOOL_NAME: usize = 256;
