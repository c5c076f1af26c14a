//! The limits of the MCP client on waits, sizes and counts.

use std::time::Duration;

/// The limit for starting and listing tools. The first `npx` run downloads packages and takes more than ten seconds.
pub(crate) const START: Duration = Duration::from_secs(30);
/// The limit for a call without a response or progress.
pub(crate) const CALL: Duration = Duration::from_secs(60);
/// The limit for a whole call, however much progress it reports, unless the `call_timeout` of its server is longer.
pub(crate) const CALL_WITH_PROGRESS: Duration = Duration::from_secs(600);
/// The limit for listing the tools after a change notification.
pub(crate) const REFRESH: Duration = Duration::from_secs(30);
/// The pause between two listings: a server may send a flood of change notifications.
pub(crate) const REFRESH_PAUSE: Duration = Duration::from_millis(250);
/// The limit for each shutdown step: stdin closed, then TERM, then KILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// The wait for the exit status of a server whose output has ended, and for the rest of the output of a server that
/// has exited.
pub(crate) const EXIT_STATUS_WAIT: Duration = Duration::from_secs(1);
pub(crate) const RESTARTS: u32 = 3;
/// The pause between the first and the second restart; doubles with each further restart.
pub(crate) const RESTART_PAUSE: Duration = Duration::from_millis(500);
pub(crate) const RESTART_PAUSE_MAX: Duration = Duration::from_secs(10);
/// If a server needs a restart at least this long after its last start, its restart count is reset.
pub(crate) const RESTARTS_FORGIVEN: Duration = Duration::from_secs(300);
pub(crate) const HTTP_CONNECT: Duration = Duration::from_secs(10);

/// The minimum pause before an event stream that has ended is opened again, whatever pause the server asks for.
pub(crate) const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// The maximum size of a message of a server, in bytes.
pub(crate) const FRAME: usize = 16 * 1024 * 1024;
/// The maximum number of JSON values in a message of a server: each takes many times the memory of its text.
pub(crate) const VALUES: usize = 100_000;
/// The maximum number of content blocks in a result; further ones are replaced with one that says how many there are.
pub(crate) const BLOCKS: usize = 1000;
/// A server is stopped if it prints more than this many bytes of non-MCP output between two messages.
pub(crate) const NOISE: usize = 16 * 1024 * 1024;
pub(crate) const TOOLS: usize = 512;
pub(crate) const TOOL_PAGES: usize = 64;
/// The maximum length of a tool's name; every provider accepts names of this length.
pub(crate) const TOOL_NAME: usize = 64;
/// The maximum length of a description in characters; every provider accepts this length.
pub(crate) const DESCRIPTION: usize = 1024;
/// The maximum size of a tool's schema, in bytes of JSON.
pub(crate) const SCHEMA: usize = 64 * 1024;
/// The maximum length of a server's text in Althing's messages, in characters.
pub(crate) const QUOTE: usize = 300;
/// The maximum length of a server's instructions, in characters.
pub(crate) const INSTRUCTIONS: usize = 4096;

/// How many bytes of a result the model sees.
pub(crate) const RESULT: usize = 64 * 1024;
/// How many bytes of `RESULT` are taken from the end of the result.
pub(crate) const RESULT_TAIL: usize = 16 * 1024;

/// The maximum length of a line of output, in bytes.
pub(crate) const LOG_LINE: usize = 4 * 1024;
/// How many bytes of output of one connection (stderr, and stdout that is not MCP) reach the sink.
pub(crate) const LOG_TOTAL: usize = 4 * 1024 * 1024;
pub(crate) const LOG_LAST: usize = 3;
pub(crate) const NOTICES: usize = 256;
/// How many messages are queued for a server that does not read.
pub(crate) const OUTBOX: usize = 64;
/// How many requests of a server may wait for Althing's replies.
pub(crate) const UNANSWERED: usize = 64;
