//! Parses YAML text into a tree, or reports why it cannot be read. Keys and values are not judged here.

use crate::compose::{Builder, ComposeError};
use crate::diagnostic::Problem;
use crate::syntax;
use crate::tree::{MapEntry, Node, Span, Value};

/// The maximum number of duplicate keys that are reported for a text that cannot be read to its end.
const MAX_DUPLICATES_WITH_ERROR: usize = 10;

pub(crate) struct Parsed {
    pub(crate) root: Node,
    pub(crate) duplicates: Vec<Located>,
    /// Values without effect (of duplicate keys, or overridden values of `<<`), which may contain secrets.
    pub(crate) dropped: Vec<MapEntry>,
}

pub(crate) struct Located {
    pub(crate) span: Span,
    pub(crate) path: String,
    pub(crate) problem: Problem,
}

pub(crate) fn parse(text: &str) -> Result<Parsed, Vec<Located>> {
    if let Some((span, problem)) = syntax::reject_before_parsing(text) {
        return Err(vec![Located { span, path: String::new(), problem }]);
    }
    let mut builder = Builder::new(text);
    if let Err(ComposeError { span, problem }) = builder.run() {
        let path = builder.path();
        let mut problems = builder.duplicates;
        problems.truncate(MAX_DUPLICATES_WITH_ERROR);
        problems.push(Located { span, path, problem });
        return Err(problems);
    }
    // A file with only comments is an empty config.
    let empty = Node { value: Value::Map(Vec::new()), span: Span::default() };
    let root = builder.root.filter(|root| !root.is_null()).unwrap_or(empty);
    Ok(Parsed { root, duplicates: builder.duplicates, dropped: builder.dropped })
}
