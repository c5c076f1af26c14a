//! The table of patterns by which programs' screens are read: data, because they go stale with every release of a
//! program. The built-in one is `patterns.json`; a user's own entries come before it, program by program.

use crate::adapter::TerminalTraits;
use serde::Deserialize;
use std::collections::BTreeMap;

/// How each program behaves in a terminal, by the adapter's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct PatternTable(BTreeMap<String, TerminalTraits>);

impl PatternTable {
    /// The one that was checked against recordings of the real programs.
    pub fn built_in() -> Self {
        // A test reads it, so that it cannot be broken here.
        Self::from_json(include_str!("patterns.json")).unwrap_or_default()
    }

    /// Reads a table, and checks every pattern in it. The error says which program's and why.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let table: Self = serde_json::from_str(json)
            .map_err(|error| format!("the table of patterns is not understood: {error}"))?;
        for (name, traits) in &table.0 {
            super::reader::Reader::new(traits).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(table)
    }

    /// The same with another's entries in place of its own, program by program.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// How a program behaves; as one of which nothing is known, if it has no entry.
    pub fn traits(&self, adapter: &str) -> TerminalTraits {
        self.0.get(adapter).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::PatternTable;

    #[test]
    fn the_built_in_table_knows_all_four_programs() {
        let table = PatternTable::from_json(include_str!("patterns.json")).unwrap();
        for name in ["claude", "codex", "gemini", "opencode"] {
            let traits = table.traits(name);
            assert!(
                (!traits.ready.is_empty() || name == "codex")
                    && !traits.asks.is_empty()
                    && traits.conversation.is_some(),
                "{name}"
            );
        }
        assert_eq!(table, PatternTable::built_in());
    }

    #[test]
    fn a_users_entry_replaces_ours_for_that_program_alone() {
        let theirs = PatternTable::from_json(r#"{"claude": {"ready": [{"regex": "new prompt"}]}}"#).unwrap();
        let table = PatternTable::built_in().with(theirs);
        assert_eq!(table.traits("claude").ready[0].regex, "new prompt");
        assert_eq!(table.traits("codex"), PatternTable::built_in().traits("codex"));
    }

    #[test]
    fn a_bad_pattern_is_named_with_its_program() {
        let error = PatternTable::from_json(r#"{"mine": {"ready": [{"regex": "("}]}}"#).unwrap_err();
        assert!(error.starts_with("mine: ") && error.contains("unclosed group"), "{error}");
        let error = PatternTable::from_json(r#"{"mine": {"redy": []}}"#).unwrap_err();
        assert!(error.contains("redy"), "{error}");
    }
}
