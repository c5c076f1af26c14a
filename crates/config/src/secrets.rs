//! Finds secrets in a config and in variables, so that they can be masked in messages, logs and files. It masks too
//! much rather than too little. A bare `${VARIABLE}` is not a secret.

use althing_protocol::{NameMeaning, Secret, is_secret_name, name_meaning};
use std::borrow::Cow;

use crate::parse::{self, Parsed};
use crate::substitute::{Piece, pieces};
use crate::tree::{Span, Value};

/// This text is valid YAML wherever a value is allowed.
pub(crate) const REDACTED: &str = "\"[redacted]\"";

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

/// The minimum length of a word that looks like a key, in bytes.
const KEY_LENGTH: usize = 20;

/// How many bytes before the shown part are searched for the name of a value, in text that could not be parsed.
const LOOK_BACK: usize = 4096;

/// A shorter value (in bytes) of a variable whose name may or may not mean a secret is no secret.
const PERHAPS_BYTES: usize = 8;
/// A shorter word of lower-case letters in such a variable is no secret.
const PLAIN_WORD: usize = 16;

/// The secrets in the user's variable: passwords in addresses and connection strings or, without these, the whole
/// value if the variable's name or the value's shape says that it is a secret.
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
    // Of a value with a password in it, only the password is masked: the rest, such as the host of an address, occurs
    // in many harmless texts.
    if whole && found.is_empty() {
        found.push(search_term(value).to_owned());
    }
    found.into_iter().filter(|secret| !secret.is_empty()).map(Secret::new).collect()
}

/// A shorter value (in bytes) that was found in the working directory is not masked.
const FOUND_SECRET_BYTES: usize = 8;
/// A shorter value that was found is not masked if it lacks a digit or a letter.
const FOUND_WORD_BYTES: usize = 20;
/// A shorter value that was found is not used as a secret if it contains `/`.
const FOUND_BASE64_BYTES: usize = 32;

/// Whether a value that somebody else may have set may be used as a secret: one word that is neither an address nor a
/// path.
pub fn may_be_found_secret(value: &str) -> bool {
    let value = value.trim();
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    let is_base64 = || {
        value.len() >= FOUND_BASE64_BYTES
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_lowercase)
    };
    let is_path = value.starts_with(['/', '~']) || value.starts_with("..") || value == ".";
    !value.is_empty()
        && value.bytes().all(|byte| byte.is_ascii_graphic())
        && !is_path
        && (!value.contains(['/', '\\']) || is_base64())
}

/// Whether a value with `/` may be a key and is therefore masked. It is not used as a secret: it may be a path, too.
fn may_be_key_with_slash(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    value.len() >= FOUND_WORD_BYTES
        && value.bytes().all(|byte| byte.is_ascii_graphic())
        && !value.starts_with(['/', '~', '.'])
        && !value.contains("://")
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

/// Whether a value that somebody else chose is masked. Only a value that looks like a secret is masked: otherwise its
/// author could hide ordinary words from the user.
pub fn may_be_masked_if_found(secret: &Secret) -> bool {
    let text = secret.reveal();
    let is_plain = !text.bytes().any(|byte| byte.is_ascii_digit())
        || !text.bytes().any(|byte| byte.is_ascii_alphabetic());
    (may_be_found_secret(text) || may_be_key_with_slash(text))
        && text.len() >= FOUND_SECRET_BYTES
        && (!is_plain || text.len() >= FOUND_WORD_BYTES)
}

/// The secrets in a variable that somebody else may have set.
pub fn secrets_in_found_variable(name: &str, value: &str) -> Vec<Secret> {
    secrets_in_variable(name, value).into_iter().filter(may_be_masked_if_found).collect()
}

/// Passwords of addresses are returned as written and percent-decoded.
fn passwords(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("://") {
        let (before, rest) = (text.get(..at).unwrap_or_default(), text.get(at + 3..).unwrap_or_default());
        let ends = |c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | ',' | ';') || c.is_whitespace();
        let authority = rest.split(ends).next().unwrap_or_default();
        let Some((user, password)) = credential(authority) else { continue };
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

/// A shorter user (in bytes) of an address is a name, not a token.
const TOKEN_BYTES: usize = 16;

/// The user and the password in the authority of an address. Some services take a token as the user, with an empty
/// password or none: then the token is the password.
fn credential(authority: &str) -> Option<(&str, &str)> {
    let (before, _) = authority.rsplit_once('@')?;
    let (user, password) = before.split_once(':').unwrap_or((before, ""));
    let is_token = user.len() >= TOKEN_BYTES && user.bytes().any(|byte| byte.is_ascii_digit());
    match password {
        "" | "x-oauth-basic" if is_token => Some(("", user)),
        "" => None,
        _ => Some((user, password)),
    }
}

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

pub(crate) struct Literal {
    pub(crate) span: Span,
    pub(crate) value: String,
}

/// A part of the text of these keys may be a secret (`--token=…`). Commands of workflows are not searched for such
/// parts: a command that contains a known secret is refused, because the log could contain it only masked.
const TEXTS_WITH_SECRETS: [&str; 4] = ["args", "azure_endpoint", "base_url", "url"];

#[derive(Clone, Copy)]
struct Meaning {
    is_secret: bool,
    may_contain_secrets: bool,
}

impl Meaning {
    fn of(key: &str) -> Self {
        let may_contain_secrets = TEXTS_WITH_SECRETS.contains(&key);
        Self { is_secret: is_secret_name(key), may_contain_secrets }
    }
}

/// The secrets in a parsed file. Before the substitution of variables these are the secrets written in the file; after
/// it, also those that came from variables.
pub(crate) fn literals(parsed: &Parsed) -> Vec<Literal> {
    let mut found = Vec::new();
    let mut todo = vec![(&parsed.root, Meaning::of(""))];
    todo.extend(parsed.dropped.iter().map(|entry| (&entry.value, Meaning::of(&entry.key))));
    while let Some((node, meaning)) = todo.pop() {
        let named = meaning.is_secret;
        match &node.value {
            Value::Text(text) => {
                if meaning.may_contain_secrets {
                    let inner = inner_secrets(&text.content).into_iter();
                    found.extend(inner.map(|value| Literal { span: node.span, value }));
                }
                let secret = named && has_literal_part(&text.content);
                if secret || is_key_like(&text.content) || has_password(&text.content) {
                    found.push(Literal { span: node.span, value: text.content.clone() });
                }
            }
            Value::Integer(number) if named => {
                found.push(Literal { span: node.span, value: number.to_string() });
            }
            Value::List(items) => {
                // After an option such as `--token`, the next argument is a secret.
                let options = items.iter().map(|item| item.as_text().is_some_and(is_secret_option));
                let after_option = std::iter::once(false).chain(options);
                let after_option = after_option.map(|after| Meaning { is_secret: named || after, ..meaning });
                todo.extend(items.iter().zip(after_option));
            }
            Value::Map(entries) => {
                todo.extend(entries.iter().map(|entry| (&entry.value, Meaning::of(&entry.key))));
            }
            Value::Integer(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}

/// Finds parts that follow a name: `--token=…`, `?key=…`, `Authorization: Bearer …`.
fn inner_secrets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find([':', '=']) {
        let (before, after) = rest.split_at(at + 1);
        rest = after;
        let value = after.trim_start().trim_start_matches(['"', '\'']);
        let value = match value.split_once(' ') {
            Some((word, credentials)) if is_scheme(word) => credentials.trim_start(),
            _ => value,
        };
        let ends = |c: char| c.is_whitespace() || "\"'&;,#}".contains(c);
        let value = value.split(ends).next().unwrap_or_default();
        // A variable is searched once its value is filled in.
        let is_word = value.len() < PLAIN_WORD && value.bytes().all(|byte| byte.is_ascii_lowercase());
        if value.len() >= PERHAPS_BYTES && !is_word && !value.contains("${") {
            let secrets = secrets_in_variable(name_before(before), value);
            found.extend(secrets.iter().map(|secret| secret.reveal().to_owned()));
            found.extend(percent_decoded(value).filter(|plain| plain != value && !secrets.is_empty()));
        }
    }
    found
}

/// Whether the secret is written in the file itself, not only named as a variable.
pub(crate) fn is_plain_text_secret(name: &str, value: &str) -> bool {
    is_secret_name(name) && has_literal_part(value) || is_key_like(value) || has_password(value)
}

fn is_secret_option(argument: &str) -> bool {
    argument.strip_prefix('-').is_some_and(|name| !name.contains('=') && is_secret_name(name))
}

/// One argument of a command line that the user has to judge, with its secrets hidden. Its author might try to hide a
/// program, path or address behind `TOKEN=`, so a hidden value ends at the first character that is unusual in a key,
/// and parts of paths and addresses stay visible.
pub(crate) fn without_secret_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_value_next = false;
    for piece in text.split_inclusive(char::is_whitespace) {
        let mut rest = piece;
        if is_value_next && !piece.trim().is_empty() && !is_scheme(piece.trim()) {
            is_value_next = false;
            rest = hide_value(rest, &mut out);
        }
        while let Some(at) = rest.find([':', '=']) {
            let (before, after) = rest.split_at(at + 1);
            out.push_str(before);
            rest = after;
            if is_secret_name(name_before(before)) {
                rest = hide_value(after, &mut out);
                // As in `Authorization: Bearer …`; a new line would be another command.
                is_value_next = before.ends_with(':') && after == " ";
            }
        }
        is_value_next &= !piece.ends_with('\n');
        out.push_str(rest);
    }
    replace_keys(&out, |_| HIDDEN.to_owned())
}

const HIDDEN: &str = "…";

/// Writes [`HIDDEN`] in place of the value at the start of the text, and returns the rest. A part of a path or
/// address stays visible.
fn hide_value<'a>(text: &'a str, out: &mut String) -> &'a str {
    let bare = text.trim_start_matches(['"', '\'']);
    let is_part = |c: char| c.is_alphanumeric() || "_-+=~%".contains(c);
    let rest = bare.trim_start_matches(is_part);
    let is_path_or_address = rest.starts_with(['/', '.', ':', '@', '\\']);
    if rest.len() == bare.len() || is_path_or_address {
        return text;
    }
    out.push_str(text.strip_suffix(bare).unwrap_or_default());
    out.push_str(HIDDEN);
    rest
}

/// The term to search for in logs: the secret without a scheme such as `Bearer`, or only the password of an address.
pub(crate) fn search_term(secret: &str) -> &str {
    if let Some((_, rest)) = secret.split_once("://")
        && let Some((_, password)) = rest.split(['/', '?', '#']).next().and_then(credential)
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

/// Whether there is anything but blanks, variables without a default, and words such as `Bearer`.
fn has_literal_part(text: &str) -> bool {
    pieces(text).iter().any(|piece| match piece {
        Piece::Text(part) => part.split_whitespace().any(|word| !is_scheme(word)),
        Piece::Variable { default, .. } => default.is_some_and(|default| !default.is_empty()),
    })
}

pub(crate) fn is_key_like(text: &str) -> bool {
    text.len() >= KEY_LENGTH
        && KEY_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && text.chars().any(|c| c.is_ascii_digit())
}

/// Whether the text is an address with a password or token that is written out, not only named as a variable.
fn has_password(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    credential(authority).is_some_and(|(_, password)| has_literal_part(password))
}

/// `part` starts at byte `start` of the text, and keeps its columns.
pub(crate) fn mask(part: &str, start: usize, spans: &[Span]) -> String {
    let end = start + part.len();
    let near: Vec<&Span> = spans.iter().filter(|span| span.start < end && start < span.end).collect();
    let is_inside = |at: usize| near.iter().any(|span| (span.start..span.end).contains(&at));
    part.char_indices().map(|(at, c)| if is_inside(start + at) { '*' } else { c }).collect()
}

/// Overwrites possible secrets with `*`; columns stay the same.
pub(crate) fn mask_unparsed(line: &str, from: usize, to: usize) -> String {
    // The name of a value may be before the part that is shown.
    let start = line.floor_char_boundary(from.saturating_sub(LOOK_BACK));
    let part = line.get(start..to).unwrap_or_default();
    let skipped = line.get(start..from).unwrap_or_default().chars().count();
    replace_secrets(part, |hidden| "*".repeat(hidden.chars().count())).chars().skip(skipped).collect()
}

/// The YAML text with every secret replaced, for storing with a session. Comments are searched too, because people
/// leave old keys there.
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
        // An alias can make the same value appear twice.
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

pub(crate) fn replace_secrets(line: &str, with: impl Fn(&str) -> String + Copy) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find([':', '=']) {
        let (before, from) = rest.split_at(at + 1);
        out.push_str(before);
        rest = from;
        if !is_secret_name(name_before(before)) {
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

fn name_before(text: &str) -> &str {
    let name = text.trim_end_matches([':', '=', ' ', '"', '\'']);
    name.rsplit(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).next().unwrap_or_default()
}

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
