//! User-defined patterns for reading the screens of CLI agents in terminals. An entry replaces the patterns of the
//! adapter with the same name, unless a user defined that adapter together with patterns of its own.

use crate::adapter::{AgentAdapter, TerminalTraits};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Terminal traits by adapter name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct PatternTable(BTreeMap<String, TerminalTraits>);

impl PatternTable {
    /// Parses a table and compiles every pattern. The error says what is invalid and, for a pattern, names its
    /// adapter.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let table: Self =
            serde_json::from_str(json).map_err(|error| format!("invalid pattern table: {error}"))?;
        for (name, traits) in &table.0 {
            super::screen_reader::ScreenReader::new(traits).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(table)
    }

    pub(crate) fn traits(&self, adapter: &dyn AgentAdapter) -> TerminalTraits {
        let own = adapter.terminal();
        match self.0.get(adapter.name()) {
            Some(entry) if own == TerminalTraits::default() || !adapter.is_user_defined() => entry.clone(),
            _ => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::screen_reader::ScreenReader;
    use super::PatternTable;
    use crate::adapter::{
        Adapters, AgentAdapter, ClaudeCode, Codex, Conversations, Pattern, TerminalTraits, UserDefinedAdapter,
    };

    #[test]
    fn an_adapter_with_terminal_traits_has_questions_and_a_conversation_pattern() {
        let adapters = Adapters::default();
        let known: Vec<_> =
            adapters.all().filter(|adapter| adapter.terminal() != TerminalTraits::default()).collect();
        for adapter in &known {
            let (name, traits) = (adapter.name(), adapter.terminal());
            assert!(!traits.asks.is_empty(), "{name}: nothing shows that it waits for a person");
            let keeps_none = adapter.conversations() == Conversations::None;
            assert!(keeps_none || traits.conversation.is_some(), "{name}: no id of a conversation");
            assert!(ScreenReader::new(&traits).is_ok(), "{name}: {:?}", ScreenReader::new(&traits).err());
        }
        for name in ["claude", "codex", "gemini", "opencode", "command"] {
            assert!(known.iter().any(|adapter| adapter.name() == name), "{name} is not read in a terminal");
        }
    }

    #[test]
    fn a_users_entry_replaces_ours_for_that_program_only() {
        let table = PatternTable::from_json(r#"{"claude": {"ready": [{"regex": "new prompt"}]}}"#).unwrap();
        assert_eq!(table.traits(&ClaudeCode).ready[0].regex, "new prompt");
        assert_eq!(table.traits(&Codex), Codex.terminal());
    }

    #[test]
    fn a_user_defined_adapter_keeps_its_own_patterns() {
        let table = PatternTable::from_json(r#"{"mine": {"ready": [{"regex": "table"}]}}"#).unwrap();
        let mut mine = UserDefinedAdapter { name: "mine".to_owned(), ..UserDefinedAdapter::default() };
        assert_eq!(table.traits(&mine).ready[0].regex, "table");
        mine.terminal.ready = vec![Pattern::screen("config")];
        assert_eq!(table.traits(&mine).ready[0].regex, "config");
    }

    #[test]
    fn a_bad_pattern_is_named_with_its_program() {
        let error = PatternTable::from_json(r#"{"mine": {"ready": [{"regex": "("}]}}"#).unwrap_err();
        assert!(error.starts_with("mine: ") && error.contains("unclosed group"), "{error}");
        let error = PatternTable::from_json(r#"{"mine": {"redy": []}}"#).unwrap_err();
        assert!(error.contains("redy"), "{error}");
    }
}
