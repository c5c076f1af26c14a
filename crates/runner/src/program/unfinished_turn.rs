//! Stores in which conversation a CLI agent works on a model call, while it does. If Althing ends during the call, the
//! log does not know the conversation, and a repeated prompt would make the agent do its work twice.

use super::cli_prompt;
use super::conversation_id::is_conversation_id;
use althing_disk::files::{Durability, replace};
use althing_disk::{RealDisk, read_regular};
use althing_protocol::{AgentKind, Message, ModelRequest};
use althing_text::fnv1a;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const FILE: &str = "unfinished-turn.json";
const MAX_BYTES: u64 = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    conversation: String,
    /// How many messages the request had.
    messages: usize,
    /// The hash of the prompt that the agent got for these messages.
    prompt: u64,
}

/// A conversation in which the agent was cut off during the same request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CutOff {
    pub(super) conversation: String,
    /// How many messages of the request the conversation contains.
    pub(super) messages: usize,
}

/// The turn of one model call.
#[derive(Debug)]
pub(super) struct UnfinishedTurn {
    dir: PathBuf,
    messages: usize,
    prompt: u64,
    cut_off: Option<CutOff>,
    is_stored: bool,
}

impl UnfinishedTurn {
    /// `dir` is the directory of all attempts of the agent at this work. `native` is the conversation that the log
    /// knows.
    pub(super) fn new(dir: &Path, request: &ModelRequest, native: Option<&str>, kind: &AgentKind) -> Self {
        let prompt = |messages: usize| {
            let messages = request.messages.get(..messages).unwrap_or_default().to_vec();
            fnv1a(&cli_prompt::render(&ModelRequest { messages, ..request.clone() }, native.is_some(), kind))
        };
        let is_same = |stored: &Stored| {
            let news = request.messages.get(stored.messages..);
            let is_own = |message: &Message| matches!(message, Message::Assistant { .. });
            is_conversation_id(&stored.conversation)
                && news.is_some_and(|news| !news.iter().any(is_own))
                && prompt(stored.messages) == stored.prompt
        };
        let stored: Option<Stored> = read_regular(&dir.join(FILE), MAX_BYTES)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .filter(is_same);
        let cut_off = stored.map(|Stored { conversation, messages, .. }| CutOff { conversation, messages });
        let messages = request.messages.len();
        Self { dir: dir.to_owned(), messages, prompt: prompt(messages), cut_off, is_stored: false }
    }

    pub(super) fn cut_off(&self) -> Option<CutOff> {
        self.cut_off.clone()
    }

    /// The model has replied in this conversation, so the conversation contains the prompt. A failure to store this is
    /// ignored; the prompt is then repeated.
    pub(super) fn begun(&mut self, conversation: &str) {
        if !std::mem::replace(&mut self.is_stored, true) {
            let (messages, prompt) = (self.messages, self.prompt);
            let stored = Stored { conversation: conversation.to_owned(), messages, prompt };
            if let Ok(text) = serde_json::to_vec(&stored) {
                let _ = replace(&RealDisk, &self.dir, FILE, &text, Durability::Unsynced);
            }
        }
    }

    /// Whether the model has replied in this turn.
    pub(super) fn has_begun(&self) -> bool {
        self.is_stored
    }

    /// The turn is over, so no later call continues it.
    pub(super) fn over(&mut self) {
        self.is_stored = false;
        let _ = std::fs::remove_file(self.dir.join(FILE));
    }
}
