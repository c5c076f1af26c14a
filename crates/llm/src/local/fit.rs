//! Trims a prompt to the context window of a local model: the oldest messages are left out first, then long texts are
//! shortened in the middle, with a marker in each place. The system prompt, the first message (the task) and the last
//! one are never left out.

use althing_protocol::{Message, ModelRequest};

/// Fewer bytes per token than usual, so that code and other languages fit too.
const BYTES_PER_TOKEN: u64 = 3;
/// What a model's template adds to each message, in tokens.
const PER_MESSAGE: u64 = 8;
const LEAST_BYTES: usize = 400;

pub(super) fn estimate(request: &ModelRequest) -> u64 {
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len() + 40)
        .sum();
    let messages: u64 =
        request.messages.iter().map(|message| bytes(message) as u64 / BYTES_PER_TOKEN + PER_MESSAGE).sum();
    (request.system.len() + tools) as u64 / BYTES_PER_TOKEN + PER_MESSAGE + messages
}

fn bytes(message: &Message) -> usize {
    match message {
        Message::User(text) | Message::Tool { content: text, .. } => text.len(),
        Message::Assistant { text, tool_calls } => {
            text.len()
                + tool_calls.iter().map(|call| call.name.len() + call.arguments.len() + 40).sum::<usize>()
        }
    }
}

pub(super) fn fit(request: &mut ModelRequest, limit: u64) {
    if estimate(request) <= limit {
        return;
    }
    leave_out_oldest(request, limit);
    for _ in 0..request.messages.len() {
        let over = estimate(request).saturating_sub(limit);
        if over == 0 || !shorten_longest(request, over) {
            return;
        }
    }
}

fn leave_out_oldest(request: &mut ModelRequest, limit: u64) {
    let count = request.messages.len();
    let last_turn =
        request.messages.iter().rposition(|message| !matches!(message, Message::Tool { .. })).unwrap_or(0);
    let mut out = 0;
    let mut left = estimate(request);
    for message in request.messages.get(1..last_turn).unwrap_or_default() {
        if left <= limit {
            break;
        }
        left = left.saturating_sub(bytes(message) as u64 / BYTES_PER_TOKEN + PER_MESSAGE);
        out += 1;
    }
    while matches!(request.messages.get(1 + out), Some(Message::Tool { .. })) && 1 + out < count {
        out += 1;
    }
    if out > 0 {
        let what = althing_text::count(out as u64, "earlier message");
        let marker = format!("[{what} left out here, because the model's context is too small.]");
        request.messages.splice(1..=out, [Message::User(marker)]);
    }
}

fn shorten_longest(request: &mut ModelRequest, over: u64) -> bool {
    let texts = request.messages.iter_mut().filter_map(|message| match message {
        Message::User(text) | Message::Tool { content: text, .. } => Some(text),
        Message::Assistant { text, tool_calls } if tool_calls.is_empty() => Some(text),
        Message::Assistant { .. } => None,
    });
    let Some(text) = texts.max_by_key(|text| text.len()).filter(|text| text.len() > LEAST_BYTES) else {
        return false;
    };
    let cut = usize::try_from(over.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX).saturating_add(120);
    let keep = text.len().saturating_sub(cut).max(LEAST_BYTES);
    *text = middle_cut(text, keep);
    true
}

fn middle_cut(text: &str, keep: usize) -> String {
    let head = floor(text, keep / 2);
    let tail = floor(text, text.len() - (keep - keep / 2));
    let left_out = tail.saturating_sub(head);
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    format!("{head}\n[{left_out} bytes are left out here: they do not fit into the model's context.]\n{tail}")
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::ToolCall;

    fn request(messages: Vec<Message>) -> ModelRequest {
        ModelRequest { system: "You are an agent.".into(), messages, ..ModelRequest::default() }
    }

    #[test]
    fn a_request_that_fits_is_unchanged() {
        let mut small = request(vec![Message::User("Task".into())]);
        let before = small.clone();
        fit(&mut small, 100);
        assert_eq!(small, before);
    }

    #[test]
    fn the_oldest_messages_are_left_out_first_and_the_task_and_the_last_message_stay() {
        let call = ToolCall { id: "c".into(), name: "read".into(), arguments: "{}".into() };
        let mut messages = vec![Message::User("The task".into())];
        for n in 0..20 {
            messages.push(Message::Assistant { text: String::new(), tool_calls: vec![call.clone()] });
            let content = format!("result {n} {}", "x".repeat(300));
            messages.push(Message::Tool { call: "c".into(), content, is_error: false });
        }
        let mut long = request(messages);
        fit(&mut long, 800);
        assert!(estimate(&long) <= 800, "{}", estimate(&long));
        assert_eq!(long.messages[0], Message::User("The task".into()));
        let marker = matches!(&long.messages[1], Message::User(text) if text.contains("left out here"));
        assert!(marker, "{:?}", long.messages[1]);
        assert!(matches!(long.messages[2], Message::Assistant { .. }), "no result without its call");
        let Some(Message::Tool { content, .. }) = long.messages.last() else { panic!("the last result") };
        assert!(content.starts_with("result 19 "));
    }

    #[test]
    fn a_single_long_message_is_shortened_in_the_middle() {
        let text = format!("begin {} end", "é".repeat(20_000));
        let mut long = request(vec![Message::User(text)]);
        fit(&mut long, 1000);
        assert!(estimate(&long) <= 1000, "{}", estimate(&long));
        let [Message::User(text)] = long.messages.as_slice() else { panic!("one message") };
        assert!(
            text.starts_with("begin é")
                && text.ends_with("é end")
                && text.contains("bytes are left out here")
        );
    }
}
