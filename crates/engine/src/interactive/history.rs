//! The history that a run or a continued conversation gets. Exchanges beyond a limit of tokens are replaced by one
//! exchange that sums up the oldest without a model. If the newest exchange alone exceeds the limit, it is shortened.

use super::compaction::{CompactedHistory, text_of};
use super::state::PastTurn;
use super::{InteractiveSession, tokens};
use crate::summary::{excerpt, first_sentence, structural_summary};
use althing_protocol::Exchange;
use althing_text::{fnv1a, text_with_markers};
use std::fmt::Write;

/// The maximum size of a history in tokens, if no chat agent's compaction threshold applies.
pub(super) const MAX_HISTORY: u64 = 100_000;
/// If the chat agent's compaction threshold is lower than this, this is the maximum size of a history, in tokens.
const MIN_HISTORY: u64 = 4_000;

impl InteractiveSession {
    /// The conversation so far, as history for a run.
    pub fn history(&self) -> Vec<Exchange> {
        let threshold =
            self.spec.agent.as_ref().map_or(MAX_HISTORY, |agent| agent.compaction.threshold_tokens);
        let compacted = self.earlier.as_ref().map(|earlier| self.summed_up(earlier));
        let inherited = self.spec.history.iter();
        let fixed: u64 = inherited.clone().chain(&compacted).map(token_count).sum();
        let room = threshold.max(MIN_HISTORY).saturating_sub(fixed);
        let exchanges: Vec<Exchange> = self.past.iter().map(exchange).collect();
        let (newest, most) = newest_that_fit(exchanges, room, &self.log_reference());
        let omitted = self.past.get(..self.past.len() - newest.len()).unwrap_or_default();
        let omitted = (!omitted.is_empty()).then(|| self.extract(omitted, most));
        inherited.cloned().chain(compacted).chain(omitted).chain(newest).collect()
    }

    /// Sums up the omitted exchanges in a single one of about `most` bytes. It contains the first message and the pinned
    /// messages (each shortened), and, with the oldest left out if not all fit, decisions, paths, runs, and the first
    /// sentence of each message and answer.
    fn extract(&self, omitted: &[PastTurn], most: usize) -> Exchange {
        let whole = self.log_reference();
        let bytes: usize = omitted.iter().map(|past| past.message.text.len() + past.answer().len()).sum();
        let user = omission(omitted.len(), bytes, &whole);
        let goal = self.goal.iter().map(|goal| goal.seq);
        let preserved: Vec<_> = goal.chain(self.pins.iter().copied()).collect();
        let texts: Vec<_> = omitted.iter().map(|past| (past.message.text.as_str(), past.answer())).collect();
        let assistant = text_with_markers(self.history_seed(), |markers| {
            let mut assistant = String::new();
            for past in omitted {
                for seq in preserved.iter().filter(|seq| !self.preserves(**seq)) {
                    if let Some((by_user, text)) = text_of(past, *seq) {
                        let text = excerpt(text, most / 4, &whole);
                        markers.enclose(&mut assistant, word_for_word(by_user), &text);
                    }
                }
            }
            for marker in self.markers_of(omitted, &[], Vec::new(), most / 4) {
                let _ = writeln!(assistant, "- {marker}");
            }
            assistant.push_str(&first_sentences(&texts, most / 2));
            assistant
        });
        Exchange { user, assistant }
    }

    fn summed_up(&self, earlier: &CompactedHistory) -> Exchange {
        // The first message may still be in `past`, if a compaction replaced only steps of its turn.
        let goal = self.goal.as_ref();
        let is_there = goal.is_some_and(|goal| self.past.iter().any(|past| past.message.seq == goal.seq));
        let user = match goal {
            Some(goal) if !is_there => goal.text.clone(),
            _ => "[the beginning of the conversation]".to_owned(),
        };
        let known_goal = |seq| goal.is_some_and(|goal| goal.seq == seq);
        let assistant = text_with_markers(self.history_seed(), |markers| {
            let mut assistant =
                format!("[the older part of the conversation, summarized; {}]\n", self.log_reference());
            markers.enclose(&mut assistant, "summary", &earlier.summary);
            for message in earlier.preserved.iter().filter(|message| !known_goal(message.seq)) {
                markers.enclose(&mut assistant, word_for_word(message.by_user), &message.text);
            }
            for marker in &earlier.markers {
                let _ = writeln!(assistant, "- {marker}");
            }
            assistant.truncate(assistant.trim_end().len());
            assistant
        });
        Exchange { user, assistant }
    }

    fn history_seed(&self) -> u64 {
        fnv1a(self.session.as_str())
    }
}

fn word_for_word(by_user: bool) -> &'static str {
    if by_user { "message of the user, word for word" } else { "answer, word for word" }
}

fn exchange(past: &PastTurn) -> Exchange {
    Exchange { user: past.message.text.clone(), assistant: past.answer().to_owned() }
}

fn token_count(exchange: &Exchange) -> u64 {
    tokens::estimate_message(&exchange.user) + tokens::estimate_message(&exchange.assistant)
}

/// Returns the newest exchanges that fit into `room` tokens, oldest first, and the size in bytes for an exchange that
/// sums up the others. If the newest alone does not fit, it is shortened; `whole` says where its text is.
fn newest_that_fit(exchanges: Vec<Exchange>, room: u64, whole: &str) -> (Vec<Exchange>, usize) {
    let fits = exchanges.iter().map(token_count).sum::<u64>() <= room;
    // An eighth of the room is reserved for the exchange that sums up those that do not fit.
    let share = room / 8;
    let mut left = if fits { room } else { room - share };
    let mut newest: Vec<Exchange> = Vec::new();
    for mut exchange in exchanges.into_iter().rev() {
        if token_count(&exchange) > left {
            if !newest.is_empty() {
                break;
            }
            // Only the newest exchange is shortened. At four bytes per token, its message and its answer get half of
            // the room each.
            let most = usize::try_from(left).unwrap_or(usize::MAX).saturating_mul(2);
            exchange.user = excerpt(&exchange.user, most, whole);
            exchange.assistant = structural_summary(&exchange.assistant, most, whole);
        }
        left = left.saturating_sub(token_count(&exchange));
        newest.push(exchange);
    }
    newest.reverse();
    (newest, usize::try_from(share).unwrap_or(usize::MAX).saturating_mul(4))
}

/// The first sentence of each message and answer, in about `most` bytes at most; if not all fit, the oldest are
/// dropped.
fn first_sentences(texts: &[(&str, &str)], most: usize) -> String {
    let mut left = most;
    let mut lines: Vec<String> = Vec::new();
    for (user, answer) in texts.iter().rev() {
        let line = format!("The user: {}\nThe answer: {}", first_sentence(user), first_sentence(answer));
        let Some(rest) = left.checked_sub(line.len()) else { break };
        left = rest;
        lines.push(line);
    }
    if lines.len() < texts.len() {
        lines.push(format!("[{} of these messages are not listed]", texts.len() - lines.len()));
    }
    lines.push("The first sentence of each message and answer:".to_owned());
    lines.reverse();
    lines.join("\n")
}

fn omission(messages: usize, bytes: usize, whole: &str) -> String {
    let what = match messages {
        1 => "one older message and its answer".to_owned(),
        messages => format!("{messages} older messages and their answers"),
    };
    format!("[{what} ({bytes} bytes) are summarized here; {whole}]")
}

/// If not all exchanges fit into `room` tokens, the oldest are replaced by one that sums them up.
pub(super) fn bounded(exchanges: Vec<Exchange>, room: u64, whole: &str) -> Vec<Exchange> {
    let all = exchanges.clone();
    let (newest, most) = newest_that_fit(exchanges, room, whole);
    let omitted = all.get(..all.len() - newest.len()).unwrap_or_default();
    let summary = (!omitted.is_empty()).then(|| {
        let texts: Vec<_> = omitted.iter().map(|one| (one.user.as_str(), one.assistant.as_str())).collect();
        let bytes = texts.iter().map(|(user, answer)| user.len() + answer.len()).sum();
        Exchange { user: omission(omitted.len(), bytes, whole), assistant: first_sentences(&texts, most / 2) }
    });
    summary.into_iter().chain(newest).collect()
}
