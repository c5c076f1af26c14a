//! Token estimates, for conversations that no provider has counted.

use althing_protocol::{Message, ToolCall};
use althing_text::estimate_tokens;

const MESSAGE_OVERHEAD: u64 = 4;

pub(crate) fn estimate_message(text: &str) -> u64 {
    MESSAGE_OVERHEAD + estimate_tokens(text)
}

pub(crate) fn estimate_reply(text: &str, calls: &[ToolCall]) -> u64 {
    let calls = calls.iter().map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments));
    MESSAGE_OVERHEAD + estimate_tokens(text) + calls.sum::<u64>()
}

pub(crate) fn estimate_messages(messages: &[Message]) -> u64 {
    let message = |message: &Message| match message {
        Message::User(text) | Message::Tool { content: text, .. } => estimate_message(text),
        Message::Assistant { text, tool_calls } => estimate_reply(text, tool_calls),
    };
    messages.iter().map(message).sum()
}
