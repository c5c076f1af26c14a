//! Checks a document against the table of keys, and reports all problems at once: unknown keys (typos) and wrong values.
//! No key is known by name here; rules that need more than one key are checked elsewhere.

use std::collections::HashSet;

use crate::backends::BackendTypes;
use crate::diagnostic::{Problem, Severity, Sink};
use crate::keys::{Key, Kind, Section, Status};
use crate::misplaced;
use crate::tree::{MapEntry, Node, Span, Value};
use crate::values::{has_shape, shape_name};
use crate::{LoadPurpose, scalar};

pub(crate) struct KeyChecker<'sink, 'text> {
    pub(crate) sink: &'sink mut Sink<'text>,
    pub(crate) purpose: LoadPurpose,
    pub(crate) backends: &'static BackendTypes,
    /// A key without effect gives one warning per file, not one per agent.
    pub(crate) warned: HashSet<(&'static str, &'static str)>,
    pub(crate) patterns: usize,
    root: &'static Section,
}

#[derive(Clone, Copy)]
pub(crate) struct Position<'a> {
    pub(crate) path: &'a str,
    pub(crate) at: Span,
    pub(crate) key: (&'static str, &'static str),
    /// Whether the value is below a key without effect. Only values of the wrong kind are reported there.
    pub(crate) quiet: bool,
}

impl<'sink, 'text> KeyChecker<'sink, 'text> {
    pub(crate) fn new(
        root: &'static Section,
        backends: &'static BackendTypes,
        sink: &'sink mut Sink<'text>,
        purpose: LoadPurpose,
    ) -> Self {
        Self { sink, purpose, backends, warned: HashSet::new(), patterns: 0, root }
    }

    pub(crate) fn document(&mut self, root: &Node) {
        let at = Span { line: 1, column: 1, ..root.span };
        self.section(self.root, root, Position { path: "", at, key: ("", ""), quiet: false });
    }

    pub(crate) fn section(&mut self, section: &'static Section, node: &Node, position: Position<'_>) {
        let Value::Map(entries) = &node.value else {
            return self.mismatch(node, position, "a section with keys");
        };
        for entry in entries {
            let path = join(position.path, &entry.key);
            match section.key(&entry.key) {
                Some(key) => self.key(section, key, entry, &path, position.quiet),
                None if position.quiet => {}
                None => self.unknown_key(section, entry, &path),
            }
        }
        for key in section.keys.iter().filter(|key| key.required) {
            if node.get(key.name).is_none() {
                let at = node.entry(key.name).map_or(position.at, |entry| entry.key_span);
                let owner = if position.path.is_empty() { "the file" } else { position.path };
                let problem = Problem::new(format!("{owner} needs `{}`", key.name));
                self.sink.error(
                    at,
                    &join(position.path, key.name),
                    problem.hint(format!("add `{}: …`: {}", key.name, lower_first(key.about))),
                );
            }
        }
    }

    fn key(
        &mut self,
        section: &'static Section,
        key: &'static Key,
        entry: &MapEntry,
        path: &str,
        quiet: bool,
    ) {
        let status = key.status;
        if let Status::Replaced(by) = status {
            let problem = Problem::new(format!("`{}` is not read: {}", key.name, key.about));
            self.sink.error(entry.key_span, path, problem.hint(by));
            return;
        }
        if entry.value.is_null() {
            return;
        }
        let acts = status == Status::Supported;
        let id = (section.name, key.name);
        if !acts && !quiet && !is_off(key, &entry.value) && self.warned.insert(id) {
            let problem = match status {
                Status::Alternative(instead) => {
                    Problem::new(format!("`{}` has no effect in Althing", key.name)).hint(instead)
                }
                _ => Problem::new(format!("`{}` is not supported yet and has no effect", key.name))
                    .hint("the rest of the file works without it; remove the key to silence this warning"),
            };
            self.sink.warning(entry.key_span, path, problem);
        }
        let position = Position { path, at: entry.key_span, key: id, quiet: quiet || !acts };
        self.value(key.kind, &entry.value, position);
    }

    pub(crate) fn list(&mut self, item: Kind, node: &Node, position: Position<'_>) {
        let Value::List(items) = &node.value else { return self.mismatch(node, position, "a list") };
        for (index, node) in items.iter().enumerate() {
            let path = format!("{}[{index}]", position.path);
            self.value(item, node, Position { path: &path, at: node.span, ..position });
        }
    }

    pub(crate) fn map(&mut self, item: Kind, node: &Node, position: Position<'_>) {
        let Value::Map(entries) = &node.value else {
            return self.mismatch(node, position, "a section with keys");
        };
        for entry in entries {
            let path = join(position.path, &entry.key);
            self.value(item, &entry.value, Position { path: &path, at: entry.key_span, ..position });
        }
    }

    pub(crate) fn either(&mut self, kinds: &'static [Kind], node: &Node, position: Position<'_>) {
        if let Some(kind) = kinds.iter().find(|kind| has_shape(**kind, node)) {
            self.value(*kind, node, position);
        } else {
            let shapes: Vec<String> = kinds.iter().map(|kind| shape_name(*kind)).collect();
            self.mismatch(node, position, &shapes.join(" or "));
        }
    }

    pub(crate) fn inner_variables(&mut self, node: &Node, position: Position<'_>) {
        if position.quiet {
            return;
        }
        for (index, item) in node.items().iter().enumerate() {
            let path = format!("{}[{index}]", position.path);
            self.value(Kind::Any, item, Position { path: &path, ..position });
        }
        for entry in node.entries() {
            let path = join(position.path, &entry.key);
            self.value(Kind::Any, &entry.value, Position { path: &path, ..position });
        }
    }

    fn unknown_key(&mut self, section: &'static Section, entry: &MapEntry, path: &str) {
        let root = self.root;
        // A key that resembles only a key that is not read any more is no typo.
        let read = section.keys.iter().filter(|key| !matches!(key.status, Status::Replaced(_)));
        let names = read.map(|key| key.name);
        if let Some(near) = althing_text::misspelled(&entry.key, names) {
            // Ignoring a typo would silently keep a default: a model, a limit, a budget.
            self.sink.push_with(Severity::Error, entry.key_span, path, || {
                let problem = Problem::new(format!("unknown key `{}`", shown(&entry.key)));
                problem.hint(format!("did you mean `{near}`?"))
            });
            return;
        }
        self.sink.push_with(Severity::Warning, entry.key_span, path, || {
            let name = shown(&entry.key);
            let problem = Problem::new(format!("unknown key `{name}`; it has no effect"));
            if let Some(near) = althing_text::nearest(&entry.key, section.keys.iter().map(|key| key.name)) {
                return problem.hint(format!("did you mean `{near}`?"));
            }
            match misplaced::section_of_key(root, &entry.key) {
                Some(section) if section.is_empty() => {
                    problem.hint("it belongs at the top level of the file")
                }
                Some(section) => problem.hint(format!("it belongs in `{section}`")),
                None if section.name == "backend" => {
                    problem.hint("fields of the request body go into `extra_body`")
                }
                None => problem.hint("remove it, or see `althing config schema` for the known keys"),
            }
        });
    }
}

fn is_off(key: &Key, node: &Node) -> bool {
    if key.no_warning || node.as_text().is_some_and(|word| key.fulfilled.contains(&word)) {
        return true;
    }
    let Some(off) = key.off else { return false };
    match (scalar::plain(off), &node.value) {
        (Value::Bool(off), _) => node.as_bool() == Some(off),
        (Value::Integer(off), _) => node.as_integer() == Some(off),
        (_, Value::List(items)) => items.is_empty(),
        _ => node.as_text() == Some(off),
    }
}

fn shown(key: &str) -> String {
    key.chars().take(80).flat_map(char::escape_debug).collect()
}

pub(crate) fn join(path: &str, key: &str) -> String {
    let key = shown(key);
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

fn lower_first(sentence: &str) -> String {
    let mut letters = sentence.trim_end_matches('.').chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
