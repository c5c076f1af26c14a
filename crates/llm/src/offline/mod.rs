//! The built-in offline model: not an AI, no network, no clock, no randomness. It plays every role of a run from the
//! request alone, so that the whole product can be tried and tested anywhere.

mod compose;
mod decide;
mod prompt_input;
mod task;

use crate::BuildError;
use crate::limits::whole_number;
use althing_protocol::{
    Backend, BackendConfig, BackendError, BackendInfo, BoxFuture, Delta, DeltaSink, Message, ModelRequest,
    Reply, ToolCall, Usage,
};
use althing_text::estimate_tokens;
use decide::Action;
use std::time::Duration;

pub(crate) const KIND: &str = "offline";
/// The first line of every answer, summary and chat reply.
pub(crate) const LABEL: &str = "[offline model: not an AI]";
/// The approximate size of a chunk, in bytes.
const CHUNK: usize = 24;

pub(crate) struct OfflineBackend {
    info: BackendInfo,
    /// The pause between chunks, for demonstrations. Key: `chunk_delay_ms`.
    delay: Duration,
}

impl OfflineBackend {
    pub(crate) fn new(config: &BackendConfig) -> Result<Self, BuildError> {
        let delay = whole_number(&config.params, "chunk_delay_ms")?.unwrap_or(0);
        let model = config.model.clone().filter(|model| !model.trim().is_empty());
        let model = model.unwrap_or_else(|| KIND.to_owned());
        let info = BackendInfo { kind: KIND.to_owned(), model, offline: true };
        Ok(Self { info, delay: Duration::from_millis(delay) })
    }

    async fn run(&self, request: &ModelRequest, on_delta: DeltaSink<'_>) -> Reply {
        let (text, tool) = match decide::decide(&self.info.model, request) {
            Action::Say(text) => (text, None),
            Action::Call { remark, tool, arguments } => (remark, Some((tool, arguments.to_string()))),
        };
        for chunk in chunks(&text) {
            on_delta(Delta::Text(chunk));
            self.pause().await;
        }
        let mut tool_calls = Vec::new();
        if let Some((name, arguments)) = tool {
            on_delta(Delta::ToolCall(&name));
            for chunk in chunks(&arguments) {
                on_delta(Delta::Arguments(chunk));
                self.pause().await;
            }
            let id = format!("offline_{}", request.messages.len());
            tool_calls.push(ToolCall { id, name, arguments });
        }
        let written: u64 = tool_calls.iter().map(|call| estimate_tokens(&call.arguments)).sum();
        let usage = Usage {
            input_tokens: input_tokens(request),
            output_tokens: estimate_tokens(&text) + written,
            calls: 1,
            ..Usage::default()
        };
        Reply { text, tool_calls, usage, ..Reply::default() }
    }

    async fn pause(&self) {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }
}

impl Backend for OfflineBackend {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_delta: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Reply, BackendError>> {
        Box::pin(async move { Ok(self.run(request, on_delta).await) })
    }
}

fn chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest
            .char_indices()
            .find(|(at, c)| *at >= CHUNK && c.is_whitespace())
            .map_or(rest.len(), |(at, c)| at + c.len_utf8());
        let (chunk, tail) = rest.split_at(end);
        rest = tail;
        (!chunk.is_empty()).then_some(chunk)
    })
}

fn input_tokens(request: &ModelRequest) -> u64 {
    let messages: u64 = request
        .messages
        .iter()
        .map(|message| match message {
            Message::User(text) => estimate_tokens(text),
            Message::Assistant { text, tool_calls } => {
                let calls: u64 = tool_calls.iter().map(|call| estimate_tokens(&call.arguments)).sum();
                estimate_tokens(text) + calls
            }
            Message::Tool { content, .. } => estimate_tokens(content),
        })
        .sum();
    estimate_tokens(&request.system) + messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_lose_nothing_and_end_between_words() {
        let text = "Größe: a short text that is long enough to come in several pieces.\n";
        let pieces: Vec<&str> = chunks(text).collect();
        assert_eq!(pieces.concat(), text);
        assert!(pieces.len() > 1);
        assert!(pieces.iter().all(|piece| piece.ends_with(char::is_whitespace)), "{pieces:?}");
    }
}
