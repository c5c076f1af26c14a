//! Reads YAML text into the tree, or reports why it cannot be read.
//!
//! Keys and values are not judged here. `compose` does the reading; this file is the crate's interface to `compose`.

use crate::compose::{Builder, ComposeError};
use crate::diagnostic::Problem;
use crate::syntax;
use crate::tree::{Entry, Node, Span, Value};

/// The maximum number of duplicate keys that are reported for a text that cannot be read to its end.
const MAX_DUPLICATES_WITH_ERROR: usize = 10;

/// A document, and problems that did not prevent reading it.
pub(crate) struct Parsed {
    pub(crate) root: Node,
    pub(crate) duplicates: Vec<Located>,
    /// The later values of duplicate keys, and overridden values of `<<`: they have no effect, but may contain
    /// secrets.
    pub(crate) dropped: Vec<Entry>,
}

/// A problem with its position.
pub(crate) struct Located {
    pub(crate) span: Span,
    pub(crate) path: String,
    pub(crate) problem: Problem,
}

/// The document in `text`, or the problems that prevent reading it.
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
    // A file without a value, such as one with only comments, is an empty config.
    let empty = Node { value: Value::Map(Vec::new()), span: Span::default() };
    let root = builder.root.filter(|root| !root.is_null()).unwrap_or(empty);
    Ok(Parsed { root, duplicates: builder.duplicates, dropped: builder.dropped })
}
