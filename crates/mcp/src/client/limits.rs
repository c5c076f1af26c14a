//! The limits of the MCP client on waits, sizes and counts.

use std::time::Duration;

/// For starting and listing tools. The first `npx` run downloads packages and takes more than ten seconds.
pub(crate) const START: Duration = Duration::from_secs(30);
/// Without a response or progress.
pub(crate) const CALL: Duration = Duration::from_secs(60);
/// In total, however much progress the call reports, unless the `call_timeout` of its server is longer.
pub(crate) const CALL_WITH_PROGRESS: Duration = Duration::from_secs(600);
/// After a change notification.
pub(crate) const REFRESH: Duration = Duration::from_secs(30);
/// A server may flood us with change notifications.
pub(crate) const REFRESH_PAUSE: Duration = Duration::from_millis(250);
/// For each shutdown step: stdin closed, then TERM, then KILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// For the exit status of a server whose output has ended, and for the rest of the output of a server that has
/// exited.
pub(crate) const EXIT_STATUS_WAIT: Duration = Duration::from_secs(1);
pub(crate) const RESTARTS: u32 = 3;
/// Between the first and the second restart; doubles with each further restart.
pub(crate) const RESTART_PAUSE: Duration = Duration::from_millis(500);
pub(crate) const RESTART_PAUSE_MAX: Duration = Duration::from_secs(10);
/// If a server needs a restart at least this long after its last start, its restart count is reset.
pub(crate) const RESTARTS_FORGIVEN: Duration = Duration::from_secs(300);
pub(crate) const HTTP_CONNECT: Duration = Duration::from_secs(10);

/// A message of a server, in bytes.
pub(crate) const FRAME: usize = 16 * 1024 * 1024;
/// Bytes of non-MCP output between two messages before the server is stopped.
pub(crate) const NOISE: usize = 16 * 1024 * 1024;
/// Per server.
pub(crate) const TOOLS: usize = 512;
pub(crate) const TOOL_PAGES: usize = 64;
/// Every provider accepts names of this length.
pub(crate) const TOOL_NAME: usize = 64;
/// In characters; every provider accepts this length.
pub(crate) const DESCRIPTION: usize = 1024;
/// In bytes of JSON.
pub(crate) const SCHEMA: usize = 64 * 1024;
/// In characters.
pub(crate) const QUOTE: usize = 300;
/// In characters.
pub(crate) const INSTRUCTIONS: usize = 4096;

/// Bytes of a result that the model sees.
pub(crate) const RESULT: usize = 64 * 1024;
/// The part of `RESULT` that is taken from the end.
pub(crate) const RESULT_TAIL: usize = 16 * 1024;

/// In bytes.
pub(crate) const LOG_LINE: usize = 4 * 1024;
/// Bytes of output of one connection (stderr, and stdout that is not MCP) that reach the sink.
pub(crate) const LOG_TOTAL: usize = 4 * 1024 * 1024;
/// Lines of output quoted when a server dies.
pub(crate) const LOG_LAST: usize = 3;
pub(crate) const NOTICES: usize = 256;
/// Messages queued for a server that does not read.
pub(crate) const OUTBOX: usize = 64;
/// Requests of a server that may wait for our replies.
pub(crate) const UNANSWERED: usize = 64;
