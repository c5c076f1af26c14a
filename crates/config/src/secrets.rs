//! Finds secrets in a config, so that they can be masked in messages, logs and files.
//!
//! This module masks too much rather than too little: values with names that suggest a secret, texts with the shape of
//! a provider's key, passwords in addresses. A bare `${VARIABLE}` is not a secret and stays, because that is what a
//! config should contain.

use althing_protocol::Secret;
use std::borrow::Cow;

use crate::parse::{self, Parsed};
use crate::substitute::{Piece, pieces};
use crate::tree::{Span, Value};

/// The replacement of a secret; valid YAML wherever a value is allowed.
pub(crate) const REDACTED: &str = "\"[redacted]\"";

/// The prefixes of well-known services' keys.
const KEY_PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "gsk_",
    "csk-",
    "xai-",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AIza",
    "AKIA",
    "hf_",
    "nvapi-",
    "fw_",
    "pplx-",
];

/// The length in bytes of the shortest text that can be a well-known service's key.
const KEY_LENGTH: usize = 20;

/// In text that could not be parsed: how many bytes before the shown part are searched for the name of a value.
const LOOK_BACK: usize = 4096;

/// Parts of names that mean a secret anywhere in the name, unless its last word is one of `LOCATION_WORDS`.
const SECRET_PARTS: &[&str] = &[
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
];

/// Words that mean a secret at the end of a name (`auth` only perhaps). Elsewhere in a name they perhaps mean a
/// secret, unless its last word is one of `LOCATION_WORDS` or `DESCRIPTION_WORDS`.
const SECRET_WORDS: &[&str] = &["key", "token", "pat", "pwd", "pass", "dsn", "cookie", "auth"];

/// Last words of names that never mean a secret, because the value is only a location.
const LOCATION_WORDS: &[&str] = &["file", "path", "dir", "directory", "sock", "socket"];

/// Last words of names whose values describe a secret and do not contain it; they have no effect if the name contains
/// one of `SECRET_PARTS`.
const DESCRIPTION_WORDS: &[&str] = &[
    "type",
    "kind",
    "mode",
    "method",
    "name",
    "id",
    "url",
    "uri",
    "host",
    "port",
    "endpoint",
    "limit",
    "count",
    "ttl",
    "timeout",
    "env",
    "variable",
    "length",
    "size",
    "algorithm",
    "enabled",
    "required",
    "expiry",
    "expires",
];

/// Names that mean no secret although they are secret words: `PWD` holds the working directory, not a password.
const NOT_SECRET: &[&str] = &["pwd"];

/// How certain it is that a name means a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameMeaning {
    Harmless,
    /// The name contains a secret word. `is_secret_name` is true for such a name; in `secrets_in_variable` the value
    /// decides.
    Perhaps,
    Secret,
}

/// The words of a name in lower case: `apiKey`, `API_KEY` and `api-key` have the same words. Trailing numbers are
/// ignored.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let begins = before.is_lowercase() && c.is_uppercase();
        if let Some(last) = words.last_mut().filter(|_| c.is_alphanumeric() && !begins) {
            last.extend(c.to_lowercase());
        } else {
            words.push(c.to_lowercase().filter(|c| c.is_alphanumeric()).collect());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    while words.last().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
        words.pop();
    }
    words
}

fn name_meaning(name: &str) -> NameMeaning {
    let words = words(name);
    let is = |word: &str, list: &[&str]| list.contains(&word);
    let Some(last) = words.last().filter(|last| !is(last, LOCATION_WORDS)) else {
        return NameMeaning::Harmless;
    };
    let whole = words.concat();
    if is(&whole, NOT_SECRET) {
        return NameMeaning::Harmless;
    }
    let means = |word: &str| is(word, SECRET_WORDS) || word.ends_with("token");
    if SECRET_PARTS.iter().any(|part| whole.contains(part)) || (means(last) && last != "auth") {
        NameMeaning::Secret
    } else if words.iter().any(|word| means(word)) && !is(last, DESCRIPTION_WORDS) {
        NameMeaning::Perhaps
    } else {
        NameMeaning::Harmless
    }
}

/// Whether the name of a key, header or variable suggests, for certain or perhaps, that its value is a secret.
pub fn is_secret_name(name: &str) -> bool {
    name_meaning(name) > NameMeaning::Harmless
}

/// If a variable's name may or may not mean a secret, a value of fewer bytes than this is not a secret.
const PERHAPS_BYTES: usize = 8;
/// If a variable's name may or may not mean a secret, a word of fewer lower-case letters than this is not a secret.
const PLAIN_WORD: usize = 16;

/// The secrets in an environment variable of any name: the passwords of addresses and connection strings in the value;
/// without such passwords, the whole value (without a scheme such as `Bearer`), if the variable's name or the value's
/// shape says that it is a secret.
pub fn secrets_in_variable(name: &str, value: &str) -> Vec<Secret> {
    let value = value.trim();
    let mut found: Vec<String> = passwords(value);
    let is_plain = || value.len() < PLAIN_WORD && value.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_path = || ["/", "./", "~/"].iter().any(|start| value.starts_with(start));
    let whole = match name_meaning(name) {
        NameMeaning::Secret => true,
        NameMeaning::Perhaps => value.len() >= PERHAPS_BYTES && !is_plain() && !is_path(),
        NameMeaning::Harmless => is_key_like(value),
    };
    // Only the password of an address is secret: the rest of the address occurs in many harmless texts.
    if whole && found.is_empty() {
        found.push(search_term(value).to_owned());
    }
    found.into_iter().filter(|secret| !secret.is_empty()).map(Secret::new).collect()
}

/// The passwords in a text's addresses (as written and percent-decoded) and connection strings, except passwords of
/// addresses that only repeat the user name or the scheme.
fn passwords(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("://") {
        let (before, rest) = (text.get(..at).unwrap_or_default(), text.get(at + 3..).unwrap_or_default());
        let ends = |c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | ',' | ';') || c.is_whitespace();
        let authority = rest.split(ends).next().unwrap_or_default();
        let Some((user, password)) = authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':'))
        else {
            continue;
        };
        // `postgres://postgres:postgres@localhost` protects nothing, and masking it would mask a common word.
        if password != user && !before.ends_with(password) {
            found.push(password.to_owned());
            found.extend(percent_decoded(password).filter(|plain| plain != password));
        }
    }
    for part in text.split([';', ' ', '&']) {
        if let Some((name, password)) = part.split_once('=')
            && ["password", "pwd", "passwd"].iter().any(|word| name.trim().eq_ignore_ascii_case(word))
        {
            found.push(password.trim_matches(['"', '\'']).to_owned());
        }
    }
    found
}

/// Decodes a percent-encoded text; None if the result is not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.filter(|_| *first == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8(bytes).ok()
}

/// A secret in a document, and its position in the text.
pub(crate) struct Literal {
    pub(crate) span: Span,
    pub(crate) value: String,
}

/// Every secret in a document: before substitution, those written in the file; after substitution, also those
/// from variables.
pub(crate) fn literals(parsed: &Parsed) -> Vec<Literal> {
    let mut found = Vec::new();
    let mut todo = vec![(&parsed.root, false)];
    todo.extend(parsed.dropped.iter().map(|entry| (&entry.value, is_secret_name(&entry.key))));
    while let Some((node, named)) = todo.pop() {
        match &node.value {
            Value::Text(text) => {
                let secret = named && has_literal_part(&text.content);
                if secret || is_key_like(&text.content) || has_password(&text.content) {
                    found.push(Literal { span: node.span, value: text.content.clone() });
                }
            }
            Value::Integer(number) if named => {
                found.push(Literal { span: node.span, value: number.to_string() });
            }
            Value::List(items) => {
                // In a program's arguments, an option such as `--token` says that the next argument is a
                // secret.
                let options = items.iter().map(|item| item.as_text().is_some_and(is_secret_option));
                let after_option = std::iter::once(false).chain(options);
                todo.extend(items.iter().zip(after_option).map(|(item, after)| (item, named || after)));
            }
            Value::Map(entries) => {
                todo.extend(entries.iter().map(|entry| (&entry.value, is_secret_name(&entry.key))));
            }
            Value::Integer(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}

/// Whether this value of a key or variable of this name is a secret that is written in the file itself.
pub(crate) fn is_plain_text_secret(name: &str, value: &str) -> bool {
    is_secret_name(name) && has_literal_part(value) || is_key_like(value) || has_password(value)
}

fn is_secret_option(argument: &str) -> bool {
    argument.strip_prefix('-').is_some_and(|name| !name.contains('=') && is_secret_name(name))
}

/// The part of a secret text to search for in logs: without a scheme such as `Bearer`, or only the password of an
/// address.
pub(crate) fn search_term(secret: &str) -> &str {
    if let Some((_, rest)) = secret.split_once("://")
        && let Some((user, _)) =
            rest.split(['/', '?', '#']).next().and_then(|authority| authority.rsplit_once('@'))
        && let Some((_, password)) = user.split_once(':')
    {
        return password;
    }
    let secret = secret.trim();
    match secret.split_once(' ') {
        Some((word, rest)) if is_scheme(word) => rest.trim(),
        _ => secret,
    }
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "token"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Whether a text contains anything but blanks, variables without a default, and words such as `Bearer`.
fn has_literal_part(text: &str) -> bool {
    pieces(text).iter().any(|piece| match piece {
        Piece::Text(part) => part.split_whitespace().any(|word| !is_scheme(word)),
        Piece::Variable { default, .. } => default.is_some_and(|default| !default.is_empty()),
    })
}

/// Whether a text has the shape of a well-known service's key.
pub(crate) fn is_key_like(text: &str) -> bool {
    text.len() >= KEY_LENGTH
        && KEY_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && text.chars().any(|c| c.is_ascii_digit())
}

/// Whether a text is an address with a password that is written out, not only named as a variable.
fn has_password(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, _)) = authority.rsplit_once('@') else { return false };
    user.split_once(':').is_some_and(|(_, password)| has_literal_part(password))
}

/// `part`, which starts at byte `start` of the text, with the given spans overwritten by `*`; columns stay the same.
pub(crate) fn mask(part: &str, start: usize, spans: &[Span]) -> String {
    let end = start + part.len();
    let near: Vec<&Span> = spans.iter().filter(|span| span.start < end && start < span.end).collect();
    let is_inside = |at: usize| near.iter().any(|span| (span.start..span.end).contains(&at));
    part.char_indices().map(|(at, c)| if is_inside(start + at) { '*' } else { c }).collect()
}

/// The bytes `from..to` of a line of text that could not be parsed, with possible secrets overwritten by `*`; columns
/// stay the same.
pub(crate) fn mask_unparsed(line: &str, from: usize, to: usize) -> String {
    // The name of a value may be before the part that is shown, so the search starts up to `LOOK_BACK` bytes earlier.
    let start = line.floor_char_boundary(from.saturating_sub(LOOK_BACK));
    let part = line.get(start..to).unwrap_or_default();
    let skipped = line.get(start..from).unwrap_or_default().chars().count();
    replace_secrets(part, |hidden| "*".repeat(hidden.chars().count())).chars().skip(skipped).collect()
}

/// The YAML text with every secret in it replaced, for storing with a session. `${VARIABLE}`s stay. Comments are
/// searched too, because people leave old keys there; text that is not YAML is searched line by line.
pub fn redact(text: &str) -> String {
    let Ok(parsed) = parse::parse(text) else {
        let lines: Vec<String> =
            text.split('\n').map(|line| replace_secrets(line, |_| REDACTED.to_owned())).collect();
        return lines.join("\n");
    };
    let mut spans: Vec<Span> = literals(&parsed).into_iter().map(|literal| literal.span).collect();
    spans.sort_by_key(|span| span.start);
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for span in spans {
        // An alias can make the same value appear twice; it is replaced once.
        if span.start < done {
            continue;
        }
        out.push_str(text.get(done..span.start).unwrap_or_default());
        out.push_str(REDACTED);
        // The span of a block scalar includes the indentation of the next line, which must stay.
        done = span.start + text.get(span.start..span.end).unwrap_or_default().trim_end().len();
    }
    out.push_str(text.get(done..).unwrap_or_default());
    let lines: Vec<Cow<'_, str>> = out.split('\n').map(redact_comment).collect();
    replace_keys(&lines.join("\n"), |_| "[redacted]".to_owned())
}

/// A line with the secrets in its comment replaced.
fn redact_comment(line: &str) -> Cow<'_, str> {
    let start = line.find('#').filter(|at| {
        let before = line.get(..*at).unwrap_or_default();
        before.is_empty() || before.ends_with([' ', '\t'])
    });
    match start.map(|at| line.split_at(at)) {
        Some((before, comment)) => {
            Cow::Owned(format!("{before}{}", replace_secrets(comment, |_| REDACTED.to_owned())))
        }
        None => Cow::Borrowed(line),
    }
}

/// A line with the value after every secret name replaced, and with every word that has the shape of a key replaced.
pub(crate) fn replace_secrets(line: &str, with: impl Fn(&str) -> String + Copy) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find([':', '=']) {
        let (before, from) = rest.split_at(at + 1);
        out.push_str(before);
        rest = from;
        let name = before.trim_end_matches([':', '=', ' ', '"', '\'']);
        let name = name
            .rsplit(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')))
            .next()
            .unwrap_or_default();
        if !is_secret_name(name) {
            continue;
        }
        let end = from.find([',', '}']).filter(|_| !from.contains("${")).unwrap_or(from.len());
        let (value, after) = from.split_at(end);
        let bare = value.trim().trim_matches(['"', '\'']);
        if bare.is_empty() || !has_literal_part(bare) {
            continue;
        }
        let lead = value.len() - value.trim_start().len();
        let (space, hidden) = value.split_at(lead);
        out.push_str(space);
        out.push_str(&with(hidden));
        rest = after;
    }
    out.push_str(rest);
    replace_keys(&out, with)
}

/// A text with every word that has the shape of a key replaced.
fn replace_keys(text: &str, with: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut word_start = 0;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let flush = |out: &mut String, word: &str| {
        if is_key_like(word) { out.push_str(&with(word)) } else { out.push_str(word) }
    };
    for (at, c) in text.char_indices() {
        if !is_part(c) {
            flush(&mut out, text.get(word_start..at).unwrap_or_default());
            out.push(c);
            word_start = at + c.len_utf8();
        }
    }
    flush(&mut out, text.get(word_start..).unwrap_or_default());
    out
}
