//! Parses the arguments of a tool call; errors name the argument.

use crate::access::Refusal;
use serde_json::{Map, Value};

pub(crate) struct Args(Map<String, Value>);

fn invalid_argument(argument: &str, why: impl Into<String>) -> Refusal {
    Refusal::Argument { argument: argument.to_owned(), why: why.into() }
}

impl Args {
    /// Unknown arguments are an error, because a misspelled argument would otherwise have no effect.
    pub(crate) fn parse(text: &str, known: &[&str]) -> Result<Self, Refusal> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| invalid_argument("(all)", format!("not JSON: {e}")))?;
        let Value::Object(map) = value else {
            return Err(invalid_argument("(all)", "must be a JSON object"));
        };
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(invalid_argument(key, format!("unknown; this tool takes {}", known.join(", ")))),
            None => Ok(Self(map)),
        }
    }

    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn all(&self) -> &Map<String, Value> {
        &self.0
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, Refusal> {
        self.optional_text(name)?.ok_or_else(|| invalid_argument(name, "is required"))
    }

    pub(crate) fn optional_text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid_argument(name, "must be a string")),
        }
    }

    /// Also accepts a string, because some models write numbers as strings.
    pub(crate) fn optional_number(&self, name: &str, least: u64) -> Result<Option<u64>, Refusal> {
        let number = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Number(number)) => number.as_u64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        let number = number.filter(|n| *n >= least);
        number
            .map(Some)
            .ok_or_else(|| invalid_argument(name, format!("must be a whole number, at least {least}")))
    }

    pub(crate) fn flag(&self, name: &str, unset: Flag) -> Result<bool, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(unset == Flag::On),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(invalid_argument(name, "must be true or false")),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    On,
    Off,
}
