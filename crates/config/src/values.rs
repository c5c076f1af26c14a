//! Checks single values of a config against what their key may hold. Messages never repeat a secret.

use crate::LoadPurpose;
use crate::backends::{self, BackendTypes};
use crate::diagnostic::{Problem, Severity};
use crate::key_checker::{KeyChecker, Position};
use crate::keys::{Choice, Kind};
use crate::limits;
use crate::memory;
use crate::patterns;
use crate::secrets;
use crate::tree::{Node, Value};

const MEMORY: &str = "an amount of memory such as `512m` or `2g`";

impl KeyChecker<'_, '_> {
    pub(crate) fn value(&mut self, kind: Kind, node: &Node, position: Position<'_>) {
        if !node.unset().is_empty() {
            if !position.quiet {
                self.unset(node, position);
            }
            return;
        }
        match kind {
            Kind::Any => self.inner_variables(node, position),
            Kind::Bool if node.as_bool().is_some() => {}
            Kind::Bool => self.mismatch(node, position, "`true` or `false`"),
            Kind::Text | Kind::Secret if node.as_text().is_some() => {}
            Kind::Text | Kind::Secret => self.not_text(node, position),
            Kind::Url => self.url(node, position),
            Kind::Integer(range) | Kind::Number(range) => {
                let whole = matches!(kind, Kind::Integer(_));
                let number = if whole { node.as_integer().map(|n| n as f64) } else { node.as_number() };
                let wanted = if whole { "a whole number" } else { "a number" };
                match number {
                    Some(number) if range.holds(number) => {}
                    Some(number) => {
                        let problem = Problem::new(format!(
                            "`{}` must be {}, not {number}",
                            leaf(position.path),
                            range.describe()
                        ));
                        let hint = format!("use {wanted} {}", range.describe());
                        self.sink.error(node.span, position.path, problem.hint(hint));
                    }
                    None => self.mismatch(node, position, &format!("{wanted} {}", range.describe())),
                }
            }
            Kind::Pattern => self.pattern(node, position),
            Kind::Memory if memory::amount(node).is_some() => {}
            Kind::Memory => self.mismatch(node, position, MEMORY),
            Kind::Choice(choices) => self.choice(choices, node, position),
            Kind::BackendType => self.backend_type(node, position),
            Kind::Section(section) => self.section(section, node, position),
            Kind::List(item) => self.list(*item, node, position),
            Kind::Map(item) => self.map(*item, node, position),
            Kind::Either(kinds) => self.either(kinds, node, position),
        }
    }

    fn choice(&mut self, choices: &'static [Choice], node: &Node, position: Position<'_>) {
        let given = node.as_text();
        let Some(choice) = choices.iter().find(|choice| Some(choice.value) == given) else {
            let words: Vec<&str> = choices.iter().map(|choice| choice.value).collect();
            return self.not_one_of(&words, node, position);
        };
        if let Some(instead) = choice.used_instead
            && !position.quiet
            && self.warned.insert(position.key)
        {
            let problem =
                Problem::new(format!("`{}: {}` is not supported yet", leaf(position.path), choice.value));
            self.sink.warning(node.span, position.path, problem.hint(format!("`{instead}` is used instead")));
        }
    }

    fn backend_type(&mut self, node: &Node, position: Position<'_>) {
        let Some(name) = node.as_text() else { return self.not_text(node, position) };
        let backends = self.backends;
        let Some(backend) = backends.named(name) else {
            return self.sink.push_with(Severity::Error, node.span, position.path, || {
                unknown_backend_type(name, backends)
            });
        };
        if backend.is_supported() || position.quiet {
            return;
        }
        let problem =
            Problem::new(format!("the backend type `{name}` ({}) is not supported yet", backend.title)).hint(
                "until then, use an OpenAI-compatible type such as `openai` or `openrouter`, or `offline`",
            );
        match self.purpose {
            LoadPurpose::Run => self.sink.error(node.span, position.path, problem),
            LoadPurpose::Check if self.warned.insert(("backend types", backend.name)) => {
                self.sink.warning(node.span, position.path, problem);
            }
            LoadPurpose::Check | LoadPurpose::Offline => {}
        }
    }

    fn url(&mut self, node: &Node, position: Position<'_>) {
        let Some(text) = node.as_text() else { return self.not_text(node, position) };
        if backends::host_of(text).is_none() || text.contains(char::is_whitespace) {
            let problem = Problem::new(format!("`{}` is not an http or https address", leaf(position.path)));
            self.sink.error(node.span, position.path, problem.hint("write it as `https://host/path`"));
        }
    }

    fn pattern(&mut self, node: &Node, position: Position<'_>) {
        let Some(text) = node.as_text() else { return self.not_text(node, position) };
        self.patterns += 1;
        let pattern_problem = if self.patterns > limits::MAX_PATTERNS {
            let most = limits::MAX_PATTERNS;
            Some(Problem::new(format!("a file may have at most {most} patterns")).hint("use fewer of them"))
        } else {
            patterns::pattern_problem(text)
        };
        if let Some(problem) = pattern_problem {
            self.sink.error(node.span, position.path, problem);
        }
    }

    fn not_one_of(&mut self, words: &[&str], node: &Node, position: Position<'_>) {
        let Some(given) = node.as_text() else {
            return self.mismatch(node, position, &format!("one of: {}", words.join(", ")));
        };
        let name = leaf(position.path);
        self.sink.push_with(Severity::Error, node.span, position.path, || {
            let problem = Problem::new(format!("`{name}` cannot be {}", node.describe()));
            match althing_text::nearest(given, words.iter().copied()) {
                Some(near) => problem.hint(format!("did you mean `{near}`? possible: {}", words.join(", "))),
                None => problem.hint(format!("use one of: {}", words.join(", "))),
            }
        });
    }

    fn not_text(&mut self, node: &Node, position: Position<'_>) {
        match &node.value {
            Value::Bool(_) | Value::Integer(_) | Value::Number(_) => {
                let problem = Problem::new(format!(
                    "`{}` must be a text, not {}",
                    leaf(position.path),
                    node.describe()
                ));
                self.sink.error(node.span, position.path, problem.hint("put quotes around it"));
            }
            _ => self.mismatch(node, position, "a text"),
        }
    }

    pub(crate) fn mismatch(&mut self, node: &Node, position: Position<'_>, wanted: &str) {
        let name = leaf(position.path);
        let wanted = wanted.trim_end();
        let message = if name.is_empty() {
            format!("the file must be {wanted}, not {}", node.describe())
        } else {
            format!("`{name}` must be {wanted}, not {}", node.describe())
        };
        // A block starts on the line below its key; the message points to the key.
        let span = if matches!(node.value, Value::List(_) | Value::Map(_) | Value::Null) {
            position.at
        } else {
            node.span
        };
        self.sink.error(span, position.path, Problem::new(message).hint(format!("write {wanted}")));
    }

    fn unset(&mut self, node: &Node, position: Position<'_>) {
        for name in node.unset() {
            let severity = match self.purpose {
                LoadPurpose::Check | LoadPurpose::Offline => Severity::Warning,
                LoadPurpose::Run => Severity::Error,
            };
            let problem = Problem::new(format!("the environment variable `{name}` is not set"));
            let hint =
                format!("set it, or give a default: `${{{name}:-…}}`; `$${{{name}}}` is the literal text");
            self.sink.push(severity, node.span, position.path, problem.hint(hint));
        }
    }
}

fn unknown_backend_type(name: &str, backends: &BackendTypes) -> Problem {
    let shown = if secrets::is_key_like(name) { "…".to_owned() } else { name.escape_debug().to_string() };
    let problem = Problem::new(format!("unknown backend type `{shown}`"));
    if let Some(near) = backends.nearest(name) {
        return problem.hint(format!("did you mean `{near}`?"));
    }
    let supported = backends.iter().filter(|backend| backend.is_supported()).map(|backend| backend.name);
    problem.hint(format!("use one of: {}", supported.collect::<Vec<_>>().join(", ")))
}

pub(crate) fn has_shape(kind: Kind, node: &Node) -> bool {
    match kind {
        Kind::Bool => node.as_bool().is_some(),
        Kind::Text | Kind::Secret | Kind::Url | Kind::BackendType | Kind::Choice(_) | Kind::Pattern => {
            node.as_text().is_some()
        }
        Kind::Memory => node.as_integer().is_some() || node.as_text().is_some(),
        Kind::Integer(_) => node.as_integer().is_some(),
        Kind::Number(_) => node.as_number().is_some(),
        Kind::Section(_) | Kind::Map(_) => matches!(node.value, Value::Map(_)),
        Kind::List(_) => matches!(node.value, Value::List(_)),
        Kind::Either(kinds) => kinds.iter().any(|kind| has_shape(*kind, node)),
        Kind::Any => true,
    }
}

pub(crate) fn shape_name(kind: Kind) -> String {
    match kind {
        Kind::Bool => "`true` or `false`".to_owned(),
        Kind::Text | Kind::Secret | Kind::Url | Kind::BackendType => "a text".to_owned(),
        Kind::Choice(choices) => {
            let words: Vec<&str> = choices.iter().map(|choice| choice.value).collect();
            format!("one of {}", words.join(", "))
        }
        Kind::Pattern => "a regular expression".to_owned(),
        Kind::Memory => "an amount of memory".to_owned(),
        Kind::Integer(_) => "a whole number".to_owned(),
        Kind::Number(_) => "a number".to_owned(),
        Kind::Section(_) | Kind::Map(_) => "a section with keys".to_owned(),
        Kind::List(_) => "a list".to_owned(),
        Kind::Either(_) | Kind::Any => "a value".to_owned(),
    }
}

fn leaf(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or_default()
}
