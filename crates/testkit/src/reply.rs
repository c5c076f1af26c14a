//! What the fake model says, in no wire's words: text, reasoning, tool calls, usage and why it stopped.

use std::time::Duration;

use serde_json::{Value, json};

/// One model reply. Built with the constructors and then refined: `Reply::text("a b c").chunks(3).reasoning("hm")`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Streamed first, one delta each.
    pub reasoning: Vec<String>,
    /// Streamed next, one delta each.
    pub text: Vec<String>,
    /// Streamed last.
    pub calls: Vec<ToolCall>,
    /// The numbers the server reports; `None` leaves them out.
    pub usage: Option<Usage>,
    /// Why the model stopped; `None` is what fits the content.
    pub finish: Option<Finish>,
    /// A pause before each chunk; zero sends the whole response in one write.
    pub pace: Duration,
}

/// A call of a tool, its arguments in the fragments in which they are streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// `None` gets an id that is unique on this server.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// Joined, they are the arguments (JSON, unless the test wants otherwise).
    pub fragments: Vec<String>,
}

/// Token counts. The default is the same round numbers for every reply, so that sums in tests are easy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// Of `input`, read from the cache.
    pub cached: u64,
    /// Of `output`, spent on reasoning.
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
    /// It said all it had to say.
    Stop,
    /// It waits for the results of its tool calls.
    ToolCalls,
    /// It ran into the output limit.
    Length,
    /// The provider's filter stopped it.
    ContentFilter,
}

impl Reply {
    /// Nothing at all, but with usage: what a model that had nothing to say sends.
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

    /// The workflow tool `new_answer`.
    pub fn new_answer(content: &str) -> Self {
        Self::call("new_answer", &json!({ "content": content }))
    }

    /// The workflow tool `vote`.
    pub fn vote(agent_id: &str, reason: &str) -> Self {
        Self::call("vote", &json!({ "agent_id": agent_id, "reason": reason }))
    }

    /// One more tool call, its arguments in two fragments.
    pub fn and_call(mut self, name: impl Into<String>, arguments: &Value) -> Self {
        self.calls.push(ToolCall::new(name, &arguments.to_string()).split(2));
        self
    }

    /// One more tool call, made by hand.
    pub fn and_tool_call(mut self, call: ToolCall) -> Self {
        self.calls.push(call);
        self
    }

    /// Text before the tool calls, in one chunk; call [`chunks`](Self::chunks) after it to split it.
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.text.push(text.into());
        self
    }

    /// The text in exactly these chunks.
    pub fn text_chunks<S: Into<String>>(mut self, chunks: impl IntoIterator<Item = S>) -> Self {
        self.text = chunks.into_iter().map(Into::into).collect();
        self
    }

    /// Reasoning, in one more chunk.
    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        self.reasoning.push(text.into());
        self
    }

    /// Splits the text into `n` chunks (fewer when it has fewer characters).
    pub fn chunks(mut self, n: usize) -> Self {
        self.text = split(&self.text.concat(), n);
        self
    }

    /// Splits each call's arguments into `n` fragments.
    pub fn fragments(mut self, n: usize) -> Self {
        self.calls = self.calls.into_iter().map(|call| call.split(n)).collect();
        self
    }

    /// The usage to report.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Reports no usage.
    pub fn without_usage(mut self) -> Self {
        self.usage = None;
        self
    }

    /// Why the model stopped.
    pub fn finish(mut self, finish: Finish) -> Self {
        self.finish = Some(finish);
        self
    }

    /// A pause before each chunk.
    pub fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// The whole text, as a client should have put it together.
    pub fn full_text(&self) -> String {
        self.text.concat()
    }

    pub(crate) fn finish_or_default(&self) -> Finish {
        self.finish.unwrap_or(if self.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls })
    }
}

impl ToolCall {
    /// A call whose arguments come in one fragment, exactly as given.
    pub fn new(name: impl Into<String>, arguments: &str) -> Self {
        Self { id: None, name: name.into(), fragments: vec![arguments.to_owned()] }
    }

    /// The id to use.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The arguments in `n` fragments.
    pub fn split(mut self, n: usize) -> Self {
        self.fragments = split(&self.arguments(), n);
        self
    }

    /// The whole arguments.
    pub fn arguments(&self) -> String {
        self.fragments.concat()
    }
}

/// Splits into at most `n` pieces of nearly the same number of characters, none empty.
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
