//! Which names of keys, headers and variables mean a secret: the only list of such names. It decides what is masked,
//! hidden or not passed on.

/// These parts mean a secret anywhere in a name, unless its last word is one of `LOCATION_WORDS`.
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

/// As the last word of a name, these mean a secret (`auth`: `Perhaps`). Elsewhere they mean `Perhaps`, unless the last
/// word is one of `LOCATION_WORDS` or `DESCRIPTION_WORDS`. Words that end with `token` are treated like `token`.
const SECRET_WORDS: &[&str] = &["key", "token", "pat", "pwd", "pass", "dsn", "cookie", "auth"];

/// A name with such a last word never means a secret, because the value is only a location.
const LOCATION_WORDS: &[&str] = &["file", "path", "dir", "directory", "sock", "socket"];

/// If a name ends with one of these words, its value only describes a secret. A name that contains one of
/// `SECRET_PARTS` means a secret even if it ends with one of these words.
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

/// `PWD` holds the working directory, not a password.
const NOT_SECRET: &[&str] = &["pwd"];

/// How certain it is that a name means a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameMeaning {
    /// The name does not suggest a secret.
    Harmless,
    /// The name contains a secret word. A caller that knows the value can let the value decide.
    Perhaps,
    /// The name means a secret.
    Secret,
}

/// `apiKey`, `API_KEY` and `api-key` have the same words. A number at the end is ignored.
fn words(name: &str) -> Vec<String> {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || !c.is_alphanumeric());
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
    words
}

/// What the name of a key, header or variable says about its value.
pub fn name_meaning(name: &str) -> NameMeaning {
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

/// Whether the name of a key, header or variable suggests that its value is a secret.
pub fn is_secret_name(name: &str) -> bool {
    name_meaning(name) > NameMeaning::Harmless
}

/// Only names of secrets end like this. Values of other secret names may be addresses (`SENTRY_DSN`), paths
/// (`SSH_PRIVATE_KEY`) or programs (`RESTIC_PASSWORD_COMMAND`).
const ONLY_SECRET_ENDS: &[&str] = &[
    "token",
    "password",
    "passphrase",
    "secret",
    "authorization",
    "apikey",
    "accesskey",
    "secretkey",
    "subscriptionkey",
];

/// Whether a value with this name can only be a secret, and not, for example, an address or a path.
pub fn names_only_a_secret(name: &str) -> bool {
    let words = words(name);
    let whole = words.concat();
    words.last().is_some_and(|last| last == "pat") || ONLY_SECRET_ENDS.iter().any(|end| whole.ends_with(end))
}
