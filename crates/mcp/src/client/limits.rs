//! Every limit of the client in one place, so that a wait or a buffer without one stands out.

use std::time::Duration;

/// How long a server may take to start and list its tools, unless its spec says otherwise. A first `npx` fetch takes
/// more than ten seconds.
pub(crate) const START: Duration = Duration::from_secs(30);
/// How long a call may be silent, unless its spec says otherwise.
pub(crate) const CALL: Duration = Duration::from_secs(60);
/// How long a call may take however much progress it reports.
pub(crate) const CALL_WITH_PROGRESS: Duration = Duration::from_secs(600);
/// How long listing the tools again may take after the server said that they changed.
pub(crate) const REFRESH: Duration = Duration::from_secs(30);
/// How often the tools are listed again at most: a server may flood us with change notices.
pub(crate) const REFRESH_PAUSE: Duration = Duration::from_millis(250);
/// How long a process gets at each step of its end: input closed, then TERM, then KILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the exit status of a server whose output has ended.
pub(crate) const FATE: Duration = Duration::from_secs(1);
/// How often a dead server is started again.
pub(crate) const RESTARTS: u32 = 3;
/// The wait before the first restart; doubles with each.
pub(crate) const RESTART_PAUSE: Duration = Duration::from_millis(500);
/// The longest wait before a restart.
pub(crate) const RESTART_PAUSE_MAX: Duration = Duration::from_secs(10);
/// A server that stayed up this long has its restarts forgiven.
pub(crate) const RESTARTS_FORGIVEN: Duration = Duration::from_secs(300);
/// How long connecting to an HTTP server may take.
pub(crate) const HTTP_CONNECT: Duration = Duration::from_secs(10);

/// The largest message that a server may send.
pub(crate) const FRAME: usize = 16 * 1024 * 1024;
/// How much that is not MCP a server may print between two messages before it is given up.
pub(crate) const NOISE: usize = 16 * 1024 * 1024;
/// How many tools of one server are offered.
pub(crate) const TOOLS: usize = 512;
/// How many pages of a tool list are read.
pub(crate) const TOOL_PAGES: usize = 64;
/// The longest tool name that every provider takes.
pub(crate) const TOOL_NAME: usize = 64;
/// The longest tool description that every provider takes, in characters.
pub(crate) const DESCRIPTION: usize = 1024;
/// The largest input schema, as JSON.
pub(crate) const SCHEMA: usize = 64 * 1024;
/// The longest name or reason quoted from a server in a message of ours, in characters.
pub(crate) const QUOTE: usize = 300;
/// The longest server instructions that are handed on, in characters.
pub(crate) const INSTRUCTIONS: usize = 4096;

/// How much of a result the model sees.
pub(crate) const RESULT: usize = 64 * 1024;
/// How much of that is the result's end.
pub(crate) const RESULT_TAIL: usize = 16 * 1024;

/// The longest line of a server's stderr.
pub(crate) const LOG_LINE: usize = 4 * 1024;
/// How much of one connection's stderr reaches the sink.
pub(crate) const LOG_TOTAL: usize = 4 * 1024 * 1024;
/// How many of the last lines are quoted when a server dies.
pub(crate) const LOG_LAST: usize = 3;
/// How many notices are kept.
pub(crate) const NOTICES: usize = 256;
/// How many messages may wait for a server that does not read.
pub(crate) const OUTBOX: usize = 64;
