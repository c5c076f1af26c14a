//! Masks (redacts) known secret values in events and texts, as they are and in the usual encodings, before they are
//! written or shown. Masking must not change what gives an event its structure (types, ids, statuses, times), because
//! an event that cannot be read back is worse than an unmasked value.

use crate::encodings::encoded;
use crate::search::{self, Search};
use crate::visible::Visible;
use crate::{free_text, structure};
use althing_protocol::{AnswerLabel, Event, Op};
use althing_text::sanitize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

/// The minimum length of a secret in bytes. Shorter values are not masked: they occur in ordinary words.
const MIN_BYTES: usize = 6;
/// A stream holds back at most this many bytes of invisible characters after the possible start of a secret, because an
/// endless run of them must not be collected.
const MAX_HIDDEN: usize = 16 * 1024;
/// What replaces a secret.
pub const MASK: &str = "[secret]";

/// The mask in ids and names of tool calls, where providers do not allow brackets.
const NAME_MASK: &str = "secret";

/// Fields whose values Althing itself produces, at any depth outside of `FOREIGN_FIELDS`, such as tags, statuses and
/// ids. They are never masked, because that would change the meaning of the fact.
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

/// Each field with its parents. Directly below one of these parents, the field's value is not masked: there it is an id
/// of Althing's own, or the name of a backend or model from the config. Elsewhere it may come from a model, a program
/// or a user.
const OWN_FIELDS_BELOW: &[(&str, &[&str])] = &[
    ("id", &["data", "members", "member", "agents", "plan", "stages"]),
    ("backend", &["members", "member"]),
    ("model", &["members", "member"]),
    ("task", &["", "data", "op"]),
];

/// Everything below these fields comes from a model, a program or a user, except `tasks` of a workflow stage.
const FOREIGN_FIELDS: &[&str] = &[
    "tool_calls",
    "tools",
    "launch",
    "edited",
    "options",
    "tasks",
    "coordination_overrides",
    "agent_system_prompts",
];

/// In these objects and everything below them, even the keys come from a model, a program or a user.
const FOREIGN_KEY_OBJECTS: &[&str] = &["coordination_overrides", "agent_system_prompts", "env", "parameters"];

/// Replaces known secret values with `[secret]`.
#[derive(Clone, Default)]
pub struct Masker {
    in_text: Search,
    in_json: Search,
    /// The length of the longest form.
    longest: usize,
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Masker(…)")
    }
}

impl Masker {
    /// A masker for these values. Values shorter than 6 bytes are ignored, and white space around values is trimmed. If
    /// the search cannot be built, every text is masked.
    pub fn new<I>(values: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Self::with_search(values, Search::new)
    }

    pub(crate) fn with_search<I>(values: I, search: impl Fn(BTreeSet<String>) -> Search) -> Self
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
        let longest = text.iter().map(String::len).max().unwrap_or(0);
        Self { in_text: search(text), in_json: search(json), longest }
    }

    /// The text without secrets; borrowed if it contained none. Characters that are not shown hide no secret.
    pub fn mask_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let spans = self.spans(text.as_bytes());
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut done = 0;
        for (start, end) in spans {
            masked.push_str(text.get(done..start).unwrap_or_default());
            masked.push_str(MASK);
            done = end;
        }
        masked.push_str(text.get(done..).unwrap_or_default());
        Cow::Owned(masked)
    }

    /// How many bytes at the end of a text may be the start of a secret. A stream holds them back until more text
    /// arrives. A start behind which far too many hidden characters follow does not count.
    pub fn unfinished(&self, text: &str) -> usize {
        let unfinished = self.unfinished_bytes(text.as_bytes());
        if unfinished > self.most_held() { self.in_text.unfinished(text.as_bytes()) } else { unfinished }
    }

    /// Whether the search was built; if not, every text is masked.
    pub fn is_searchable(&self) -> bool {
        !matches!((&self.in_text, &self.in_json), (Search::Failed, _) | (_, Search::Failed))
    }

    /// Whether there is nothing to mask.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.in_text, Search::Nothing)
    }

    /// False only if the bytes contain no secret. This is faster than [`Self::spans`].
    pub(crate) fn may_contain_secret(&self, bytes: &[u8]) -> bool {
        self.in_text.may_match(bytes)
            || Visible::of(bytes).is_some_and(|visible| self.in_text.may_match(&visible.bytes))
    }

    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// How many bytes a stream holds back at most.
    pub(crate) fn most_held(&self) -> usize {
        MAX_HIDDEN + 2 * self.longest
    }

    /// Start and end of each secret, in order. Secrets that overlap are one, so that no part of either value stays
    /// readable. Characters that are not shown hide no secret.
    pub(crate) fn spans(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut spans = self.in_text.spans(bytes);
        if let Some(visible) = Visible::of(bytes) {
            let found = self.in_text.spans(&visible.bytes).into_iter();
            spans.extend(found.map(|(start, end)| visible.span(start, end)));
            spans = search::disjoint(spans);
        }
        spans
    }

    /// [`Self::unfinished`] for bytes that may not be UTF-8, with any number of hidden characters.
    pub(crate) fn unfinished_bytes(&self, bytes: &[u8]) -> usize {
        if self.is_empty() {
            return 0;
        }
        let raw = self.in_text.unfinished(bytes);
        let Some(visible) = Visible::of(bytes) else { return raw };
        match self.in_text.unfinished(&visible.bytes) {
            0 => raw,
            shown => raw.max(bytes.len() - visible.origin(visible.bytes.len() - shown)),
        }
    }

    /// The event with secrets masked only in its free text, so that it still means the same to Althing.
    pub fn mask_free_text(&self, mut event: Event) -> Event {
        if !self.is_empty() {
            free_text::each_text(&mut event.fact, &mut |text| {
                if let Cow::Owned(masked) = self.mask_text(text) {
                    *text = masked;
                }
            });
        }
        event
    }

    /// The first place in an op where a secret is a part of something that is acted upon, such as a command or a path.
    pub fn secret_place(&self, op: &Op) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        structure::secret_place(op, &|text| matches!(self.mask_text(text), Cow::Owned(_)))
    }

    /// The event with masked secrets. Values that Althing itself produces, such as ids and statuses, stay as they are,
    /// and so does an event that could not be read back with masks.
    pub fn mask_event(&self, event: Event) -> Event {
        if self.is_empty() {
            return event;
        }
        // An event without a JSON form is neither written nor shown.
        let Ok(json) = serde_json::to_string(&event) else { return event };
        if !self.in_json.may_match(json.as_bytes()) && !may_hide(&json) {
            return event;
        }
        let Ok(value) = serde_json::from_str::<Value>(&json) else { return event };
        // The second try leaves strings of only letters and `_` unmasked: they may be words of the log format, and
        // masking those would make the event unreadable.
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
                if position.has_foreign_keys {
                    *fields = self.with_masked_keys(std::mem::take(fields));
                }
                for (name, value) in fields.iter_mut() {
                    self.mask_value(value, position.enter(name));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// A masked key that is already taken gets a number, so that no value is lost.
    fn with_masked_keys(&self, fields: Map<String, Value>) -> Map<String, Value> {
        let (mut kept, mut masked) = (Map::new(), Vec::new());
        for (key, value) in fields {
            match self.mask_text(&key) {
                Cow::Owned(key) => masked.push((key, value)),
                Cow::Borrowed(_) => drop(kept.insert(key, value)),
            }
        }
        let mut last: BTreeMap<String, usize> = BTreeMap::new();
        for (key, value) in masked {
            let number = last.entry(key.clone()).or_insert(0);
            let mut free = key.clone();
            *number += 1;
            while *number > 1 || kept.contains_key(&free) {
                free = format!("{key}-{number}");
                if !kept.contains_key(&free) {
                    break;
                }
                *number += 1;
            }
            kept.insert(free, value);
        }
        kept
    }
}

/// Whether JSON contains a hidden character.
fn may_hide(json: &str) -> bool {
    json.contains("\\r") || (!json.is_ascii() && json.chars().any(sanitize::is_hidden))
}

#[derive(Clone, Copy, Default)]
struct FieldPosition<'a> {
    /// The parent of `field`.
    parent: &'a str,
    field: &'a str,
    /// Whether everything here comes from a model, a program or a user.
    is_foreign: bool,
    /// Whether that is also true for the keys.
    has_foreign_keys: bool,
    /// Whether strings that may be words of the log format stay unmasked.
    keep_format_words: bool,
}

impl<'a> FieldPosition<'a> {
    fn enter(self, field: &'a str) -> Self {
        // The ids of a workflow stage's tasks become part of Althing's task ids, so they are not masked.
        let parent = if self.field == "tasks" && self.parent == "stages" { "stages" } else { self.field };
        let of_stage = field == "tasks" && self.field == "stages";
        let has_foreign_keys = self.has_foreign_keys || FOREIGN_KEY_OBJECTS.contains(&field);
        let is_foreign =
            self.is_foreign || has_foreign_keys || (FOREIGN_FIELDS.contains(&field) && !of_stage);
        Self { parent, field, is_foreign, has_foreign_keys, keep_format_words: self.keep_format_words }
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

/// Makes masked ids distinct, because each result must still refer to one call.
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

fn forms(value: &str) -> Vec<String> {
    let json = escaped(value);
    let ascii = ascii_only(&json);
    let slashed = [json.replace('/', "\\/"), ascii.replace('/', "\\/")];
    // A terminal converts line ends to CR LF.
    let in_terminal = value.replace('\n', "\r\n");
    [value.to_owned(), json, ascii, in_terminal].into_iter().chain(slashed).chain(encoded(value)).collect()
}

/// A text as it appears between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(&quoted).to_owned()
}

/// Escapes non-ASCII characters as `\uXXXX`, as many JSON writers do.
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
