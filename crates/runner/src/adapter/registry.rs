//! All adapters by name.

use super::{AgentAdapter, Claude, Codex, Command, CustomAdapter, Gemini, Opencode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The adapters that are known: ours, and those that the user described.
#[derive(Clone, Debug)]
pub struct Adapters(BTreeMap<String, Arc<dyn AgentAdapter>>);

impl Default for Adapters {
    fn default() -> Self {
        Self::with(Vec::new())
    }
}

impl Adapters {
    /// Ours and these; one of these with the name of one of ours replaces it.
    pub fn with(custom: Vec<CustomAdapter>) -> Self {
        let ours: [Arc<dyn AgentAdapter>; 5] =
            [Arc::new(Command), Arc::new(Claude), Arc::new(Codex), Arc::new(Gemini), Arc::new(Opencode)];
        let custom = custom.into_iter().map(|adapter| Arc::new(adapter) as Arc<dyn AgentAdapter>);
        Self(ours.into_iter().chain(custom).map(|adapter| (adapter.name().to_owned(), adapter)).collect())
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn AgentAdapter>> {
        self.0.get(name)
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn AgentAdapter>> {
        self.0.values()
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
