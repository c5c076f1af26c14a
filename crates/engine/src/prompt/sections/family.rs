//! Short instructions for model families that are known to need them.

pub(in crate::prompt) fn instructions(model: &str) -> Option<&'static str> {
    let model = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    let family = |prefix: &str| model.starts_with(prefix);
    if family("gpt-5") || family("gpt5") {
        Some(
            "Continue until the request is complete; do not return half-done work or ask for permission at every step. Keep what \
             you write to the user short, and do not announce what you are about to do.",
        )
    } else if family("grok") {
        Some(
            "Use the tools you have been given, by calling them: never write a tool call as text, and never make up a tool's \
             result. Prefer one well-considered call to many small ones.",
        )
    } else if family("gemini") {
        Some(
            "Call tools rather than say that you will. After a tool's result, answer the user in plain text.",
        )
    } else if family("claude") {
        Some(
            "Do what was asked and no more: no extra files, no extra features. Read a file before you change it.",
        )
    } else {
        None
    }
}
