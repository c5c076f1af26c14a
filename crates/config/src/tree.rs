//! The config as a tree in which every key and value has its position in the text. A typed deserializer would stop at
//! the first problem and lose positions.

use crate::secrets;

/// `start` and `end` are byte offsets. Lines and columns count from one; columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Span,
}

/// Words such as `yes` stay text; the key decides what they mean.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Number(f64),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<MapEntry>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    pub(crate) content: String,
    /// Whether the text is written with quotes or as a block. Such a text is not a number, not even `"60"`, unless a
    /// variable was substituted in it.
    pub(crate) quoted: bool,
    pub(crate) substitution: Substitution,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Substitution {
    /// The text is as written.
    None,
    /// Every variable had a value or a default; the text may be read as a number.
    Done,
    /// These variables are not set, so the value cannot be judged.
    Unset(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapEntry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn entries(&self) -> &[MapEntry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value).filter(|node| !node.is_null())
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&MapEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(&text.content),
            _ => None,
        }
    }

    /// MassGen accepts unquoted words of YAML 1.1 such as `yes`, so they count.
    pub(crate) fn as_bool(&self) -> Option<bool> {
        match &self.value {
            Value::Bool(value) => Some(*value),
            Value::Text(text) => text.as_bool(),
            _ => None,
        }
    }

    pub(crate) fn as_integer(&self) -> Option<i64> {
        match &self.value {
            Value::Integer(value) => Some(*value),
            Value::Text(text) if text.substitution == Substitution::Done => text.content.trim().parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn as_number(&self) -> Option<f64> {
        let number = match &self.value {
            Value::Integer(value) => Some(*value as f64),
            Value::Number(value) => Some(*value),
            Value::Text(text) if text.substitution == Substitution::Done => text.content.trim().parse().ok(),
            _ => None,
        };
        number.filter(|number| number.is_finite())
    }

    pub(crate) fn unset(&self) -> &[String] {
        match &self.value {
            Value::Text(Text { substitution: Substitution::Unset(names), .. }) => names,
            _ => &[],
        }
    }

    /// The number of values, itself included, and of bytes of text.
    pub(crate) fn size(&self) -> (usize, usize) {
        let mut values = 0;
        let mut bytes = 0;
        let mut todo = vec![self];
        while let Some(node) = todo.pop() {
            values += 1;
            match &node.value {
                Value::Text(text) => bytes += text.content.len(),
                Value::List(items) => todo.extend(items),
                Value::Map(entries) => {
                    bytes += entries.iter().map(|entry| entry.key.len()).sum::<usize>();
                    todo.extend(entries.iter().map(|entry| &entry.value));
                }
                Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Number(_) => {}
            }
        }
        (values, bytes)
    }

    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Integer(value) => format!("the number {value}"),
            Value::Number(value) => format!("the number {value}"),
            // The value of a variable may be a secret, and so may text that looks like one.
            Value::Text(text) if text.substitution != Substitution::None => {
                "the value of the variable".to_owned()
            }
            Value::Text(text) if secrets::is_key_like(&text.content) => {
                "a text that looks like an API key".to_owned()
            }
            Value::Text(text) if text.content.chars().count() > 40 => {
                "a text of more than 40 characters".to_owned()
            }
            Value::Text(text) => format!("the text \"{}\"", text.content.escape_debug()),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a section with keys".to_owned(),
        }
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Integer(value) => (*value).into(),
            Value::Number(value) => (*value).into(),
            Value::Text(text) => text.content.clone().into(),
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => {
                let pairs = entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json()));
                serde_json::Value::Object(pairs.collect())
            }
        }
    }
}

impl Text {
    fn as_bool(&self) -> Option<bool> {
        if self.quoted && self.substitution != Substitution::Done {
            return None;
        }
        match self.content.to_ascii_lowercase().as_str() {
            "yes" | "on" => Some(true),
            "no" | "off" => Some(false),
            "true" if self.substitution == Substitution::Done => Some(true),
            "false" if self.substitution == Substitution::Done => Some(false),
            _ => None,
        }
    }
}
