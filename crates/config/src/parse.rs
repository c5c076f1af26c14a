//! Reads YAML text into the tree, or says what keeps it from being read.
//!
//! It never judges keys or values. `compose` does the reading; this file is what the rest of the crate sees of it.

use crate::compose::{Builder, Stop};
use crate::diagnostic::Problem;
use crate::syntax;
use crate::tree::{Entry, Node, Span, Value};

/// Most duplicate keys reported for a text that is no YAML in the end.
const DUPLICATES_BESIDE_AN_ERROR: usize = 10;

/// A document, and the problems that did not keep it from being read.
pub(crate) struct Parsed {
    pub(crate) root: Node,
    pub(crate) duplicates: Vec<Located>,
    /// Values that another of the same key pushed out: they mean nothing, but may hold secrets.
    pub(crate) dropped: Vec<Entry>,
}

/// A problem with its place.
pub(crate) struct Located {
    pub(crate) span: Span,
    pub(crate) path: String,
    pub(crate) problem: Problem,
}

/// The document in `text`, or what keeps it from being read.
pub(crate) fn parse(text: &str) -> Result<Parsed, Vec<Located>> {
    if let Some((span, problem)) = syntax::refuse_at_sight(text) {
        return Err(vec![Located { span, path: String::new(), problem }]);
    }
    let mut builder = Builder::new(text);
    if let Err(Stop { span, problem }) = builder.run() {
        let path = builder.path();
        let mut problems = builder.duplicates;
        problems.truncate(DUPLICATES_BESIDE_AN_ERROR);
        problems.push(Located { span, path, problem });
        return Err(problems);
    }
    // A file without a value, such as one of comments only, is an empty config.
    let empty = Node { value: Value::Map(Vec::new()), span: Span::default() };
    let root = builder.root.filter(|root| !root.is_null()).unwrap_or(empty);
    Ok(Parsed { root, duplicates: builder.duplicates, dropped: builder.dropped })
}
