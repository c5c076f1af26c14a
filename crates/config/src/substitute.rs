//! Substitutes environment variables in the texts of a config: `${NAME}` and `${NAME:-default}` (also if the variable
//! is empty); `$${` becomes `${`. A value is inserted as text and never parsed as YAML, so a variable cannot add
//! keys.

use crate::limits;
use crate::tree::{Node, Substitution, Text, Value};
use crate::variables::{Lookup, VariablePlace, Variables};

/// The placeholder for the agent's workspace in the settings of MCP servers; as in MassGen, replaced when a server is
/// started.
pub const WORKSPACE_PLACEHOLDER: &str = "${cwd}";

const MAX_REPORTED: usize = 10;

#[derive(Default)]
pub(crate) struct Substituted {
    pub(crate) secrets: Vec<String>,
    /// Set if the substituted texts exceed the limit; the remaining texts are then not substituted.
    pub(crate) too_much: bool,
    bytes: usize,
}

pub(crate) fn substitute(root: &mut Node, variables: Variables<'_>) -> Substituted {
    let mut result = Substituted::default();
    result.add(root, VariablePlace::Other, variables);
    result
}

/// Fills in the variables in `text`, the value of the variable `name` in an `env` map. Fails with the name of the
/// first variable that is unset and has no default.
pub fn fill_variables(name: &str, text: &str, variables: Variables<'_>) -> Result<String, String> {
    let env = variables.at(VariablePlace::NamedValues.of(name));
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(part) => out.push_str(part),
            Piece::Variable { name, default, .. } => {
                let value = Substituted::default().value(name, default, env);
                out.push_str(&value.ok_or_else(|| name.to_owned())?);
            }
        }
    }
    Ok(out)
}

impl Substituted {
    pub(crate) fn add(&mut self, root: &mut Node, place: VariablePlace, variables: Variables<'_>) {
        let mut todo = vec![(root, place)];
        while let Some((node, place)) = todo.pop() {
            match &mut node.value {
                Value::Text(text) => self.text(text, variables.at(place)),
                Value::List(items) => todo.extend(items.iter_mut().map(|item| (item, VariablePlace::Other))),
                Value::Map(entries) => {
                    todo.extend(entries.iter_mut().map(|entry| (&mut entry.value, place.of(&entry.key))))
                }
                Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Number(_) => {}
            }
        }
    }

    fn text(&mut self, text: &mut Text, env: Lookup<'_>) {
        if !text.content.contains("${") || self.too_much {
            return;
        }
        let mut unset = Vec::new();
        let mut done = false;
        let mut out = String::with_capacity(text.content.len());
        for piece in pieces(&text.content) {
            match piece {
                Piece::Text(part) => out.push_str(part),
                Piece::Variable { written, name, default } => {
                    let value = self.value(name, default, env);
                    out.push_str(value.as_deref().unwrap_or(written));
                    done |= value.is_some();
                    if value.is_none()
                        && unset.len() < MAX_REPORTED
                        && !unset.iter().any(|known| known == name)
                    {
                        unset.push(name.to_owned());
                    }
                }
            }
            if self.bytes + out.len() > limits::MAX_EXPANDED_BYTES {
                self.too_much = true;
                return;
            }
        }
        self.bytes += out.len();
        text.content = out;
        text.substitution = match (unset.is_empty(), done) {
            (false, _) => Substitution::Unset(unset),
            (true, true) => Substitution::Done,
            (true, false) => Substitution::None,
        };
    }

    fn value(&mut self, name: &str, default: Option<&str>, env: Lookup<'_>) -> Option<String> {
        let found = env(name);
        let value = match default {
            Some(default) => {
                Some(found.filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned()))
            }
            None => found,
        };
        if let Some(value) = &value
            && althing_protocol::is_secret_name(name)
            && !self.secrets.contains(value)
        {
            self.secrets.push(value.clone());
        }
        value
    }
}

pub(crate) enum Piece<'a> {
    Text(&'a str),
    Variable { written: &'a str, name: &'a str, default: Option<&'a str> },
}

pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(escaped) = before.strip_suffix('$') {
            // `$${` means `${`.
            pieces.push(Piece::Text(escaped));
            pieces.push(Piece::Text("${"));
            rest = from.get(2..).unwrap_or_default();
            continue;
        }
        pieces.push(Piece::Text(before));
        if let Some((written, name, default)) = variable(from) {
            pieces.push(Piece::Variable { written, name, default });
            rest = from.get(written.len()..).unwrap_or_default();
        } else {
            pieces.push(Piece::Text("${"));
            rest = from.get(2..).unwrap_or_default();
        }
    }
    pieces.push(Piece::Text(rest));
    pieces
}

fn variable(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let inner = text.strip_prefix("${")?;
    let end = inner.find('}')?;
    let (inside, _) = inner.split_at(end);
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let mut letters = name.chars();
    let starts = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let goes_on = letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    let written = text.get(..end + 3)?;
    (starts && goes_on && written != WORKSPACE_PLACEHOLDER).then_some((written, name, default))
}
