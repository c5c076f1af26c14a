//! The table of keys of `orchestrator` in a config: how the agents coordinate. Data only.

use super::coordination::COORDINATION;
use super::interactive::INTERACTIVE;
use super::limits::LIMITS;
use super::tools::CONTEXT_PATHS;
use super::{COUNT, COUNT_OR_ZERO, Choice, Kind, Section, alternative, key, not_yet, word, word_instead_of};

const KEPT: &str = "Althing stores them in its state directory";
const MULTIMEDIA: &str = "generating images, sound and video is not supported; use an MCP server";

/// MassGen's checklists with scores are not supported.
pub(super) const SENSITIVITY: &[Choice] = &[
    word("lenient"),
    word("balanced"),
    word("strict"),
    word("roi"),
    word("roi_conservative"),
    word("roi_balanced"),
    word("roi_aggressive"),
    word("sequential"),
    word("adversarial"),
    word("consistency"),
    word("diversity"),
    word("reflective"),
    word("checklist"),
    word_instead_of("checklist_scored", "checklist"),
    word_instead_of("checklist_gated", "checklist"),
];

pub(super) const DECISION: &[Choice] = &[word("borda"), word("plurality")];
pub(super) const JUDGE_ORDER: &[Choice] = &[word("rotated"), word("config")];
pub(super) const DIVERSITY: &[Choice] = &[word("off"), word("approaches")];

#[rustfmt::skip] // a table: one key a line
pub(crate) static ORCHESTRATOR: Section = Section {
    name: "orchestrator",
    about: "How the agents coordinate.",
    keys: &[
        key("voting_sensitivity", Kind::Choice(SENSITIVITY), "How good an answer must be before agents vote for it.").default("lenient").before_trust(),
        key("criteria", Kind::List(&Kind::Text), "Your criteria for judging answers, the most important first; judges are told them.").before_trust(),
        key("decision", Kind::Choice(DECISION), "How votes are counted: by whole rankings (`borda`), or by first choices alone (`plurality`).").default("borda").before_trust(),
        key("unanimity", Kind::Bool, "Whether the vote is skipped if all agents state the same conclusion. Only where several agents answer in text alone: no tools, writable paths or plans.").default("true").before_trust(),
        key("merge_conclusions", Kind::Bool, "Whether a vote for an agent also counts for the agents with the same conclusion. Only where several agents answer in text alone: without tools, writable paths and plans.").default("true").before_trust(),
        key("judge_order", Kind::Choice(JUDGE_ORDER), "In which order a judge is shown the answers: in the order of the config, but starting with a different agent for each judge (`rotated`), or in the order of the config with the judge's own answer last (`config`).").default("rotated").before_trust(),
        key("stop_when_decided", Kind::Bool, "Whether agents that still judge are stopped once their votes can no longer change who wins; only where no agent may answer again.").default("true").before_trust(),
        key("diversity", Kind::Choice(DIVERSITY), "Whether each agent is told, in one sentence, to approach the task in another way (`approaches`). Meant for teams of one model.").default("off").before_trust(),
        key("max_new_answers_per_agent", Kind::Integer(COUNT), "Maximum number of answers of one agent; after that it can only vote.").before_trust(),
        key("max_new_answers_global", Kind::Integer(COUNT), "Maximum number of answers of all agents together; after that agents can only vote.").before_trust(),
        key("skip_voting", Kind::Bool, "Whether the vote is skipped: once every agent has answered, the newest answer wins.").default("false").before_trust(),
        key("disable_injection", Kind::Bool, "Whether agents see each other's answers only when they vote, and do not improve their own.").default("false").before_trust(),
        key("defer_voting_until_all_answered", Kind::Bool, "Whether no agent votes before every agent has answered; `first_answer_wait_seconds` then does not limit this wait.").default("false").before_trust(),
        key("final_answer_strategy", Kind::Choice(&[word("winner_reuse"), word("winner_present"), word("synthesize")]), "How the final answer is made: `winner_present` lets the winner rewrite its answer, `synthesize` combines all answers, and `winner_reuse` uses the winner's answer unchanged, unless the winner still has to act (write to context paths, or act after `enable_planning_mode`); then it means `winner_present`.").before_trust(),
        key("skip_final_presentation", Kind::Bool, "Whether the winner's answer is used unchanged as the final answer, unless the winner still has to act (write to context paths, or act after `enable_planning_mode`); `final_answer_strategy` takes precedence.").default("false").before_trust(),
        key("coordination", Kind::Section(&COORDINATION), "More settings of coordination: planning, task lists, memory, skills, subagents and restarts.").before_trust(),
        key("interactive_mode", Kind::Section(&INTERACTIVE), "Settings of the conversation with the chat agent, which launches runs."),
        key("limits", Kind::Section(&LIMITS), "Limits that stop agents and programs that never end.").before_trust(),
        key("context_paths", CONTEXT_PATHS, "Files and directories for the run: every agent may read them, the presenter may write to those with `permission: write`."),
        key("answer_novelty_requirement", Kind::Choice(&[word("lenient"), word("balanced"), word("strict")]), "How different a new answer must be from the answers that its author has seen; `lenient` refuses only repetitions.").default("lenient").before_trust(),
        key("fairness_enabled", Kind::Bool, "Whether an agent that has too many more answers than the agent with the fewest can only vote until that agent catches up; `fairness_lead_cap_answers` sets how many are too many.").default("true").before_trust(),
        key("fairness_lead_cap_answers", Kind::Integer(COUNT_OR_ZERO), "Maximum lead of an agent, in answers, over the agent with the fewest answers. An agent with this lead can only vote until the other agent catches up or drops out. 0: each agent answers only once.").default("2").before_trust(),
        alternative("agent_temporary_workspace", Kind::Text, "MassGen's directory for the copies of other agents' work.", KEPT).no_warning(),
        alternative("snapshot_storage", Kind::Text, "MassGen's directory for snapshots of workspaces.", KEPT).no_warning(),
        not_yet("voting_threshold", Kind::Integer(COUNT), "How strict MassGen's votes by checklist are, at most 10; higher is stricter."),
        not_yet("max_midstream_injections_per_round", Kind::Integer(COUNT_OR_ZERO), "Maximum number of other agents' new answers that an agent is shown while it works on one round."),
        not_yet("defer_peer_updates_until_restart", Kind::Bool, "Whether an agent is shown new answers of other agents only in its next round."),
        not_yet("allow_midstream_peer_updates_before_checklist_submit", Kind::Bool, "Whether an agent may be shown new answers of other agents before it submits its checklist."),
        not_yet("max_checklist_calls_per_round", Kind::Integer(COUNT), "How often an agent may submit its checklist (its scores of the answers) in one round."),
        not_yet("checklist_first_answer", Kind::Bool, "Whether an agent may submit a checklist (its scores of the answers) before its own first answer."),
        not_yet("checklist_require_gap_report", Kind::Bool, "Whether an agent must report what answers lack before it submits its checklist; `gap_report_mode` takes precedence."),
        not_yet("gap_report_mode", Kind::Choice(&[word("changedoc"), word("separate"), word("none")]), "Where an agent reports what answers lack before it submits its checklist; `none` means no report.").off("none"),
        not_yet("skip_coordination_rounds", Kind::Bool, "For tests of MassGen: whether to skip the rounds before the presentation."),
        not_yet("debug_final_answer", Kind::Text, "For tests of MassGen: a text that is evaluated in place of the final answer of the first attempt."),
        not_yet("presenter_agent", Kind::Text, "The agent that writes the final answer in MassGen's decomposition mode."),
        key("max_orchestration_restarts", Kind::Integer(COUNT_OR_ZERO), "How often a run may start over because the agent that gave the final answer then rejected it; `coordination.max_orchestration_restarts` takes precedence.").before_trust(),
        not_yet("max_turns", Kind::Integer(COUNT), "Maximum number of turns of a conversation."),
        key("max_snapshot_size", Kind::Memory, "Maximum amount of data in the copy of an agent's files that is stored with each of its answers, such as `2g`; default: `8g`. Holes in sparse files may add up to 1,024 times as much. A larger answer counts without its files.").before_trust(),
        key("skills_directory", Kind::Text, "Another place for `coordination.skills_directory`, which takes precedence."),
        key("project_instructions", Kind::Bool, "Whether prompts include `AGENTS.md` and `CLAUDE.md` from the context paths.").default("true").before_trust(),
        not_yet("docker", Kind::Any, "Settings of the agents' Docker containers, such as whether containers are kept between turns of a conversation."),
        not_yet("timeout", Kind::Any, "An older location of `timeout_settings`."),
        not_yet("type", Kind::Text, "An old key of MassGen's for the kind of orchestrator, such as `sequential`."),
        alternative("coordination_mode", Kind::Choice(&[word("voting"), word("decomposition")]), "How agents share the work: all do the whole task and vote (`voting`), or each does a part (`decomposition`).", "decomposition is not supported; the agents vote").off("voting").before_trust(),
        alternative("enable_multimodal_tools", Kind::Bool, "Whether agents get tools that read and generate images, sound and video.", MULTIMEDIA),
        alternative("multimodal_config", Kind::Any, "Settings of the tools of `enable_multimodal_tools`.", MULTIMEDIA),
        alternative("image_generation_backend", Kind::Any, "Provider that generates images.", MULTIMEDIA),
        alternative("audio_generation_backend", Kind::Any, "Provider that generates sound.", MULTIMEDIA),
        alternative("video_generation_backend", Kind::Any, "Provider that generates video.", MULTIMEDIA),
        alternative("dspy", Kind::Any, "Settings for rephrasing the task differently for each agent with the library DSPy.", "rephrasing is not supported"),
        alternative("enable_nlip", Kind::Bool, "Whether MassGen routes messages with NLIP, the Natural Language Interaction Protocol.", "not supported"),
        alternative("nlip", Kind::Any, "Settings of MassGen's message routing with NLIP, the Natural Language Interaction Protocol.", "not supported"),
        alternative("nlip_config", Kind::Any, "Settings of MassGen's message routing with NLIP, the Natural Language Interaction Protocol.", "not supported"),
    ],
};
