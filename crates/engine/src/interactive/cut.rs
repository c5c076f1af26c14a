//! When a conversation is compacted, so that its prompts do not outgrow the model's context window, and which part a
//! summary replaces. The newest `preserve_recent` exchanges stay, or fewer if they are too long. If that is not enough,
//! older steps of the current exchange are replaced, too: a reply together with its results, and never the newest
//! reply.

use super::state::{ChatStep, ChatTurn, CompactionStep};
use super::{InteractiveSession, tokens};
use althing_protocol::Message;

/// The part of a conversation that a compaction replaces, counted from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) turns: usize,
    /// The number of entries of the current turn's `steps`.
    pub(super) steps: usize,
}

impl InteractiveSession {
    pub(super) fn threshold(&self) -> u64 {
        self.spec.agent.as_ref().map_or(u64::MAX, |agent| agent.compaction.threshold_tokens)
    }

    pub(super) fn must_compact(&self, turn: &ChatTurn) -> bool {
        let enabled = self.spec.agent.as_ref().is_some_and(|agent| agent.compaction.enabled);
        let (tokens, threshold) = (self.token_count(), self.threshold());
        let too_long = enabled && tokens > threshold;
        let due = match turn.compaction {
            CompactionStep::NotChecked => too_long,
            CompactionStep::Requested => true,
            CompactionStep::Summarized(_) => false,
            CompactionStep::Finished { retry_at } => {
                too_long && retry_at.is_none_or(|retry_at| tokens >= retry_at)
            }
        };
        let cut = || self.cut();
        due && turn.open_calls().is_empty() && cut() != Cut { turns: 0, steps: 0 }
    }

    /// The size in tokens at which a failed compaction is tried again: a quarter of the threshold above the present
    /// size.
    pub(super) fn retry_size(&self) -> u64 {
        self.token_count().saturating_add((self.threshold() / 4).max(1))
    }

    pub(super) fn cut(&self) -> Cut {
        let past = self.past.len();
        let recent = self.spec.agent.as_ref().map_or(past, |agent| agent.compaction.preserve_recent as usize);
        let mut preserved = recent.min(past);
        let (counted, threshold) = (self.token_count(), self.threshold());
        if counted <= threshold {
            return Cut { turns: past - preserved, steps: 0 };
        }
        // If the provider counted more tokens than were estimated, sizes are scaled up accordingly.
        let estimated = (self.base_prompt.tokens + self.estimated_tokens).max(1);
        let size = |messages: &[Message]| {
            let tokens = tokens::estimate_messages(messages);
            tokens.max(tokens.saturating_mul(counted) / estimated)
        };
        let turns: Vec<u64> = self.past.iter().map(|past| size(&self.past_messages(past))).collect();
        let groups = self.turn.as_ref().map(step_groups).unwrap_or_default();
        let groups: Vec<(usize, u64)> = groups
            .into_iter()
            .map(|steps| (steps.len(), size(&super::request::step_messages(steps))))
            .collect();
        let message = self.turn.as_ref().and_then(|turn| turn.message.as_ref());
        let message = message.map_or(0, |message| size(&[Message::User(message.text.clone())]));
        let mut unchanged = super::request::inherited_messages(&self.spec);
        unchanged.extend(self.earlier.iter().map(|earlier| self.summary_message(earlier)));
        let fixed = self.base_prompt.tokens + size(&unchanged);
        let most = threshold.saturating_sub(fixed).max(threshold / 2);
        let mut left: u64 = turns.iter().rev().take(preserved).sum::<u64>();
        left += message + groups.iter().map(|(_, tokens)| tokens).sum::<u64>();
        let mut steps = 0;
        if left > most {
            // Parts are replaced until at most half of the room is used, so that the next compaction is not due at
            // once.
            for tokens in turns.iter().skip(past - preserved) {
                if left > most / 2 {
                    left -= tokens;
                    preserved -= 1;
                }
            }
            let older_groups = groups.split_last().map(|(_, older)| older).unwrap_or_default();
            for (entries, tokens) in older_groups {
                if left > most / 2 {
                    left -= tokens;
                    steps += entries;
                }
            }
        }
        Cut { turns: past - preserved, steps }
    }
}

/// The steps of a turn in groups: each is a reply and everything up to the next reply. Empty while a tool call has no
/// result, because then nothing may be replaced.
fn step_groups(turn: &ChatTurn) -> Vec<&[ChatStep]> {
    if !turn.open_calls().is_empty() {
        return Vec::new();
    }
    turn.steps.chunk_by(|_, next| !next.is_reply()).collect()
}
