//! What a caller may take of us before it is turned away.

use std::time::Duration;

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct WebLimits {
    /// How long the head of a request may take.
    pub head: Duration,
    /// How long its body may take.
    pub body: Duration,
    /// How large its body may be, in bytes.
    pub body_bytes: usize,
    /// How many connections may be open at once; further ones wait.
    pub connections: usize,
    /// How many of them may be without a request that was let in; one more, and the oldest is turned away.
    pub strangers: usize,
    /// After how long without an answer its stream is begun, so that no client takes us for dead.
    pub first_byte: Duration,
    /// How often a silent stream shows that it is alive.
    pub keep_alive: Duration,
}

impl Default for WebLimits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            body_bytes: 4 * 1024 * 1024,
            connections: 512,
            strangers: 128,
            first_byte: Duration::from_secs(1),
            keep_alive: Duration::from_secs(15),
        }
    }
}

/// How long a refused caller is given to read the refusal before the connection is cut.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// How long to wait after the system would not give us a connection (no descriptors left, mostly).
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
