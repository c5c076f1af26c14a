//! OpenAI's Responses, as in `ResponseCreateParams`, `ResponseInputParam` and `ToolParam` of the official SDK
//! (generated from the API description).

use super::{Shape, list, may, must};
use Shape::{Any, Flag, Map, Number, Object, OneOf, Text, Whole, Word};

pub(super) fn body() -> Shape {
    Object(vec![
        must("model", Text),
        must("input", OneOf(vec![Text, list(item())])),
        may("instructions", Text),
        may("tools", list(tool())),
        may(
            "tool_choice",
            OneOf(vec![
                Word(&["none", "auto", "required"]),
                Object(vec![must("type", Word(&["function"])), must("name", Text)]),
            ]),
        ),
        may("parallel_tool_calls", Flag),
        may("stream", Flag),
        may("stream_options", Object(vec![may("include_obfuscation", Flag)])),
        may("store", Flag),
        may("background", Flag),
        may("include", list(Text)),
        may("max_output_tokens", Whole),
        may("max_tool_calls", Whole),
        may("temperature", Number),
        may("top_p", Number),
        may("top_logprobs", Whole),
        may("truncation", Word(&["auto", "disabled"])),
        may("reasoning", reasoning()),
        may(
            "text",
            Object(vec![may("verbosity", Word(&["low", "medium", "high"])), may("format", format())]),
        ),
        may("service_tier", Text),
        may("user", Text),
        may("safety_identifier", Text),
        may("prompt_cache_key", Text),
        may("metadata", Map(Box::new(Text))),
    ])
}

fn reasoning() -> Shape {
    Object(vec![
        may("effort", Word(&["none", "minimal", "low", "medium", "high", "xhigh"])),
        may("summary", Word(&["auto", "concise", "detailed"])),
    ])
}

fn format() -> Shape {
    OneOf(vec![
        Object(vec![must("type", Word(&["text", "json_object"]))]),
        Object(vec![
            must("type", Word(&["json_schema"])),
            must("name", Text),
            must("schema", Map(Box::new(Any))),
            may("strict", Flag),
        ]),
    ])
}

fn item() -> Shape {
    OneOf(vec![
        Object(vec![
            may("type", Word(&["message"])),
            must("role", Word(&["user", "assistant", "system", "developer"])),
            must("content", Text),
        ]),
        Object(vec![
            must("type", Word(&["function_call"])),
            must("call_id", Text),
            must("name", Text),
            must("arguments", Text),
        ]),
        Object(vec![
            must("type", Word(&["function_call_output"])),
            must("call_id", Text),
            must("output", Text),
        ]),
    ])
}

fn tool() -> Shape {
    OneOf(vec![
        Object(vec![
            must("type", Word(&["function"])),
            must("name", Text),
            must("parameters", Map(Box::new(Any))),
            must("strict", Flag),
            may("description", Text),
        ]),
        Object(vec![
            must("type", Word(&["web_search"])),
            may("search_context_size", Word(&["low", "medium", "high"])),
        ]),
        Object(vec![
            must("type", Word(&["code_interpreter"])),
            must("container", Object(vec![must("type", Word(&["auto"]))])),
        ]),
    ])
}
