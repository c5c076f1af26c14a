//! Takes known secret values out of what is about to be written or shown.
//!
//! Works on the text that people and models wrote, in plain and in JSON-escaped form. Must never change the words that
//! hold an event together (types, ids, statuses, times): a log that cannot be read back is worse than any mask.

use aho_corasick::AhoCorasick;
use althing_protocol::Event;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write};

/// Shorter values would turn ordinary words into masks.
const MIN_BYTES: usize = 6;
pub(crate) const MASK: &str = "[secret]";

/// Fields whose values are our own words or ids, wherever they stand in an event.
const OUR_WORDS: &[&str] = &[
    "type",
    "at",
    "id",
    "parent",
    "kind",
    "agent",
    "winner",
    "presenter",
    "voter",
    "target",
    "label",
    "status",
    "op",
    "by",
    "purpose",
    "outcome",
    "timer",
    "phase",
    "verdict",
    "strategy",
    "final_answer_strategy",
    "end",
    "session",
    "run_id",
    "call",
    "decision",
    "interaction",
    "level",
    "agent_mode",
    "voting_sensitivity",
    "change",
    "config_digest",
    "backend",
    "model",
    "name",
];

/// Replaces known secret values by `[secret]`.
#[derive(Clone, Default)]
pub struct Masker {
    /// Finds values in a text; None if there are none to find.
    in_text: Option<AhoCorasick>,
    /// Finds what such a text becomes inside an event's JSON.
    in_json: Option<AhoCorasick>,
    /// The values themselves in all their forms: what a stream may break off in the middle of.
    forms: Vec<String>,
    /// The bytes that forms begin with, so that most ends of a stream need no closer look.
    firsts: BTreeSet<u8>,
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Masker(…)")
    }
}

impl Masker {
    /// A masker for these values. Values under 6 bytes, and white space around values, are left out.
    pub fn new<I>(values: I) -> Self
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
        let search = |patterns: &BTreeSet<String>| {
            if patterns.is_empty() { None } else { AhoCorasick::new(patterns).ok() }
        };
        let firsts = text.iter().filter_map(|form| form.bytes().next()).collect();
        Self { in_text: search(&text), in_json: search(&json), forms: text.into_iter().collect(), firsts }
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
        let longest = |form: &String| {
            let begins = |len: &usize| form.get(..*len).is_some_and(|start| text.ends_with(start));
            (1..form.len().min(text.len() + 1)).rev().find(begins).unwrap_or(0)
        };
        self.forms.iter().map(longest).max().unwrap_or(0)
    }

    /// The values in all their forms.
    pub(crate) fn forms(&self) -> &[String] {
        &self.forms
    }

    /// Where secrets begin and end, in order; they may overlap.
    pub(crate) fn spans(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let found = self.in_text.iter().flat_map(|search| search.find_overlapping_iter(bytes));
        let mut spans: Vec<(usize, usize)> = found.map(|found| (found.start(), found.end())).collect();
        spans.sort_unstable();
        spans
    }

    /// [`Self::unfinished`] for bytes that need not be text.
    pub(crate) fn unfinished_bytes(&self, bytes: &[u8]) -> usize {
        let longest = self.forms.iter().map(String::len).max().unwrap_or(0);
        let from = bytes.len().saturating_sub(longest.saturating_sub(1));
        let begins = |at: &usize| {
            let end = bytes.get(*at..).unwrap_or_default();
            end.first().is_some_and(|first| self.firsts.contains(first))
                && self.forms.iter().any(|form| form.len() > end.len() && form.as_bytes().starts_with(end))
        };
        (from..bytes.len()).find(begins).map_or(0, |at| bytes.len() - at)
    }

    /// The event without secrets in its texts. Costs one serialisation, and more only if there is something to mask.
    pub fn mask_event(&self, event: Event) -> Event {
        let Some(search) = &self.in_json else { return event };
        let json = event.to_json();
        if !search.is_match(&json) {
            return event;
        }
        let Ok(mut value) = serde_json::from_str(&json) else { return event };
        self.mask_value(&mut value, "");
        // It reads back unless a "secret" is one of our own words; such a value protects nothing.
        match Event::from_json(&value.to_string()) {
            Ok(masked) => masked,
            Err(_) => event,
        }
    }

    fn mask_value(&self, value: &mut Value, field: &str) {
        match value {
            Value::String(text) => {
                let ours = OUR_WORDS.contains(&field) || (field == "task" && is_task_id(text));
                if !ours && let Cow::Owned(masked) = self.mask_text(text) {
                    *text = masked;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.mask_value(value, field)),
            Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| self.mask_value(value, name)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// `r1`, `r1.a2`: the `task` of an event, unlike the `task` of a run, which is the user's text.
fn is_task_id(text: &str) -> bool {
    text.starts_with('r') && text.chars().skip(1).all(|c| c.is_ascii_digit() || c == '.' || c == 'a')
}

/// How a value shows up in texts: as it is, and as the JSON that models, tools and servers make of it.
fn forms(value: &str) -> Vec<String> {
    let json = escaped(value);
    let ascii = ascii_only(&json);
    let slashed = [json.replace('/', "\\/"), ascii.replace('/', "\\/")];
    // A terminal ends lines in its own way.
    let in_terminal = value.replace('\n', "\r\n");
    [value.to_owned(), json, ascii, in_terminal].into_iter().chain(slashed).collect()
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
