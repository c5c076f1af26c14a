//! Context paths of a config: where they are named, what is wrong with them, and the resulting list. The caller
//! resolves relative paths.

use std::collections::{HashMap, HashSet};

use althing_protocol::ContextPath;

use crate::cross_key_checks;
use crate::diagnostic::{Problem, Sink};
use crate::tree::Node;

pub(crate) struct ContextPathNode<'a> {
    node: &'a Node,
    pub(crate) location: String,
    of_agent: bool,
}

pub(crate) fn all<'a>(root: &'a Node) -> Vec<ContextPathNode<'a>> {
    let mut found = Vec::new();
    let mut add = |list: Option<&'a Node>, location: String, of_agent: bool| {
        for (index, node) in list.map(Node::items).unwrap_or_default().iter().enumerate() {
            found.push(ContextPathNode { node, location: format!("{location}[{index}]"), of_agent });
        }
    };
    let team = root.get("orchestrator").and_then(|node| node.get("context_paths"));
    add(team, "orchestrator.context_paths".to_owned(), false);
    for agent in cross_key_checks::agents(root) {
        add(agent.node.get("context_paths"), format!("{}.context_paths", agent.path), true);
        let backend = agent.node.get("backend").and_then(|node| node.get("context_paths"));
        add(backend, format!("{}.backend.context_paths", agent.path), true);
    }
    found
}

pub(crate) fn path_of(entry: &Node) -> Option<&str> {
    path_node(entry).and_then(Node::as_text)
}

fn path_node(entry: &Node) -> Option<&Node> {
    if entry.as_text().is_some() { Some(entry) } else { entry.get("path") }
}

pub(crate) fn named(root: &Node) -> Vec<(&Node, String)> {
    all(root).into_iter().filter_map(|path| Some((path_node(path.node)?, path.location))).collect()
}

pub(crate) fn is_writable(entry: &Node) -> bool {
    entry.get("permission").and_then(Node::as_text) == Some("write")
}

impl<'a> ContextPathNode<'a> {
    fn protected(&self) -> &'a [Node] {
        self.node.get("protected_paths").map(Node::items).unwrap_or_default()
    }
}

pub(crate) fn check(root: &Node, sink: &mut Sink<'_>) {
    let is_blank = |node: &Node| node.as_text().is_some_and(|path| path.trim().is_empty());
    let mut warned = cross_key_checks::agents(root).len() < 2;
    for path in all(root) {
        if let Some(node) = path_node(path.node).filter(|node| is_blank(node)) {
            let problem = Problem::new("a context path is blank");
            sink.error(
                node.span,
                &path.location,
                problem.hint("name a file or directory, or remove the entry"),
            );
        }
        for (index, node) in path.protected().iter().enumerate().filter(|(_, node)| is_blank(node)) {
            let problem = Problem::new("a protected path is blank");
            let location = format!("{}.protected_paths[{index}]", path.location);
            sink.error(
                node.span,
                &location,
                problem.hint("name a path inside the context path, or remove the entry"),
            );
        }
        let is_pattern = |node: &Node| node.as_text().is_some_and(|path| path.contains(['*', '?', '[']));
        for (index, node) in path.protected().iter().enumerate().filter(|(_, node)| is_pattern(node)) {
            let problem = Problem::new("a protected path is a path, and this looks like a pattern");
            let location = format!("{}.protected_paths[{index}]", path.location);
            let hint = "patterns are not supported: name each file, or the directory that contains the files";
            sink.error(node.span, &location, problem.hint(hint));
        }
        if path.of_agent && !warned {
            warned = true;
            let problem = Problem::new("a context path of one agent is given to the whole team");
            let hint = "move it to `orchestrator.context_paths`, or use a separate run for that agent";
            sink.warning(path.node.span, &path.location, problem.hint(hint));
        }
    }
}

/// Each path occurs once: writable if any entry says so, with the protected paths of all entries.
pub(crate) fn resolve(root: &Node) -> Vec<ContextPath> {
    let mut paths: Vec<ContextPath> = Vec::new();
    let mut indices: HashMap<&str, usize> = HashMap::new();
    let mut protected: HashSet<(usize, &str)> = HashSet::new();
    for at in all(root) {
        let Some(path) = path_of(at.node) else { continue };
        let index = *indices.entry(normalized(path)).or_insert(paths.len());
        if index == paths.len() {
            paths.push(ContextPath { path: path.to_owned(), writable: false, protected: Vec::new() });
        }
        let Some(known) = paths.get_mut(index) else { continue };
        known.writable |= is_writable(at.node);
        let new =
            at.protected().iter().filter_map(Node::as_text).filter(|one| protected.insert((index, one)));
        known.protected.extend(new.map(str::to_owned));
    }
    paths
}

fn normalized(path: &str) -> &str {
    let mut rest = path;
    while let Some(shorter) = rest.strip_prefix("./") {
        rest = shorter.trim_start_matches('/');
    }
    match rest.trim_end_matches('/') {
        "" if rest.starts_with('/') => "/",
        "" => ".",
        trimmed => trimmed,
    }
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn spellings_of_one_path_compare_equal() {
        for (one, other) in [("./docs/", "docs"), ("docs//", "docs"), ("./", "."), ("//", "/"), (".//a", "a")]
        {
            assert_eq!(normalized(one), normalized(other), "{one} {other}");
        }
        for (one, other) in [("/docs", "docs"), ("../docs", "docs"), (".docs", "docs"), ("/", ".")] {
            assert_ne!(normalized(one), normalized(other), "{one} {other}");
        }
    }
}
