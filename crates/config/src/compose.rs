//! Composes the events of the YAML parser into a tree, within fixed limits. Aliases are counted as they expand, so
//! that a kilobyte of text cannot become a gigabyte of values; an explicit stack holds the nesting, because recursion
//! could overflow on a hostile file.

use std::collections::HashMap;
use std::fmt::Write as _;

use granit_parser::{Event, Options, Parser, ScalarStyle, StrInput, Tag};

use crate::diagnostic::Problem;
use crate::limits;
use crate::parse::Located;
use crate::scalar;
use crate::syntax;
use crate::tree::{MapEntry, Node, Span, Value};

pub(crate) struct ComposeError {
    pub(crate) span: Span,
    pub(crate) problem: Problem,
}

struct Frame {
    span: Span,
    anchor: usize,
    open: Open,
}

enum Open {
    List(Vec<Node>),
    Map(OpenMap),
}

#[derive(Default)]
struct OpenMap {
    entries: Vec<MapEntry>,
    seen: HashMap<String, usize>,
    pending: Option<(String, Span)>,
    /// The values of the merge key `<<`: maps, or lists of maps.
    merged: Vec<Node>,
}

struct Anchored {
    node: Node,
    values: usize,
    bytes: usize,
}

pub(crate) struct Builder<'text> {
    text: &'text str,
    parser: Parser<'text, StrInput<'text>>,
    pub(crate) duplicates: Vec<Located>,
    frames: Vec<Frame>,
    anchors: HashMap<usize, Anchored>,
    /// Values without effect (of duplicate keys, or overridden values of `<<`), which may contain a secret.
    pub(crate) dropped: Vec<MapEntry>,
    pub(crate) root: Option<Node>,
    documents: usize,
    values: usize,
    bytes: usize,
}

impl<'text> Builder<'text> {
    pub(crate) fn new(text: &'text str) -> Self {
        let mut options = Options::default();
        options.flow_nesting_limit = limits::MAX_DEPTH;
        options.block_nesting_limit = limits::MAX_DEPTH;
        Self {
            text,
            parser: Parser::new_from_str_with_options(text, options),
            duplicates: Vec::new(),
            frames: Vec::new(),
            anchors: HashMap::new(),
            dropped: Vec::new(),
            root: None,
            documents: 0,
            values: 0,
            bytes: 0,
        }
    }

    pub(crate) fn run(&mut self) -> Result<(), ComposeError> {
        while let Some(event) = self.parser.next_event() {
            let (event, span) = event.map_err(|error| {
                let (span, problem) = syntax::explain(&error, self.text);
                ComposeError { span, problem }
            })?;
            self.event(event, syntax::convert_span(&span))?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), ComposeError> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let problem = Problem::new("the file contains more than one YAML document");
                    return Err(ComposeError {
                        span,
                        problem: problem.hint(
                            "a second document begins at this `---`: delete the line if what follows belongs to \
                             this config, or move what follows into a file of its own",
                        ),
                    });
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                refuse_tag(tag.as_deref(), span)?;
                self.scalar(&text, style, anchor, tag.as_deref(), span)
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_tag(tag.as_deref(), span)?;
                self.open(Frame { span, anchor, open: Open::List(Vec::new()) })
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_tag(tag.as_deref(), span)?;
                self.open(Frame { span, anchor, open: Open::Map(OpenMap::default()) })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(id) => self.alias(id, span),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<(), ComposeError> {
        self.spend(1, text.len(), span)?;
        if let Some(Frame { open: Open::Map(map), .. }) = self.frames.last_mut()
            && map.pending.is_none()
        {
            map.pending = Some((text.to_owned(), span));
            return Ok(());
        }
        let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
        let value =
            if style == ScalarStyle::Plain && !is_text { scalar::plain(text) } else { scalar::quoted(text) };
        self.place_value(Node { value, span }, anchor)
    }

    fn open(&mut self, frame: Frame) -> Result<(), ComposeError> {
        self.spend(1, 0, frame.span)?;
        if let Some(Frame { open: Open::Map(map), .. }) = self.frames.last()
            && map.pending.is_none()
        {
            let problem = Problem::new("a key must be a word, not a list or a section");
            return Err(ComposeError { span: frame.span, problem: problem.hint("write `key: value`") });
        }
        if self.frames.len() >= limits::MAX_DEPTH {
            let problem = Problem::new(format!("nested deeper than {} levels", limits::MAX_DEPTH));
            return Err(ComposeError {
                span: frame.span,
                problem: problem.hint("flatten this part of the file"),
            });
        }
        self.frames.push(frame);
        Ok(())
    }

    fn close(&mut self, end: Span) -> Result<(), ComposeError> {
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        let span = Span { end: end.end.max(frame.span.end), ..frame.span };
        let value = match frame.open {
            Open::List(items) => Value::List(items),
            Open::Map(map) => Value::Map(merge(map, &mut self.dropped)),
        };
        self.place_value(Node { value, span }, frame.anchor)
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), ComposeError> {
        let Some(Anchored { node, values, bytes }) = self.anchors.get(&id) else {
            let problem = Problem::new("this alias is inside the value that it repeats");
            return Err(ComposeError { span, problem: problem.hint("write the value out") });
        };
        let (values, bytes) = (*values, *bytes);
        // The limit is checked before the value is copied, to stop an alias bomb.
        let node = if self.values + values <= limits::MAX_VALUES
            && self.bytes + bytes <= limits::MAX_EXPANDED_BYTES
        {
            Some(node.clone())
        } else {
            None
        };
        self.spend(values, bytes, span)?;
        match node {
            Some(node) => self.place_value(node, 0),
            None => Ok(()),
        }
    }

    fn place_value(&mut self, node: Node, anchor: usize) -> Result<(), ComposeError> {
        if anchor != 0 {
            let (values, bytes) = node.size();
            self.spend(values, bytes, node.span)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), values, bytes });
        }
        let duplicate = self.duplicate();
        match self.frames.last_mut().map(|frame| &mut frame.open) {
            None => self.root = Some(node),
            Some(Open::List(items)) => items.push(node),
            Some(Open::Map(map)) => {
                let Some((key, key_span)) = map.pending.take() else { return Ok(()) };
                if key == "<<" {
                    map.merged.push(node);
                } else if let Some((first, path)) = duplicate {
                    let problem = Problem::new(format!("`{key}` is set twice; the first is on line {first}"));
                    let problem = problem.hint("keep one of the two");
                    self.dropped.push(MapEntry { key, key_span, value: node });
                    if self.duplicates.len() <= limits::MAX_DIAGNOSTICS {
                        self.duplicates.push(Located { span: key_span, path, problem });
                    }
                } else {
                    map.seen.insert(key.clone(), key_span.line);
                    map.entries.push(MapEntry { key, key_span, value: node });
                }
            }
        }
        Ok(())
    }

    fn duplicate(&self) -> Option<(usize, String)> {
        let Open::Map(map) = &self.frames.last()?.open else { return None };
        let (key, _) = map.pending.as_ref()?;
        let first = map.seen.get(key)?;
        Some((*first, self.path()))
    }

    fn spend(&mut self, values: usize, bytes: usize, span: Span) -> Result<(), ComposeError> {
        self.values = self.values.saturating_add(values);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.values > limits::MAX_VALUES {
            let limit = limits::MAX_VALUES;
            let problem = if self.anchors.is_empty() {
                Problem::new(format!("more than {limit} values"))
                    .hint("is this the right file? A config is shorter")
            } else {
                Problem::new(format!("more than {limit} values after aliases are expanded"))
                    .hint("is this the right file? If so, remove the aliases (`*name`) that multiply values")
            };
            return Err(ComposeError { span, problem });
        }
        if self.bytes > limits::MAX_EXPANDED_BYTES {
            let limit = limits::MAX_EXPANDED_BYTES / (1024 * 1024);
            let problem = Problem::new(format!("more than {limit} MiB of text after aliases are expanded"));
            return Err(ComposeError {
                span,
                problem: problem.hint("remove the aliases (`*name`) that repeat long texts"),
            });
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> String {
        let mut path = String::new();
        for frame in &self.frames {
            match &frame.open {
                Open::List(items) => {
                    // Writing to a String cannot fail.
                    let _ = write!(path, "[{}]", items.len());
                }
                Open::Map(map) => {
                    if let Some((key, _)) = &map.pending {
                        if !path.is_empty() {
                            path.push('.');
                        }
                        path.push_str(key);
                    }
                }
            }
        }
        path
    }
}

/// A key of the map itself wins over a merged one, and an earlier merged key over a later one.
fn merge(map: OpenMap, dropped: &mut Vec<MapEntry>) -> Vec<MapEntry> {
    let OpenMap { mut entries, mut seen, merged, .. } = map;
    for node in merged {
        let sources = match node.value {
            Value::List(items) => items,
            _ => vec![node],
        };
        for source in sources {
            let Value::Map(brought) = source.value else { continue };
            for entry in brought {
                match seen.insert(entry.key.clone(), entry.key_span.line) {
                    None => entries.push(entry),
                    Some(_) => dropped.push(entry),
                }
            }
        }
    }
    entries
}

fn refuse_tag(tag: Option<&Tag>, span: Span) -> Result<(), ComposeError> {
    match tag {
        Some(tag) if !tag.is_yaml_core_schema() => {
            let problem = Problem::new(format!("the YAML tag `{}` is not supported", tag.original()));
            Err(ComposeError { span, problem: problem.hint("remove the tag") })
        }
        _ => Ok(()),
    }
}
