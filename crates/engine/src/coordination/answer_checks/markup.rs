//! Recognizes the markup of our prompts, of chat templates and of tool calls in a text.

use super::Sources;
use super::code::{prose, without_code};
use crate::tools::{NEW_ANSWER, PLAN_TASK, RESTART, SPAWN, SUBMIT, VOTE, WAIT};
use serde_json::Value;
use std::collections::BTreeSet;

const UNUSUAL_NAMES: [&str; 5] =
    ["ORIGINAL MESSAGE", "EARLIER ANSWER", "WHAT IT LACKS", "WHAT TO DO", "FINAL ANSWER"];

/// The first words of names that ordinary texts may have between angle brackets, so they count as markers only with a
/// token.
const USUAL_NAMES: [&str; 8] = [
    "CONTEXT",
    "PLAN",
    "user",
    "assistant",
    "text",
    "summary",
    "message of the user",
    "answer, word for word",
];

const TEMPLATE_TOKENS: [&str; 12] = [
    "s",
    "/s",
    "tool_call",
    "/tool_call",
    "tools",
    "/tools",
    "think",
    "/think",
    "eos",
    "bos",
    "end_of_turn",
    "start_of_turn",
];

const MAX_MARKER_BYTES: usize = 60;

const MAX_TAGS: usize = 1000;

fn tags(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('<').filter_map(move |(at, _)| {
        let rest = text.get(at + 1..)?;
        let inner = rest.get(..rest.floor_char_boundary(MAX_MARKER_BYTES + 1))?;
        inner.split_once('>').map(|(inner, _)| inner).filter(|inner| !inner.contains(['<', '\n']))
    })
}

/// Whether a text is an anonymous agent (`agent1`, unless `with_answer`) or the label of an answer (`agent1.2`).
fn is_agent(text: &str, with_answer: bool) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let Some(rest) = text.strip_prefix("agent") else { return false };
    match rest.split_once('.') {
        Some((agent, nth)) => is_number(agent) && is_number(nth),
        None => !with_answer && is_number(rest),
    }
}

/// The text between angle brackets without the token at its end, and whether there is one.
fn split_token(inner: &str) -> (&str, bool) {
    let is_token = |word: &str| word.len() == 8 && word.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    match inner.rsplit_once(' ') {
        Some((named, token)) if is_token(token) => (named, true),
        _ => (inner, false),
    }
}

/// Whether the text between angle brackets is a marker of our prompts, or an imitation of one.
fn is_marker(inner: &str) -> bool {
    let (named, has_token) = split_token(inner);
    let ended = named.strip_prefix("END OF ").or_else(|| named.strip_prefix("end of "));
    let name = ended.unwrap_or(named);
    let is_answer =
        is_agent(name, true) || name.strip_prefix("vote for ").is_some_and(|of| is_agent(of, false));
    let is_capital = |c: char| c.is_ascii_uppercase() || c == ' ' || c == '_';
    let is_end = named.starts_with("END OF ") && name.chars().all(is_capital);
    // More words may follow a name: "message of the user, word for word".
    let is_named =
        |usual: &&str| name.strip_prefix(usual).is_some_and(|rest| !rest.starts_with(char::is_alphabetic));
    is_answer || is_end || UNUSUAL_NAMES.contains(&name) || (has_token && USUAL_NAMES.iter().any(is_named))
}

/// A marker at the end of a text that was cut off before the closing bracket, for example by a token limit.
fn cut_off_marker(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let at = text.rfind('<')?;
    let (marker, inner) = (text.get(at..)?, text.get(at + 1..)?);
    let is_cut_in_name = inner.starts_with("END") && "END OF ".starts_with(inner);
    // `<<END` begins a here document.
    let is_marker = is_cut_in_name && !text.get(..at).is_some_and(|before| before.ends_with('<'));
    let is_begun =
        is_marker || inner.starts_with("END OF ") || UNUSUAL_NAMES.iter().any(|name| inner.starts_with(name));
    (is_begun && inner.len() <= MAX_MARKER_BYTES && !inner.contains(['>', '\n'])).then_some(marker)
}

/// Whether the text contains a marker, complete or cut off at the end. Markers inside code, and markers that a source
/// contains, do not count.
pub(super) fn has_marker(text: &str, sources: &Sources<'_>) -> bool {
    let prose = without_code(text);
    let markers: BTreeSet<&str> = tags(&prose).filter(|inner| is_marker(inner)).collect();
    markers.into_iter().any(|inner| !sources.contain(&format!("<{inner}>")))
        || cut_off_marker(&prose).is_some_and(|marker| !sources.contain(marker))
}

pub(super) fn without_markers(text: &str, sources: &Sources<'_>) -> Option<String> {
    if !has_marker(text, sources) {
        return Some(text.to_owned());
    }
    without(text, sources, is_marker)
}

/// The text without the markers that have a token and that no source has; None if nothing is left.
pub(super) fn without_copied_markers(text: &str, sources: &Sources<'_>) -> Option<String> {
    without(text, sources, |inner| is_marker(inner) && split_token(inner).1)
}

fn without(text: &str, sources: &Sources<'_>, is_removed: impl Fn(&str) -> bool) -> Option<String> {
    let cut_off = cut_off_marker(text).filter(|marker| !sources.contain(marker));
    let kept = cut_off.and_then(|marker| text.trim_end().strip_suffix(marker));
    let markers: BTreeSet<&str> = tags(text).filter(|inner| is_removed(inner)).take(MAX_TAGS).collect();
    if markers.is_empty() && kept.is_none() {
        return Some(text.to_owned());
    }
    let text = kept.unwrap_or(text);
    let markers = markers.into_iter().map(|inner| format!("<{inner}>"));
    let foreign = markers.filter(|marker| !sources.contain(marker));
    let rest = foreign.fold(text.to_owned(), |text, marker| text.replace(&marker, ""));
    Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty())
}

pub(super) fn is_only_markup(text: &str) -> bool {
    let is_fence = |line: &&str| line.trim_start().starts_with("```");
    let text = text.lines().filter(|line| !is_fence(line)).collect::<Vec<_>>().join("\n");
    let is_markup = |inner: &str| {
        let has_bars = inner.len() > 2 && inner.starts_with('|') && inner.ends_with('|');
        has_bars || TEMPLATE_TOKENS.contains(&inner) || is_marker(inner)
    };
    let instructions = ["[INST]", "[/INST]"].into_iter().map(str::to_owned);
    let tags: BTreeSet<&str> = tags(&text).filter(|inner| is_markup(inner)).take(MAX_TAGS).collect();
    let fragments = tags.into_iter().map(|inner| format!("<{inner}>")).chain(instructions);
    let rest = fragments.fold(text.clone(), |rest, fragment| rest.replace(&fragment, ""));
    rest.len() < text.len() && !rest.chars().any(char::is_alphanumeric)
}

/// Whether the prose of the text names a tool of the run, or has a token of a chat template or the beginning of a
/// marker, or whether any part of the text is a piece of a call or a marker with a token, which no source has. Small
/// models write about their instructions instead of following them, or copy a part of a call. Code may have such names
/// for other reasons: a variable may be called `new_answer`.
pub(super) fn shows_instructions(text: &str, sources: &Sources<'_>) -> bool {
    const FRAGMENTS: [&str; 4] = ["<tool_call>", "<tools>", "<|im_", "<END OF "];
    let prose = prose(text);
    let markers = UNUSUAL_NAMES.iter().map(|name| format!("<{name}"));
    let mut fragments = FRAGMENTS.into_iter().map(str::to_owned).chain(markers);
    let names_tool = |tool: &&str| has_word(&prose, tool) || has_piece_of_call(text, tool);
    let is_copied = |inner: &str| split_token(inner).1 && is_marker(inner);
    OWN_TOOLS.iter().any(|tool| names_tool(tool) && !sources.contain(tool))
        || fragments.any(|fragment| prose.contains(&fragment) && !sources.contain(&fragment))
        || tags(text).any(|inner| is_copied(inner) && !sources.contain(&format!("<{inner}>")))
}

/// The tools whose names occur in no other context, unlike `vote` and `submit`.
const OWN_TOOLS: [&str; 5] = [NEW_ANSWER, RESTART, SPAWN, WAIT, PLAN_TASK];

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, rest) = text.split_at(at);
        !before.ends_with(is_part) && !rest.strip_prefix(word).is_some_and(|after| after.starts_with(is_part))
    })
}

/// Whether a part of the text is the name of the tool as calls have it (`"name": "new_answer"`), perhaps cut off at the
/// end of the text.
fn has_piece_of_call(text: &str, tool: &str) -> bool {
    const MIN_CHARS: usize = 4;
    let keys = ["\"name\"", "\"tool\"", "\"function\""];
    keys.iter().flat_map(|key| text.match_indices(key).map(|(at, key)| at + key.len())).any(|at| {
        let value = text.get(at..).and_then(|rest| rest.trim_start().strip_prefix(':'));
        let Some(name) = value.and_then(|value| value.trim_start().strip_prefix('"')) else { return false };
        let is_cut_off = name.trim_end().len() >= MIN_CHARS && tool.starts_with(name.trim_end());
        is_cut_off || name.strip_prefix(tool).is_some_and(|rest| rest.starts_with('"'))
    })
}

/// Whether the text is only an ellipsis, which stands for the values in the examples of calls in prompts for models that
/// cannot call tools.
pub(super) fn is_placeholder(text: &str) -> bool {
    text.contains(['…', '.']) && text.chars().all(|c| c == '…' || c == '.' || c.is_whitespace())
}

pub(super) fn names_agent(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let lowered = text.to_lowercase();
    let mut words = lowered.split(|c| !is_part(c)).map(|word| word.trim_matches('.'));
    if words.any(|word| is_agent(word, false)) {
        return true;
    }
    // "Agent 2's answer"
    let mut words = lowered.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let is_number = |next: &&str| next.chars().next().is_some_and(|c| c.is_ascii_digit());
        if word.trim_start_matches(['*', '"', '(']) == "agent" && words.peek().is_some_and(is_number) {
            return true;
        }
    }
    false
}

/// The answer in a call of `new_answer` that was written as text, also if the call was cut off; `None` if the text
/// neither is such a call nor ends with one.
pub(super) fn called_answer(text: &str, sources: &Sources<'_>) -> Option<String> {
    let call = tool_call(text, sources)?;
    // Without the name `new_answer`, the text may be only the arguments of such a call; with the key `name`, it is a
    // call of another tool.
    if !call.contains(NEW_ANSWER) && call.contains("\"name\"") {
        return None;
    }
    let (_, rest) = call.split_once("\"content\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let mut is_escaped = false;
    let end = rest.find(|c| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    let written = rest.get(..end.unwrap_or(rest.len()))?;
    // The cut may have left a half escape sequence.
    let whole = [written, written.rsplit_once('\\').map_or(written, |(start, _)| start)];
    let read = |text: &str| serde_json::from_str::<String>(&format!("\"{text}\"")).ok();
    whole.into_iter().find_map(read).filter(|answer| answer.chars().any(char::is_alphanumeric))
}

pub(super) fn is_tool_call(text: &str, sources: &Sources<'_>) -> bool {
    tool_call(text, sources).is_some()
}

/// The call of one of our tools that the text is, or with which it ends.
fn tool_call<'a>(text: &'a str, sources: &Sources<'_>) -> Option<&'a str> {
    let body = unwrapped(text);
    if is_whole_call(body) { Some(body) } else { call_at_end(text, sources) }
}

/// A call after prose, complete or cut off. Prose may quote other JSON, or explain a call if a source names the tool, so
/// only the exact form of other calls counts here.
fn call_at_end<'a>(text: &'a str, sources: &Sources<'_>) -> Option<&'a str> {
    const FORM_CHARS: usize = 60;
    let tools = [NEW_ANSWER, VOTE, RESTART, SPAWN].into_iter().filter(|tool| !sources.contain(tool));
    let forms: Vec<String> = tools.map(|tool| format!("{{\"name\":\"{tool}\",\"")).collect();
    let starts_call = |body: &str| {
        let start: String = body.chars().filter(|c| !c.is_whitespace()).take(FORM_CHARS).collect();
        forms.iter().any(|form| {
            let arguments = start.strip_prefix(form);
            arguments.is_some_and(|rest| rest.starts_with("arguments\"") || rest.starts_with("parameters\""))
        })
    };
    let (at, _) = text.match_indices('{').find(|(at, _)| text.get(*at..).is_some_and(starts_call))?;
    let call = text.get(at..)?;
    let mut values = serde_json::Deserializer::from_str(call).into_iter::<Value>();
    let is_last = match values.next() {
        Some(Ok(_)) => {
            let rest = call.get(values.byte_offset()..)?;
            let closing = rest.replace("</tool_call>", "").replace("</tools>", "");
            !closing.chars().any(char::is_alphanumeric)
        }
        // The call was cut off.
        Some(Err(error)) => error.is_eof(),
        None => false,
    };
    is_last.then_some(call)
}

const TOOLS: [&str; 5] = [NEW_ANSWER, VOTE, SUBMIT, RESTART, SPAWN];

/// Whether the whole text is a call of one of our tools, or only the arguments of such a call.
fn is_whole_call(body: &str) -> bool {
    const ARGUMENTS: [&str; 6] = ["content", "conclusion", "agent_id", "ranking", "reason", "instructions"];
    if TOOLS.iter().any(|tool| body.strip_prefix(tool).is_some_and(|rest| rest.starts_with('('))) {
        return true;
    }
    if !body.starts_with(['{', '[']) {
        return false;
    }
    let names_tool =
        |name: Option<&Value>| name.and_then(Value::as_str).is_some_and(|it| TOOLS.contains(&it));
    let is_call = |value: &Value| {
        let function = value.get("function");
        names_tool(value.get("name").or_else(|| value.get("tool")))
            || names_tool(function)
            || names_tool(function.and_then(|function| function.get("name")))
            || value.as_object().is_some_and(|object| {
                let is_argument = |key: &String| ARGUMENTS.contains(&key.as_str());
                let is_ours = object.contains_key("content") || object.contains_key("agent_id");
                is_ours && object.keys().all(is_argument)
            })
    };
    // A small model may put the call into an object of its own: `{"type": "json", "data": {"name": "new_answer"}}`.
    // Ordinary data may be named `vote`, so only names that nobody else uses count there.
    let is_wrapped = |value: &Value| {
        let inner = value.as_object().into_iter().flat_map(|object| object.values());
        inner
            .filter_map(|value| value.get("name").and_then(Value::as_str))
            .any(|name| TOOLS.contains(&name) && name.contains('_'))
    };
    match serde_json::from_str::<Value>(body) {
        Ok(Value::Array(calls)) => !calls.is_empty() && calls.iter().all(is_call),
        Ok(value) => is_call(&value) || is_wrapped(&value),
        // The call may have been cut off.
        Err(_) => {
            let start: String = body.chars().filter(|c| !c.is_whitespace()).take(60).collect();
            TOOLS.iter().any(|tool| start.starts_with(&format!("{{\"name\":\"{tool}\"")))
        }
    }
}

fn unwrapped(text: &str) -> &str {
    let mut body = text.trim();
    for (open, close) in
        [("```json", "```"), ("```", "```"), ("<tool_call>", "</tool_call>"), ("<tools>", "</tools>")]
    {
        if let Some(inner) = body.strip_prefix(open) {
            body = inner.trim();
            body = body.strip_suffix(close).unwrap_or(body).trim();
        }
    }
    body
}
