//! Checks rules that the table of keys cannot express: relations between agents, what each backend needs, and the
//! content of ids and headers.

use std::collections::{HashMap, HashSet};

use althing_protocol::{AgentKind, AgentOptions};

use crate::LoadPurpose;
use crate::abilities;
use crate::backends::{self, BackendApi, BackendType, BackendTypes};
use crate::diagnostic::{Problem, Severity, Sink};
use crate::keys;
use crate::tools;
use crate::tree::{MapEntry, Node, Span, Value};
use crate::variables::Variables;
use crate::workflow;

pub(crate) struct AgentNode<'a> {
    pub(crate) node: &'a Node,
    pub(crate) path: String,
}

pub(crate) fn agents(root: &Node) -> Vec<AgentNode<'_>> {
    match (root.get("agents"), root.get("agent")) {
        (Some(list), _) => {
            let at = |(index, node)| AgentNode { node, path: format!("agents[{index}]") };
            list.items().iter().enumerate().map(at).collect()
        }
        (None, Some(node)) => vec![AgentNode { node, path: "agent".to_owned() }],
        (None, None) => Vec::new(),
    }
}

pub(crate) fn backends(root: &Node) -> Vec<AgentNode<'_>> {
    let mut found: Vec<AgentNode<'_>> = agents(root)
        .into_iter()
        .filter_map(|agent| {
            Some(AgentNode { node: agent.node.get("backend")?, path: format!("{}.backend", agent.path) })
        })
        .collect();
    let interactive = root.get("orchestrator").and_then(|node| node.get("interactive_mode"));
    if let Some(node) = interactive.and_then(|node| node.get("backend")) {
        found.push(AgentNode { node, path: "orchestrator.interactive_mode.backend".to_owned() });
    }
    found
}

pub(crate) fn check(
    root: &Node,
    env: Variables<'_>,
    purpose: LoadPurpose,
    backends: &'static BackendTypes,
    sink: &mut Sink<'_>,
) {
    if !matches!(root.value, Value::Map(_)) {
        return;
    }
    team(root, sink);
    names(root, sink);
    let mut reported = HashSet::new();
    for backend in self::backends(root) {
        Requirements { backend: &backend, env, purpose, backends, reported: &mut reported, sink }.check();
    }
    tools::check::check(root, backends, purpose, sink);
    abilities::check(root, sink);
    workflow::adapters::check(root, workflow::built_in(backends.kinds()), sink);
}

fn team(root: &Node, sink: &mut Sink<'_>) {
    let top = Span { line: 1, column: 1, ..root.span };
    match (root.get("agents"), root.get("agent")) {
        (Some(_), Some(_)) => {
            let at = root.entry("agent").map_or(top, |entry| entry.key_span);
            let problem = Problem::new("a config has `agents` or `agent`, not both");
            sink.error(at, "agent", problem.hint("move the agent into the list `agents`"));
        }
        (None, None) => {
            let problem = Problem::new("the config names no agent");
            sink.error(top, "agents", problem.hint("add `agents: [{id: …, backend: {type: …, model: …}}]`"));
        }
        (Some(list), None) if matches!(&list.value, Value::List(items) if items.is_empty()) => {
            let problem = Problem::new("`agents` is empty");
            sink.error(list.span, "agents", problem.hint("add at least one agent"));
        }
        _ => {}
    }
}

fn names(root: &Node, sink: &mut Sink<'_>) {
    let mut lines: HashMap<&str, usize> = HashMap::new();
    for agent in agents(root) {
        let Some(id) = agent.node.get("id") else { continue };
        let Some(name) = id.as_text() else { continue };
        let path = format!("{}.id", agent.path);
        if name.trim().is_empty() || name.chars().any(char::is_control) || name.chars().count() > 100 {
            let problem = Problem::new("an agent's id must be a name on one line, of at most 100 characters");
            sink.error(id.span, &path, problem.hint("use a short name such as `writer`"));
        } else if let Some(first) = lines.insert(name, id.span.line) {
            let problem =
                Problem::new(format!("two agents are called `{name}`; the first is on line {first}"));
            sink.error(id.span, &path, problem.hint("give each agent a different id"));
            lines.insert(name, first);
        }
    }
}

const CONNECTION_KEYS: [&str; 5] =
    ["base_url", "azure_endpoint", "api_key", "extra_headers", "default_headers"];

fn agent_options(backend: &Node) -> impl Iterator<Item = (&'static str, &MapEntry)> {
    AgentOptions::KEYS.into_iter().filter_map(|key| {
        let is_effort = key == AgentOptions::REASONING_EFFORT;
        let nested = || backend.get("reasoning").filter(|_| is_effort)?.entry("effort");
        let entry = backend.entry(key).or_else(nested).filter(|entry| !entry.value.is_null())?;
        // An empty `allowed_tools` allows no tool. Other empty values count as not set.
        let is_blank = entry.value.as_text().is_some_and(|text| text.trim().is_empty());
        let is_empty = matches!(&entry.value.value, Value::List(items) if items.is_empty());
        (!is_blank && (!is_empty || key == "allowed_tools")).then_some((key, entry))
    })
}

struct Requirements<'a, 'text> {
    backend: &'a AgentNode<'a>,
    env: Variables<'a>,
    purpose: LoadPurpose,
    backends: &'static BackendTypes,
    /// The same problem of several agents is reported once, except an unsupported option that is an error.
    reported: &'a mut HashSet<(&'static str, String)>,
    sink: &'a mut Sink<'text>,
}

impl Requirements<'_, '_> {
    fn check(&mut self) {
        let node = self.backend.node;
        for section in ["default_headers", "extra_headers"] {
            check_headers(node, section, &self.backend.path, self.sink);
        }
        let Some(type_node) = node.get("type") else { return };
        let Some(kind) = type_node.as_text().and_then(|name| self.backends.named(name)) else { return };
        match kind.agent {
            Some(agent) => {
                self.check_unsupported_options(agent);
                self.check_unused_parameters(agent);
            }
            None if kind.is_supported() => self.check_unused_options(),
            None => {}
        }
        // A CLI agent chooses its model and finds its key itself; the offline model needs neither.
        if matches!(kind.api, BackendApi::Offline | BackendApi::Program) || !kind.is_supported() {
            return;
        }
        let model = node.get("model");
        let is_blank = model.and_then(Node::as_text).is_some_and(|name| name.trim().is_empty());
        if is_blank || model.is_none() && kind.default_model.is_none() {
            let problem = Problem::new(format!("a backend of type `{}` needs `model`", kind.name))
                .hint("add `model: …` with the name that the server uses");
            let span = model.map_or(type_node.span, |model| model.span);
            self.sink.error(span, &format!("{}.model", self.backend.path), problem);
        }
        if self.purpose == LoadPurpose::Offline {
            return;
        }
        self.key(kind, type_node);
        self.address(kind, type_node);
        if let Some(url) = url_node(node).filter(|url| url.unset().is_empty())
            && let Some(text) = url.as_text()
            && text.starts_with("http://")
            && !backends::is_loopback(text)
            && api_key(node, kind, self.env).is_some()
        {
            let problem = Problem::new("the key would be sent over the network unencrypted");
            let path = format!("{}.base_url", self.backend.path);
            self.sink.warning(url.span, &path, problem.hint("use an `https://` address"));
        }
    }

    /// Ignoring an option could give the CLI agent more rights than its config says. Ignoring the reasoning effort
    /// cannot, so that is only a warning.
    fn check_unsupported_options(&mut self, agent: &'static AgentKind) {
        let severity = match self.purpose {
            LoadPurpose::Run => Severity::Error,
            LoadPurpose::Check => Severity::Warning,
            LoadPurpose::Offline => return,
        };
        for (key, entry) in agent_options(self.backend.node) {
            let Some(instead) = agent.instead_of(key) else {
                continue;
            };
            let is_effort = key == AgentOptions::REASONING_EFFORT;
            let severity = if is_effort { Severity::Warning } else { severity };
            if severity == Severity::Warning && !self.reported.insert((agent.kind, key.to_owned())) {
                continue;
            }
            let location = if entry.key == "effort" { "reasoning.effort" } else { key };
            let message = format!("{} does not support `{key}`", agent.title);
            let problem = Problem::new(message).hint(format!("remove the key; {instead}"));
            self.sink.push(severity, entry.key_span, &format!("{}.{location}", self.backend.path), problem);
        }
    }

    /// A CLI agent uses its own settings for the model and the connection.
    fn check_unused_parameters(&mut self, agent: &'static AgentKind) {
        if self.purpose == LoadPurpose::Offline {
            return;
        }
        let is_parameter = |entry: &&MapEntry| {
            let is_passed_on = keys::BACKEND.key(&entry.key).is_some_and(|key| key.passed_on);
            (is_passed_on && entry.key != AgentOptions::REASONING_EFFORT)
                || CONNECTION_KEYS.contains(&entry.key.as_str())
        };
        let filled = |entry: &&MapEntry| !entry.value.is_null();
        for entry in self.backend.node.entries().iter().filter(is_parameter).filter(filled) {
            if entry.key != "reasoning" {
                self.report_unused_parameter(agent, entry, entry.key.clone());
                continue;
            }
            for inner in entry.value.entries().iter().filter(filled).filter(|inner| inner.key != "effort") {
                self.report_unused_parameter(agent, inner, format!("reasoning.{}", inner.key));
            }
        }
    }

    fn report_unused_parameter(&mut self, agent: &'static AgentKind, entry: &MapEntry, key: String) {
        let problem = Problem::new(format!("`{key}` has no effect on {}", agent.kind))
            .hint(format!("remove the key; {} uses its own settings", agent.title));
        let location = format!("{}.{key}", self.backend.path);
        if self.reported.insert((agent.kind, key)) {
            self.sink.warning(entry.key_span, &location, problem);
        }
    }

    /// `allowed_tools` and the reasoning effort apply to models, too; the other options are for CLI agents.
    fn check_unused_options(&mut self) {
        let of_models = ["allowed_tools", AgentOptions::REASONING_EFFORT];
        for (key, entry) in agent_options(self.backend.node).filter(|(key, _)| !of_models.contains(key)) {
            if self.reported.insert(("", key.to_owned())) {
                let problem = Problem::new(format!("`{key}` has no effect for an agent that is a model"))
                    .hint("remove the key: it is for CLI agents");
                self.sink.warning(entry.key_span, &format!("{}.{key}", self.backend.path), problem);
            }
        }
    }

    fn key(&mut self, kind: &'static BackendType, type_node: &Node) {
        let node = self.backend.node;
        let owner = key_owner(node, kind);
        let own_is_unset = node.get("api_key").is_some_and(|key| !key.unset().is_empty());
        if owner.key_variables.is_empty() || own_is_unset || api_key(node, kind, self.env).is_some() {
            return;
        }
        let own_address = own_address(node, owner);
        if own_address.is_some_and(backends::is_loopback)
            || !self.reported.insert((owner.name, "api_key".to_owned()))
        {
            return;
        }
        // A server at a custom address may need no key. A type without a default address, such as Azure, has only
        // custom addresses.
        let severity = match (self.purpose, own_address.filter(|_| owner.base_url.is_some())) {
            (LoadPurpose::Run, None) => Severity::Error,
            (LoadPurpose::Run, Some(_)) | (LoadPurpose::Check | LoadPurpose::Offline, _) => Severity::Warning,
        };
        let unset = match owner.key_variables {
            [name] => format!("`{name}` is not set"),
            names => format!("none of `{}` is set", names.join("`, `")),
        };
        let problem = Problem::new(format!("no API key for {}: {unset}", owner.title)).hint(
            "set it in the environment or in a `.env` file, or add `api_key: ${VARIABLE}` to the backend",
        );
        self.sink.push(severity, type_node.span, &self.backend.path, problem);
    }

    fn address(&mut self, kind: &'static BackendType, type_node: &Node) {
        if url_node(self.backend.node).is_some() || address(self.backend.node, kind, self.env).is_some() {
            return;
        }
        let severity = match self.purpose {
            LoadPurpose::Run => Severity::Error,
            LoadPurpose::Check | LoadPurpose::Offline => Severity::Warning,
        };
        let variable = kind.url_variable.map(|name| format!(": `{name}` is not set")).unwrap_or_default();
        let hint = if kind.url_variable.is_some() {
            "set it in the environment or in ~/.config/althing/.env, or add `base_url: https://…` to the backend"
        } else {
            "add `base_url: https://…` to the backend"
        };
        let problem = Problem::new(format!("no address for {}{variable}", kind.title)).hint(hint);
        self.sink.push(severity, type_node.span, &self.backend.path, problem);
    }
}

/// With a header that HTTP does not allow, every request would fail, long after the config was read.
pub(crate) fn check_headers(node: &Node, section: &str, path: &str, sink: &mut Sink<'_>) {
    for entry in node.get(section).map(Node::entries).unwrap_or_default() {
        let name_is_right = !entry.key.is_empty()
            && entry
                .key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
        let value_is_right = entry.value.as_text().is_none_or(|value| !value.chars().any(char::is_control));
        if !name_is_right || !value_is_right {
            let problem = Problem::new("HTTP does not allow this header")
                .hint("use only letters, digits and dashes in a header's name, and write its value on one line (in quotes, not as a block)");
            sink.error(entry.key_span, &format!("{path}.{section}"), problem);
        }
    }
}

fn url_node(node: &Node) -> Option<&Node> {
    let is_azure = || node.get("type").and_then(Node::as_text) == Some("azure_openai");
    node.get("base_url").or_else(|| node.get("azure_endpoint").filter(|_| is_azure()))
}

/// The address is that of the section, else of the type's environment variable, else the type's default.
pub(crate) fn address(node: &Node, kind: &BackendType, env: Variables<'_>) -> Option<String> {
    let own = url_node(node).and_then(Node::as_text).map(str::to_owned);
    let variable =
        || (env.own)(kind.url_variable?).map(|url| url.trim().to_owned()).filter(|url| !url.is_empty());
    own.or_else(variable).or_else(|| kind.base_url.map(str::to_owned))
}

/// The provider whose key a backend uses: its type's, or for a type without key variables the one at its address.
pub(crate) fn key_owner(node: &Node, kind: &'static BackendType) -> &'static BackendType {
    if !kind.key_variables.is_empty() {
        return kind;
    }
    let url = node.get("base_url").and_then(Node::as_text).or(kind.base_url);
    url.and_then(backends::provider_at).unwrap_or(kind)
}

/// `None` if the section's address belongs to the provider of the key.
pub(crate) fn own_address<'a>(node: &'a Node, owner: &BackendType) -> Option<&'a str> {
    let url = url_node(node)?.as_text()?;
    let is_owners = backends::provider_at(url).is_some_and(|provider| provider.name == owner.name);
    (!is_owners).then_some(url)
}

/// The key of the section, else of the environment variables of the key's provider. `None` if `api_key` refers to a
/// variable that is not set.
pub(crate) fn api_key(node: &Node, kind: &'static BackendType, env: Variables<'_>) -> Option<String> {
    let own = node.get("api_key");
    if own.is_some_and(|key| !key.unset().is_empty()) {
        return None;
    }
    let clean = |key: &str| Some(key.trim().to_owned()).filter(|key| !key.is_empty());
    let variables = key_owner(node, kind).key_variables;
    own.and_then(Node::as_text)
        .and_then(clean)
        // A variable that the user set is preferred to one of a found `.env`.
        .or_else(|| variables.iter().find_map(|name| (env.own)(name).as_deref().and_then(clean)))
        .or_else(|| variables.iter().find_map(|name| (env.for_secrets)(name).as_deref().and_then(clean)))
}
