//! Keys of `orchestrator.coordination`.
//!
//! Data only; see `keys`. Most of MassGen's 77 keys here tune features that Althing does not have (yet).

use super::{
    COUNT, COUNT_OR_ZERO, Kind, Range, SECONDS, SECONDS_OR_ZERO, Section, instead, key, later, word,
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
        later("plan_depth", Kind::Choice(&[word("dynamic"), word("shallow"), word("medium"), word("deep")]), "How detailed a plan is."),
        later("plan_target_steps", Kind::Integer(COUNT), "Number of steps of a plan."),
        later("plan_target_chunks", Kind::Integer(COUNT), "Number of parts of a plan."),
        key("max_orchestration_restarts", Kind::Integer(COUNT_OR_ZERO), "How often a run may start over after its final answer was judged.").default("0").before_trust(),
        key("enable_agent_task_planning", Kind::Bool, "Whether agents keep task lists, with tools to change them.").default("false"),
        key("max_tasks_per_plan", Kind::Integer(COUNT), "Longest task list.").default("10"),
        key("task_planning_filesystem_mode", Kind::Bool, "Whether task lists are files in the workspaces too.").default("false"),
        key("enable_memory_filesystem_mode", Kind::Bool, "Whether agents keep memories as files.").default("false"),
        later("learning_capture_mode", Kind::Choice(&[word("round"), word("verification_and_final_only"), word("final_only")]), "When lessons are written down."),
        later("disable_final_only_round_capture_fallback", Kind::Bool, "Whether lessons wait for a presentation."),
        later("compression_target_ratio", Kind::Number(Range::between(0.0, 1.0)), "How much of a context is kept when it grows too long."),
        key("use_skills", Kind::Bool, "Whether agents get skills.").default("false"),
        later("massgen_skills", Kind::List(&Kind::Text), "MassGen's own skills.").off("[]"),
        key("skills_directory", Kind::Text, "Directory of skills: directories with a `SKILL.md`. A relative path is resolved against the directory where Althing was started.").default(".agent/skills"),
        later("load_previous_session_skills", Kind::Bool, "Whether skills of earlier sessions are loaded."),
        later("evaluation_criteria_generator", Kind::Any, "Criteria written for the task."),
        later("prompt_improver", Kind::Any, "Rewriting of the task before the run."),
        later("pre_collab_voting_threshold", Kind::Integer(COUNT), "MassGen's threshold before the run."),
        key("enable_subagents", Kind::Bool, "Whether agents may start subagents.").default("false"),
        key("subagent_default_timeout", Kind::Number(SECONDS), "Default time limit of a subagent, in seconds.").default("300"),
        key("subagent_min_timeout", Kind::Number(SECONDS), "Smallest time limit that a subagent may get, in seconds.").default("60"),
        key("subagent_max_timeout", Kind::Number(SECONDS), "Largest time limit that a subagent may get, in seconds.").default("600"),
        key("subagent_max_concurrent", Kind::Integer(COUNT), "How many subagents may run at once.").default("3"),
        later("subagent_round_timeouts", Kind::Any, "Time limits of subagents' rounds."),
        later("subagent_runtime_mode", Kind::Choice(&[word("isolated"), word("inherited"), word("delegated")]), "Where subagents run."),
        later("subagent_runtime_fallback_mode", Kind::Choice(&[word("inherited")]), "Where subagents run as a fallback."),
        later("subagent_host_launch_prefix", Kind::List(&Kind::Text), "How subagents are started from a container."),
        later("subagent_orchestrator", Kind::Any, "How subagents coordinate."),
        later("subagent_types", Kind::List(&Kind::Text), "Which kinds of subagents there are."),
        key("background_subagents", Kind::Section(&BACKGROUND), "Whether subagents may run in the background."),
        later("use_two_tier_workspace", Kind::Bool, "MassGen's older split of workspaces."),
        later("write_mode", Kind::Choice(&[word("auto"), word("worktree"), word("isolated"), word("legacy")]), "How agents' writes are isolated."),
        later("drift_conflict_policy", Kind::Choice(&[word("skip"), word("prefer_presenter"), word("fail")]), "What happens to files that changed in the meantime."),
        later("enable_changedoc", Kind::Bool, "Whether agents keep a journal of decisions."),
        later("round_evaluator_before_checklist", Kind::Bool, "Whether rounds are evaluated before a checklist."),
        later("orchestrator_managed_round_evaluator", Kind::Bool, "Whether rounds are evaluated automatically."),
        later("round_evaluator_skip_synthesis", Kind::Bool, "Whether evaluations are passed on without a summary."),
        later("round_evaluator_refine", Kind::Bool, "Whether evaluators refine."),
        later("round_evaluator_transformation_pressure", Kind::Choice(&[word("gentle"), word("balanced"), word("aggressive")]), "How bold evaluators are."),
        later("enable_quality_rethink_on_iteration", Kind::Bool, "Whether later rounds rethink quality."),
        later("enable_novelty_on_iteration", Kind::Bool, "Whether later rounds look for novelty."),
        later("novelty_injection", Kind::Choice(&[word("none"), word("gentle"), word("moderate"), word("aggressive")]), "How hard novelty is asked for.").off("none"),
        later("enable_execution_trace_analyzer", Kind::Bool, "Whether traces are analyzed."),
        later("auto_trace_analysis", Kind::Bool, "Whether traces are analyzed automatically."),
        later("evolving_criteria", Kind::Bool, "Whether criteria change between rounds."),
        later("evolving_criteria_score_threshold", Kind::Integer(COUNT_OR_ZERO), "Score from which a criterion is too easy."),
        later("evolving_criteria_max_evolutions", Kind::Integer(COUNT_OR_ZERO), "How often criteria change."),
        later("evolving_criteria_min_high_score_count", Kind::Integer(COUNT_OR_ZERO), "How many criteria must be too easy."),
        later("evolving_criteria_timeout", Kind::Number(SECONDS), "Time for changing criteria."),
        later("improvements", Kind::Any, "MassGen's gate of improvements."),
        later("checklist_criteria_preset", Kind::Text, "A predefined checklist."),
        later("checklist_criteria_inline", Kind::Any, "A checklist."),
        later("criteria_mode", Kind::Choice(&[word("static"), word("bootstrap_inline"), word("bootstrap_subagent")]), "Where criteria come from.").off("static"),
        later("bootstrap_max_per_agent_per_round", Kind::Integer(COUNT_OR_ZERO), "Most new criteria in a round."),
        later("bootstrap_max_total", Kind::Integer(COUNT_OR_ZERO), "Most new criteria in a run."),
        later("resume_from_log", Kind::Any, "MassGen's way to resume a run."),
        later("checkpoint_enabled", Kind::Bool, "MassGen's checkpoint mode."),
        later("checkpoint_mode", Kind::Choice(&[word("conversation"), word("task")]), "Kind of MassGen's checkpoint mode."),
        later("checkpoint_guidance", Kind::Text, "The instruction for the main agent in checkpoint mode."),
        later("checkpoint_gated_patterns", Kind::List(&Kind::Text), "Tools that wait for a checkpoint."),
        later("standalone_checkpoint", Kind::Any, "MassGen's checkpoint server."),
        later("fast_iteration_mode", Kind::Bool, "Whether rounds are kept short."),
        later("max_verifications_per_round", Kind::Integer(COUNT_OR_ZERO), "How often an agent checks its work in a round."),
        later("max_internal_fix_loops", Kind::Integer(COUNT_OR_ZERO), "How often an agent fixes its work in a round."),
        later("skip_redundant_scaffolding", Kind::Bool, "Whether agents continue with existing work."),
        later("web_review", Kind::Bool, "Review of changes in MassGen's web page."),
        instead("broadcast", Kind::Either(&[Kind::Bool, Kind::Choice(&[word("agents"), word("human")])]), "Questions between agents.", BROADCAST).off("false"),
        instead("broadcast_sensitivity", LEVELS, "How often agents ask each other.", BROADCAST),
        instead("response_depth", LEVELS, "How thoroughly agents answer each other.", BROADCAST),
        instead("broadcast_timeout", Kind::Number(SECONDS), "How long an agent waits for answers.", BROADCAST),
        instead("broadcast_wait_by_default", Kind::Bool, "Whether an agent waits for answers.", BROADCAST),
        instead("max_broadcasts_per_agent", Kind::Integer(COUNT), "How often an agent may ask.", BROADCAST),
        instead("persona_generator", Kind::Any, "Generated personas for the agents.", PERSONAS),
        instead("enable_evaluator_personas", Kind::Bool, "Personas of evaluators.", PERSONAS),
        instead("task_decomposer", Kind::Any, "Decomposition of the task.", DECOMPOSITION),
    ],
};

#[rustfmt::skip] // a table: one key a line
static BACKGROUND: Section = Section {
    name: "background_subagents",
    about: "Subagents that run while the agent that started them continues.",
    keys: &[
        key("enabled", Kind::Bool, "Whether background subagents are allowed.").default("true"),
        later("injection_strategy", Kind::Choice(&[word("tool_result"), word("user_message")]), "How their results are returned.").off("tool_result"),
    ],
};
