//! What `--offline` with `--config` simulates instead of starting it: commands, MCP servers, and the programs of
//! workflows. A simulated part does nothing and says so.

use althing_mcp::ServerSpec;
use althing_protocol::{
    AgentKind, BoxFuture, Config, ContextAccess, McpServerConfig, ProgramEnd, ProgramJob, ProgramReport,
    Programs, ReportSink, Screen, TaskId, ToolCall, ToolHost, ToolOutcome, ToolSpec, ToolsConfig,
};
use althing_runner::RUN_COMMAND;
use serde_json::json;
use std::collections::BTreeSet;

pub(crate) struct SimulatedTools(Vec<ToolSpec>);

impl SimulatedTools {
    pub(crate) fn commands() -> Self {
        let parameters = json!({
            "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"],
        });
        Self(vec![simulated_tool(RUN_COMMAND, parameters)])
    }

    /// Only the tools that the config names are known, because the servers are not started.
    pub(crate) fn servers(configs: &[McpServerConfig]) -> Self {
        let specs: Vec<ServerSpec> = configs
            .iter()
            .map(|config| {
                let mut spec = ServerSpec::http(config.name.clone(), "");
                spec.allowed_tools.clone_from(&config.allowed_tools);
                spec.exclude_tools.clone_from(&config.exclude_tools);
                spec
            })
            .collect();
        let names = althing_mcp::named_tools(&specs);
        Self(names.iter().map(|name| simulated_tool(name, json!({"type": "object"}))).collect())
    }
}

fn simulated_tool(name: &str, parameters: serde_json::Value) -> ToolSpec {
    let description = "Simulated because of --offline: a call does nothing.".to_owned();
    ToolSpec { name: name.to_owned(), description, parameters }
}

impl ToolHost for SimulatedTools {
    fn tools(&self, _access: ContextAccess) -> Vec<ToolSpec> {
        self.0.clone()
    }

    fn call<'a>(&'a self, call: &'a ToolCall, _access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let content = format!("[simulated because of --offline: {} did nothing]", call.name);
            ToolOutcome { content, is_error: false }
        })
    }
}

pub(crate) struct SimulatedPrograms;

impl Programs for SimulatedPrograms {
    fn run<'a>(&'a self, job: &'a ProgramJob, reports: ReportSink) -> BoxFuture<'a, ProgramEnd> {
        Box::pin(async move {
            let program = job.spec.command.first().unwrap_or(&job.spec.adapter);
            let output = format!("[simulated because of --offline: {program} was not started]");
            let line = format!("{output}\n");
            reports(ProgramReport::Output { raw: line.clone().into_bytes(), clean: line });
            ProgramEnd { ok: true, exit_code: Some(0), output, ..ProgramEnd::default() }
        })
    }

    fn input(&self, _task: &TaskId, _bytes: &[u8]) -> bool {
        false
    }

    fn resize(&self, _task: &TaskId, _cols: u16, _rows: u16) {}

    fn answer(&self, _task: &TaskId, _native: &str, _option: &str) -> bool {
        false
    }

    fn screen(&self, _task: &TaskId) -> Option<Screen> {
        None
    }
}

pub(crate) fn notice(config: &Config) -> String {
    let mut parts = vec!["models".to_owned()];
    let programs = config.agents.iter().filter(|agent| AgentKind::of(&agent.backend.kind).is_some());
    let chat = config.interactive.iter();
    let chat_program = chat.clone().filter_map(|chat| chat.backend.as_ref());
    let chat_program = chat_program.filter(|backend| AgentKind::of(&backend.kind).is_some());
    add(
        &mut parts,
        "CLI agents",
        programs.map(|agent| agent.id.as_str()).chain(chat_program.map(|_| "chat")),
    );
    let agents = || config.agents.iter().map(|agent| (agent.id.as_str(), &agent.tools));
    let tools = agents().map(|(_, tools)| tools).chain(chat.map(|chat| &chat.tools));
    add(
        &mut parts,
        "MCP servers",
        tools.flat_map(|tools| &tools.mcp_servers).map(|server| server.name.as_str()),
    );
    let runs = |in_docker: bool| {
        move |tools: &ToolsConfig| {
            tools.commands.as_ref().is_some_and(|commands| commands.docker.is_some() == in_docker)
        }
    };
    let on_host = runs(false);
    add(&mut parts, "commands", agents().filter(|(_, tools)| on_host(tools)).map(|(id, _)| id));
    let in_docker = runs(true);
    add(&mut parts, "commands in Docker", agents().filter(|(_, tools)| in_docker(tools)).map(|(id, _)| id));
    format!("--offline with --config starts and sends nothing; simulated: {}", parts.join(", "))
}

fn add<'a>(parts: &mut Vec<String>, kind: &str, names: impl Iterator<Item = &'a str>) {
    let names: Vec<&str> = names.collect::<BTreeSet<_>>().into_iter().collect();
    if !names.is_empty() {
        parts.push(format!("{kind} ({})", names.join(", ")));
    }
}
