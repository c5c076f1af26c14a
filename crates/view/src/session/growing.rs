//! Text that is still streaming.

use althing_protocol::DeltaKind;

/// What streamed since the last finished piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growing {
    /// Its text so far.
    pub text: String,
    /// Its reasoning so far.
    pub reasoning: String,
    /// The tool it is about to call.
    pub tool: Option<String>,
    /// Why the call is being tried again.
    pub retry: Option<String>,
}

/// Streams longer than this are shown by their end only: the whole comes with the finished piece.
const MOST: usize = 1 << 20;

impl Growing {
    /// Takes one more piece.
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

    /// What it is at, in a word or two.
    pub fn activity(&self) -> Option<String> {
        if let Some(reason) = &self.retry {
            return Some(format!("trying again: {reason}"));
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

    /// Whether nothing has streamed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
