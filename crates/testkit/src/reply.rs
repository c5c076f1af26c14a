//! What the fake model says, independent of the wire format: text, reasoning, tool calls, usage and finish reason.

use std::time::Duration;

use serde_json::{Value, json};

/// One model reply. Created with the constructors and then refined: `Reply::text("a b c").chunks(3).reasoning("hm")`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The reasoning, streamed first: one delta per element.
    pub reasoning: Vec<String>,
    /// The text, streamed after the reasoning: one delta per element.
    pub text: Vec<String>,
    /// The tool calls, streamed last.
    pub calls: Vec<ToolCall>,
    /// The reported token counts; `None` omits them.
    pub usage: Option<Usage>,
    /// The finish reason; `None` chooses the one that fits the content.
    pub finish: Option<Finish>,
    /// A pause before each chunk; zero sends the whole response in one write.
    pub pace: Duration,
}

/// A tool call, with its arguments in the fragments in which they are streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The id of the call; `None` assigns an id that is unique on this server.
    pub id: Option<String>,
    pub name: String,
    /// The concatenated fragments are the arguments (JSON, unless the test wants otherwise).
    pub fragments: Vec<String>,
}

/// Token counts. The default is the same round numbers for every reply, so that sums in tests are easy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens, including cached ones.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cached: u64,
    /// Output tokens spent on reasoning.
    pub reasoning: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 20, cached: 0, reasoning: 0 }
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model finished.
    Stop,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// The model reached the output limit.
    Length,
    /// A content filter stopped the reply.
    ContentFilter,
}

impl Reply {
    /// An empty reply with usage.
    pub fn empty() -> Self {
        Self { usage: Some(Usage::default()), ..Self::default() }
    }

    /// Plain text in one chunk.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: vec![text.into()], ..Self::empty() }
    }

    /// One tool call.
    pub fn call(name: impl Into<String>, arguments: &Value) -> Self {
        Self::empty().and_call(name, arguments)
    }

    /// A call to the tool `new_answer`.
    pub fn new_answer(content: &str) -> Self {
        Self::call("new_answer", &json!({ "content": content }))
    }

    /// A call to the tool `new_answer` with a conclusion.
    pub fn concluded(content: &str, conclusion: &str) -> Self {
        Self::call("new_answer", &json!({ "content": content, "conclusion": conclusion }))
    }

    /// A call to the tool `vote` that ranks several agents.
    pub fn ranking(agents: &[&str], reason: &str) -> Self {
        Self::call("vote", &json!({ "ranking": agents, "reason": reason }))
    }

    /// A call to the tool `vote` for one agent.
    pub fn vote(agent_id: &str, reason: &str) -> Self {
        Self::call("vote", &json!({ "agent_id": agent_id, "reason": reason }))
    }

    /// Adds a tool call with its arguments in two fragments.
    pub fn and_call(mut self, name: impl Into<String>, arguments: &Value) -> Self {
        self.calls.push(ToolCall::new(name, &arguments.to_string()).split(2));
        self
    }

    /// Adds a custom tool call.
    pub fn and_tool_call(mut self, call: ToolCall) -> Self {
        self.calls.push(call);
        self
    }

    /// Adds text before the tool calls, in one chunk; call [`chunks`](Self::chunks) afterwards to split it.
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.text.push(text.into());
        self
    }

    /// Sets the text in exactly these chunks.
    pub fn text_chunks<S: Into<String>>(mut self, chunks: impl IntoIterator<Item = S>) -> Self {
        self.text = chunks.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a chunk of reasoning.
    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        self.reasoning.push(text.into());
        self
    }

    /// Splits the text into `n` chunks (fewer if it has fewer characters).
    pub fn chunks(mut self, n: usize) -> Self {
        self.text = split(&self.text.concat(), n);
        self
    }

    /// Splits each call's arguments into `n` fragments.
    pub fn fragments(mut self, n: usize) -> Self {
        self.calls = self.calls.into_iter().map(|call| call.split(n)).collect();
        self
    }

    /// Sets the reported usage.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Reports no usage.
    pub fn without_usage(mut self) -> Self {
        self.usage = None;
        self
    }

    /// Sets the finish reason.
    pub fn finish(mut self, finish: Finish) -> Self {
        self.finish = Some(finish);
        self
    }

    /// Sets the pause before each chunk.
    pub fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// The complete text.
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

    /// Sets the id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Splits the arguments into `n` fragments.
    pub fn split(mut self, n: usize) -> Self {
        self.fragments = split(&self.arguments(), n);
        self
    }

    /// The complete arguments.
    pub fn arguments(&self) -> String {
        self.fragments.concat()
    }
}

/// Splits into at most `n` non-empty pieces of similar length in characters.
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
