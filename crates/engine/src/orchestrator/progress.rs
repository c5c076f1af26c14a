//! Publishes a streaming reply with its secrets masked, even if a secret is split across deltas.

use super::EventMasker;
use super::answer_reader::AnswerReader;
use super::feed::Feed;
use althing_protocol::{Delta, DeltaKind, Progress, TaskId};
use std::sync::Arc;

pub(super) struct ProgressStream {
    feed: Feed,
    work: TaskId,
    mask: Arc<dyn EventMasker>,
    /// The end of the text so far, held back because it may be the beginning of a secret; likewise `reasoning` and
    /// `answer`.
    text: String,
    reasoning: String,
    answer: String,
    /// Reads the answer out of the arguments; Some while the tool `new_answer` is being called.
    reader: Option<AnswerReader>,
}

impl ProgressStream {
    pub(super) fn new(feed: Feed, work: TaskId, mask: Arc<dyn EventMasker>) -> Self {
        Self {
            feed,
            work,
            mask,
            text: String::new(),
            reasoning: String::new(),
            answer: String::new(),
            reader: None,
        }
    }

    pub(super) fn push(&mut self, delta: Delta<'_>) {
        // Retries and waits are rare and always published.
        let is_rare =
            matches!(delta, Delta::Retry { .. } | Delta::RateLimited { .. } | Delta::Waiting { .. });
        if !self.feed.is_watched() && !is_rare {
            return;
        }
        match delta {
            Delta::Text(text) => {
                let safe = mask_chunk(&*self.mask, &mut self.text, text);
                self.publish(DeltaKind::Text, safe);
            }
            Delta::Reasoning(text) => {
                let safe = mask_chunk(&*self.mask, &mut self.reasoning, text);
                self.publish(DeltaKind::Reasoning, safe);
            }
            Delta::ToolCall(name) => {
                self.reader = (name == "new_answer").then(AnswerReader::default);
                self.answer.clear();
                self.publish(DeltaKind::ToolCall, self.mask.text(name));
            }
            Delta::Arguments(json) => {
                if let Some(reader) = &mut self.reader {
                    let more = reader.read(json);
                    let safe = mask_chunk(&*self.mask, &mut self.answer, &more);
                    self.publish(DeltaKind::Answer, safe);
                }
            }
            Delta::Retry { attempt, after, reason } => {
                self.clear();
                let text = format!("retry {attempt} in {:.1} s: {reason}", after.as_secs_f64());
                self.publish(DeltaKind::Retry, self.mask.text(&text));
            }
            Delta::RateLimited { after, reason } => {
                self.clear();
                let text = format!("rate limited, {:.0} s: {reason}", after.as_secs_f64().ceil());
                self.publish(DeltaKind::Retry, self.mask.text(&text));
            }
            Delta::Waiting { reason } => self.publish(DeltaKind::Waiting, self.mask.text(reason)),
        }
    }

    fn clear(&mut self) {
        self.text.clear();
        self.reasoning.clear();
        self.answer.clear();
        self.reader = None;
    }

    /// Publishes the text that was held back, because it did not become a secret.
    pub(super) fn finish(&mut self) {
        let (text, reasoning) = (std::mem::take(&mut self.text), std::mem::take(&mut self.reasoning));
        self.publish(DeltaKind::Text, text);
        self.publish(DeltaKind::Reasoning, reasoning);
        let answer = std::mem::take(&mut self.answer);
        self.publish(DeltaKind::Answer, answer);
    }

    fn publish(&self, kind: DeltaKind, text: String) {
        if !text.is_empty() {
            self.feed.publish_progress(|after| Progress::Delta {
                after,
                task: self.work.clone(),
                kind,
                text,
            });
        }
    }
}

/// Appends a chunk to the text that is held back, and returns the masked part that is safe to publish.
pub(super) fn mask_chunk(mask: &dyn EventMasker, held_back: &mut String, more: &str) -> String {
    held_back.push_str(more);
    let mut masked = mask.text(held_back);
    let safe = masked.len() - mask.unfinished(&masked).min(masked.len());
    // A secret begins at a character boundary. If `safe` is not one, nothing is held back.
    *held_back = if masked.is_char_boundary(safe) { masked.split_off(safe) } else { String::new() };
    masked
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::{BoxFuture, Event, FeedItem, Interest, JournalError, JournalReader, Op, Seq};

    struct OneSecret(&'static str);

    impl EventMasker for OneSecret {
        fn event(&self, event: Event) -> Event {
            event
        }

        fn secret_place(&self, _: &Op) -> Option<String> {
            None
        }

        fn text(&self, text: &str) -> String {
            text.replace(self.0, "[secret]")
        }

        fn unfinished(&self, text: &str) -> usize {
            (1..self.0.len()).rev().find(|len| text.ends_with(&self.0[..*len])).unwrap_or(0)
        }
    }

    struct NoLog;

    impl JournalReader for NoLog {
        fn read(&self, _: Seq, _: Seq) -> BoxFuture<'_, Result<Vec<Arc<Event>>, JournalError>> {
            Box::pin(std::future::ready(Ok(Vec::new())))
        }
    }

    #[tokio::test]
    async fn a_call_that_waits_for_a_rate_limit_says_why() {
        let feed = Feed::new(Arc::new(NoLog), Seq(0));
        let mut items = feed.subscribe(Seq(0), Interest::Everything);
        let mut stream = ProgressStream::new(feed, TaskId::chat(), Arc::new(OneSecret("sk-12345")));
        let reason = "429: too many tokens a minute for sk-12345";
        stream.push(Delta::RateLimited { after: std::time::Duration::from_millis(41_200), reason });
        let Some(Ok(FeedItem::Progress(progress))) = items.next().await else { panic!("progress") };
        let Progress::Delta { text, .. } = &*progress else { panic!("{progress:?}") };
        assert_eq!(text, "rate limited, 42 s: 429: too many tokens a minute for [secret]");
    }

    #[test]
    fn a_secret_that_is_split_across_chunks_is_masked_and_nothing_else_is_lost() {
        for size in 1..8 {
            let (mut held_back, mut shown) = (String::new(), String::new());
            let stream = "a sk-1 and sk-12345 and sk-12";
            let pieces: Vec<char> = stream.chars().collect();
            for piece in pieces.chunks(size) {
                shown +=
                    &mask_chunk(&OneSecret("sk-12345"), &mut held_back, &piece.iter().collect::<String>());
            }
            assert_eq!(shown + &held_back, "a sk-1 and [secret] and sk-12", "pieces of {size}");
        }
    }
}
