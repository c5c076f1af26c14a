//! Generates a starter config for `config init` and for starts without a config. It passes `config check` without a
//! warning on this machine, and never contains API keys, because it belongs in version control.

use std::fmt::Write as _;

use crate::backends::{self, BACKENDS, BackendType};
use crate::local_team::{DetectedServer, LocalAgent, LocalTeam, with_size};

/// A provider whose API key is set on this machine.
#[derive(Clone, Copy, Debug)]
pub struct DetectedProvider {
    /// The provider.
    pub backend: &'static BackendType,
    /// The variable with the key.
    pub variable: &'static str,
}

/// What agents can be made of on this machine.
#[derive(Clone, Debug, Default)]
pub struct DetectedBackends {
    /// Providers whose API keys are set.
    pub providers: Vec<DetectedProvider>,
    /// CLI agents that are installed.
    pub programs: Vec<&'static BackendType>,
    /// Running model servers.
    pub servers: Vec<DetectedServer>,
    /// The free memory in bytes, if it is known.
    pub memory: Option<u64>,
    /// For the user: which model servers could not be used, and why.
    pub unusable_servers: Vec<String>,
}

impl DetectedBackends {
    /// Whether no agent can be made of what was detected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many agents can be made.
    pub fn len(&self) -> usize {
        self.providers.len() + self.programs.len() + self.local_team().agents.len()
    }

    /// A text for the user: `API keys (OPENAI_API_KEY), programs (claude), Ollama (llama3.2:1b 1.3 GB)`.
    pub fn describe(&self) -> String {
        let keys = self.providers.iter().map(|provider| provider.variable.to_owned()).collect();
        let programs =
            self.programs.iter().filter_map(|program| Some(program.agent?.program.to_owned())).collect();
        let mut parts: Vec<(&str, Vec<String>)> = vec![("API keys", keys), ("programs", programs)];
        for agent in self.local_team().agents {
            let name = with_size(agent.model);
            match parts.iter_mut().find(|(title, _)| *title == agent.server.title) {
                Some((_, names)) if names.contains(&name) => {}
                Some((_, names)) => names.push(name),
                None => parts.push((agent.server.title, vec![name])),
            }
        }
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        parts.map(|(what, names)| format!("{what} ({})", names.join(", "))).collect::<Vec<_>>().join(", ")
    }

    /// What could not be used: model servers, and local models that do not fit into the free memory.
    pub fn unusable(&self) -> Vec<String> {
        self.unusable_servers.iter().cloned().chain(self.describe_too_large()).collect()
    }

    fn describe_too_large(&self) -> Option<String> {
        let team = self.local_team();
        let names: Vec<String> = team.too_large.iter().map(|model| with_size(model)).collect();
        let free = self.memory.unwrap_or_default() as f64 / 1e9;
        let names = names.join(", ");
        (!names.is_empty()).then(|| {
            format!("local models that do not fit into the free memory ({free:.1} GB) are not used: {names}")
        })
    }

    fn local_team(&self) -> LocalTeam<'_> {
        LocalTeam::choose(&self.servers, self.memory)
    }
}

/// Supported providers with a default address whose API keys are set, in table order.
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

/// A commented config: one agent for each detected provider and CLI agent, and up to three on local models; three
/// offline agents if nothing was detected.
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
        agent(
            &mut out,
            &about,
            backend.name,
            &[("type", backend.name), ("model", backend.starter_model())],
            None,
        );
    }
    for program in &found.programs {
        let command = program.agent.map_or(program.name, |agent| agent.program);
        let about = format!("{}: the program `{command}`, with its own sign-in and model.", program.title);
        agent(&mut out, &about, program.name, &[("type", program.name)], None);
    }
    let local = found.local_team();
    let mut ids: Vec<&str> = Vec::new();
    for LocalAgent { server, model, system_message } in &local.agents {
        let own = backends::backend_type(server.kind).and_then(|backend| backend.base_url);
        // Every JSON string is valid YAML. A server chose the text, so no variable may be inserted into it.
        let quoted = |text: &str| serde_json::Value::from(text.replace("${", "$${")).to_string();
        let (name, address) = (quoted(&model.name), Some(server.base_url.as_str()));
        let address = address.filter(|url| Some(*url) != own).map(quoted);
        let mut keys = vec![("type", server.kind), ("model", name.as_str())];
        keys.extend(address.as_deref().map(|address| ("base_url", address)));
        ids.push(server.title);
        let base = server.title.to_ascii_lowercase().replace(' ', "-");
        let id = match ids.iter().filter(|title| **title == server.title).count() {
            1 => base,
            n => format!("{base}-{n}"),
        };
        agent(
            &mut out,
            &format!("{}, on this machine.", server.title),
            &id,
            &keys,
            system_message.map(quoted).as_deref(),
        );
    }
    let strategy = if local.is_small() && local.agents.len() == found.len() {
        "# Small models present poorly, so the winner's answer is used unchanged.\n  final_answer_strategy: winner_reuse\n  "
    } else {
        "# final_answer_strategy: winner_present\n  "
    };
    out.push_str(
        "\norchestrator:\n  \
           # How good an answer must be before agents vote for it: lenient, balanced, strict.\n  \
           voting_sensitivity: lenient\n  \
           # Maximum number of answers of one agent; after that it can only vote.\n  \
           # max_new_answers_per_agent: 3\n  \
           # winner_present: the winner writes the final answer; winner_reuse: the winner's answer is used unchanged;\n  \
           # synthesize: one answer is combined from all answers.\n  ",
    );
    out.push_str(strategy);
    out.push_str(
        "# You talk to a chat agent that launches runs; without this section every message starts a run.\n  \
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

fn agent(out: &mut String, about: &str, id: &str, backend: &[(&str, &str)], system_message: Option<&str>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "  # {about}\n  - id: {id}\n    backend:");
    for (key, value) in backend {
        let _ = writeln!(out, "      {key}: {value}");
    }
    let _ = match system_message {
        Some(message) => writeln!(out, "    system_message: {message}"),
        None => writeln!(out, "    # system_message: This agent's own system message."),
    };
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
