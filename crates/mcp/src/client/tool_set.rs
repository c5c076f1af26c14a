//! The tools that one MCP server listed last: checked, bounded, and filtered by the config.

use super::limits;
use super::notice::{NoticeKind, quote};
use super::spec::ServerSpec;
use althing_text::truncate_chars;
use rmcp::model::Tool;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerTool {
    /// The server's own name for the tool.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: Value,
    pub(crate) read_only: Option<bool>,
    pub(crate) destructive: Option<bool>,
}

/// A tool with the unverified hints of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolInfo {
    /// The name under which the tool is offered.
    pub name: String,
    pub server: String,
    /// The server's own name for the tool.
    pub tool: String,
    /// Whether the server states that the tool changes nothing.
    pub read_only: Option<bool>,
    /// Whether the server states that the tool may destroy something.
    pub destructive: Option<bool>,
}

/// The tools of a server, replaced after each listing.
pub(crate) struct ServerToolSet {
    tools: RwLock<Arc<Vec<ServerTool>>>,
    /// Shared by all tool sets of an agent, so that the catalog knows when it is stale.
    changes: Arc<AtomicU64>,
}

impl ServerToolSet {
    pub(crate) fn new(changes: Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self { tools: RwLock::default(), changes })
    }

    pub(crate) fn tools(&self) -> Arc<Vec<ServerTool>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace(&self, tools: Vec<ServerTool>) {
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
        self.changes.fetch_add(1, Ordering::Release);
    }
}

/// The maximum number of notices about tools that are left out.
const MAX_REPORTED: usize = 32;

/// Keeps at most [`limits::TOOLS`] tools, and notices that say why others are left out. The names of wanted tools are
/// kept to find duplicates.
pub(crate) struct ToolFilter<'a> {
    spec: &'a ServerSpec,
    chosen: Vec<ServerTool>,
    seen: HashSet<String>,
    unmatched: Vec<&'a String>,
    notices: Vec<NoticeKind>,
    full: bool,
}

impl<'a> ToolFilter<'a> {
    pub(crate) fn new(spec: &'a ServerSpec) -> Self {
        let unmatched = spec.allowed_tools.iter().flatten().chain(&spec.exclude_tools).collect();
        Self { spec, chosen: Vec::new(), seen: HashSet::new(), unmatched, notices: Vec::new(), full: false }
    }

    pub(crate) fn add_page(&mut self, tools: Vec<Tool>) {
        for tool in tools {
            self.unmatched.retain(|entry| !self.spec.names(entry, &tool.name));
            if !self.full && self.spec.wants(&tool.name) {
                self.take(&tool);
            }
        }
    }

    fn take(&mut self, tool: &Tool) {
        let name = tool.name.to_string();
        if self.chosen.len() == limits::TOOLS {
            self.full = true;
            self.notices.push(NoticeKind::TooManyTools { kept: limits::TOOLS });
        } else if !self.seen.insert(name.clone()) {
            self.skip(quote(&name), "an earlier tool in the server's list has the same name".to_owned());
        } else {
            match check(tool) {
                Ok(tool) => self.chosen.push(tool),
                Err(reason) => self.skip(quote(&name), reason),
            }
        }
    }

    pub(crate) fn skip(&mut self, tool: String, reason: String) {
        if self.notices.len() < MAX_REPORTED {
            self.notices.push(NoticeKind::ToolLeftOut { tool, reason });
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    pub(crate) fn finish(mut self) -> (Vec<ServerTool>, Vec<NoticeKind>) {
        // An unmatched entry is most likely a typo. With too many tools, the list was not read to its end.
        if !self.full {
            let unknown = self.unmatched.iter().map(|entry| NoticeKind::UnknownTool { tool: quote(entry) });
            self.notices.extend(unknown);
        }
        if self.chosen.is_empty() {
            self.notices.push(NoticeKind::NoTools);
        }
        (self.chosen, self.notices)
    }
}

fn check(tool: &Tool) -> Result<ServerTool, String> {
    if tool.name.trim().is_empty() {
        return Err("it has no name".to_owned());
    }
    let parameters = schema(Map::clone(&tool.input_schema))?;
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    let hints = tool.annotations.as_ref();
    Ok(ServerTool {
        name: tool.name.to_string(),
        description: describe(description),
        parameters,
        read_only: hints.and_then(|hints| hints.read_only_hint),
        destructive: hints.and_then(|hints| hints.destructive_hint),
    })
}

fn describe(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    truncate_chars(clean.trim(), limits::DESCRIPTION)
}

/// Checks what providers require. A missing `type` or `properties` is added.
fn schema(mut schema: Map<String, Value>) -> Result<Value, String> {
    let invalid = |reason: &str| Err(format!("its input schema is invalid: {reason}"));
    match schema.get("type") {
        None => {
            schema.insert("type".to_owned(), json!("object"));
        }
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return invalid("its `type` is not `object`"),
    }
    match schema.get("properties") {
        None => {
            schema.insert("properties".to_owned(), json!({}));
        }
        Some(Value::Object(properties)) => {
            if !properties.values().all(|property| property.is_object() || property.is_boolean()) {
                return invalid("a property is not a schema");
            }
        }
        Some(_) => return invalid("its `properties` are not an object"),
    }
    match schema.get("required") {
        None => {}
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {}
        Some(_) => return invalid("its `required` is not a list of names"),
    }
    let schema = Value::Object(schema);
    let size = schema.to_string().len();
    if size > limits::SCHEMA {
        return invalid(&format!("it is {size} bytes long, more than {}", limits::SCHEMA));
    }
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(spec: &ServerSpec, tools: Vec<Tool>) -> (Vec<ServerTool>, Vec<NoticeKind>) {
        let mut filter = ToolFilter::new(spec);
        filter.add_page(tools);
        filter.finish()
    }

    fn tool(value: Value) -> Tool {
        serde_json::from_value(value).unwrap()
    }

    fn plain(name: &str) -> Tool {
        tool(json!({"name": name, "inputSchema": {"type": "object"}}))
    }

    fn chosen(spec: &ServerSpec, tools: Vec<Tool>) -> Vec<String> {
        choose(spec, tools).0.into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn the_allow_list_and_the_exclude_list_act_on_the_servers_own_names_and_exclusion_wins() {
        let mut spec = ServerSpec::stdio("s", "x", vec![]);
        let all = || vec![plain("a"), plain("b"), plain("c")];
        assert_eq!(chosen(&spec, all()), ["a", "b", "c"]);
        spec.allowed_tools = Some(vec!["a".to_owned(), "mcp__s__b".to_owned()]);
        assert_eq!(chosen(&spec, all()), ["a", "b"]);
        spec.exclude_tools = vec!["a".to_owned()];
        assert_eq!(chosen(&spec, all()), ["b"]);
        spec.allowed_tools = Some(vec![]);
        assert_eq!(chosen(&spec, all()), Vec::<String>::new());
    }

    #[test]
    fn a_list_that_names_an_unknown_tool_gives_a_notice() {
        let mut spec = ServerSpec::stdio("s", "x", vec![]);
        spec.exclude_tools = vec!["raed".to_owned()];
        let (_, notices) = choose(&spec, vec![plain("read")]);
        assert_eq!(notices, [NoticeKind::UnknownTool { tool: "raed".to_owned() }]);
    }

    #[test]
    fn tools_with_invalid_schemas_are_left_out_one_by_one() {
        let spec = ServerSpec::stdio("s", "x", vec![]);
        let bad = [
            json!({"type": "array"}),
            json!({"type": "object", "properties": []}),
            json!({"type": "object", "properties": {"a": 1}}),
            json!({"type": "object", "required": "a"}),
            json!({"type": "object", "description": "x".repeat(limits::SCHEMA)}),
        ];
        let mut tools: Vec<Tool> = bad
            .into_iter()
            .enumerate()
            .map(|(i, schema)| tool(json!({"name": format!("bad{i}"), "inputSchema": schema})))
            .collect();
        tools.push(plain("good"));
        let (kept, notices) = choose(&spec, tools);
        assert_eq!(kept.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["good"]);
        assert_eq!(notices.len(), 5);
    }

    #[test]
    fn a_schema_without_type_or_properties_gets_them() {
        let spec = ServerSpec::stdio("s", "x", vec![]);
        let (kept, _) = choose(&spec, vec![tool(json!({"name": "t", "inputSchema": {}}))]);
        assert_eq!(kept[0].parameters, json!({"type": "object", "properties": {}}));
    }

    #[test]
    fn a_huge_list_is_cut_and_a_filter_applies_before_the_cut() {
        let mut spec = ServerSpec::stdio("s", "x", vec![]);
        let many = || (0..2000).map(|i| plain(&format!("t{i}"))).collect::<Vec<_>>();
        let (kept, notices) = choose(&spec, many());
        assert_eq!(kept.len(), limits::TOOLS);
        assert_eq!(notices, [NoticeKind::TooManyTools { kept: limits::TOOLS }]);
        spec.allowed_tools = Some(vec!["t1999".to_owned()]);
        assert_eq!(chosen(&spec, many()), ["t1999"]);
    }

    #[test]
    fn descriptions_are_cut_and_freed_of_control_characters() {
        let spec = ServerSpec::stdio("s", "x", vec![]);
        let text = format!("\u{1b}[31mred\n{}", "x".repeat(5000));
        let (kept, _) =
            choose(&spec, vec![tool(json!({"name": "t", "description": text, "inputSchema": {}}))]);
        assert_eq!(kept[0].description.chars().count(), limits::DESCRIPTION);
        assert!(kept[0].description.starts_with("[31mred\nxxx"));
    }
}
