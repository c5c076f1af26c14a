//! The table of all config keys: their names, values, and whether Althing supports them. The checks, suggestions,
//! JSON Schema and Markdown reference are generated from this table. To add a config key, add a row in the file of its
//! section, and read the key in `resolve.rs`.

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

#[derive(Debug)]
pub(crate) struct Section {
    /// Used for the definitions of the JSON Schema.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) keys: &'static [Key],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) status: Status,
    /// The default as YAML; `None` if leaving the key out has a meaning of its own.
    pub(crate) default: Option<&'static str>,
    pub(crate) about: &'static str,
    pub(crate) required: bool,
    /// For a key without effect: the value that requests nothing (`false`, `0`), for which no warning is given.
    pub(crate) off: Option<&'static str>,
    /// For a key without effect: whether no value of it gives a warning.
    pub(crate) no_warning: bool,
    /// For a key without effect: the values that cause no warning, because Althing by itself does what they are for.
    pub(crate) fulfilled: &'static [&'static str],
    /// Whether the value is passed to the model client, in `BackendConfig::params`.
    pub(crate) passed_on: bool,
    /// Whether a found config may set the key without the user's trust.
    pub(crate) before_trust: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Supported,
    /// MassGen supports the key; Althing does not yet.
    NotYet,
    /// Althing will not support the key; the text says what to use instead.
    Alternative(&'static str),
    /// The key is from MassGen's first config format, which is not read any more; the text says what replaced it.
    Replaced(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Bool,
    Text,
    /// A text that must never be shown or stored.
    Secret,
    Url,
    Integer(Range),
    Number(Range),
    Choice(&'static [Choice]),
    BackendType,
    /// A map with known keys.
    Section(&'static Section),
    List(&'static Kind),
    /// A map with arbitrary keys.
    Map(&'static Kind),
    Pattern,
    /// Bytes, or a number with a unit (`512m`, `2g`).
    Memory,
    Either(&'static [Kind]),
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) value: &'static str,
    /// For a word that MassGen knows and Althing does not support yet: the word that is used instead.
    pub(crate) used_instead: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) min: f64,
    pub(crate) above_min: bool,
    pub(crate) max: f64,
}

/// Numbers and booleans are read as texts.
const SCALAR: Kind =
    Kind::Either(&[Kind::Text, Kind::Bool, Kind::Integer(ANY_NUMBER), Kind::Number(ANY_NUMBER)]);

pub(crate) const ANY_NUMBER: Range = Range { min: f64::NEG_INFINITY, above_min: false, max: f64::INFINITY };
pub(crate) const POSITIVE: Range = Range { min: 0.0, above_min: true, max: f64::INFINITY };
pub(crate) const NOT_NEGATIVE: Range = Range { min: 0.0, above_min: false, max: f64::INFINITY };
const MAX_TOKENS: f64 = 1e12;
pub(crate) const TOKENS: Range = Range { min: 1.0, above_min: false, max: MAX_TOKENS };
/// This fits every integer type that is used for counts.
const MAX_COUNT: f64 = 1_000_000.0;
pub(crate) const COUNT: Range = Range { min: 1.0, above_min: false, max: MAX_COUNT };
pub(crate) const COUNT_OR_ZERO: Range = Range { min: 0.0, above_min: false, max: MAX_COUNT };
/// This limit keeps sums of times far from overflow.
const YEAR: f64 = 31_536_000.0;
pub(crate) const SECONDS: Range = Range { min: 0.0, above_min: true, max: YEAR };
pub(crate) const SECONDS_OR_ZERO: Range = Range { min: 0.0, above_min: false, max: YEAR };

impl Range {
    pub(crate) const fn between(min: f64, max: f64) -> Self {
        Self { min, above_min: false, max }
    }

    pub(crate) fn holds(self, number: f64) -> bool {
        let above = if self.above_min { number > self.min } else { number >= self.min };
        above && number <= self.max
    }

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
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

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

const fn not_yet(name: &'static str, kind: Kind, about: &'static str) -> Key {
    let off = if matches!(kind, Kind::Bool) { Some("false") } else { None };
    Key { status: Status::NotYet, off, ..key(name, kind, about) }
}

const fn alternative(name: &'static str, kind: Kind, about: &'static str, use_this: &'static str) -> Key {
    Key { status: Status::Alternative(use_this), ..not_yet(name, kind, about) }
}

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

    /// For a key that sets an agent, a prompt, a mode, a limit or a model's parameter, and no endpoint, variable,
    /// tool, path or program.
    const fn before_trust(self) -> Self {
        Self { before_trust: true, ..self }
    }

    const fn no_warning(self) -> Self {
        Self { no_warning: true, ..self }
    }

    const fn fulfilled(self, words: &'static [&'static str]) -> Self {
        Self { fulfilled: words, ..self }
    }

    const fn off(self, off: &'static str) -> Self {
        Self { off: Some(off), ..self }
    }
}

const fn word(value: &'static str) -> Choice {
    Choice { value, used_instead: None }
}

const fn word_instead_of(value: &'static str, used_instead: &'static str) -> Choice {
    Choice { value, used_instead: Some(used_instead) }
}
