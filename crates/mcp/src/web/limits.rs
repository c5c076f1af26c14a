//! Limits on what clients of a listener may use.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct WebLimits {
    /// Time limit for the request head.
    pub head: Duration,
    /// Time limit for the request body.
    pub body: Duration,
    /// Size limit of the request body.
    pub body_bytes: usize,
    /// Limit on open connections; further ones wait.
    pub connections: usize,
    /// Limit on connections without an admitted request. Beyond it, the oldest is closed.
    pub unauthenticated: usize,
    /// How long to wait for an answer before starting an event stream, so that the client does not time out.
    pub first_byte: Duration,
    /// Interval of keepalive comments on a silent stream.
    pub keep_alive: Duration,
}

impl Default for WebLimits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            body_bytes: 4 * 1024 * 1024,
            connections: 512,
            unauthenticated: 128,
            first_byte: Duration::from_secs(1),
            keep_alive: Duration::from_secs(15),
        }
    }
}

/// How long a client may take to read the end of a response and close its side before the connection is closed.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Pause after `accept` fails, usually because no file descriptors are left.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
