//! All tools of an agent's MCP servers by the names under which they are offered.

use super::names;
use super::tool_set::{ServerTool, ToolInfo};
use althing_protocol::ToolSpec;
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) struct CatalogEntry {
    pub(crate) server: usize,
    pub(crate) spec: ToolSpec,
    pub(crate) info: ToolInfo,
}

#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) entries: Vec<CatalogEntry>,
    by_name: HashMap<String, usize>,
}

impl Catalog {
    pub(crate) fn new(servers: &[(&str, Arc<Vec<ServerTool>>)]) -> Self {
        let all: Vec<(usize, &str, &ServerTool)> = servers
            .iter()
            .enumerate()
            .flat_map(|(index, (server, tools))| tools.iter().map(move |tool| (index, *server, tool)))
            .collect();
        let keys: Vec<(&str, &str)> =
            all.iter().map(|(_, server, tool)| (*server, tool.name.as_str())).collect();
        let mut catalog = Self::default();
        for ((server, name, tool), offered) in all.iter().zip(names::offered(&keys)) {
            let Some(offered) = offered else { continue };
            catalog.by_name.insert(offered.clone(), catalog.entries.len());
            catalog.entries.push(entry(*server, name, tool, offered));
        }
        catalog
    }

    pub(crate) fn find(&self, name: &str) -> Option<&CatalogEntry> {
        self.by_name.get(name).and_then(|index| self.entries.get(*index))
    }
}

fn entry(server: usize, server_name: &str, tool: &ServerTool, offered: String) -> CatalogEntry {
    let description = if tool.description.is_empty() {
        format!("Tool of the MCP server {server_name}.")
    } else {
        tool.description.clone()
    };
    CatalogEntry {
        server,
        spec: ToolSpec { name: offered.clone(), description, parameters: tool.parameters.clone() },
        info: ToolInfo {
            name: offered,
            server: server_name.to_owned(),
            tool: tool.name.clone(),
            read_only: tool.read_only,
            destructive: tool.destructive,
        },
    }
}
