//! Writes a first config for `config init`.
//!
//! What it writes passes `check` without a warning on the machine it was written for, and says in comments what to
//! change. It names variables, never keys themselves: a config belongs into version control.

use std::fmt::Write as _;

use crate::backends::{BACKENDS, BackendType};

/// A provider whose key is set on this machine.
#[derive(Clone, Copy, Debug)]
pub struct FoundProvider {
    /// The provider.
    pub backend: &'static BackendType,
    /// The variable that holds its key.
    pub variable: &'static str,
}

/// The supported providers whose keys are set, in the order of the table.
pub fn found_providers(env: &dyn Fn(&str) -> Option<String>) -> Vec<FoundProvider> {
    let is_set = |name: &&&'static str| env(name).is_some_and(|value| !value.trim().is_empty());
    BACKENDS
        .iter()
        // A type without an address of its own takes more than a key.
        .filter(|backend| backend.is_supported() && backend.base_url.is_some())
        .filter_map(|backend| {
            Some(FoundProvider { backend, variable: backend.key_variables.iter().find(is_set)? })
        })
        .collect()
}

/// A commented config: an agent for each provider found, or three offline agents where there is none.
pub fn starter(found: &[FoundProvider]) -> String {
    let mut out = String::from(
        "# A team of agents for Althing. Check it with `althing config check`, run it with\n\
         # `althing --config <this file> \"your task\"`. Every key: `althing config schema`.\n\n\
         agents:\n",
    );
    // Writing to a String cannot fail.
    if found.is_empty() {
        let _ =
            writeln!(out, "  # The offline model is not an AI: it shows how a run works without any key.");
        let _ = writeln!(
            out,
            "  # For a real team, set OPENAI_API_KEY and use `type: openai`, or see the schema."
        );
        // The name of an offline model decides how it sees things.
        for (id, model) in [("one", "offline-a"), ("two", "offline-b"), ("three", "offline-c")] {
            let _ = writeln!(out, "  - id: {id}\n    backend:\n      type: offline\n      model: {model}");
        }
    }
    for provider in found {
        let FoundProvider { backend, variable } = provider;
        let model = backend.first_model();
        let _ = writeln!(out, "  # {}; the key is read from {variable}.", backend.title);
        let _ = writeln!(
            out,
            "  - id: {}\n    backend:\n      type: {}\n      model: {model}",
            backend.name, backend.name
        );
        let _ = writeln!(out, "    # system_message: What this agent is told about itself.");
    }
    out.push_str(
        "\norchestrator:\n  \
           # How good an answer must be before agents vote for it: lenient, balanced, strict.\n  \
           voting_sensitivity: lenient\n  \
           # Most answers of one agent; after that it only votes.\n  \
           # max_new_answers_per_agent: 3\n  \
           # winner_present: the winner writes the final answer; winner_reuse: its answer stands as it is;\n  \
           # synthesize: it writes one answer from everyone's.\n  \
           # final_answer_strategy: winner_present\n  \
           # The conversation in front of the runs; without this section every message is a run.\n  \
           interactive_mode:\n    \
             enabled: true\n    \
             # Whether you approve each run before it starts.\n    \
             require_approval: true\n\n\
         timeout_settings:\n  \
           # Longest time of a whole run; then the best answer so far is given.\n  \
           orchestrator_timeout_seconds: 1800\n",
    );
    out
}
