//! Recognizes teams of small local models. A small model often spoils a good answer when it rewrites it, so
//! `winner_reuse` is the better strategy for such a team.

use crate::LoadPurpose;
use crate::backends::{self, BackendType, BackendTypes};
use crate::cross_key_checks::{self, AgentNode};
use crate::diagnostic::{Problem, Sink};
use crate::tree::Node;
use crate::variables::Variables;

/// A model with more billions of parameters is not small.
const MAX_BILLIONS: f64 = 4.0;

/// Models whose names begin with these are small unless the name says another size.
const SMALL_FAMILIES: [&str; 13] = [
    "smollm",
    "tinyllama",
    "tinydolphin",
    "phi-2",
    "phi-3-mini",
    "phi-3.5-mini",
    "phi3",
    "phi4-mini",
    "phi-4-mini",
    "llama3.2",
    "orca-mini",
    "stablelm2",
    "moondream",
];

const LARGER: [&str; 2] = ["vision", "medium"];

/// Whether the name tells that the model is small: `qwen2.5-coder:1.5b`, `SmolLM2-135M-Instruct`, `tinyllama`.
pub(crate) fn is_small(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    let name = name.strip_suffix(".gguf").unwrap_or(&name);
    let words = name.split(|c: char| !c.is_alphanumeric() && c != '.');
    let billions = words.filter_map(|word| {
        // `e2b` is a model of which 2 billion parameters are loaded at a time.
        let number = word.strip_prefix('e').unwrap_or(word);
        match number.strip_suffix('b') {
            Some(number) => number.parse::<f64>().ok(),
            None => {
                number.strip_suffix('m').and_then(|number| number.parse::<f64>().ok()).map(|m| m / 1000.0)
            }
        }
    });
    // The total of a mixture of experts is its largest number (`30b-a3b`).
    match billions.reduce(f64::max) {
        Some(billions) => billions <= MAX_BILLIONS,
        None => {
            !LARGER.iter().any(|word| name.contains(word))
                && SMALL_FAMILIES.iter().any(|family| name.starts_with(family))
        }
    }
}

/// Whether a model is small and of a local server, as far as the names tell.
pub fn is_small_local_model(backend_type: &str, model: &str) -> bool {
    backends::backend_type(backend_type).is_some_and(BackendType::is_local) && is_small(model)
}

pub(crate) fn check(
    root: &Node,
    env: Variables<'_>,
    purpose: LoadPurpose,
    backends: &'static BackendTypes,
    sink: &mut Sink<'_>,
) {
    if purpose != LoadPurpose::Check {
        return;
    }
    let orchestrator = root.get("orchestrator");
    let is_set = |key| orchestrator.and_then(|node| node.get(key)).is_some_and(|node| !node.is_null());
    if is_set("final_answer_strategy") || is_set("skip_final_presentation") {
        return;
    }
    let agents = cross_key_checks::agents(root);
    let models: Option<Vec<&Node>> = agents.iter().map(|agent| small_model(agent, env, backends)).collect();
    let Some(first) = models.as_ref().and_then(|models| models.first()) else { return };
    let who = if agents.len() == 1 { "the agent is a small model" } else { "all agents are small models" };
    let problem = Problem::new(format!("{who}; rewriting the winner's answer may spoil it")).hint(
        "add `final_answer_strategy: winner_reuse` to `orchestrator`: the winner's answer is used unchanged",
    );
    sink.warning(first.span, "orchestrator.final_answer_strategy", problem);
}

fn small_model<'a>(
    agent: &AgentNode<'a>,
    env: Variables<'_>,
    backends: &'static BackendTypes,
) -> Option<&'a Node> {
    let backend = agent.node.get("backend")?;
    let kind = backends.named(backend.get("type")?.as_text()?)?;
    let address = cross_key_checks::address(backend, kind, env)?;
    let model = backend.get("model").filter(|model| model.unset().is_empty())?;
    let is_local = kind.is_local() || backends::is_loopback(&address);
    (is_local && is_small(model.as_text()?)).then_some(model)
}

#[cfg(test)]
mod tests {
    use super::is_small;

    #[test]
    fn small_models_are_known_by_their_names_and_sizes() {
        let small = [
            "qwen2.5-coder:1.5b",
            "Qwen2.5-Coder-1.5B-Instruct",
            "Qwen/Qwen3-0.6B",
            "Qwen/Qwen3-4B-Instruct-2507",
            "smollm2",
            "smollm2:135m",
            "HuggingFaceTB/SmolLM2-360M-Instruct",
            "smollm2-135m-instruct-q4_k_m.gguf",
            "tinyllama",
            "TinyLlama-1.1B-Chat-v1.0",
            "llama3.2",
            "llama3.2:latest",
            "llama3.2:1b",
            "meta-llama/Llama-3.2-3B-Instruct",
            "gemma2:2b",
            "gemma3:4b",
            "gemma3n:e2b",
            "deepseek-r1:1.5b",
            "phi3",
            "phi3:mini",
            "microsoft/Phi-3-mini-4k-instruct",
            "microsoft/Phi-3.5-mini-instruct",
            "smollm2-135m.gguf",
            "granite3.3:2b-instruct-q4_0",
            "stablelm2",
        ];
        for model in small {
            assert!(is_small(model), "{model}");
        }
        let large = [
            "llama3.1:8b",
            "llama3.2-vision",
            "qwen3",
            "qwen3:30b-a3b",
            "Qwen3-30B-A3B",
            "mixtral:8x7b",
            "gpt-oss:20b",
            "gpt-oss:120b",
            "deepseek-r1:14b",
            "phi3:14b",
            "phi3:medium",
            "phi4",
            "mistral",
            "gpt-6-sol",
            "claude-sonnet-5-5",
            "gemma3:27b-it-q4_K_M",
            "llama3.3:70b-instruct-4bit",
            "bert",
            "model-b",
            "",
        ];
        for model in large {
            assert!(!is_small(model), "{model}");
        }
    }
}
