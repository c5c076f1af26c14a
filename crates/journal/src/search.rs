//! Searches for the forms of secrets. Time and memory grow linearly with the text and the forms, also for long secrets
//! and for secrets that consist of repetitions: a long form is found by its first bytes and then compared.

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, MatchKind};
use std::collections::{BTreeMap, BTreeSet};

/// The bytes of a form by which it is found. Only these become states of an automaton.
const HEAD: usize = 64;

#[derive(Clone, Default)]
pub(crate) enum Search {
    #[default]
    Nothing,
    Values(Forms),
    /// The search could not be built: every text is masked, so that no secret is shown.
    Failed,
}

#[derive(Clone)]
pub(crate) struct Forms {
    /// All forms; the number of a form is its place here.
    sorted: Vec<String>,
    /// Finds every head of every form.
    heads: AhoCorasick,
    /// Finds some head. It is faster than `heads`, because it can use vector instructions.
    any: AhoCorasick,
}

impl Search {
    pub(crate) fn new(forms: BTreeSet<String>) -> Self {
        if forms.is_empty() {
            return Self::Nothing;
        }
        let forms: Vec<String> = forms.into_iter().collect();
        let built = automaton(&forms, MatchKind::Standard);
        let built = built.and_then(|heads| Ok((heads, automaton(&forms, MatchKind::LeftmostFirst)?)));
        built.map_or(Self::Failed, |(heads, any)| Self::Values(Forms { sorted: forms, heads, any }))
    }

    /// Start and end of each match, in order. Matches that overlap are one.
    pub(crate) fn spans(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        match self {
            Self::Values(values) => values.spans(bytes),
            Self::Failed if !bytes.is_empty() => vec![(0, bytes.len())],
            Self::Nothing | Self::Failed => Vec::new(),
        }
    }

    /// False only if there is no match.
    pub(crate) fn may_match(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Nothing => false,
            Self::Values(values) => values.any.is_match(bytes),
            Self::Failed => true,
        }
    }

    /// The number of bytes at the end that are the start of a form, but not all of it.
    pub(crate) fn unfinished(&self, bytes: &[u8]) -> usize {
        match self {
            Self::Values(values) => values.unfinished(bytes),
            Self::Nothing | Self::Failed => 0,
        }
    }
}

/// A DFA would need time and memory that grow with the square of a form that repeats itself.
fn automaton(forms: &[String], kind: MatchKind) -> Result<AhoCorasick, BuildError> {
    let heads = forms.iter().map(|form| head(form));
    AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).match_kind(kind).build(heads)
}

fn head(form: &str) -> &[u8] {
    form.as_bytes().get(..HEAD).unwrap_or(form.as_bytes())
}

impl Forms {
    fn spans(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut spans = Spans::default();
        let mut long = BTreeMap::new();
        for found in self.heads.find_overlapping_iter(bytes) {
            let form = self.form(found.pattern().as_usize());
            if form.len() > HEAD {
                long.entry(form).or_insert(found.start());
            } else {
                spans.add(found.start(), found.end());
            }
        }
        let mut all = spans.disjoint;
        for (form, first) in long {
            let mut spans = Spans::default();
            let mut at = Progress::of(form);
            for (end, byte) in (1..).zip(bytes).skip(first) {
                if at.read(*byte) {
                    spans.add(end - form.len(), end);
                }
            }
            all.extend(spans.disjoint);
        }
        disjoint(all)
    }

    fn unfinished(&self, bytes: &[u8]) -> usize {
        let longest = self.sorted.iter().map(String::len).max().unwrap_or(0);
        let bytes = bytes.get(bytes.len().saturating_sub(longest.saturating_sub(1))..).unwrap_or_default();
        let of_long = if longest > HEAD { self.unfinished_long(bytes) } else { 0 };
        // Less than a head: the forms are sorted, so those that begin with the end of `bytes` follow each other.
        let begins = |at: &usize| {
            let end = bytes.get(*at..).unwrap_or_default();
            let next = self.sorted.partition_point(|form| form.as_bytes() < end);
            let mut longer =
                self.sorted.iter().skip(next).take_while(|form| form.as_bytes().starts_with(end));
            longer.any(|form| form.len() > end.len())
        };
        let from = bytes.len().saturating_sub(HEAD - 1);
        (from..bytes.len()).find(begins).map_or(0, |at| bytes.len() - at).max(of_long)
    }

    /// [`Self::unfinished`] of the forms whose whole head occurs.
    fn unfinished_long(&self, bytes: &[u8]) -> usize {
        let mut long = BTreeMap::new();
        for found in self.heads.find_overlapping_iter(bytes) {
            let form = self.form(found.pattern().as_usize());
            if form.len() > HEAD {
                long.entry(form).or_insert(found.start());
            }
        }
        let unfinished = long.into_iter().map(|(form, first)| {
            let mut at = Progress::of(form);
            for byte in bytes.iter().skip(first) {
                at.read(*byte);
            }
            at.matched
        });
        unfinished.max().unwrap_or(0)
    }

    fn form(&self, number: usize) -> &[u8] {
        self.sorted.get(number).map(String::as_bytes).unwrap_or_default()
    }
}

/// Compares a text with one form, byte by byte and without ever going back in the text (Knuth, Morris and Pratt).
struct Progress<'a> {
    form: &'a [u8],
    /// For each length of a start of the form: the longest shorter start that it ends with.
    shorter: Vec<usize>,
    /// How many bytes of the form the text ends with; never all.
    matched: usize,
}

impl<'a> Progress<'a> {
    fn of(form: &'a [u8]) -> Self {
        let mut progress = Self { form, shorter: vec![0, 0], matched: 0 };
        for byte in form.iter().skip(1) {
            progress.advance(*byte);
            progress.shorter.push(progress.matched);
        }
        progress.matched = 0;
        progress
    }

    fn shorter(&self, length: usize) -> usize {
        self.shorter.get(length).copied().unwrap_or(0)
    }

    fn advance(&mut self, byte: u8) {
        while self.matched > 0 && self.form.get(self.matched) != Some(&byte) {
            self.matched = self.shorter(self.matched);
        }
        self.matched += usize::from(self.form.get(self.matched) == Some(&byte));
    }

    /// Whether the text up to this byte ends with the form.
    fn read(&mut self, byte: u8) -> bool {
        self.advance(byte);
        let is_whole = self.matched == self.form.len();
        if is_whole {
            self.matched = self.shorter(self.matched);
        }
        is_whole
    }
}

/// Spans of which none overlap.
#[derive(Default)]
struct Spans {
    disjoint: Vec<(usize, usize)>,
}

impl Spans {
    /// The ends must not decrease.
    fn add(&mut self, mut start: usize, end: usize) {
        while let Some((last_start, _)) = self.disjoint.pop_if(|(_, last_end)| *last_end > start) {
            start = start.min(last_start);
        }
        self.disjoint.push((start, end));
    }
}

/// The same spans in order, with those that overlap as one.
pub(crate) fn disjoint(mut spans: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    spans.sort_unstable_by_key(|(_, end)| *end);
    let mut all = Spans::default();
    for (start, end) in spans {
        all.add(start, end);
    }
    all.disjoint
}
