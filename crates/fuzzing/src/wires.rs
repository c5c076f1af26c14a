//! Responses of model servers: streams of every wire format, complete replies, error responses.
//!
//! The first letter selects the wire format (`c`hat completions, also used by Ollama, `r`esponses, `m`essages,
//! `g`emini), the second decides how the network splits the data.

use crate::cut::{choice, pieces};
use althing_llm::fuzzing::{ParsedReply, refused, streamed, whole};

/// The largest accepted reply: the product's limit.
const MOST_TEXT: usize = 4 * 1024 * 1024;

pub(crate) fn check(bytes: &[u8]) {
    let (wire, rest) = choice(bytes);
    let (how, body) = choice(rest);
    let kind = match wire {
        b'r' => "openai",
        b'm' => "claude",
        b'g' => "gemini",
        _ => "ollama",
    };
    let parsed = streamed(kind, &[body]).expect("a wire");
    bounded(&parsed, body);
    assert_eq!(
        streamed(kind, &pieces(body, how)).as_ref(),
        Some(&parsed),
        "cut another way it means something else"
    );
    bounded(&whole(kind, body).expect("a wire"), body);
    for status in [400, 404, 429, 500] {
        let (_, what) = refused(status, body).expect("a status");
        assert!(!what.is_empty() && what.len() <= body.len() * 4 + 200, "{what}");
    }
}

fn bounded(parsed: &ParsedReply, body: &[u8]) {
    match &parsed.end {
        Ok(reply) => {
            let length = reply.text.len() + reply.reasoning.len();
            assert!(length <= MOST_TEXT.min(body.len() * 4), "{length} bytes of text from {}", body.len());
            assert!(length > 0 || !reply.tool_calls.is_empty(), "an empty reply was accepted");
            let mut ids: Vec<&str> = reply.tool_calls.iter().map(|call| call.id.as_str()).collect();
            assert!(reply.tool_calls.iter().all(|call| !call.name.is_empty() && !call.id.is_empty()));
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), reply.tool_calls.len(), "two calls of one id");
        }
        Err((_, what)) => assert!(!what.is_empty()),
    }
}
