//! Text that is still streaming.

use althing_protocol::DeltaKind;

/// Text streamed since the last complete reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamingText {
    pub text: String,
    pub reasoning: String,
    /// The tool that the model is about to call.
    pub tool: Option<String>,
    /// Why the model call is being retried.
    pub retry: Option<String>,
}

/// Once the streamed text has this many bytes, further text is dropped; the same holds for reasoning. The finished
/// reply contains the complete text.
const MOST: usize = 1 << 20;

impl StreamingText {
    /// Adds one delta. A retry discards everything that has streamed so far.
    pub fn add(&mut self, kind: DeltaKind, piece: &str) {
        match kind {
            DeltaKind::Text => {
                self.retry = None;
                if self.text.len() < MOST {
                    self.text.push_str(piece);
                }
            }
            DeltaKind::Reasoning => {
                self.retry = None;
                if self.reasoning.len() < MOST {
                    self.reasoning.push_str(piece);
                }
            }
            DeltaKind::ToolCall => self.tool = Some(piece.to_owned()),
            DeltaKind::Retry => *self = Self { retry: Some(piece.to_owned()), ..Self::default() },
        }
    }

    /// The current activity in a few words; None if nothing has streamed.
    pub fn activity(&self) -> Option<String> {
        if let Some(reason) = &self.retry {
            return Some(format!("retrying: {reason}"));
        }
        if let Some(tool) = &self.tool {
            return Some(format!("calling {tool}"));
        }
        match (self.text.is_empty(), self.reasoning.is_empty()) {
            (false, _) => Some("writing".into()),
            (true, false) => Some("thinking".into()),
            (true, true) => None,
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
