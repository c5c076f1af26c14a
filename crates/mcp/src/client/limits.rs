//! The limits of the client on waits, sizes and counts, in one place, so that an unbounded wait or buffer stands out.

use std::time::Duration;

/// Default time for a server to start and list its tools. The first `npx` run downloads packages and takes more than
/// ten seconds.
pub(crate) const START: Duration = Duration::from_secs(30);
/// Default time that a call may take without a response or progress.
pub(crate) const CALL: Duration = Duration::from_secs(60);
/// Total time that a call may take, however much progress it reports, unless the `call_timeout` of its server is
/// longer.
pub(crate) const CALL_WITH_PROGRESS: Duration = Duration::from_secs(600);
/// Time limit for listing the tools again after a change notification.
pub(crate) const REFRESH: Duration = Duration::from_secs(30);
/// Minimum pause between two tool listings, because a server may flood us with change notifications.
pub(crate) const REFRESH_PAUSE: Duration = Duration::from_millis(250);
/// Grace period for each shutdown step: stdin closed, then TERM, then KILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the exit status of a server whose output has ended, and for the rest of the output of a server
/// that has exited.
pub(crate) const EXIT_STATUS_WAIT: Duration = Duration::from_secs(1);
/// The maximum number of attempts to restart a dead server.
pub(crate) const RESTARTS: u32 = 3;
/// The minimum time between the first and the second restart; it doubles with each further restart.
pub(crate) const RESTART_PAUSE: Duration = Duration::from_millis(500);
/// The minimum time between two restarts never becomes longer than this.
pub(crate) const RESTART_PAUSE_MAX: Duration = Duration::from_secs(10);
/// If a server needs a restart at least this long after its last start, its restart count is reset.
pub(crate) const RESTARTS_FORGIVEN: Duration = Duration::from_secs(300);
/// Time limit for connecting to an HTTP server.
pub(crate) const HTTP_CONNECT: Duration = Duration::from_secs(10);

/// The largest message that a server may send, in bytes.
pub(crate) const FRAME: usize = 16 * 1024 * 1024;
/// Bytes of non-MCP output that a server may print between two messages before it is stopped.
pub(crate) const NOISE: usize = 16 * 1024 * 1024;
/// Limit on the tools offered per server.
pub(crate) const TOOLS: usize = 512;
/// Limit on the pages read of a tool list.
pub(crate) const TOOL_PAGES: usize = 64;
/// The longest tool name that every provider accepts.
pub(crate) const TOOL_NAME: usize = 64;
/// The longest tool description that every provider accepts, in characters.
pub(crate) const DESCRIPTION: usize = 1024;
/// The largest input schema, in bytes of JSON.
pub(crate) const SCHEMA: usize = 64 * 1024;
/// The longest text quoted from a server in one of our messages, in characters.
pub(crate) const QUOTE: usize = 300;
/// The longest server instructions passed on, in characters.
pub(crate) const INSTRUCTIONS: usize = 4096;

/// Limit on the bytes of a result that the model sees.
pub(crate) const RESULT: usize = 64 * 1024;
/// How many bytes of `RESULT` are taken from the end of the result.
pub(crate) const RESULT_TAIL: usize = 16 * 1024;

/// The longest part of a line of a server's output that is logged, in bytes.
pub(crate) const LOG_LINE: usize = 4 * 1024;
/// Limit on the bytes of output of one connection (stderr, and stdout that is not MCP) that reach the sink.
pub(crate) const LOG_TOTAL: usize = 4 * 1024 * 1024;
/// Number of last lines of output quoted when a server dies.
pub(crate) const LOG_LAST: usize = 3;
/// Limit on stored notices.
pub(crate) const NOTICES: usize = 256;
/// Limit on messages queued for a server that does not read.
pub(crate) const OUTBOX: usize = 64;
/// How many requests of a server may wait for our replies.
pub(crate) const UNANSWERED: usize = 64;
