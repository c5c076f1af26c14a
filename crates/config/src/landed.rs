//! What of Althing stands behind the keys and backend types that the tables already describe.
//!
//! A key must not be called supported before something acts on it. The constants here are the only switches: turning
//! one changes the checks, the schema, the reference and the settings together. Everything takes a [`Landed`] rather
//! than the constants, so that tests can see both sides.

/// Files, commands, MCP servers and context paths: the engine gives agents hands.
const HANDS_ACT: bool = true;
/// Runs start over after their final answer was judged.
const RESTARTS_ACT: bool = false;
/// `ui.display_type: simple` gives plain progress.
const PLAIN_ACTS: bool = true;
/// Backend types of these tables that `llm` does not speak yet. Once it is empty, the keys of the providers' own
/// tools (`enable_web_search` and the like) act too.
const NOT_WIRED_YET: &[&str] = &[];

/// Machinery that keys wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Files, commands, MCP servers, context paths.
    Hands,
    /// Starting over.
    Restarts,
    /// Plain progress.
    Plain,
    /// Every wire, with the providers' own tools.
    Wires,
}

/// Which machinery there is.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    hands: bool,
    restarts: bool,
    plain: bool,
    not_wired: &'static [&'static str],
}

impl Landed {
    /// As this version is.
    pub const NOW: Self =
        Self { hands: HANDS_ACT, restarts: RESTARTS_ACT, plain: PLAIN_ACTS, not_wired: NOT_WIRED_YET };
    /// With everything.
    pub const ALL: Self = Self { hands: true, restarts: true, plain: true, not_wired: &[] };
    /// With nothing that may be missing.
    pub const NONE: Self = Self {
        hands: false,
        restarts: false,
        plain: false,
        not_wired: &["claude", "gemini", "azure_openai", "ollama"],
    };

    /// Whether a part is there.
    pub(crate) fn has(self, part: Part) -> bool {
        match part {
            Part::Hands => self.hands,
            Part::Restarts => self.restarts,
            Part::Plain => self.plain,
            Part::Wires => self.not_wired.is_empty(),
        }
    }

    /// Whether a backend type of the tables is spoken.
    pub(crate) fn speaks(self, backend: &str) -> bool {
        !self.not_wired.contains(&backend)
    }
}
