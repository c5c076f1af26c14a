//! The server programs that the fake model server can play: what each says about itself and its models, outside of
//! model calls.

use serde_json::{Value, json};

/// A server program. The numbers are what it reports for every model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerProgram {
    #[default]
    Plain,
    LlamaCpp {
        context: u64,
        slots: u64,
        parameters: u64,
    },
    LlamaCppPython,
    Ollama {
        context: u64,
        parameters: u64,
        tools: bool,
        bytes: u64,
    },
    LmStudio {
        context: u64,
        tools: bool,
    },
    Vllm {
        context: u64,
    },
}

impl ServerProgram {
    /// The status and body of the response to a request that is not a model call. `None` if this program answers like
    /// any other.
    pub(crate) fn answer(
        self,
        method: &str,
        path: &str,
        body: &Value,
        models: &[String],
    ) -> Option<(u16, Value)> {
        let list = |owner: &str, more: Value| {
            let entry = |id: &String| {
                let mut entry = json!({"id": id, "object": "model", "created": 0, "owned_by": owner});
                for (key, value) in more.as_object().into_iter().flatten() {
                    entry[key] = value.clone();
                }
                entry
            };
            Some((200, json!({"object": "list", "data": models.iter().map(entry).collect::<Vec<_>>()})))
        };
        match (self, method, path) {
            (Self::LlamaCpp { parameters, .. }, "GET", "/v1/models") => list(
                "llamacpp",
                json!({"meta": {"n_params": parameters, "size": parameters / 2, "n_ctx_train": 32768}}),
            ),
            (Self::LlamaCpp { context, slots, .. }, "GET", "/props") => {
                Some((200, json!({"default_generation_settings": {"n_ctx": context}, "total_slots": slots})))
            }
            (Self::LlamaCppPython, "GET", "/v1/models") => list("me", json!({"permissions": []})),
            (Self::Ollama { .. }, "GET", "/v1/models") => list("library", json!({})),
            (Self::Ollama { parameters, bytes, .. }, "GET", "/api/tags") => {
                let size = format!("{:.1}B", parameters as f64 / 1e9);
                let entry = |name: &String| json!({"name": name, "model": name, "size": bytes, "details": {"parameter_size": size}});
                Some((200, json!({"models": models.iter().map(entry).collect::<Vec<_>>()})))
            }
            (Self::Ollama { context, parameters, tools, .. }, "POST", "/api/show") => {
                if !models.iter().any(|name| body["model"] == name.as_str()) {
                    return Some((404, json!({"error": "model not found"})));
                }
                let mut abilities = vec!["completion"];
                abilities.extend(tools.then_some("tools"));
                let info = json!({"general.parameter_count": parameters, "llama.context_length": 131_072});
                let set =
                    format!("num_ctx                        {context}\nstop                           \"x\"");
                Some((
                    200,
                    json!({"capabilities": abilities, "model_info": info, "parameters": set, "details": {}}),
                ))
            }
            (Self::Ollama { .. }, "GET", "/api/ps") => Some((200, json!({"models": []}))),
            (Self::LmStudio { .. }, "GET", "/v1/models") => list("organization_owner", json!({})),
            (Self::LmStudio { context, tools }, "GET", "/api/v0/models") => {
                let abilities: &[&str] = if tools { &["tool_use"] } else { &[] };
                list(
                    "x",
                    json!({"type": "llm", "state": "loaded", "loaded_context_length": context, "max_context_length": 131_072, "capabilities": abilities}),
                )
            }
            (Self::Vllm { context }, "GET", "/v1/models") => list("vllm", json!({"max_model_len": context})),
            _ => None,
        }
    }
}
