//! Reads stdin line by line: messages of people in `chat`, or ops as JSON from programs.

use althing_protocol::{Op, OpId, Origin, Submission};
use serde::Deserialize;
use std::io::BufRead;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

/// The channel closes when stdin ends or cannot be read.
pub fn lines() -> UnboundedReceiver<String> {
    read_lines(|text| text)
}

pub struct TimedLine {
    pub text: String,
    pub read_at: Instant,
}

pub fn timed_lines() -> UnboundedReceiver<TimedLine> {
    read_lines(|text| TimedLine { text, read_at: Instant::now() })
}

fn read_lines<T: Send + 'static>(line: impl Fn(String) -> T + Send + 'static) -> UnboundedReceiver<T> {
    let (send, receive) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for text in std::io::stdin().lock().lines() {
            let Ok(text) = text else { return };
            if send.send(line(text)).is_err() {
                return;
            }
        }
    });
    receive
}

#[derive(Deserialize)]
struct OpLine {
    #[serde(default)]
    id: Option<OpId>,
    #[serde(flatten)]
    op: Op,
}

/// Parses a line of JSON as an op for an open session. The error is a message for people.
pub fn read(line: &str) -> Result<Submission, String> {
    althing_app::failpoint::hit("op");
    match serde_json::from_str::<OpLine>(line) {
        Ok(OpLine {
            op: op @ (Op::StartRun { .. } | Op::StartChat { .. } | Op::StartWorkflow { .. }),
            ..
        }) => Err(format!("rejected: this op starts a session, and the session is already open: {op:?}")),
        Ok(OpLine { id, op }) => Ok(Submission { op, by: Origin::User, id }),
        Err(error) => Err(format!("not an op: {error} (in: {line})")),
    }
}
