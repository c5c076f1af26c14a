//! Text of a reply that is still streaming.

use althing_protocol::DeltaKind;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamingText {
    pub text: String,
    pub reasoning: String,
    /// The tool that the model is about to call.
    pub tool: Option<String>,
    /// The answer that the model is writing as the argument of the tool `new_answer`.
    pub answer: String,
    pub retry: Option<String>,
    /// What the model call waits for, until something streams.
    pub waiting: Option<String>,
}

/// When the streamed text, reasoning or answer has this size in bytes, the rest of it is not kept. The finished reply
/// is complete.
const MOST: usize = 1 << 20;

impl StreamingText {
    /// Adds a delta. A retry discards everything that has streamed so far.
    pub fn add(&mut self, kind: DeltaKind, piece: &str) {
        match kind {
            DeltaKind::Text => {
                (self.retry, self.waiting) = (None, None);
                if self.text.len() < MOST {
                    self.text.push_str(piece);
                }
            }
            DeltaKind::Reasoning => {
                (self.retry, self.waiting) = (None, None);
                if self.reasoning.len() < MOST {
                    self.reasoning.push_str(piece);
                }
            }
            DeltaKind::ToolCall => {
                self.tool = Some(piece.to_owned());
                self.answer.clear();
            }
            DeltaKind::Answer => {
                if self.answer.len() < MOST {
                    self.answer.push_str(piece);
                }
            }
            DeltaKind::Waiting => self.waiting = Some(piece.to_owned()),
            DeltaKind::Retry => *self = Self { retry: Some(piece.to_owned()), ..Self::default() },
        }
    }

    /// The current activity in a few words; None if nothing has streamed.
    pub fn activity(&self) -> Option<String> {
        if let Some(reason) = &self.retry {
            return Some(format!("retrying: {reason}"));
        }
        if !self.answer.is_empty() {
            return Some("writing".into());
        }
        if let Some(tool) = &self.tool {
            return Some(format!("calling {tool}"));
        }
        if let Some(reason) = &self.waiting {
            return Some(format!("waiting: {reason}"));
        }
        match (self.text.is_empty(), self.reasoning.is_empty()) {
            (false, _) => Some("writing".into()),
            (true, false) => Some("thinking".into()),
            (true, true) => None,
        }
    }

    /// The first line of what is being written.
    pub fn opening(&self) -> Option<&str> {
        let written = if self.answer.is_empty() { &self.text } else { &self.answer };
        let is_writing = self.retry.is_none() && (self.tool.is_none() || !self.answer.is_empty());
        written.lines().map(str::trim).find(|line| !line.is_empty()).filter(|_| is_writing)
    }

    pub fn estimated_tokens(&self) -> u64 {
        (self.text.len() + self.reasoning.len() + self.answer.len()).div_ceil(4) as u64
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
