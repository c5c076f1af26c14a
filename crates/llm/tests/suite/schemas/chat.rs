//! OpenAI's chat completions, as in `CompletionCreateParams` of the official SDK (generated from the API description).

use super::{Shape, list, may, must};
use Shape::{Any, Flag, Map, Number, Object, OneOf, Text, Whole, Word};

pub(super) fn body() -> Shape {
    Object(vec![
        must("model", Text),
        must("messages", list(message())),
        may("tools", list(Object(vec![must("type", Word(&["function"])), must("function", function())]))),
        may("tool_choice", Any),
        may("parallel_tool_calls", Flag),
        may("stream", Flag),
        may("stream_options", Object(vec![may("include_usage", Flag)])),
        may("temperature", Number),
        may("top_p", Number),
        may("max_tokens", Whole),
        may("max_completion_tokens", Whole),
        may("n", Whole),
        may("seed", Whole),
        may("stop", OneOf(vec![Text, list(Text)])),
        may("frequency_penalty", Number),
        may("presence_penalty", Number),
        may("logit_bias", Map(Box::new(Number))),
        may("reasoning_effort", Word(&["none", "minimal", "low", "medium", "high", "xhigh"])),
        may("verbosity", Word(&["low", "medium", "high"])),
        may("response_format", Any),
        may("service_tier", Text),
        may("user", Text),
        may("safety_identifier", Text),
        may("prompt_cache_key", Text),
        may("store", Flag),
        may("metadata", Map(Box::new(Text))),
        may("web_search_options", Any),
    ])
}

fn function() -> Shape {
    Object(vec![
        must("name", Text),
        may("description", Text),
        may("parameters", Map(Box::new(Any))),
        may("strict", Flag),
    ])
}

fn message() -> Shape {
    let call = Object(vec![
        must("id", Text),
        must("type", Word(&["function"])),
        must("function", Object(vec![must("name", Text), must("arguments", Text)])),
    ]);
    OneOf(vec![
        Object(vec![must("role", Word(&["system", "developer", "user"])), must("content", Text)]),
        Object(vec![must("role", Word(&["assistant"])), may("content", Any), may("tool_calls", list(call))]),
        Object(vec![must("role", Word(&["tool"])), must("content", Text), must("tool_call_id", Text)]),
    ])
}
