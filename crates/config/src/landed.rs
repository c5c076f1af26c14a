//! What of Althing stands behind the keys and backend types that the tables already describe.
//!
//! A key must not be called supported before something acts on it. The constants here are the only switches: turning
//! one changes the checks, the schema, the reference and the settings together. Everything takes a [`Landed`] rather
//! than the constants, so that tests can see both sides.

/// Files, commands, MCP servers and context paths: the engine gives agents hands.
const HANDS_ACT: bool = true;
/// Runs start over after their final answer was judged.
const RESTARTS_ACT: bool = true;
/// `ui.display_type: simple` gives plain progress.
const PLAIN_ACTS: bool = true;
/// What `AGENTS.md` and `CLAUDE.md` say reaches the agents.
const INSTRUCTIONS_ACT: bool = true;
/// Agents are told of skills.
const SKILLS_ACT: bool = true;
/// Agents keep memories as files.
const FILE_MEMORY_ACTS: bool = true;
/// Agents keep task lists.
const TASK_PLANNING_ACTS: bool = true;
/// Planning mode takes the acting tools away.
const PLANNING_ACTS: bool = true;
/// Agents start agents.
const SUBAGENTS_ACT: bool = true;
/// Commands are held against patterns before they run.
const COMMAND_PATTERNS_ACT: bool = true;
/// Agents run on command lines such as `claude`.
const PROGRAMS_ACT: bool = true;
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
    /// Project instructions.
    Instructions,
    /// Skills.
    Skills,
    /// Memories as files.
    FileMemory,
    /// Task lists.
    TaskPlanning,
    /// Planning mode.
    Planning,
    /// Agents that agents start.
    Subagents,
    /// Patterns of commands.
    CommandPatterns,
    /// Agents that are programs.
    Programs,
}

/// How much of the machinery there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    None,
    Now,
    All,
}

/// Which machinery there is.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    extent: Extent,
    not_wired: &'static [&'static str],
}

impl Landed {
    /// As this version is.
    pub const NOW: Self = Self { extent: Extent::Now, not_wired: NOT_WIRED_YET };
    /// With everything.
    pub const ALL: Self = Self { extent: Extent::All, not_wired: &[] };
    /// With nothing that may be missing.
    pub const NONE: Self =
        Self { extent: Extent::None, not_wired: &["claude", "gemini", "azure_openai", "ollama"] };

    /// Whether a part is there.
    pub(crate) fn has(self, part: Part) -> bool {
        match (self.extent, part) {
            (_, Part::Wires) => self.not_wired.is_empty(),
            (Extent::None, _) => false,
            (Extent::All, _) => true,
            (Extent::Now, Part::Hands) => HANDS_ACT,
            (Extent::Now, Part::Restarts) => RESTARTS_ACT,
            (Extent::Now, Part::Plain) => PLAIN_ACTS,
            (Extent::Now, Part::Instructions) => INSTRUCTIONS_ACT,
            (Extent::Now, Part::Skills) => SKILLS_ACT,
            (Extent::Now, Part::FileMemory) => FILE_MEMORY_ACTS,
            (Extent::Now, Part::TaskPlanning) => TASK_PLANNING_ACTS,
            (Extent::Now, Part::Planning) => PLANNING_ACTS,
            (Extent::Now, Part::Subagents) => SUBAGENTS_ACT,
            (Extent::Now, Part::CommandPatterns) => COMMAND_PATTERNS_ACT,
            (Extent::Now, Part::Programs) => PROGRAMS_ACT,
        }
    }

    /// Whether a backend type of the tables is spoken.
    pub(crate) fn speaks(self, backend: &str) -> bool {
        !self.not_wired.contains(&backend)
    }
}
