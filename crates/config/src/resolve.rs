//! Turns a document without errors into settings. Absent keys take the defaults of the settings' types; a test
//! compares these with the defaults in the table of keys.

use std::collections::BTreeMap;

use althing_protocol::{
    AgentConfig, AgentId, AgentOptions, AnswerNovelty, BackendConfig, ChatLimits, Config, ContextCompaction,
    FinalAnswerStrategy, InteractiveConfig, Millis, NotifyConfig, PermissionMode, Price, ProcessLimits,
    RunLimits, RunRules, Secret, ToolsConfig, VotingSensitivity,
};

use crate::abilities::Abilities;
use crate::backends::{BackendApi, BackendTypes};
use crate::cross_key_checks;
use crate::decision_rules;
use crate::keys::{self, Choice, Kind, Section, Status};
use crate::memory;
use crate::tools;
use crate::tree::Node;
use crate::variables::Variables;

/// The variable is read if the config names no `api_version`.
const AZURE_VERSION_VARIABLE: &str = "AZURE_OPENAI_API_VERSION";

pub(crate) fn config(root: &Node, env: Variables<'_>, backends: &'static BackendTypes) -> Config {
    let orchestrator = root.get("orchestrator");
    let context_paths = tools::paths::resolve(root);
    let agents = cross_key_checks::agents(root);
    let abilities = Abilities::of(root);
    let agent = |node| agent(node, env, backends, !context_paths.is_empty());
    Config {
        agents: agents.iter().filter_map(|at| agent(at.node)).collect(),
        rules: RunRules {
            subagents: abilities.subagents(),
            ..run_rules(orchestrator, root.get("timeout_settings"))
        },
        interactive: orchestrator.and_then(|node| interactive(node, env, backends)),
        prices: root.get("prices").map(prices).unwrap_or_default(),
        project_instructions: orchestrator.and_then(|node| flag(node, "project_instructions")) != Some(false),
        max_snapshot_bytes: orchestrator
            .and_then(|node| node.get("max_snapshot_size"))
            .and_then(memory::amount)
            .and_then(|amount| memory::memory_bytes(&amount)),
        skills: abilities.skills(),
        file_memory: abilities.file_memory(),
        task_planning: abilities.task_planning(),
        planning: abilities.planning(),
        subagents: abilities.subagents(),
        adapters: Vec::new(),
        chat_limits: chat_limits(orchestrator),
        process_limits: process_limits(orchestrator),
        notify: root.get("notify").map(notify),
        context_paths,
    }
}

fn notify(node: &Node) -> NotifyConfig {
    let command = node.get("command").map(Node::items).unwrap_or_default();
    NotifyConfig {
        command: command.iter().filter_map(|word| word.as_text().map(str::to_owned)).collect(),
        webhook: text(node, "webhook"),
    }
}

/// Whether the config asks for plain progress instead of the full screen.
pub(crate) fn plain_progress(root: &Node) -> bool {
    let ui = root.get("ui");
    let kind = ui.and_then(|ui| ui.get("display_type").or_else(|| ui.get("type")));
    kind.and_then(Node::as_text) == Some("simple")
}

fn agent(
    node: &Node,
    env: Variables<'_>,
    backends: &'static BackendTypes,
    has_paths: bool,
) -> Option<AgentConfig> {
    let messages = [text(node, "system_message"), text(node, "append_system_prompt")];
    let messages: Vec<String> = messages.into_iter().flatten().collect();
    let backend_node = node.get("backend")?;
    Some(AgentConfig {
        id: AgentId::new(text(node, "id")?),
        system_message: (!messages.is_empty()).then(|| messages.join("\n\n")),
        voting_sensitivity: node.get("voting_sensitivity").and_then(sensitivity),
        backend: backend(backend_node, env, backends)?,
        tools: tools::resolve::tools(backend_node, has_paths, backends),
    })
}

pub(crate) fn backend(
    node: &Node,
    env: Variables<'_>,
    backends: &'static BackendTypes,
) -> Option<BackendConfig> {
    let kind = text(node, "type")?;
    let facts = backends.named(&kind)?;
    let mut headers = Vec::new();
    for entry in
        ["default_headers", "extra_headers"].iter().filter_map(|key| node.get(key)).flat_map(Node::entries)
    {
        let Some(value) = entry.value.as_text() else { continue };
        headers.retain(|(name, _): &(String, Secret)| !name.eq_ignore_ascii_case(&entry.key));
        headers.push((entry.key.clone(), Secret::new(value)));
    }
    let params = node.entries().iter().filter(|entry| !entry.value.is_null()).filter_map(|entry| {
        let acts = |key: &&keys::Key| key.passed_on && key.status == Status::Supported;
        let key = keys::BACKEND.key(&entry.key).filter(acts)?;
        Some((entry.key.clone(), as_kind(key.kind, &entry.value)))
    });
    let mut params: serde_json::Map<_, _> = params.collect();
    if facts.api == BackendApi::Azure
        && !params.contains_key("api_version")
        && let Some(version) = (env.own)(AZURE_VERSION_VARIABLE).filter(|version| !version.trim().is_empty())
    {
        params.insert("api_version".to_owned(), version.trim().into());
    }
    Some(BackendConfig {
        model: text(node, "model").or_else(|| facts.default_model.map(str::to_owned)),
        base_url: cross_key_checks::address(node, facts, env),
        api_key: if facts.is_supported() {
            cross_key_checks::api_key(node, facts, env).map(Secret::new)
        } else {
            None
        },
        headers,
        params,
        options: if facts.agent.is_some() { options(node) } else { AgentOptions::default() },
        kind,
    })
}

fn options(node: &Node) -> AgentOptions {
    let filled = |key: &str| text(node, key).filter(|text| !text.trim().is_empty());
    let permission_mode = match text(node, "permission_mode").as_deref() {
        Some("default") => Some(PermissionMode::Default),
        Some("acceptEdits") => Some(PermissionMode::AcceptEdits),
        Some("bypassPermissions") => Some(PermissionMode::BypassPermissions),
        Some("plan") => Some(PermissionMode::Plan),
        _ => None,
    };
    AgentOptions {
        permission_mode,
        allowed_tools: node.get("allowed_tools").map(tools::texts),
        disallowed_tools: node.get("disallowed_tools").map(tools::texts).unwrap_or_default(),
        system_prompt: filled("system_prompt"),
        append_system_prompt: filled("append_system_prompt"),
        reasoning_effort: filled(AgentOptions::REASONING_EFFORT)
            .or_else(|| node.get("reasoning").and_then(|reasoning| text(reasoning, "effort"))),
    }
}

/// A number or boolean that came from a variable, or was written as a word, is converted.
pub(crate) fn as_kind(kind: Kind, node: &Node) -> serde_json::Value {
    let converted = match kind {
        _ if node.as_text().is_none() => None,
        Kind::Bool => node.as_bool().map(Into::into),
        Kind::Integer(_) => node.as_integer().map(Into::into),
        Kind::Number(_) => node.as_number().map(Into::into),
        _ => None,
    };
    converted.unwrap_or_else(|| node.to_json())
}

fn run_rules(orchestrator: Option<&Node>, timeouts: Option<&Node>) -> RunRules {
    let default = RunRules { limits: limits(orchestrator, timeouts), ..RunRules::default() };
    let Some(node) = orchestrator else { return default };
    let coordination = node.get("coordination");
    let seconds_of = |key: &str| coordination.and_then(|node| seconds(node, key));
    RunRules {
        max_new_answers_per_agent: count(node, "max_new_answers_per_agent"),
        max_new_answers_global: count(node, "max_new_answers_global"),
        voting_sensitivity: node
            .get("voting_sensitivity")
            .and_then(sensitivity)
            .unwrap_or(default.voting_sensitivity),
        skip_voting: flag(node, "skip_voting").unwrap_or(default.skip_voting),
        disable_injection: flag(node, "disable_injection").unwrap_or(default.disable_injection),
        defer_voting_until_all_answered: flag(node, "defer_voting_until_all_answered")
            .unwrap_or(default.defer_voting_until_all_answered),
        final_answer_strategy: node.get("final_answer_strategy").and_then(strategy),
        skip_final_presentation: flag(node, "skip_final_presentation")
            .unwrap_or(default.skip_final_presentation),
        first_answer_wait: seconds_of("first_answer_wait_seconds").unwrap_or(default.first_answer_wait),
        // Zero means no limit.
        straggler_wait: seconds_of("straggler_wait_seconds")
            .or(default.straggler_wait)
            .filter(|wait| *wait > Millis(0)),
        // Zero means no override window.
        override_window: seconds_of("override_window_seconds")
            .or(default.override_window)
            .filter(|window| *window > Millis(0)),
        answer_novelty: node
            .get("answer_novelty_requirement")
            .and_then(novelty)
            .unwrap_or(default.answer_novelty),
        fairness_lead_cap: count(node, "fairness_lead_cap_answers")
            .or(default.fairness_lead_cap)
            .filter(|_| flag(node, "fairness_enabled") != Some(false)),
        max_restarts: coordination
            .and_then(|node| count(node, "max_orchestration_restarts"))
            .or_else(|| count(node, "max_orchestration_restarts"))
            .unwrap_or(default.max_restarts),
        plan_first: default.plan_first,
        subagents: default.subagents,
        decision: decision_rules::resolve(node),
        limits: default.limits,
    }
}

fn limits(orchestrator: Option<&Node>, timeouts: Option<&Node>) -> RunLimits {
    let default = RunLimits::default();
    let time = |key: &str| timeouts.and_then(|node| seconds(node, key));
    let most = |key: &str| limit_section(orchestrator).and_then(|node| count(node, key));
    RunLimits {
        orchestrator: time("orchestrator_timeout_seconds").unwrap_or(default.orchestrator),
        initial_round: time("initial_round_timeout_seconds"),
        subsequent_round: time("subsequent_round_timeout_seconds"),
        round_grace: time("round_timeout_grace_seconds").unwrap_or(default.round_grace),
        cost_micro_usd: default.cost_micro_usd,
        answers_per_agent: most("answers_per_agent").or(default.answers_per_agent),
        tool_calls_per_agent: most("tool_calls_per_agent").or(default.tool_calls_per_agent),
        model_calls: most("model_calls_per_run").or(default.model_calls),
    }
}

fn limit_section(orchestrator: Option<&Node>) -> Option<&Node> {
    orchestrator.and_then(|node| node.get("limits"))
}

fn chat_limits(orchestrator: Option<&Node>) -> ChatLimits {
    let default = ChatLimits::default();
    let most = |key: &str| limit_section(orchestrator).and_then(|node| count(node, key));
    ChatLimits {
        model_calls: most("model_calls_per_message").unwrap_or(default.model_calls),
        tool_calls: most("tool_calls_per_agent").or(default.tool_calls),
    }
}

fn process_limits(orchestrator: Option<&Node>) -> ProcessLimits {
    let default = ProcessLimits::default();
    let Some(node) = limit_section(orchestrator) else { return default };
    let bytes = |key: &str| memory::memory_bytes(&memory::amount(node.get(key)?)?);
    ProcessLimits {
        processes: count(node, "processes"),
        memory: bytes("memory"),
        open_files: count(node, "open_files").unwrap_or(default.open_files),
        disk: bytes("disk").unwrap_or(default.disk),
    }
}

/// An empty section turns the conversation on, too.
fn interactive(
    orchestrator: &Node,
    env: Variables<'_>,
    backends: &'static BackendTypes,
) -> Option<InteractiveConfig> {
    let node = &orchestrator.entry("interactive_mode")?.value;
    let default = InteractiveConfig::default();
    let compaction = node.get("context_compaction").map_or(default.context_compaction, |node| {
        let default = default.context_compaction;
        ContextCompaction {
            enabled: flag(node, "enabled").unwrap_or(default.enabled),
            threshold_tokens: integer(node, "threshold_tokens").unwrap_or(default.threshold_tokens),
            preserve_recent: count(node, "preserve_recent").unwrap_or(default.preserve_recent),
        }
    });
    Some(InteractiveConfig {
        enabled: flag(node, "enabled").unwrap_or(default.enabled),
        require_approval: flag(node, "require_approval").unwrap_or(default.require_approval),
        backend: node.get("backend").and_then(|node| backend(node, env, backends)),
        tools: chat_agent_tools(node.get("backend"), backends),
        append_system_prompt: text(node, "append_system_prompt"),
        context_compaction: compaction,
        budget_usd: node.get("budget_usd").and_then(Node::as_number),
    })
}

/// The chat agent gets no other tools from a config.
fn chat_agent_tools(backend: Option<&Node>, backends: &BackendTypes) -> ToolsConfig {
    let tools = backend.map(|node| tools::resolve::tools(node, false, backends));
    let ToolsConfig { mcp_servers, excluded_tools, .. } = tools.unwrap_or_default();
    ToolsConfig { mcp_servers, excluded_tools, ..ToolsConfig::default() }
}

fn prices(node: &Node) -> BTreeMap<String, Price> {
    let price = |node: &Node| {
        Some(Price {
            input_per_million: node.get("input_per_million")?.as_number()?,
            output_per_million: node.get("output_per_million")?.as_number()?,
            cached_input_per_million: node.get("cached_input_per_million").and_then(Node::as_number),
        })
    };
    node.entries().iter().filter_map(|entry| Some((entry.key.clone(), price(&entry.value)?))).collect()
}

fn sensitivity(node: &Node) -> Option<VotingSensitivity> {
    match word(&keys::ORCHESTRATOR, "voting_sensitivity", node)? {
        "lenient" => Some(VotingSensitivity::Lenient),
        "balanced" => Some(VotingSensitivity::Balanced),
        "strict" => Some(VotingSensitivity::Strict),
        "roi" => Some(VotingSensitivity::Roi),
        "roi_conservative" => Some(VotingSensitivity::RoiConservative),
        "roi_balanced" => Some(VotingSensitivity::RoiBalanced),
        "roi_aggressive" => Some(VotingSensitivity::RoiAggressive),
        "sequential" => Some(VotingSensitivity::Sequential),
        "adversarial" => Some(VotingSensitivity::Adversarial),
        "consistency" => Some(VotingSensitivity::Consistency),
        "diversity" => Some(VotingSensitivity::Diversity),
        "reflective" => Some(VotingSensitivity::Reflective),
        "checklist" => Some(VotingSensitivity::Checklist),
        _ => None,
    }
}

fn novelty(node: &Node) -> Option<AnswerNovelty> {
    match word(&keys::ORCHESTRATOR, "answer_novelty_requirement", node)? {
        "lenient" => Some(AnswerNovelty::Lenient),
        "balanced" => Some(AnswerNovelty::Balanced),
        "strict" => Some(AnswerNovelty::Strict),
        _ => None,
    }
}

fn strategy(node: &Node) -> Option<FinalAnswerStrategy> {
    match word(&keys::ORCHESTRATOR, "final_answer_strategy", node)? {
        "winner_reuse" => Some(FinalAnswerStrategy::WinnerReuse),
        "winner_present" => Some(FinalAnswerStrategy::WinnerPresent),
        "synthesize" => Some(FinalAnswerStrategy::Synthesize),
        _ => None,
    }
}

/// The given word or, if Althing does not support that word, the word that is used instead. `None` if the key does not
/// accept the word.
pub(crate) fn word(section: &Section, key: &str, node: &Node) -> Option<&'static str> {
    let Kind::Choice(choices) = section.key(key)?.kind else { return None };
    let given = node.as_text()?;
    let choice: &'static Choice = choices.iter().find(|choice| choice.value == given)?;
    Some(choice.used_instead.unwrap_or(choice.value))
}

pub(crate) fn text(node: &Node, key: &str) -> Option<String> {
    node.get(key)?.as_text().map(str::to_owned)
}

pub(crate) fn flag(node: &Node, key: &str) -> Option<bool> {
    node.get(key)?.as_bool()
}

fn integer(node: &Node, key: &str) -> Option<u64> {
    node.get(key)?.as_integer()?.try_into().ok()
}

pub(crate) fn count(node: &Node, key: &str) -> Option<u32> {
    node.get(key)?.as_integer()?.try_into().ok()
}

pub(crate) fn seconds(node: &Node, key: &str) -> Option<Millis> {
    let seconds = node.get(key)?.as_number()?;
    Some(Millis((seconds * 1000.0).round() as u64))
}
