//! Generates a starter config for `config init` and for starts without a config.
//!
//! The generated config passes `config check` without a warning on the machine that it was generated for, and says in
//! comments what to change. The config names variables and never contains API keys, because it belongs in version
//! control.

use std::fmt::Write as _;

use crate::backends::{self, BACKENDS, BackendType};

/// The backend type of a local Ollama.
const OLLAMA: &str = "ollama";
/// The maximum number of agents on an Ollama server; these agents share one machine.
const MAX_OLLAMA_AGENTS: usize = 3;

/// A provider whose key is set on this machine.
#[derive(Clone, Copy, Debug)]
pub struct DetectedProvider {
    /// The provider.
    pub backend: &'static BackendType,
    /// The variable that holds the key.
    pub variable: &'static str,
}

/// An Ollama server that is running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectedOllama {
    /// The address.
    pub base_url: String,
    /// The installed models.
    pub models: Vec<String>,
}

/// What agents can be made of on this machine.
#[derive(Clone, Debug, Default)]
pub struct DetectedBackends {
    /// Providers whose keys are set.
    pub providers: Vec<DetectedProvider>,
    /// CLI agents that are installed.
    pub programs: Vec<&'static BackendType>,
    /// A running Ollama.
    pub ollama: Option<DetectedOllama>,
}

impl DetectedBackends {
    /// Whether no agent can be made of what was detected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many agents can be made.
    pub fn len(&self) -> usize {
        self.providers.len() + self.programs.len() + self.chat_models().len()
    }

    /// A description for people: `API keys (OPENAI_API_KEY), programs (claude), Ollama (llama3.2)`.
    pub fn describe(&self) -> String {
        let keys = self.providers.iter().map(|provider| provider.variable).collect();
        let programs = self.programs.iter().filter_map(|program| Some(program.agent?.program)).collect();
        let parts: [(&str, Vec<&str>); 3] =
            [("API keys", keys), ("programs", programs), ("Ollama", self.chat_models())];
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        parts.map(|(what, names)| format!("{what} ({})", names.join(", "))).collect::<Vec<_>>().join(", ")
    }

    /// The Ollama models that agents are made of: the first three whose names do not contain `embed`.
    fn chat_models(&self) -> Vec<&str> {
        let models = self.ollama.iter().flat_map(|ollama| &ollama.models).map(String::as_str);
        models.filter(|model| !model.contains("embed")).take(MAX_OLLAMA_AGENTS).collect()
    }
}

/// The supported providers with a default address whose keys are set, in table order.
pub fn detect_providers(env: &dyn Fn(&str) -> Option<String>) -> Vec<DetectedProvider> {
    let is_set = |name: &&&'static str| env(name).is_some_and(|value| !value.trim().is_empty());
    BACKENDS
        .iter()
        // A type without a default address needs more than a key.
        .filter(|backend| backend.is_supported() && backend.base_url.is_some())
        .filter_map(|backend| {
            Some(DetectedProvider { backend, variable: backend.key_variables.iter().find(is_set)? })
        })
        .collect()
}

/// The supported CLI agents that are installed.
pub fn detect_cli_agents(is_installed: &dyn Fn(&str) -> bool) -> Vec<&'static BackendType> {
    let is_there = |backend: &&BackendType| backend.agent.is_some_and(|agent| is_installed(agent.program));
    BACKENDS.iter().filter(is_there).collect()
}

/// A commented config: one agent for each provider and CLI agent that was detected and for the first three chat models
/// of Ollama, or three offline agents if there is none of these.
pub fn starter_config(found: &DetectedBackends) -> String {
    let mut out = String::from(
        "# A team of agents for Althing. Check it with `althing config check`, run it with\n\
         # `althing --config <this file> \"your task\"`. Every key: `althing config schema`.\n\n\
         agents:\n",
    );
    if found.is_empty() {
        offline(&mut out);
    }
    for DetectedProvider { backend, variable } in &found.providers {
        let about = format!("{}; the key is read from {variable}.", backend.title);
        agent(&mut out, &about, backend.name, &[("type", backend.name), ("model", backend.starter_model())]);
    }
    for program in &found.programs {
        let command = program.agent.map_or(program.name, |agent| agent.program);
        let about = format!("{}: the program `{command}`, with its own sign-in and model.", program.title);
        agent(&mut out, &about, program.name, &[("type", program.name)]);
    }
    for (n, model) in (1..).zip(found.chat_models()) {
        let own = backends::backend_type(OLLAMA).and_then(|backend| backend.base_url);
        let address = found.ollama.as_ref().map(|ollama| ollama.base_url.as_str());
        // Every JSON string is valid YAML.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let (model, address) = (quoted(model), address.filter(|url| Some(*url) != own).map(quoted));
        let mut keys = vec![("type", OLLAMA), ("model", model.as_str())];
        keys.extend(address.as_deref().map(|address| ("base_url", address)));
        let id = if n == 1 { OLLAMA.to_owned() } else { format!("{OLLAMA}-{n}") };
        agent(&mut out, "Ollama, on this machine.", &id, &keys);
    }
    out.push_str(
        "\norchestrator:\n  \
           # How good an answer must be before agents vote for it: lenient, balanced, strict.\n  \
           voting_sensitivity: lenient\n  \
           # Maximum number of answers of one agent; after that it can only vote.\n  \
           # max_new_answers_per_agent: 3\n  \
           # winner_present: the winner writes the final answer; winner_reuse: the winner's answer is used unchanged;\n  \
           # synthesize: one answer is combined from all answers.\n  \
           # final_answer_strategy: winner_present\n  \
           # You talk to a chat agent that launches runs; without this section every message starts a run.\n  \
           interactive_mode:\n    \
             enabled: true\n    \
             # Whether you approve each run before it starts.\n    \
             require_approval: true\n\n\
         timeout_settings:\n  \
           # Time limit of a whole run; when it is reached, the best answer so far is given.\n  \
           orchestrator_timeout_seconds: 1800\n",
    );
    out
}

fn agent(out: &mut String, about: &str, id: &str, backend: &[(&str, &str)]) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "  # {about}\n  - id: {id}\n    backend:");
    for (key, value) in backend {
        let _ = writeln!(out, "      {key}: {value}");
    }
    let _ = writeln!(out, "    # system_message: This agent's own system message.");
}

fn offline(out: &mut String) {
    out.push_str(
        "  # The offline model is not an AI: it shows how a run works without any key.\n  \
           # For a real team, set OPENAI_API_KEY and use `type: openai`, or see the schema.\n",
    );
    // The model name selects the offline model's behavior.
    for (id, model) in [("one", "offline-a"), ("two", "offline-b"), ("three", "offline-c")] {
        let _ = writeln!(out, "  - id: {id}\n    backend:\n      type: offline\n      model: {model}");
    }
}
