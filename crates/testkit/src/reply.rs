//! What the fake model says, independent of the wire format: text, reasoning, tool calls, usage and finish reason.

use std::time::Duration;

use serde_json::{Value, json};

/// One model reply, such as `Reply::text("a b c").chunks(3).reasoning("hm")`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Streamed first, one delta per element.
    pub reasoning: Vec<String>,
    /// Streamed after the reasoning, one delta per element.
    pub text: Vec<String>,
    pub calls: Vec<ToolCall>,
    pub usage: Option<Usage>,
    /// `None` chooses the finish reason that fits the content.
    pub finish: Option<Finish>,
    /// A pause before each chunk. Zero sends the whole response in one write.
    pub pace: Duration,
}

/// A tool call, with its arguments in the fragments in which they are streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// `None` assigns an id that is unique on this server.
    pub id: Option<String>,
    pub name: String,
    /// The concatenated fragments are the arguments: JSON, unless the test wants otherwise.
    pub fragments: Vec<String>,
}

/// Token counts. By default the same round numbers for every reply, so that sums in tests are easy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens, including cached ones.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    pub cached: u64,
    pub reasoning: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 20, cached: 0, reasoning: 0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    Stop,
    ToolCalls,
    Length,
    ContentFilter,
}

impl Reply {
    pub fn empty() -> Self {
        Self { usage: Some(Usage::default()), ..Self::default() }
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self { text: vec![text.into()], ..Self::empty() }
    }

    pub fn call(name: impl Into<String>, arguments: &Value) -> Self {
        Self::empty().and_call(name, arguments)
    }

    pub fn new_answer(content: &str) -> Self {
        Self::call("new_answer", &json!({ "content": content }))
    }

    pub fn concluded(content: &str, conclusion: &str) -> Self {
        Self::call("new_answer", &json!({ "content": content, "conclusion": conclusion }))
    }

    pub fn ranking(agents: &[&str], reason: &str) -> Self {
        Self::call("vote", &json!({ "ranking": agents, "reason": reason }))
    }

    pub fn vote(agent_id: &str, reason: &str) -> Self {
        Self::call("vote", &json!({ "agent_id": agent_id, "reason": reason }))
    }

    /// Adds a tool call with its arguments in two fragments.
    pub fn and_call(mut self, name: impl Into<String>, arguments: &Value) -> Self {
        self.calls.push(ToolCall::new(name, &arguments.to_string()).split(2));
        self
    }

    pub fn and_tool_call(mut self, call: ToolCall) -> Self {
        self.calls.push(call);
        self
    }

    /// Adds text before the tool calls, in one chunk. Call `chunks` afterwards to split it.
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.text.push(text.into());
        self
    }

    pub fn text_chunks<S: Into<String>>(mut self, chunks: impl IntoIterator<Item = S>) -> Self {
        self.text = chunks.into_iter().map(Into::into).collect();
        self
    }

    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        self.reasoning.push(text.into());
        self
    }

    /// Splits the text into `n` chunks, or fewer if it has fewer characters.
    pub fn chunks(mut self, n: usize) -> Self {
        self.text = split(&self.text.concat(), n);
        self
    }

    pub fn fragments(mut self, n: usize) -> Self {
        self.calls = self.calls.into_iter().map(|call| call.split(n)).collect();
        self
    }

    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    pub fn without_usage(mut self) -> Self {
        self.usage = None;
        self
    }

    pub fn finish(mut self, finish: Finish) -> Self {
        self.finish = Some(finish);
        self
    }

    pub fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    pub fn full_text(&self) -> String {
        self.text.concat()
    }

    pub(crate) fn finish_or_default(&self) -> Finish {
        self.finish.unwrap_or(if self.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls })
    }
}

impl ToolCall {
    /// A call whose arguments arrive in one fragment, exactly as given.
    pub fn new(name: impl Into<String>, arguments: &str) -> Self {
        Self { id: None, name: name.into(), fragments: vec![arguments.to_owned()] }
    }

    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    pub fn split(mut self, n: usize) -> Self {
        self.fragments = split(&self.arguments(), n);
        self
    }

    pub fn arguments(&self) -> String {
        self.fragments.concat()
    }
}

/// At most `n` non-empty pieces of similar length in characters.
fn split(text: &str, n: usize) -> Vec<String> {
    let total = text.chars().count();
    let n = n.clamp(1, total.max(1));
    let mut chars = text.chars();
    (0..n)
        .map(|i| {
            let size = total * (i + 1) / n - total * i / n;
            chars.by_ref().take(size).collect()
        })
        .filter(|piece: &String| !piece.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_split_text_keeps_its_characters_and_has_no_empty_pieces() {
        assert_eq!(split("æøå漢字", 2), ["æø", "å漢字"]);
        assert_eq!(split("ab", 5), ["a", "b"]);
        assert!(split("", 3).is_empty());
    }
}
