//! Roughly how many tokens something is, for where no provider has counted them.

use althing_protocol::Message;

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

/// Messages.
pub(crate) fn estimate_messages(messages: &[Message]) -> u64 {
    let message = |message: &Message| {
        FRAME
            + match message {
                Message::User(text) => estimate(text),
                Message::Assistant { text, tool_calls } => {
                    let calls =
                        tool_calls.iter().map(|call| estimate(&call.name) + estimate(&call.arguments));
                    estimate(text) + calls.sum::<u64>()
                }
                Message::Tool { content, .. } => estimate(content),
            }
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
