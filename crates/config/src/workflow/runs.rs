//! `run:` tasks of a workflow: checks one, and turns it into a launch request.

use althing_protocol::{AgentId, AgentMode, LaunchRun, PathGrant, Permission};

use super::Document;
use super::templates::TemplateScope;
use crate::diagnostic::{Problem, Sink};
use crate::keys::OVERRIDES;
use crate::resolve::{as_kind, flag, text, word};
use crate::tree::Node;

pub(super) fn check(
    document: &Document<'_>,
    run: &Node,
    path: &str,
    stage: usize,
    known: &TemplateScope<'_>,
    sink: &mut Sink<'_>,
) {
    for key in ["task", "context"] {
        if let Some(node) = run.get(key) {
            known.check(node, &format!("{path}.{key}"), stage, sink);
        }
    }
    if let Some(task) = run.get("task").filter(|task| is_blank(task)) {
        let problem = Problem::new("`task` is blank").hint("say what the run should accomplish");
        sink.error(task.span, &format!("{path}.task"), problem);
    }
    agents(document, run, path, sink);
    if let Some(entry) = run.entry("execute_after_planning")
        && entry.value.as_bool() == Some(true)
        && flag(run, "planning_mode") != Some(true)
    {
        let problem = Problem::new("`execute_after_planning` has no effect without `planning_mode: true`");
        let hint = "add `planning_mode: true`, or remove the key";
        sink.warning(entry.key_span, &format!("{path}.execute_after_planning"), problem.hint(hint));
    }
    for (index, node) in run.get("context_paths").map(Node::items).unwrap_or_default().iter().enumerate() {
        let path_node = if node.as_text().is_some() { Some(node) } else { node.get("path") };
        if let Some(path_node) = path_node.filter(|path_node| is_blank(path_node)) {
            let problem = Problem::new("a context path is blank");
            let path = format!("{path}.context_paths[{index}]");
            sink.error(path_node.span, &path, problem.hint("name a file or directory, or remove the entry"));
        }
    }
}

fn agents(document: &Document<'_>, run: &Node, path: &str, sink: &mut Sink<'_>) {
    let list = run.get("agents");
    let mut seen: Vec<&str> = Vec::new();
    for (index, node) in list.map(Node::items).unwrap_or_default().iter().enumerate() {
        let Some(name) = node.as_text() else { continue };
        let path = format!("{path}.agents[{index}]");
        if seen.contains(&name) {
            let problem = Problem::new(format!("`{name}` is named twice"));
            sink.error(node.span, &path, problem.hint("name each agent once"));
        } else if let Some(problem) = unknown_agent(document, name) {
            sink.error(node.span, &path, problem);
        }
        seen.push(name);
    }
    if let Some(list) = list.filter(|list| list.items().is_empty() && list.as_text().is_none()) {
        let problem = Problem::new("`agents` is empty").hint("name at least one, or remove the key");
        sink.error(list.span, &format!("{path}.agents"), problem);
    }
    let is_single = run.get("agent_mode").and_then(Node::as_text) == Some("single");
    if let Some(list) = list.filter(|_| is_single && seen.len() > 1) {
        let problem = Problem::new("`agent_mode: single` takes one agent");
        let hint = "name one, or use `agent_mode: multi`";
        sink.error(list.span, &format!("{path}.agents"), problem.hint(hint));
    }
    for entry in run.get("agent_system_prompts").map(Node::entries).unwrap_or_default() {
        if let Some(problem) = unknown_agent(document, &entry.key) {
            sink.error(entry.key_span, &format!("{path}.agent_system_prompts"), problem);
        }
    }
}

fn unknown_agent(document: &Document<'_>, name: &str) -> Option<Problem> {
    if document.agent_ids().any(|known| known == name) {
        return None;
    }
    let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
    let problem = Problem::new(format!("the config has no agent called `{shown}`"));
    let ids: Vec<&str> = document.agent_ids().take(20).collect();
    Some(match althing_text::nearest(name, document.agent_ids()) {
        Some(near) => problem.hint(format!("did you mean `{near}`?")),
        None => problem.hint(format!("its agents: {}", ids.join(", "))),
    })
}

fn is_blank(node: &Node) -> bool {
    node.as_text().is_some_and(|text| text.trim().is_empty())
}

pub(super) fn resolve(run: &Node) -> Option<LaunchRun> {
    let agents = run.get("agents").map(|list| list.items().iter().filter_map(Node::as_text));
    let prompts = run.get("agent_system_prompts").map(Node::entries).unwrap_or_default();
    let prompts = prompts
        .iter()
        .filter_map(|entry| Some((AgentId::new(entry.key.clone()), entry.value.as_text()?.to_owned())));
    let paths = run.get("context_paths").map(Node::items).unwrap_or_default();
    let overrides = run.get("coordination_overrides").map(Node::entries).unwrap_or_default();
    let overrides = overrides.iter().filter(|entry| !entry.value.is_null()).filter_map(|entry| {
        let value = match word(&OVERRIDES, &entry.key, &entry.value) {
            Some(word) => word.into(),
            None => as_kind(OVERRIDES.key(&entry.key)?.kind, &entry.value),
        };
        Some((entry.key.clone(), value))
    });
    Some(LaunchRun {
        task: text(run, "task")?,
        context: text(run, "context"),
        agent_mode: match run.get("agent_mode").and_then(Node::as_text) {
            Some("single") => Some(AgentMode::Single),
            Some("multi") => Some(AgentMode::Multi),
            _ => None,
        },
        agents: agents.map(|agents| agents.map(AgentId::new).collect()),
        refinement: flag(run, "refinement"),
        planning_mode: flag(run, "planning_mode").unwrap_or(false),
        execute_after_planning: flag(run, "execute_after_planning").unwrap_or(false),
        context_paths: paths.iter().filter_map(grant).collect(),
        agent_system_prompts: prompts.collect(),
        coordination_overrides: overrides.collect(),
    })
}

fn grant(node: &Node) -> Option<PathGrant> {
    let path = node.as_text().map(str::to_owned).or_else(|| text(node, "path"))?;
    let writable = node.get("permission").and_then(Node::as_text) == Some("write");
    Some(PathGrant { path, permission: if writable { Permission::Write } else { Permission::Read } })
}
