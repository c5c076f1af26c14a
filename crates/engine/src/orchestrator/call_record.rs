//! What a session records about its model calls: the digest of each request, and the times of each call.

use super::EventMasker;
use althing_protocol::{
    Briefing, CallRecord, Clock, Delta, Event, Fact, Item, Message, ModelRequest, Seq, Timestamp,
};
use althing_text::hex;
use sha2::{Digest, Sha256};
use std::sync::Arc;

pub(super) struct CallTimes {
    clock: Arc<dyn Clock>,
    began: Timestamp,
    /// When the model sent the first piece of the reply.
    first: Option<Timestamp>,
}

impl CallTimes {
    pub(super) fn begin(clock: Arc<dyn Clock>) -> Self {
        let began = clock.now();
        Self { clock, began, first: None }
    }

    /// Notes the time of the first piece. After a retry, what came before it does not count.
    pub(super) fn hear(&mut self, delta: &Delta<'_>) {
        match delta {
            Delta::Retry { .. } | Delta::RateLimited { .. } => self.first = None,
            Delta::Waiting { .. } => {}
            Delta::Text(_) | Delta::Reasoning(_) | Delta::ToolCall(_) | Delta::Arguments(_) => {
                if self.first.is_none() {
                    self.first = Some(self.clock.now());
                }
            }
        }
    }

    pub(super) fn end(&self, digest: String) -> CallRecord {
        CallRecord {
            digest,
            first_token: self.first.map(|first| first.since(self.began)),
            duration: self.clock.now().since(self.began),
        }
    }
}

/// The digest of a request. Secrets of the briefing are masked first, because they are masked in the log, too.
pub(super) fn sent_digest(
    plain: &ModelRequest,
    briefing: Option<&Briefing>,
    mask: &dyn EventMasker,
) -> String {
    let Some(briefing) = briefing else { return request_digest(plain) };
    let mut request = plain.clone();
    masked(briefing, mask).add_to(&mut request);
    request_digest(&request)
}

/// The briefing as the log will contain it.
pub(super) fn masked(briefing: &Briefing, mask: &dyn EventMasker) -> Briefing {
    let fact = Fact::ItemAdded { attempt: 0, item: Item::Briefed(briefing.clone()) };
    let event = Event { seq: Seq(0), at: Timestamp(0), task: None, cause: None, fact };
    match mask.event(event).fact {
        Fact::ItemAdded { item: Item::Briefed(masked), .. } => masked,
        _ => Briefing::default(),
    }
}

/// Each part begins with its kind and its length, so different requests never give the same bytes.
pub(crate) fn request_digest(request: &ModelRequest) -> String {
    let mut hash = Sha256::new();
    let mut add = |kind: u8, text: &str| {
        hash.update([kind]);
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    add(b's', &request.system);
    for message in &request.messages {
        match message {
            Message::User(text) => add(b'u', text),
            Message::Assistant { text, tool_calls } => {
                add(b'a', text);
                for call in tool_calls {
                    add(b'c', &call.id);
                    add(b'n', &call.name);
                    add(b'g', &call.arguments);
                }
            }
            Message::Tool { call, content, is_error } => {
                add(if *is_error { b'e' } else { b'r' }, call);
                add(b't', content);
            }
        }
    }
    for tool in &request.tools {
        add(b'N', &tool.name);
        add(b'D', &tool.description);
        add(b'P', &tool.parameters.to_string());
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::{Millis, ToolSpec};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    struct TestClock(AtomicU64);

    impl Clock for TestClock {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn the_first_token_is_the_first_piece_after_the_last_retry() {
        let clock = Arc::new(TestClock(AtomicU64::new(1000)));
        let at = |ms| clock.0.store(ms, Ordering::Relaxed);
        let mut times = CallTimes::begin(clock.clone());
        assert_eq!(times.end(String::new()).first_token, None);
        at(1200);
        times.hear(&Delta::Text("a"));
        at(1300);
        times.hear(&Delta::Retry { attempt: 1, after: Duration::ZERO, reason: "500" });
        at(1700);
        times.hear(&Delta::ToolCall("vote"));
        at(1900);
        times.hear(&Delta::Text("b"));
        let record = times.end("d".into());
        assert_eq!(
            record,
            CallRecord { digest: "d".into(), first_token: Some(Millis(700)), duration: Millis(900) }
        );
    }

    #[test]
    fn requests_that_differ_anywhere_have_different_digests() {
        let request = |system: &str, messages: Vec<Message>, tools: Vec<ToolSpec>| ModelRequest {
            system: system.into(),
            messages,
            tools,
            call_context: None,
        };
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: serde_json::json!({}),
        };
        let user = |text: &str| Message::User(text.into());
        let result = |is_error| Message::Tool { call: "1".into(), content: "x".into(), is_error };
        let all = [
            request("a", Vec::new(), Vec::new()),
            request("", vec![user("a")], Vec::new()),
            request("", vec![user("a"), user("b")], Vec::new()),
            request("", vec![user("ab")], Vec::new()),
            request("", vec![result(true)], Vec::new()),
            request("", vec![result(false)], Vec::new()),
            request("", Vec::new(), vec![tool("a")]),
        ];
        let digests: std::collections::BTreeSet<String> = all.iter().map(request_digest).collect();
        assert_eq!(digests.len(), all.len());
        assert!(digests.iter().all(|digest| digest.len() == 64), "{digests:?}");
    }
}
