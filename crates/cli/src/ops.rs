//! What is said to us on stdin, line by line: by people in `chat`, as ops in JSON by the programs that drive us.

use althing_protocol::{Op, OpId, Origin, Submission};
use serde::Deserialize;
use std::io::BufRead;
use tokio::sync::mpsc::UnboundedReceiver;

/// What stdin says, line by line; it ends with stdin.
pub fn lines() -> UnboundedReceiver<String> {
    let (send, receive) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

/// An op as a line of JSON. The sender may give it an id, so that it can send the line again without asking twice.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    id: Option<OpId>,
    #[serde(flatten)]
    op: Op,
}

/// The op that a line of JSON stands for, to a session that is open; why not, in words for people, where it does not.
pub fn read(line: &str) -> Result<Submission, String> {
    althing_app::failpoint::may_happen("op");
    match serde_json::from_str::<Line>(line) {
        Ok(Line {
            op: op @ (Op::StartRun { .. } | Op::StartChat { .. } | Op::StartWorkflow { .. }), ..
        }) => Err(format!("not taken: this session is open already ({op:?})")),
        Ok(Line { id, op }) => Ok(Submission { op, by: Origin::User, id }),
        Err(error) => Err(format!("not an op: {error} (in: {line})")),
    }
}
