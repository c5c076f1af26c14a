//! The config that `--model TYPE:NAME` stands for.

use crate::failure::Failure;
use althing_config::is_small_local_model;

/// The text of the config: JSON is valid YAML and needs no quoting rules.
pub(crate) fn config_text(models: &[String]) -> Result<String, Failure> {
    let (mut agents, mut are_small) = (Vec::new(), true);
    for (n, model) in (1..).zip(models) {
        let Some((kind, name)) =
            model.split_once(':').filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
        else {
            return Err(Failure::usage(format!("`--model {model}` is not of the form TYPE:NAME"))
                .hint("for example --model openai:gpt-6-luna; `althing config schema` lists the types"));
        };
        let id = if models.len() == 1 { kind.to_owned() } else { format!("{kind}-{n}") };
        agents.push(serde_json::json!({"id": id, "backend": {"type": kind, "model": name}}));
        are_small &= is_small_local_model(kind, name);
    }
    let mut config = serde_json::json!({ "agents": agents });
    if are_small && let Some(config) = config.as_object_mut() {
        // As in a starter config: small local models do not write a final answer of their own.
        config.insert("orchestrator".into(), serde_json::json!({"final_answer_strategy": "winner_reuse"}));
    }
    Ok(config.to_string())
}
