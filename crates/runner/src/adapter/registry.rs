//! The registry of adapters by name.

use super::{AgentAdapter, ClaudeCode, Codex, CommandAdapter, GeminiCli, Opencode, UserDefinedAdapter};
use althing_protocol::{AGENT_KINDS, AgentKind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) fn built_in() -> Vec<Arc<dyn AgentAdapter>> {
    vec![Arc::new(ClaudeCode), Arc::new(Codex), Arc::new(GeminiCli), Arc::new(Opencode)]
}

/// The directories in which the built-in CLI agents store their settings, credentials and conversations; `env` looks
/// up variables.
pub fn agent_dirs(home: &Path, env: &dyn Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let adapters = built_in();
    let dirs = adapters.iter().flat_map(|adapter| adapter.own_dirs());
    dirs.map(|dir| dir.path(home, env)).collect()
}

/// The built-in adapters and those that the user defined.
#[derive(Clone, Debug)]
pub struct Adapters {
    kinds: &'static [AgentKind],
    by_name: BTreeMap<String, Arc<dyn AgentAdapter>>,
}

impl Default for Adapters {
    fn default() -> Self {
        Self::of(AGENT_KINDS, built_in())
    }
}

impl Adapters {
    /// The adapters of these CLI agents, and `command` for the user's own programs.
    pub fn of(kinds: &'static [AgentKind], adapters: Vec<Arc<dyn AgentAdapter>>) -> Self {
        let command: Arc<dyn AgentAdapter> = Arc::new(CommandAdapter);
        let all = adapters.into_iter().chain([command]);
        Self { kinds, by_name: all.map(|adapter| (adapter.name().to_owned(), adapter)).collect() }
    }

    /// The built-in adapters and the adapters in `custom`; a custom adapter replaces a built-in one of the same name.
    pub fn with(custom: Vec<UserDefinedAdapter>) -> Self {
        let mut all = Self::default();
        let custom = custom.into_iter().map(|adapter| Arc::new(adapter) as Arc<dyn AgentAdapter>);
        all.by_name.extend(custom.map(|adapter| (adapter.name().to_owned(), adapter)));
        all
    }

    /// The CLI agent for a config's `backend.type`, if it names one.
    pub fn kind(&self, backend_type: &str) -> Option<&'static AgentKind> {
        self.kinds.iter().find(|row| row.kind == backend_type)
    }

    /// The CLI agent whose adapter has this name.
    pub fn kind_of_adapter(&self, name: &str) -> Option<&'static AgentKind> {
        self.kinds.iter().find(|row| row.adapter == name)
    }

    /// The adapter with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn AgentAdapter>> {
        self.by_name.get(name)
    }

    /// All adapters, in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn AgentAdapter>> {
        self.by_name.values()
    }

    /// The names of all adapters, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::built_in;
    use althing_protocol::AGENT_KINDS;
    use std::collections::BTreeSet;

    type Pairs<'a> = BTreeSet<(&'a str, Option<&'a str>)>;

    #[test]
    fn every_row_of_the_table_of_agent_kinds_has_an_adapter_and_every_adapter_a_row() {
        let adapters = built_in();
        let here: Pairs<'_> = adapters.iter().map(|adapter| (adapter.name(), adapter.executable())).collect();
        let rows: Pairs<'_> = AGENT_KINDS.iter().map(|row| (row.adapter, Some(row.program))).collect();
        assert_eq!(here, rows, "left: the adapters of `built_in`; right: the rows of `AGENT_KINDS`");
    }

    #[test]
    fn agent_kinds_have_unique_names_and_tool_names_contain_the_tool() {
        let kinds: BTreeSet<&str> = AGENT_KINDS.iter().map(|row| row.kind).collect();
        let adapters: BTreeSet<&str> = AGENT_KINDS.iter().map(|row| row.adapter).collect();
        assert_eq!((kinds.len(), adapters.len()), (AGENT_KINDS.len(), AGENT_KINDS.len()));
        for name in AGENT_KINDS.iter().filter_map(|row| row.tool_name("althing", "vote")) {
            assert!(name.contains("vote"), "{name}");
        }
    }
}
