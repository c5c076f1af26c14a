//! Keys of `orchestrator.coordination`.
//!
//! Data only; see `keys`. Most of MassGen's 77 keys here tune features that Althing does not have (yet).

use super::{
    COUNT, COUNT_OR_ZERO, Kind, Range, SECONDS, SECONDS_OR_ZERO, Section, alternative, key, not_yet, word,
};

const BROADCAST: &str = "questions between agents are not supported";
const PERSONAS: &str = "personas are not supported; write a `system_message` for each agent";
const DECOMPOSITION: &str = "decomposition is not supported; the agents vote";
const LEVELS: Kind = Kind::Choice(&[word("low"), word("medium"), word("high")]);

/// Details of the coordination.
#[rustfmt::skip] // a table: one key a line
pub(super) static COORDINATION: Section = Section {
    name: "coordination",
    about: "Details of the coordination.",
    keys: &[
        key("override_window_seconds", Kind::Number(SECONDS_OR_ZERO), "How long a person may choose another winner after the vote; there is no wait in automation.").default("60").before_trust(),
        key("first_answer_wait_seconds", Kind::Number(SECONDS_OR_ZERO), "How long an agent that has answered waits for the others' first answers before it is called again.").default("30").before_trust(),
        key("enable_planning_mode", Kind::Bool, "Whether agents only plan until the presentation.").default("false").before_trust(),
        key("planning_mode_instruction", Kind::Text, "The instruction for agents in planning mode.").before_trust(),
        not_yet("plan_depth", Kind::Choice(&[word("dynamic"), word("shallow"), word("medium"), word("deep")]), "How detailed a plan is."),
        not_yet("plan_target_steps", Kind::Integer(COUNT), "Number of steps of a plan."),
        not_yet("plan_target_chunks", Kind::Integer(COUNT), "Number of parts of a plan."),
        key("max_orchestration_restarts", Kind::Integer(COUNT_OR_ZERO), "How often a run may start over because its final answer was rejected.").default("0").before_trust(),
        key("enable_agent_task_planning", Kind::Bool, "Whether agents keep task lists, with tools to change them.").default("false"),
        key("max_tasks_per_plan", Kind::Integer(COUNT), "Longest task list.").default("10"),
        key("task_planning_filesystem_mode", Kind::Bool, "Whether task lists are also stored as files in the workspaces.").default("false"),
        key("enable_memory_filesystem_mode", Kind::Bool, "Whether agents keep memories as files.").default("false"),
        not_yet("learning_capture_mode", Kind::Choice(&[word("round"), word("verification_and_final_only"), word("final_only")]), "When lessons are written down."),
        not_yet("disable_final_only_round_capture_fallback", Kind::Bool, "Whether lessons wait for a presentation."),
        not_yet("compression_target_ratio", Kind::Number(Range::between(0.0, 1.0)), "How much of a context is kept when it grows too long."),
        key("use_skills", Kind::Bool, "Whether agents get skills.").default("false"),
        not_yet("massgen_skills", Kind::List(&Kind::Text), "MassGen's own skills.").off("[]"),
        key("skills_directory", Kind::Text, "Directory of skills: directories with a `SKILL.md`. A relative path is resolved against the directory where Althing was started.").default(".agent/skills"),
        not_yet("load_previous_session_skills", Kind::Bool, "Whether skills of earlier sessions are loaded."),
        not_yet("evaluation_criteria_generator", Kind::Any, "How criteria are generated for the task."),
        not_yet("prompt_improver", Kind::Any, "How the task is rewritten before the run."),
        not_yet("pre_collab_voting_threshold", Kind::Integer(COUNT), "MassGen's voting threshold for generating personas, criteria and subtasks."),
        key("enable_subagents", Kind::Bool, "Whether agents may start subagents.").default("false"),
        key("subagent_default_timeout", Kind::Number(SECONDS), "Default time limit of a subagent, in seconds.").default("300"),
        key("subagent_min_timeout", Kind::Number(SECONDS), "Smallest time limit that a subagent may get, in seconds.").default("60"),
        key("subagent_max_timeout", Kind::Number(SECONDS), "Largest time limit that a subagent may get, in seconds.").default("600"),
        key("subagent_max_concurrent", Kind::Integer(COUNT), "How many subagents may run at once.").default("3"),
        not_yet("subagent_round_timeouts", Kind::Any, "Time limits of subagents' rounds."),
        not_yet("subagent_runtime_mode", Kind::Choice(&[word("isolated"), word("inherited"), word("delegated")]), "Where subagents run."),
        not_yet("subagent_runtime_fallback_mode", Kind::Choice(&[word("inherited")]), "Where subagents run if the selected mode is not available."),
        not_yet("subagent_host_launch_prefix", Kind::List(&Kind::Text), "How subagents are started from a container."),
        not_yet("subagent_orchestrator", Kind::Any, "How subagents coordinate."),
        not_yet("subagent_types", Kind::List(&Kind::Text), "Which kinds of subagents there are."),
        key("background_subagents", Kind::Section(&BACKGROUND), "Settings of subagents that run in the background."),
        not_yet("use_two_tier_workspace", Kind::Bool, "MassGen's older split of workspaces."),
        not_yet("write_mode", Kind::Choice(&[word("auto"), word("worktree"), word("isolated"), word("legacy")]), "How agents' writes are isolated."),
        not_yet("drift_conflict_policy", Kind::Choice(&[word("skip"), word("prefer_presenter"), word("fail")]), "What happens to files that somebody else changed during the run."),
        not_yet("enable_changedoc", Kind::Bool, "Whether agents keep a journal of decisions."),
        not_yet("round_evaluator_before_checklist", Kind::Bool, "Whether rounds are evaluated before a checklist."),
        not_yet("orchestrator_managed_round_evaluator", Kind::Bool, "Whether rounds are evaluated automatically."),
        not_yet("round_evaluator_skip_synthesis", Kind::Bool, "Whether evaluations are passed on without a summary."),
        not_yet("round_evaluator_refine", Kind::Bool, "Whether evaluators work in several rounds, with votes."),
        not_yet("round_evaluator_transformation_pressure", Kind::Choice(&[word("gentle"), word("balanced"), word("aggressive")]), "How bold evaluators are."),
        not_yet("enable_quality_rethink_on_iteration", Kind::Bool, "Whether later rounds rethink quality."),
        not_yet("enable_novelty_on_iteration", Kind::Bool, "Whether later rounds look for novelty."),
        not_yet("novelty_injection", Kind::Choice(&[word("none"), word("gentle"), word("moderate"), word("aggressive")]), "How hard novelty is asked for.").off("none"),
        not_yet("enable_execution_trace_analyzer", Kind::Bool, "Whether traces are analyzed."),
        not_yet("auto_trace_analysis", Kind::Bool, "Whether traces are analyzed automatically."),
        not_yet("evolving_criteria", Kind::Bool, "Whether criteria change between rounds."),
        not_yet("evolving_criteria_score_threshold", Kind::Integer(COUNT_OR_ZERO), "Score from which a criterion is too easy."),
        not_yet("evolving_criteria_max_evolutions", Kind::Integer(COUNT_OR_ZERO), "How often criteria change."),
        not_yet("evolving_criteria_min_high_score_count", Kind::Integer(COUNT_OR_ZERO), "How many criteria must be too easy before criteria change."),
        not_yet("evolving_criteria_timeout", Kind::Number(SECONDS), "Time for changing criteria."),
        not_yet("improvements", Kind::Any, "MassGen's rules for accepting improvements."),
        not_yet("checklist_criteria_preset", Kind::Text, "A predefined checklist."),
        not_yet("checklist_criteria_inline", Kind::Any, "A checklist."),
        not_yet("criteria_mode", Kind::Choice(&[word("static"), word("bootstrap_inline"), word("bootstrap_subagent")]), "Where criteria come from.").off("static"),
        not_yet("bootstrap_max_per_agent_per_round", Kind::Integer(COUNT_OR_ZERO), "Maximum number of new criteria in a round."),
        not_yet("bootstrap_max_total", Kind::Integer(COUNT_OR_ZERO), "Maximum number of new criteria in a run."),
        not_yet("resume_from_log", Kind::Any, "MassGen's way to resume a run."),
        not_yet("checkpoint_enabled", Kind::Bool, "MassGen's checkpoint mode."),
        not_yet("checkpoint_mode", Kind::Choice(&[word("conversation"), word("task")]), "Kind of MassGen's checkpoint mode."),
        not_yet("checkpoint_guidance", Kind::Text, "The instruction for the main agent in checkpoint mode."),
        not_yet("checkpoint_gated_patterns", Kind::List(&Kind::Text), "Tools that wait for a checkpoint."),
        not_yet("standalone_checkpoint", Kind::Any, "MassGen's checkpoint server."),
        not_yet("fast_iteration_mode", Kind::Bool, "Whether rounds are kept short."),
        not_yet("max_verifications_per_round", Kind::Integer(COUNT_OR_ZERO), "How often an agent checks its work in a round."),
        not_yet("max_internal_fix_loops", Kind::Integer(COUNT_OR_ZERO), "How often an agent fixes its work in a round."),
        not_yet("skip_redundant_scaffolding", Kind::Bool, "Whether agents continue with existing work."),
        not_yet("web_review", Kind::Bool, "Review of changes in MassGen's web page."),
        alternative("broadcast", Kind::Either(&[Kind::Bool, Kind::Choice(&[word("agents"), word("human")])]), "Questions between agents.", BROADCAST).off("false"),
        alternative("broadcast_sensitivity", LEVELS, "How often agents ask each other.", BROADCAST),
        alternative("response_depth", LEVELS, "How thoroughly agents answer each other.", BROADCAST),
        alternative("broadcast_timeout", Kind::Number(SECONDS), "How long an agent waits for answers.", BROADCAST),
        alternative("broadcast_wait_by_default", Kind::Bool, "Whether an agent waits for answers.", BROADCAST),
        alternative("max_broadcasts_per_agent", Kind::Integer(COUNT), "How often an agent may ask.", BROADCAST),
        alternative("persona_generator", Kind::Any, "Generated personas for the agents.", PERSONAS),
        alternative("enable_evaluator_personas", Kind::Bool, "Personas of evaluators.", PERSONAS),
        alternative("task_decomposer", Kind::Any, "Decomposition of the task.", DECOMPOSITION),
    ],
};

#[rustfmt::skip] // a table: one key a line
static BACKGROUND: Section = Section {
    name: "background_subagents",
    about: "Subagents that run while the agent that started them continues.",
    keys: &[
        key("enabled", Kind::Bool, "Whether background subagents are allowed.").default("true"),
        not_yet("injection_strategy", Kind::Choice(&[word("tool_result"), word("user_message")]), "How the results of background subagents are returned.").off("tool_result"),
    ],
};
