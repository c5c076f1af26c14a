//! The meaning of an unquoted YAML scalar, by the core schema of YAML 1.2: null, boolean, number or text. `yes`,
//! `no`, `on` and `off` stay text, so that `id: no` is the agent called "no".

use crate::tree::{Substitution, Text, Value};

pub(crate) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    if let Some(number) = integer(text) {
        return Value::Integer(number);
    }
    if let Some(number) = float(text) {
        return Value::Number(number);
    }
    Value::Text(Text { content: text.to_owned(), quoted: false, substitution: Substitution::None })
}

pub(crate) fn quoted(text: &str) -> Value {
    Value::Text(Text { content: text.to_owned(), quoted: true, substitution: Substitution::None })
}

fn integer(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return i64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with(['+', '-']));
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return i64::from_str_radix(digits, 8).ok().filter(|_| !digits.starts_with(['+', '-']));
    }
    text.parse().ok()
}

fn float(text: &str) -> Option<f64> {
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" => return Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Some(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return Some(f64::NAN),
        _ => {}
    }
    // Rust also parses "inf", "nan" and "infinity" as numbers; in YAML they are text.
    let numeric = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | 'e' | 'E'));
    let has_digit = text.chars().any(|c| c.is_ascii_digit());
    if numeric && has_digit { text.parse().ok() } else { None }
}
