//! The tools of agents in a config: files, commands, MCP servers, context paths. Nothing here checks whether a path,
//! program or image exists: that depends on the machine.

pub(crate) mod check;
pub(crate) mod paths;
pub(crate) mod resolve;

use crate::tree::{Node, Span, Substitution, Value};

const FILE_TOOLS: &[&str] = &[
    "read_file",
    "list_directory",
    "glob",
    "search",
    "write_file",
    "edit_file",
    "apply_patch",
    "delete_file",
];

const RUN_COMMAND: &str = "run_command";

/// MassGen's tools, each with the equivalent built-in tool.
const MASSGEN_TOOLS: &[(&str, &str)] = &[
    ("read_text_file", "read_file"),
    ("read_multiple_files", "read_file"),
    ("list_directory_with_sizes", "list_directory"),
    ("directory_tree", "list_directory"),
    ("search_files", "glob"),
    ("delete_files_batch", "delete_file"),
    ("execute_command", RUN_COMMAND),
];

/// Althing has the tools of these MassGen servers built in.
const MASSGEN_SERVERS: &[&str] = &["mcp__filesystem__", "mcp__workspace_tools__", "mcp__command_line__"];

fn builtin_tool(name: &str) -> Option<&'static str> {
    let bare = MASSGEN_SERVERS.iter().find_map(|server| name.strip_prefix(server)).unwrap_or(name);
    let ours = builtin_tools().find(|tool| *tool == bare);
    ours.or_else(|| MASSGEN_TOOLS.iter().find(|(theirs, _)| *theirs == bare).map(|(_, ours)| *ours))
}

fn builtin_tools() -> impl Iterator<Item = &'static str> {
    FILE_TOOLS.iter().copied().chain([RUN_COMMAND])
}

pub(crate) struct ServerNode<'a> {
    pub(crate) node: &'a Node,
    pub(crate) path: String,
    name: Option<&'a str>,
    at: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Stdio,
    Http,
}

pub(crate) fn servers<'a>(backend: &'a Node, path: &str) -> Vec<ServerNode<'a>> {
    let Some(servers) = backend.get("mcp_servers") else { return Vec::new() };
    let listed = servers.items().iter().enumerate().map(|(index, node)| {
        let name = node.get("name");
        ServerNode {
            node,
            path: format!("{path}.mcp_servers[{index}]"),
            name: name.and_then(Node::as_text),
            at: name.map_or(node.span, |name| name.span),
        }
    });
    let named = servers.entries().iter().map(|entry| ServerNode {
        node: &entry.value,
        path: format!("{path}.mcp_servers.{}", entry.key),
        name: Some(&entry.key),
        at: entry.key_span,
    });
    // Entries of another type were already reported.
    listed.chain(named).filter(|server| matches!(server.node.value, Value::Map(_))).collect()
}

impl ServerNode<'_> {
    /// Without a `type`, a server with a `url` and no `command` is reached over HTTP.
    fn transport(&self) -> Transport {
        match self.node.get("type").and_then(Node::as_text) {
            Some("stdio") => Transport::Stdio,
            Some(_) => Transport::Http,
            None if self.node.get("command").is_none() && self.node.get("url").is_some() => Transport::Http,
            None => Transport::Stdio,
        }
    }

    pub(crate) fn command(&self) -> Vec<String> {
        let mut words = match self.node.get("command") {
            Some(Node { value: Value::Text(text), .. }) if text.substitution == Substitution::None => {
                split(&text.content)
            }
            // A text with a variable is one word, even if it contains spaces.
            Some(command) => command.as_text().map(str::to_owned).into_iter().chain(texts(command)).collect(),
            None => Vec::new(),
        };
        words.extend(self.node.get("args").map(texts).unwrap_or_default());
        words
    }
}

pub(crate) fn texts(list: &Node) -> Vec<String> {
    list.items().iter().filter_map(scalar).collect()
}

pub(crate) fn scalar(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.content.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Integer(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

/// A command line is split at blanks, except inside quotes, as in MassGen.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_at_blanks_except_inside_quotes() {
        assert_eq!(split(" npx  -y\tserver "), ["npx", "-y", "server"]);
        assert_eq!(
            split("'/opt/my program/run' --name \"a 'b'\" ''"),
            ["/opt/my program/run", "--name", "a 'b'", ""]
        );
        assert_eq!(split("C:\\tools\\x.exe"), ["C:\\tools\\x.exe"]);
        assert_eq!(split("  "), Vec::<String>::new());
    }

    #[test]
    fn massgens_tool_names_map_to_ours() {
        assert_eq!(builtin_tool("read_file"), Some("read_file"));
        assert_eq!(builtin_tool("mcp__command_line__execute_command"), Some("run_command"));
        assert_eq!(builtin_tool("mcp__filesystem__write_file"), Some("write_file"));
        assert_eq!(builtin_tool("directory_tree"), Some("list_directory"));
        assert_eq!(builtin_tool("mcp__weather__read_file"), None);
    }
}
