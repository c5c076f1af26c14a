//! Keys of `orchestrator`: how the agents coordinate.
//!
//! Data only; see `keys`.

use super::coordination::COORDINATION;
use super::interactive::INTERACTIVE;
use super::tools::CONTEXT_PATHS;
use super::{COUNT, COUNT_OR_ZERO, Choice, Kind, Section, alternative, key, not_yet, word, word_instead_of};

const KEPT: &str = "Althing stores them in its state directory";
const MULTIMEDIA: &str = "generating images, sound and video is not supported; use an MCP server";

/// How willing agents are to vote for an answer instead of improving it. MassGen's other levels are mapped to the
/// nearest of the three.
pub(super) const SENSITIVITY: &[Choice] = &[
    word("lenient"),
    word("balanced"),
    word("strict"),
    word_instead_of("roi", "balanced"),
    word_instead_of("roi_conservative", "strict"),
    word_instead_of("roi_balanced", "balanced"),
    word_instead_of("roi_aggressive", "lenient"),
    word_instead_of("sequential", "balanced"),
    word_instead_of("adversarial", "strict"),
    word_instead_of("consistency", "balanced"),
    word_instead_of("diversity", "balanced"),
    word_instead_of("reflective", "balanced"),
    word_instead_of("checklist", "strict"),
    word_instead_of("checklist_scored", "strict"),
    word_instead_of("checklist_gated", "strict"),
];

/// How the agents coordinate.
#[rustfmt::skip] // a table: one key a line
pub(crate) static ORCHESTRATOR: Section = Section {
    name: "orchestrator",
    about: "How the agents coordinate.",
    keys: &[
        key("voting_sensitivity", Kind::Choice(SENSITIVITY), "How good an answer must be before agents vote for it.").default("lenient").before_trust(),
        key("max_new_answers_per_agent", Kind::Integer(COUNT), "Maximum number of answers of one agent; after that it can only vote.").before_trust(),
        key("max_new_answers_global", Kind::Integer(COUNT), "Maximum number of answers of all agents together.").before_trust(),
        key("skip_voting", Kind::Bool, "Whether to go from the answers straight to the presentation.").default("false").before_trust(),
        key("disable_injection", Kind::Bool, "Whether agents work without seeing each other's answers until they vote.").default("false").before_trust(),
        key("defer_voting_until_all_answered", Kind::Bool, "Whether nobody votes before everybody has answered.").default("false").before_trust(),
        key("final_answer_strategy", Kind::Choice(&[word("winner_reuse"), word("winner_present"), word("synthesize")]), "Who writes the final answer, and from what.").before_trust(),
        key("skip_final_presentation", Kind::Bool, "Whether the winner's answer is used unchanged as the final answer.").default("false").before_trust(),
        key("coordination", Kind::Section(&COORDINATION), "Details of the coordination.").before_trust(),
        key("interactive_mode", Kind::Section(&INTERACTIVE), "The conversation that launches runs."),
        key("context_paths", CONTEXT_PATHS, "Files and directories for the run: every agent may read them, the presenter may write to those with `permission: write`."),
        key("answer_novelty_requirement", Kind::Choice(&[word("lenient"), word("balanced"), word("strict")]), "How different a new answer must be from the answers that its author has seen.").default("lenient").before_trust(),
        key("fairness_enabled", Kind::Bool, "Whether fast agents wait for slow ones.").default("true").before_trust(),
        key("fairness_lead_cap_answers", Kind::Integer(COUNT_OR_ZERO), "How many answers an agent may be ahead of the slowest one.").default("2").before_trust(),
        alternative("agent_temporary_workspace", Kind::Text, "MassGen's directory for the copies of other agents' work.", KEPT).no_warning(),
        alternative("snapshot_storage", Kind::Text, "MassGen's directory for snapshots of workspaces.", KEPT).no_warning(),
        not_yet("voting_threshold", Kind::Integer(COUNT), "The threshold for MassGen's votes by checklist."),
        not_yet("max_midstream_injections_per_round", Kind::Integer(COUNT_OR_ZERO), "How many new answers of other agents an agent is shown in one round."),
        not_yet("defer_peer_updates_until_restart", Kind::Bool, "Whether an agent is shown new answers of other agents only in its next round."),
        not_yet("allow_midstream_peer_updates_before_checklist_submit", Kind::Bool, "Whether an agent may be shown new answers of other agents before it submits its checklist."),
        not_yet("max_checklist_calls_per_round", Kind::Integer(COUNT), "How often a checklist may be submitted."),
        not_yet("checklist_first_answer", Kind::Bool, "Whether first answers need a checklist."),
        not_yet("checklist_require_gap_report", Kind::Bool, "Whether a checklist needs a report of gaps."),
        not_yet("gap_report_mode", Kind::Choice(&[word("changedoc"), word("separate"), word("none")]), "Where the report of gaps goes.").off("none"),
        not_yet("skip_coordination_rounds", Kind::Bool, "For tests of MassGen: whether to skip the rounds before the presentation."),
        not_yet("debug_final_answer", Kind::Text, "For tests of MassGen: the answer to present."),
        not_yet("presenter_agent", Kind::Text, "The agent that presents in MassGen's decomposition mode."),
        key("max_orchestration_restarts", Kind::Integer(COUNT_OR_ZERO), "How often a run may start over because its final answer was rejected; `coordination.max_orchestration_restarts` takes precedence.").before_trust(),
        not_yet("max_turns", Kind::Integer(COUNT), "Maximum number of turns of a conversation."),
        key("skills_directory", Kind::Text, "An alternative to `coordination.skills_directory`."),
        key("project_instructions", Kind::Bool, "Whether prompts include `AGENTS.md` and `CLAUDE.md` from the context paths.").default("true").before_trust(),
        not_yet("docker", Kind::Any, "Containers of the team."),
        not_yet("timeout", Kind::Any, "An older location of `timeout_settings`."),
        not_yet("type", Kind::Text, "MassGen's kind of orchestrator."),
        alternative("coordination_mode", Kind::Choice(&[word("voting"), word("decomposition")]), "Voting, or decomposition of the task.", "decomposition is not supported; the agents vote").off("voting").before_trust(),
        alternative("enable_multimodal_tools", Kind::Bool, "Tools for images, sound and video.", MULTIMEDIA),
        alternative("multimodal_config", Kind::Any, "Tools for images, sound and video.", MULTIMEDIA),
        alternative("image_generation_backend", Kind::Any, "Provider of images.", MULTIMEDIA),
        alternative("audio_generation_backend", Kind::Any, "Provider of sound.", MULTIMEDIA),
        alternative("video_generation_backend", Kind::Any, "Provider of video.", MULTIMEDIA),
        alternative("dspy", Kind::Any, "Rephrasing of the task for each agent.", "rephrasing is not supported"),
        alternative("enable_nlip", Kind::Bool, "MassGen's NLIP message routing.", "not supported"),
        alternative("nlip", Kind::Any, "MassGen's NLIP message routing.", "not supported"),
        alternative("nlip_config", Kind::Any, "MassGen's NLIP message routing.", "not supported"),
    ],
};
