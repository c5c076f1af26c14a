//! Takes known secret values out of what is about to be written or shown.
//!
//! Works on every text of an event, in plain, JSON-escaped, base64, hexadecimal and URL-encoded form. Must never change the
//! words that hold an event together (types, our own ids, statuses, times): a log that cannot be read back is worse than
//! any mask.

use crate::encodings::encoded;
use aho_corasick::AhoCorasick;
use althing_protocol::{AnswerLabel, Event};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write};

/// Shorter values would turn ordinary words into masks.
const MIN_BYTES: usize = 6;
pub(crate) const MASK: &str = "[secret]";

/// The mask inside ids and names of tool calls, which providers take only with these characters.
const NAME_MASK: &str = "secret";

/// Fields whose values Althing makes itself, wherever they stand in the part of an event that is ours: tags, statuses and
/// the ids of agents, tasks, sessions and interactions. A fact in which one of them is masked would mean something else.
const OWN_FIELDS: &[&str] = &[
    "type",
    "at",
    "kind",
    "status",
    "op",
    "by",
    "purpose",
    "outcome",
    "timer",
    "phase",
    "chat",
    "verdict",
    "decision",
    "strategy",
    "final_answer_strategy",
    "answer_novelty",
    "end",
    "level",
    "agent_mode",
    "voting_sensitivity",
    "change",
    "about",
    "mode",
    "on_interrupt",
    "agent",
    "winner",
    "presenter",
    "voter",
    "target",
    "parent",
    "session",
    "run_id",
    "interaction",
    "work",
    "from",
    "digest",
    "config_digest",
];

/// Fields that are ours only directly below these: elsewhere models, programs and users name things with them.
const OWN_FIELDS_BELOW: &[(&str, &[&str])] = &[
    ("id", &["data", "members", "member", "agents", "plan", "stages"]),
    ("backend", &["members", "member"]),
    ("model", &["members", "member"]),
    ("task", &["", "data", "op"]),
];

/// Below these fields everything was made by a model, a program or a user.
const FOREIGN_FIELDS: &[&str] =
    &["tool_calls", "launch", "edited", "options", "tasks", "coordination_overrides", "agent_system_prompts"];

/// Objects whose keys were made by others, too.
const FOREIGN_KEY_OBJECTS: &[&str] = &["coordination_overrides", "agent_system_prompts", "env"];

/// A search for secret values.
#[derive(Clone, Default)]
pub(crate) enum Search {
    /// There is nothing to find.
    #[default]
    Nothing,
    /// Finds these values.
    Values(AhoCorasick),
    /// The search could not be built: every text counts as a secret, so that none is shown.
    Failed,
}

impl Search {
    fn new(values: &BTreeSet<String>) -> Self {
        if values.is_empty() {
            return Self::Nothing;
        }
        AhoCorasick::new(values).map_or(Self::Failed, Self::Values)
    }

    /// Where values begin and end; they may overlap.
    fn spans(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        match self {
            Self::Values(search) => {
                search.find_overlapping_iter(bytes).map(|found| (found.start(), found.end())).collect()
            }
            Self::Failed if !bytes.is_empty() => vec![(0, bytes.len())],
            Self::Nothing | Self::Failed => Vec::new(),
        }
    }

    fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Values(search) => search.is_match(text),
            Self::Failed => true,
        }
    }
}

/// Replaces known secret values by `[secret]`.
#[derive(Clone, Default)]
pub struct Masker {
    /// Finds values in a text.
    in_text: Search,
    /// Finds what such a text becomes inside an event's JSON.
    in_json: Search,
    /// The values themselves in all their forms: what a stream may break off in the middle of.
    forms: Vec<String>,
    /// The bytes that forms begin with, so that most ends of a stream need no closer look.
    first_bytes: BTreeSet<u8>,
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Masker(…)")
    }
}

impl Masker {
    /// A masker for these values. Values under 6 bytes, and white space around values, are left out. If the values cannot
    /// be searched for, it masks everything.
    pub fn new<I>(values: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Self::with_search(values, Search::new)
    }

    pub(crate) fn with_search<I>(values: I, search: impl Fn(&BTreeSet<String>) -> Search) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut plain = BTreeSet::new();
        for value in values {
            let value = value.as_ref().trim();
            if value.len() >= MIN_BYTES {
                plain.insert(value.to_owned());
            }
        }
        let text: BTreeSet<String> = plain.iter().flat_map(|value| forms(value)).collect();
        let json: BTreeSet<String> = text.iter().map(|form| escaped(form)).collect();
        let first_bytes = text.iter().filter_map(|form| form.bytes().next()).collect();
        Self {
            in_text: search(&text),
            in_json: search(&json),
            forms: text.into_iter().collect(),
            first_bytes,
        }
    }

    /// The text without secrets; borrowed if there were none.
    pub fn mask_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let spans = self.spans(text.as_bytes());
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut done = 0;
        for (start, end) in spans {
            // Values that overlap are one mask, so that no end of either stays readable.
            if start >= done {
                masked.push_str(text.get(done..start).unwrap_or_default());
                masked.push_str(MASK);
            }
            done = done.max(end);
        }
        masked.push_str(text.get(done..).unwrap_or_default());
        Cow::Owned(masked)
    }

    /// How many bytes at the end of a text may be the beginning of a secret: a stream holds them back until it knows more.
    pub fn unfinished(&self, text: &str) -> usize {
        self.unfinished_bytes(text.as_bytes())
    }

    /// Whether the values can be searched for; otherwise everything is masked.
    pub fn is_searchable(&self) -> bool {
        !matches!((&self.in_text, &self.in_json), (Search::Failed, _) | (_, Search::Failed))
    }

    /// The values in all their forms.
    pub(crate) fn forms(&self) -> &[String] {
        &self.forms
    }

    /// Where secrets begin and end, in order; they may overlap.
    pub(crate) fn spans(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut spans = self.in_text.spans(bytes);
        spans.sort_unstable();
        spans
    }

    /// [`Self::unfinished`] for bytes that need not be text.
    pub(crate) fn unfinished_bytes(&self, bytes: &[u8]) -> usize {
        let longest = self.forms.iter().map(String::len).max().unwrap_or(0);
        let from = bytes.len().saturating_sub(longest.saturating_sub(1));
        let begins = |at: &usize| {
            let end = bytes.get(*at..).unwrap_or_default();
            end.first().is_some_and(|first| self.first_bytes.contains(first))
                && self.forms.iter().any(|form| form.len() > end.len() && form.as_bytes().starts_with(end))
        };
        (from..bytes.len()).find(begins).map_or(0, |at| bytes.len() - at)
    }

    /// The event without secrets in any of its texts. Costs one serialisation, and more only if there is something to mask.
    pub fn mask_event(&self, event: Event) -> Event {
        if matches!(self.in_json, Search::Nothing) {
            return event;
        }
        // An event without a JSON form cannot be written, and what is not written is not shown.
        let Ok(json) = serde_json::to_string(&event) else { return event };
        if !self.in_json.is_match(&json) {
            return event;
        }
        let Ok(value) = serde_json::from_str::<Value>(&json) else { return event };
        // A value that is also a word of the log's own vocabulary protects nothing, and masked it cannot be read back.
        for keep_format_words in [false, true] {
            let mut value = value.clone();
            self.mask_value(&mut value, FieldPosition { keep_format_words, ..FieldPosition::default() });
            if let Ok(masked) = serde_json::from_value::<Event>(value) {
                return masked;
            }
        }
        event
    }

    fn mask_value(&self, value: &mut Value, position: FieldPosition<'_>) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = self.mask_text(text)
                    && !position.is_own_value(text)
                {
                    *text = if position.is_tool_name() { masked.replace(MASK, NAME_MASK) } else { masked };
                }
            }
            Value::Array(values) => {
                for value in values.iter_mut() {
                    self.mask_value(value, position);
                }
                if position.field == "tool_calls" {
                    make_ids_unique(values);
                }
            }
            Value::Object(fields) => {
                if FOREIGN_KEY_OBJECTS.contains(&position.field) {
                    let masked = std::mem::take(fields).into_iter();
                    *fields = masked.map(|(key, value)| (self.mask_text(&key).into_owned(), value)).collect();
                }
                for (name, value) in fields.iter_mut() {
                    self.mask_value(value, position.enter(name));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Where in an event a value stands.
#[derive(Clone, Copy, Default)]
struct FieldPosition<'a> {
    /// The field above the one that holds the value.
    parent: &'a str,
    field: &'a str,
    /// Whether others made everything here.
    is_foreign: bool,
    /// Whether words that may be part of the log's vocabulary stay.
    keep_format_words: bool,
}

impl<'a> FieldPosition<'a> {
    fn enter(self, field: &'a str) -> Self {
        // The tasks of a workflow's stages have ids that are part of tasks' ids; those of a plan have not.
        let parent = if self.field == "tasks" && self.parent == "stages" { "stages" } else { self.field };
        let of_stage = field == "tasks" && self.field == "stages";
        let is_foreign = self.is_foreign || (FOREIGN_FIELDS.contains(&field) && !of_stage);
        Self { parent, field, is_foreign, keep_format_words: self.keep_format_words }
    }

    fn is_own_value(self, text: &str) -> bool {
        let is_word = || text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        if self.is_foreign {
            return self.keep_format_words && !self.is_tool_name() && is_word();
        }
        let below = OWN_FIELDS_BELOW
            .iter()
            .any(|(field, parents)| *field == self.field && parents.contains(&self.parent));
        below
            || OWN_FIELDS.contains(&self.field)
            || (self.field == "label" && text.parse::<AnswerLabel>().is_ok())
            || (self.keep_format_words && is_word())
    }

    fn is_tool_name(self) -> bool {
        self.field == "call" || (self.parent == "tool_calls" && matches!(self.field, "id" | "name"))
    }
}

/// Gives calls whose masked ids are the same different ones: each result must find its call.
fn make_ids_unique(calls: &mut [Value]) {
    let mut seen = BTreeSet::new();
    for call in calls {
        let Some(Value::String(id)) = call.get_mut("id") else { continue };
        let mut number = 1;
        while id.contains(NAME_MASK) && seen.contains(id.as_str()) {
            number += 1;
            *id = format!("{}-{number}", id.trim_end_matches(|c: char| c == '-' || c.is_ascii_digit()));
        }
        seen.insert(id.clone());
    }
}

/// How a value shows up in texts: as it is, as the JSON that models, tools and servers make of it, and encoded.
fn forms(value: &str) -> Vec<String> {
    let json = escaped(value);
    let ascii = ascii_only(&json);
    let slashed = [json.replace('/', "\\/"), ascii.replace('/', "\\/")];
    // A terminal ends lines in its own way.
    let in_terminal = value.replace('\n', "\r\n");
    [value.to_owned(), json, ascii, in_terminal].into_iter().chain(slashed).chain(encoded(value)).collect()
}

/// A text as it stands between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(&quoted).to_owned()
}

/// The same with everything beyond ASCII as `\uXXXX`, as many JSON writers do.
fn ascii_only(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}
