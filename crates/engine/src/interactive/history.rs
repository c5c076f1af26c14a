//! The conversation as history for a run that a message starts directly.
//!
//! The history is the whole conversation, up to a limit; the part that a compaction replaced is one exchange with the
//! summary. Beyond the limit, the oldest other exchanges are replaced by one exchange that sums them up without a
//! model: the first sentence of each message and answer, and decisions, paths and runs. If the newest exchange alone
//! exceeds the limit, it is shortened.

use super::compaction::{CompactedHistory, text_of};
use super::state::PastTurn;
use super::{InteractiveSession, tokens};
use crate::summary::{excerpt, first_sentence, structural_summary};
use althing_protocol::Exchange;
use std::fmt::Write;

/// The limit on the history that a run gets, in tokens, if the session has no chat agent; otherwise the limit is the
/// chat agent's compaction threshold. The contexts of current models are larger.
const MAX_HISTORY: u64 = 100_000;
/// The limit on the history that a run gets, in tokens, if the chat agent's compaction threshold is lower than this.
const MIN_HISTORY: u64 = 4_000;

impl InteractiveSession {
    /// The conversation so far, as history for a run.
    pub(super) fn history(&self) -> Vec<Exchange> {
        let threshold =
            self.spec.agent.as_ref().map_or(MAX_HISTORY, |agent| agent.compaction.threshold_tokens);
        let compacted = self.earlier.as_ref().map(|earlier| self.summed_up(earlier));
        let room = threshold.max(MIN_HISTORY).saturating_sub(compacted.as_ref().map_or(0, token_count));
        let exchanges: Vec<Exchange> = self.past.iter().map(exchange).collect();
        let fits = exchanges.iter().map(token_count).sum::<u64>() <= room;
        // If not all exchanges fit, an eighth of the room is reserved for one exchange that sums up those that do not.
        let share = room / 8;
        let mut left = if fits { room } else { room - share };
        let mut newest: Vec<Exchange> = Vec::new();
        for mut exchange in exchanges.into_iter().rev() {
            if token_count(&exchange) > left {
                if !newest.is_empty() {
                    break;
                }
                // Only the newest exchange is shortened. At four bytes per token, its message and its answer get half
                // of the room each.
                let most = usize::try_from(left).unwrap_or(usize::MAX).saturating_mul(2);
                exchange.user = excerpt(&exchange.user, most, &self.log_reference());
                exchange.assistant = structural_summary(&exchange.assistant, most, &self.log_reference());
            }
            left = left.saturating_sub(token_count(&exchange));
            newest.push(exchange);
        }
        let omitted = self.past.get(..self.past.len() - newest.len()).unwrap_or_default();
        let most = usize::try_from(share).unwrap_or(usize::MAX).saturating_mul(4);
        let omitted = (!omitted.is_empty()).then(|| self.extract(omitted, most));
        compacted.into_iter().chain(omitted).chain(newest.into_iter().rev()).collect()
    }

    /// One exchange of about `most` bytes that replaces the omitted exchanges. It says how many they are, and contains
    /// from them: the conversation's first message and pinned messages, in full or as excerpts; decisions, paths and
    /// runs; the first sentence of each message and of each answer. If not all sentences fit, the oldest are dropped.
    fn extract(&self, omitted: &[PastTurn], most: usize) -> Exchange {
        let whole = self.log_reference();
        let bytes: usize = omitted.iter().map(|past| past.message.text.len() + past.answer().len()).sum();
        let what = match omitted.len() {
            1 => "one older message and its answer".to_owned(),
            messages => format!("{messages} older messages and their answers"),
        };
        let user = format!("[{what}, {bytes} bytes, are summed up here; {whole}]");
        let mut assistant = String::new();
        let goal = self.goal.iter().map(|goal| goal.seq);
        let preserved: Vec<_> = goal.chain(self.pins.iter().copied()).collect();
        for past in omitted {
            for seq in preserved.iter().filter(|seq| !self.preserves(**seq)) {
                if let Some((by_user, text)) = text_of(past, *seq) {
                    let who = if by_user { "The user said" } else { "The answer was" };
                    let _ = writeln!(assistant, "{who}, word for word: {}", excerpt(text, most / 4, &whole));
                }
            }
        }
        for marker in self.markers_of(omitted, &[], Vec::new(), most / 4) {
            let _ = writeln!(assistant, "- {marker}");
        }
        let mut left = most / 2;
        let mut lines: Vec<String> = Vec::new();
        for past in omitted.iter().rev() {
            let said = (first_sentence(&past.message.text), first_sentence(past.answer()));
            let line = format!("The user: {}\nThe answer: {}", said.0, said.1);
            let Some(rest) = left.checked_sub(line.len()) else { break };
            left = rest;
            lines.push(line);
        }
        if lines.len() < omitted.len() {
            lines.push(format!("[{} of these messages are not listed]", omitted.len() - lines.len()));
        }
        lines.push("The first sentence of each message and answer:".to_owned());
        lines.reverse();
        assistant.push_str(&lines.join("\n"));
        Exchange { user, assistant }
    }

    /// The compacted part of the conversation, as one exchange.
    fn summed_up(&self, earlier: &CompactedHistory) -> Exchange {
        // The first message may still be in `past`, if a compaction replaced only steps of its turn.
        let goal = self.goal.as_ref();
        let is_there = goal.is_some_and(|goal| self.past.iter().any(|past| past.message.seq == goal.seq));
        let user = match goal {
            Some(goal) if !is_there => goal.text.clone(),
            _ => "[the beginning of the conversation]".to_owned(),
        };
        let mut assistant = format!(
            "[the older part of the conversation, summed up; {}]\n{}",
            self.log_reference(),
            earlier.summary
        );
        for message in
            earlier.preserved.iter().filter(|message| goal.is_none_or(|goal| goal.seq != message.seq))
        {
            let who = if message.by_user { "The user said" } else { "The answer was" };
            let _ = write!(assistant, "\n{who}, word for word: {}", message.text);
        }
        for marker in &earlier.markers {
            let _ = write!(assistant, "\n- {marker}");
        }
        Exchange { user, assistant }
    }
}

fn exchange(past: &PastTurn) -> Exchange {
    Exchange { user: past.message.text.clone(), assistant: past.answer().to_owned() }
}

/// The size of an exchange in tokens.
fn token_count(exchange: &Exchange) -> u64 {
    tokens::estimate_message(&exchange.user) + tokens::estimate_message(&exchange.assistant)
}
