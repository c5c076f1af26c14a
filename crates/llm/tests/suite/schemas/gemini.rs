//! Google's `generateContent`, as in the REST reference of v1beta: `Content`, `Tool`, `Schema`, `ToolConfig`,
//! `GenerationConfig`.

use super::{Shape, list, may, must};
use Shape::{Again, Any, Flag, Map, Number, Object, OneOf, Text, Whole, Word};

pub(super) fn body() -> Shape {
    Object(vec![
        must("contents", list(content())),
        may("systemInstruction", Object(vec![must("parts", list(Object(vec![must("text", Text)])))])),
        may("tools", list(tool())),
        may("toolConfig", tool_config()),
        may("generationConfig", generation_config()),
        may("safetySettings", list(Object(vec![must("category", Text), must("threshold", Text)]))),
        may("cachedContent", Text),
    ])
}

fn content() -> Shape {
    let call = Object(vec![must("name", Text), may("args", Map(Box::new(Any))), may("id", Text)]);
    let response = Object(vec![must("name", Text), must("response", Map(Box::new(Any))), may("id", Text)]);
    let part = OneOf(vec![
        Object(vec![must("text", Text), may("thoughtSignature", Text)]),
        Object(vec![must("functionCall", call), may("thoughtSignature", Text)]),
        Object(vec![must("functionResponse", response)]),
    ]);
    Object(vec![must("role", Word(&["user", "model"])), must("parts", list(part))])
}

fn tool() -> Shape {
    let function = Object(vec![must("name", Text), must("description", Text), may("parameters", schema())]);
    OneOf(vec![
        Object(vec![must("functionDeclarations", list(function))]),
        Object(vec![must("googleSearch", Object(vec![]))]),
        Object(vec![must("codeExecution", Object(vec![]))]),
    ])
}

fn schema() -> Shape {
    Object(vec![
        may("type", Word(&["string", "number", "integer", "boolean", "array", "object", "null"])),
        may("format", Word(&["float", "double", "int32", "int64", "enum", "date-time"])),
        may("title", Text),
        may("description", Text),
        may("nullable", Flag),
        may("enum", list(Text)),
        may("maxItems", Whole),
        may("minItems", Whole),
        may("properties", Map(Box::new(Again(schema)))),
        may("required", list(Text)),
        may("minProperties", Whole),
        may("maxProperties", Whole),
        may("minLength", Whole),
        may("maxLength", Whole),
        may("pattern", Text),
        may("example", Any),
        may("anyOf", list(Again(schema))),
        may("propertyOrdering", list(Text)),
        may("default", Any),
        may("items", Again(schema)),
        may("minimum", Number),
        may("maximum", Number),
    ])
}

fn tool_config() -> Shape {
    Object(vec![
        may(
            "functionCallingConfig",
            Object(vec![
                may("mode", Word(&["AUTO", "ANY", "NONE", "VALIDATED"])),
                may("allowedFunctionNames", list(Text)),
            ]),
        ),
        may("includeServerSideToolInvocations", Flag),
    ])
}

fn generation_config() -> Shape {
    Object(vec![
        may("temperature", Number),
        may("topP", Number),
        may("topK", Whole),
        may("candidateCount", Whole),
        may("maxOutputTokens", Whole),
        may("stopSequences", list(Text)),
        may("seed", Whole),
        may("presencePenalty", Number),
        may("frequencyPenalty", Number),
        may("responseMimeType", Text),
        may("responseSchema", Any),
        may("responseJsonSchema", Any),
        may(
            "thinkingConfig",
            Object(vec![
                may("includeThoughts", Flag),
                may("thinkingBudget", Whole),
                may("thinkingLevel", Word(&["MINIMAL", "LOW", "MEDIUM", "HIGH"])),
            ]),
        ),
    ])
}
