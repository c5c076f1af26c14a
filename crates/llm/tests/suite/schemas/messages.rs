//! Anthropic's Messages, as in `MessageCreateParams` of the official SDK (generated from the API description).

use super::{Shape, list, may, must};
use Shape::{Any, Flag, Map, Number, Object, OneOf, Text, Whole, Word};

pub(super) fn body() -> Shape {
    Object(vec![
        must("model", Text),
        must("max_tokens", Whole),
        must("messages", list(message())),
        may("system", OneOf(vec![Text, list(text_block())])),
        may("stream", Flag),
        may("temperature", Number),
        may("top_p", Number),
        may("top_k", Whole),
        may("stop_sequences", list(Text)),
        may("service_tier", Word(&["auto", "standard_only"])),
        may("metadata", Object(vec![may("user_id", Text)])),
        may("tools", list(tool())),
        may("tool_choice", tool_choice()),
        may("thinking", thinking()),
        may(
            "output_config",
            Object(vec![
                may("effort", Word(&["low", "medium", "high", "xhigh", "max"])),
                may(
                    "format",
                    Object(vec![must("type", Word(&["json_schema"])), must("schema", Map(Box::new(Any)))]),
                ),
            ]),
        ),
        may("container", Any),
        may("inference_geo", Text),
        may("cache_control", cache()),
    ])
}

fn cache() -> Shape {
    Object(vec![must("type", Word(&["ephemeral"])), may("ttl", Word(&["5m", "1h"]))])
}

fn text_block() -> Shape {
    Object(vec![must("type", Word(&["text"])), must("text", Text), may("cache_control", cache())])
}

fn message() -> Shape {
    let block = OneOf(vec![
        text_block(),
        Object(vec![must("type", Word(&["thinking"])), must("thinking", Text), must("signature", Text)]),
        Object(vec![must("type", Word(&["redacted_thinking"])), must("data", Text)]),
        Object(vec![
            must("type", Word(&["tool_use"])),
            must("id", Text),
            must("name", Text),
            must("input", Map(Box::new(Any))),
        ]),
        Object(vec![
            must("type", Word(&["tool_result"])),
            must("tool_use_id", Text),
            may("content", OneOf(vec![Text, list(text_block())])),
            may("is_error", Flag),
            may("cache_control", cache()),
        ]),
    ]);
    Object(vec![must("role", Word(&["user", "assistant"])), must("content", OneOf(vec![Text, list(block)]))])
}

fn tool() -> Shape {
    OneOf(vec![
        Object(vec![
            must("name", Text),
            must("input_schema", Map(Box::new(Any))),
            may("description", Text),
            may("type", Word(&["custom"])),
            may("cache_control", cache()),
        ]),
        Object(vec![
            must("type", Word(&["web_search_20250305"])),
            must("name", Word(&["web_search"])),
            may("max_uses", Whole),
        ]),
        Object(vec![
            must("type", Word(&["code_execution_20250825"])),
            must("name", Word(&["code_execution"])),
        ]),
    ])
}

fn tool_choice() -> Shape {
    OneOf(vec![
        Object(vec![must("type", Word(&["auto", "any"])), may("disable_parallel_tool_use", Flag)]),
        Object(vec![
            must("type", Word(&["tool"])),
            must("name", Text),
            may("disable_parallel_tool_use", Flag),
        ]),
        Object(vec![must("type", Word(&["none"]))]),
    ])
}

fn thinking() -> Shape {
    OneOf(vec![
        Object(vec![must("type", Word(&["enabled"])), must("budget_tokens", Whole)]),
        Object(vec![must("type", Word(&["adaptive"])), may("display", Word(&["summarized", "omitted"]))]),
        Object(vec![must("type", Word(&["disabled"]))]),
    ])
}
