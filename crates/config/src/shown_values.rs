//! Values of a config as one quoted line, for a person who has to decide whether to trust it. Secrets are hidden, but
//! nothing else is, and what is cut off is counted: the author of the config may be a stranger.

use crate::backends;
use crate::secrets;
use crate::tools::scalar;
use crate::tree::{Node, Value};
use althing_protocol::is_secret_name;
use idna::{AsciiDenyList, domain_to_ascii_cow};
use serde_json::Value as Json;

/// The maximum number of characters of a command line, address or path.
const MAX_SHOWN: usize = 2000;
/// The maximum number of characters of one value within a longer line: a long value must not cut off the others.
const MAX_LEAF: usize = 500;
/// The maximum number of characters of all values of one part.
const MAX_VALUES: usize = 20_000;

/// A path as it is written.
pub(crate) fn shown(text: &str) -> String {
    cut_to(MAX_SHOWN, text)
}

pub(crate) fn quoted(text: &str) -> String {
    let text = secrets::without_secret_words(text);
    in_ticks(MAX_SHOWN, &text)
}

/// Like [`quoted`], for a program and its arguments. Empty arguments and arguments with spaces or quotes are quoted as
/// in a shell, so that it is visible where each begins and ends.
pub fn quoted_command(words: &[String]) -> String {
    let words: Vec<String> =
        words.iter().map(|word| shell_word(&secrets::without_secret_words(word))).collect();
    in_ticks(MAX_SHOWN, &words.join(" "))
}

/// The variables of a program, with their values.
pub(crate) fn quoted_variables(env: &Node) -> String {
    let variable = |name: &str, value: &Node| {
        let text = scalar(value).map(|text| leaf(name, &text));
        let value = text.unwrap_or_else(|| json(name, value).to_string());
        shell_word(&format!("{}={value}", leaf("", name)))
    };
    let words: Vec<String> = env.entries().iter().map(|entry| variable(&entry.key, &entry.value)).collect();
    in_ticks(MAX_VALUES, &words.join(" "))
}

/// The value of the key `name`, as one line of JSON.
pub(crate) fn quoted_value(name: &str, node: &Node) -> String {
    in_ticks(MAX_VALUES, &json(name, node).to_string())
}

/// The entries of a section except these, as one line of JSON; `None` if there are no others.
pub(crate) fn other_entries(section: &Node, except: &[&str]) -> Option<String> {
    let others = section.entries().iter().filter(|entry| !except.contains(&entry.key.as_str()));
    let others: serde_json::Map<String, Json> =
        others.map(|entry| (leaf("", &entry.key), json(&entry.key, &entry.value))).collect();
    (!others.is_empty()).then(|| in_ticks(MAX_VALUES, &Json::Object(others).to_string()))
}

/// The address after its host. The host is named separately, because another part of the address could be mistaken for
/// it. A host with other letters than those of ASCII is shown as it is asked for, because such a letter can look like one
/// of ASCII.
pub(crate) fn address(url: &str) -> String {
    let host = backends::host_of(url).unwrap_or(url);
    let written = in_ticks(MAX_SHOWN, &leaf("", &without_password(url)));
    if host.is_ascii() {
        return format!("{} ({written})", shown(host));
    }
    format!("{} (not ASCII as written: {written})", shown(&in_ascii(host)))
}

fn in_ascii(host: &str) -> String {
    match domain_to_ascii_cow(host.as_bytes(), AsciiDenyList::URL) {
        Ok(name) if name.is_ascii() => name.into_owned(),
        _ => {
            let letter = |c: char| if c.is_ascii() { c.to_string() } else { c.escape_unicode().to_string() };
            host.chars().map(letter).collect()
        }
    }
}

fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?, host))) {
        Some(((user, password), host)) if !password.starts_with("${") => {
            format!("{scheme}://{user}:…@{host}{path}")
        }
        _ => url.to_owned(),
    }
}

fn json(name: &str, node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(number) => number_json(name, &number.to_string(), (*number).into()),
        Value::Number(number) => number_json(name, &number.to_string(), (*number).into()),
        Value::Text(text) => leaf(name, &text.content).into(),
        Value::List(items) => items.iter().map(|item| json(name, item)).collect(),
        Value::Map(entries) => {
            let pairs = entries.iter().map(|entry| (leaf("", &entry.key), json(&entry.key, &entry.value)));
            Json::Object(pairs.collect())
        }
    }
}

fn number_json(name: &str, text: &str, number: Json) -> Json {
    let shown = leaf(name, text);
    if shown == text { number } else { shown.into() }
}

/// One value of the key `name`. If the name means a secret, the value is hidden, except a path, an address and what
/// follows the first word.
fn leaf(name: &str, text: &str) -> String {
    let text = if is_secret_name(name) {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let head = format!("{}: ", name.replace(|c| !is_part(c), "-"));
        let line = secrets::without_secret_words(&(head.clone() + text.trim_start()));
        line.strip_prefix(&head).map_or_else(|| secrets::without_secret_words(text), str::to_owned)
    } else {
        secrets::without_secret_words(text)
    };
    cut_to(MAX_LEAF, &text)
}

fn shell_word(word: &str) -> String {
    let is_plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || matches!(c, '\'' | '"'));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn in_ticks(most: usize, text: &str) -> String {
    let (text, cut) = shortened(most, text);
    format!("`{text}`{cut}")
}

fn cut_to(most: usize, text: &str) -> String {
    let (text, cut) = shortened(most, text);
    text + &cut
}

const MORE: &str = " more characters)";

/// Whether values in this line may have been cut off. True also for a value that itself contains the mark, but no value
/// can make it false.
pub(crate) fn is_shortened(line: &str) -> bool {
    line.contains(MORE)
}

fn shortened(most: usize, text: &str) -> (String, String) {
    let more = text.chars().count().saturating_sub(most);
    let cut = if more > 0 { format!("… ({more}{MORE}") } else { String::new() };
    (text.chars().take(most).collect(), cut)
}
