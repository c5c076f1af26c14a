//! Limits on what clients of an HTTP listener may use.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct WebLimits {
    pub head: Duration,
    pub body: Duration,
    pub body_bytes: usize,
    /// The maximum number of connections. For a further one, an idle one is closed; if none is idle, it waits.
    pub connections: usize,
    /// The maximum number of connections with requests of one token.
    pub of_one_token: usize,
    /// The maximum number of error responses on one connection.
    pub errors: usize,
    /// The maximum number of connections without an admitted request. Beyond it, the oldest is closed.
    pub unauthenticated: usize,
    /// The time until an event stream is started, so that the client does not time out.
    pub first_byte: Duration,
    /// The interval of keepalive comments on a silent stream.
    pub keep_alive: Duration,
}

impl Default for WebLimits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            body_bytes: 4 * 1024 * 1024,
            connections: 512,
            of_one_token: 64,
            errors: 8,
            unauthenticated: 128,
            first_byte: Duration::from_secs(1),
            keep_alive: Duration::from_secs(15),
        }
    }
}

/// The time for the client to read the end of a response and close its side.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// The pause after `accept` fails, usually because no file descriptors are left.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
