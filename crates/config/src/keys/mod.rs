//! The table of all config keys: their names, values, and whether Althing supports them.
//!
//! The checks of single keys (`key_checker`), suggestions, the JSON Schema, the Markdown reference and the shown
//! defaults all read this table; none of them has a list of its own, which would go stale. The table is data only and
//! looks at no document.

mod agent;
mod backend;
mod coordination;
mod interactive;
mod limits;
mod orchestrator;
mod root;
mod tools;
mod workflow;

pub(crate) use backend::BACKEND;
pub(crate) use orchestrator::ORCHESTRATOR;
pub(crate) use root::ROOT;
pub(crate) use tools::{ALL_VARIABLES, DEFAULT_IMAGE, INSTALL_NETWORK, NO_MOUNTS};
pub(crate) use workflow::{OVERRIDES, WORKFLOW};

/// A group of keys in one map.
#[derive(Debug)]
pub(crate) struct Section {
    /// The name of the group, used for the definitions of the JSON Schema.
    pub(crate) name: &'static str,
    /// What the group is for.
    pub(crate) about: &'static str,
    /// The keys, in the order in which a person would like to read them.
    pub(crate) keys: &'static [Key],
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// The key as written.
    pub(crate) name: &'static str,
    /// What values the key may have.
    pub(crate) kind: Kind,
    /// Whether Althing supports the key.
    pub(crate) status: Status,
    /// The value if the key is absent, as YAML; `None` if absence has its own meaning.
    pub(crate) default: Option<&'static str>,
    /// One line of description.
    pub(crate) about: &'static str,
    /// Whether the key must be present.
    pub(crate) required: bool,
    /// For a key that has no effect: the value that requests nothing (`false`, `0`), for which no warning is
    /// given.
    pub(crate) off: Option<&'static str>,
    /// For a key that has no effect: whether no value of it gives a warning.
    pub(crate) no_warning: bool,
    /// For a key that has no effect: the words whose purpose Althing fulfills by itself, for which no warning is given.
    pub(crate) fulfilled: &'static [&'static str],
    /// Whether the value is passed to the model client, in `BackendConfig::params`.
    pub(crate) passed_on: bool,
    /// Whether a found config may set the key without the user's trust. A found config that sets any other key is not
    /// used until the user trusts it, unless the value switches the key off. A new key needs trust unless its row says
    /// otherwise.
    pub(crate) before_trust: bool,
}

/// Whether Althing supports a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Supported.
    Supported,
    /// MassGen supports the key; Althing does not yet.
    NotYet,
    /// Althing will not support the key; the text says what to use instead, if there is anything.
    Alternative(&'static str),
    /// The key is from MassGen's first config format, which is not read any more; the text says what replaced
    /// it.
    Replaced(&'static str),
}

/// What values a key may have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Bool,
    /// A text.
    Text,
    /// A text that must never be shown or stored.
    Secret,
    /// An `http` or `https` address.
    Url,
    /// A whole number.
    Integer(Range),
    /// A number.
    Number(Range),
    /// One of a list of words.
    Choice(&'static [Choice]),
    /// One of the backend types of `backends`.
    BackendType,
    /// A map with known keys.
    Section(&'static Section),
    /// A list.
    List(&'static Kind),
    /// A map with arbitrary keys.
    Map(&'static Kind),
    /// A regular expression.
    Pattern,
    /// An amount of memory: bytes, or a number with a unit (`512m`, `2g`).
    Memory,
    /// One of several kinds.
    Either(&'static [Kind]),
    /// Any value.
    Any,
}

/// One word of a `Kind::Choice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The word.
    pub(crate) value: &'static str,
    /// For a word that MassGen knows and Althing does not support yet: the word that is used instead.
    pub(crate) used_instead: Option<&'static str>,
}

/// The numbers that a key accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    /// The lowest value.
    pub(crate) min: f64,
    /// Whether the lowest value itself is excluded.
    pub(crate) above_min: bool,
    /// The highest value.
    pub(crate) max: f64,
}

/// A text, or a number or boolean that is read as a text.
const SCALAR: Kind =
    Kind::Either(&[Kind::Text, Kind::Bool, Kind::Integer(ANY_NUMBER), Kind::Number(ANY_NUMBER)]);

/// Any number.
pub(crate) const ANY_NUMBER: Range = Range { min: f64::NEG_INFINITY, above_min: false, max: f64::INFINITY };
/// Greater than zero.
pub(crate) const POSITIVE: Range = Range { min: 0.0, above_min: true, max: f64::INFINITY };
/// Zero or more.
pub(crate) const NOT_NEGATIVE: Range = Range { min: 0.0, above_min: false, max: f64::INFINITY };
/// The largest number of tokens that makes sense anywhere.
const MAX_TOKENS: f64 = 1e12;
/// A number of tokens.
pub(crate) const TOKENS: Range = Range { min: 1.0, above_min: false, max: MAX_TOKENS };
/// The largest count that makes sense anywhere; it fits every integer type that is used for counts.
const MAX_COUNT: f64 = 1_000_000.0;
/// A count, at least one.
pub(crate) const COUNT: Range = Range { min: 1.0, above_min: false, max: MAX_COUNT };
/// A count, or zero.
pub(crate) const COUNT_OR_ZERO: Range = Range { min: 0.0, above_min: false, max: MAX_COUNT };
/// The longest time that can be set, in seconds: a year. This limit keeps sums of times far from overflow.
const YEAR: f64 = 31_536_000.0;
/// A time in seconds, greater than zero.
pub(crate) const SECONDS: Range = Range { min: 0.0, above_min: true, max: YEAR };
/// A time in seconds, or zero.
pub(crate) const SECONDS_OR_ZERO: Range = Range { min: 0.0, above_min: false, max: YEAR };

impl Range {
    /// The range from `min` to `max`, both included.
    pub(crate) const fn between(min: f64, max: f64) -> Self {
        Self { min, above_min: false, max }
    }

    /// Whether `number` is in the range.
    pub(crate) fn holds(self, number: f64) -> bool {
        let above = if self.above_min { number > self.min } else { number >= self.min };
        above && number <= self.max
    }

    /// The range in words, such as "greater than 0".
    pub(crate) fn describe(self) -> String {
        let low = if self.above_min { "greater than" } else { "at least" };
        match (self.min.is_finite(), self.max.is_finite()) {
            (false, false) => String::new(),
            (true, false) => format!("{low} {}", self.min),
            (false, true) => format!("at most {}", self.max),
            (true, true) if self.above_min => format!("greater than {} and at most {}", self.min, self.max),
            (true, true) => format!("from {} to {}", self.min, self.max),
        }
    }
}

impl Section {
    /// The key called `name`.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// A supported key.
const fn key(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key {
        name,
        kind,
        status: Status::Supported,
        default: None,
        about,
        required: false,
        off: None,
        no_warning: false,
        fulfilled: &[],
        passed_on: false,
        before_trust: false,
    }
}

/// A key of MassGen's that Althing does not support yet.
const fn not_yet(name: &'static str, kind: Kind, about: &'static str) -> Key {
    let off = if matches!(kind, Kind::Bool) { Some("false") } else { None };
    Key { status: Status::NotYet, off, ..key(name, kind, about) }
}

/// A key of MassGen's that Althing will not support; `use_this` says what to use instead.
const fn alternative(name: &'static str, kind: Kind, about: &'static str, use_this: &'static str) -> Key {
    Key { status: Status::Alternative(use_this), ..not_yet(name, kind, about) }
}

/// A key whose value is passed to the model client.
const fn passthrough(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { passed_on: true, ..key(name, kind, about) }
}

impl Key {
    const fn default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Marks a key that a found config may set without trust: the key sets an agent, a prompt, a mode, a limit or a
    /// model's parameter, and no endpoint, variable, tool, path or program.
    const fn before_trust(self) -> Self {
        Self { before_trust: true, ..self }
    }

    /// Marks a key whose purpose Althing fulfills by itself, so that no value of the key gives a warning.
    const fn no_warning(self) -> Self {
        Self { no_warning: true, ..self }
    }

    /// Marks the words whose purpose Althing fulfills by itself.
    const fn fulfilled(self, words: &'static [&'static str]) -> Self {
        Self { fulfilled: words, ..self }
    }

    const fn off(self, off: &'static str) -> Self {
        Self { off: Some(off), ..self }
    }
}

/// A supported word.
const fn word(value: &'static str) -> Choice {
    Choice { value, used_instead: None }
}

/// A word of MassGen's, instead of which a supported word is used.
const fn word_instead_of(value: &'static str, used_instead: &'static str) -> Choice {
    Choice { value, used_instead: Some(used_instead) }
}
