//! Roughly how many tokens something is, for where no provider has counted them.

use althing_protocol::{Message, ToolCall};

/// About four characters to a token; scripts without an alphabet come to about one token a character.
pub(crate) fn estimate(text: &str) -> u64 {
    if text.is_ascii() {
        return (text.len() as u64).div_ceil(4);
    }
    let quarters: u64 = text.chars().map(|c| if (c as u32) < 0x2E80 { 1 } else { 4 }).sum();
    quarters.div_ceil(4)
}

/// What a message costs besides its text.
const FRAME: u64 = 4;

/// A message that is only text.
pub(crate) fn estimate_message(text: &str) -> u64 {
    FRAME + estimate(text)
}

/// A reply, with the calls in it.
pub(crate) fn estimate_reply(text: &str, calls: &[ToolCall]) -> u64 {
    let calls = calls.iter().map(|call| estimate(&call.name) + estimate(&call.arguments));
    FRAME + estimate(text) + calls.sum::<u64>()
}

/// Messages.
pub(crate) fn estimate_messages(messages: &[Message]) -> u64 {
    let message = |message: &Message| match message {
        Message::User(text) | Message::Tool { content: text, .. } => estimate_message(text),
        Message::Assistant { text, tool_calls } => estimate_reply(text, tool_calls),
    };
    messages.iter().map(message).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_letters_or_one_ideograph_are_a_token() {
        assert_eq!([estimate(""), estimate("abc"), estimate("abcdefgh"), estimate("你好")], [0, 1, 2, 2]);
    }
}
