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
    about: "More settings of coordination: planning, task lists, memory, skills, subagents and restarts.",
    keys: &[
        key("override_window_seconds", Kind::Number(SECONDS_OR_ZERO), "Time after the vote, in seconds, in which a person at the screen may choose another winner; 0 disables the wait.").default("60").before_trust(),
        key("first_answer_wait_seconds", Kind::Number(SECONDS_OR_ZERO), "How long, in seconds, an agent that has answered waits for the others' first answers, or for others that still judge, before it is called again.").default("30").before_trust(),
        key("straggler_wait_seconds", Kind::Number(SECONDS_OR_ZERO), "How long, in seconds, a run waits for an agent that has sent nothing while all others are done; then it goes on without the agent. 0: however long it takes.").default("60").before_trust(),
        key("enable_planning_mode", Kind::Bool, "Whether agents only plan and change nothing until the presentation, in which the presenter acts.").default("false").before_trust(),
        key("planning_mode_instruction", Kind::Text, "Text that replaces the built-in instruction for agents that plan; needs `enable_planning_mode`.").before_trust(),
        not_yet("plan_depth", Kind::Choice(&[word("dynamic"), word("shallow"), word("medium"), word("deep")]), "How detailed a plan is, from `shallow` to `deep`; `dynamic` leaves this to the agents."),
        not_yet("plan_target_steps", Kind::Integer(COUNT), "Number of steps that a plan should have; default: the agents decide."),
        not_yet("plan_target_chunks", Kind::Integer(COUNT), "Number of chunks (groups of steps) that a plan should have; default: the agents decide."),
        key("max_orchestration_restarts", Kind::Integer(COUNT_OR_ZERO), "How often a run may start over because its presenter rejected the final answer.").default("0").before_trust(),
        key("enable_agent_task_planning", Kind::Bool, "Whether each agent keeps a list of its tasks and gets tools to change it.").default("false"),
        key("max_tasks_per_plan", Kind::Integer(COUNT), "Maximum number of tasks in an agent's task list; needs `enable_agent_task_planning`.").default("10"),
        key("task_planning_filesystem_mode", Kind::Bool, "Whether an agent's task list is a file in its workspace, where other agents see it; needs `enable_agent_task_planning`.").default("false"),
        key("enable_memory_filesystem_mode", Kind::Bool, "Whether agents may keep notes as files in their workspaces, which later runs get too.").default("false"),
        not_yet("learning_capture_mode", Kind::Choice(&[word("round"), word("verification_and_final_only"), word("final_only")]), "When agents write down lessons as memories and skills: in every round (`round`) or at the presentation (`final_only`)."),
        not_yet("disable_final_only_round_capture_fallback", Kind::Bool, "Whether no lessons are written in rounds even if the presentation is skipped; needs `learning_capture_mode: final_only`."),
        not_yet("compression_target_ratio", Kind::Number(Range::between(0.0, 1.0)), "Share of the messages that is kept when a context grows too long, such as 0.2; the others are summarized."),
        key("use_skills", Kind::Bool, "Whether agents can read the skills in `skills_directory`.").default("false"),
        not_yet("massgen_skills", Kind::List(&Kind::Text), "Names of MassGen's built-in skills that agents get.").off("[]"),
        key("skills_directory", Kind::Text, "Directory of skills: directories with a `SKILL.md`. A relative path is resolved against the directory where Althing was started.").default(".agent/skills"),
        not_yet("load_previous_session_skills", Kind::Bool, "Whether agents also get the skills (`SKILL.md` files) in the logs of earlier sessions."),
        not_yet("evaluation_criteria_generator", Kind::Any, "Settings for generating, before the run, the criteria by which agents judge answers to the task."),
        not_yet("prompt_improver", Kind::Any, "Settings for letting agents rewrite the task more clearly before the run."),
        not_yet("pre_collab_voting_threshold", Kind::Integer(COUNT), "`orchestrator.voting_threshold` for MassGen's preparatory runs, which generate personas, criteria and subtasks."),
        key("enable_subagents", Kind::Bool, "Whether agents may start subagents: runs of their own for parts of the task.").default("false"),
        key("subagent_default_timeout", Kind::Number(SECONDS), "Time limit of a subagent, in seconds, if the agent that starts it requests none.").default("300"),
        key("subagent_min_timeout", Kind::Number(SECONDS), "Shortest time limit of a subagent, in seconds; a shorter requested limit is raised to it.").default("60"),
        key("subagent_max_timeout", Kind::Number(SECONDS), "Longest time limit of a subagent, in seconds; a longer requested limit is lowered to it.").default("600"),
        key("subagent_max_concurrent", Kind::Integer(COUNT), "Maximum number of subagents of one agent that run at once.").default("3"),
        not_yet("subagent_round_timeouts", Kind::Any, "Time limits of subagents' rounds, in seconds, under the names of the round limits in `timeout_settings`."),
        not_yet("subagent_runtime_mode", Kind::Choice(&[word("isolated"), word("inherited"), word("delegated")]), "Where subagents run: separately (`isolated`), in their parent's environment (`inherited`), or started by the host for a container (`delegated`)."),
        not_yet("subagent_runtime_fallback_mode", Kind::Choice(&[word("inherited")]), "Where subagents run if `subagent_runtime_mode` is not possible; without this key they fail."),
        not_yet("subagent_host_launch_prefix", Kind::List(&Kind::Text), "Command put before the command that starts an isolated subagent if its parent runs in a container."),
        not_yet("subagent_orchestrator", Kind::Any, "Settings for subagents that are teams of several agents instead of single agents."),
        not_yet("subagent_types", Kind::List(&Kind::Text), "Which of MassGen's predefined kinds of subagents agents may start, such as `evaluator`, `explorer` or `researcher`."),
        key("background_subagents", Kind::Section(&BACKGROUND), "Settings of subagents that run while the agent that started them continues."),
        not_yet("use_two_tier_workspace", Kind::Bool, "Whether workspaces have separate directories for drafts (`scratch`) and results (`deliverable`); MassGen replaced it by `write_mode`."),
        not_yet("write_mode", Kind::Choice(&[word("auto"), word("worktree"), word("isolated"), word("legacy")]), "How agents' changes to files are kept apart: in git worktrees (`worktree`), in copies (`isolated`), or not at all (`legacy`). Each agent of Althing always has a workspace of its own.").fulfilled(&["auto", "isolated", "legacy"]),
        not_yet("drift_conflict_policy", Kind::Choice(&[word("skip"), word("prefer_presenter"), word("fail")]), "What happens to the presenter's changes of files that somebody else changed during the run: skipped, applied, or nothing is applied (`fail`)."),
        not_yet("enable_changedoc", Kind::Bool, "Whether agents keep a journal of their decisions, `tasks/changedoc.md`, in their workspaces."),
        not_yet("round_evaluator_before_checklist", Kind::Bool, "Whether, from the second round, an evaluator subagent must criticize the answers before an agent submits its checklist."),
        not_yet("orchestrator_managed_round_evaluator", Kind::Bool, "Whether MassGen itself starts each round's evaluator subagent, instead of asking the agents to start it."),
        not_yet("round_evaluator_skip_synthesis", Kind::Bool, "Whether agents get the critique of every evaluator subagent unchanged, instead of one summary."),
        not_yet("round_evaluator_refine", Kind::Bool, "Whether evaluator subagents improve their critiques in several rounds and vote, instead of answering once."),
        not_yet("round_evaluator_transformation_pressure", Kind::Choice(&[word("gentle"), word("balanced"), word("aggressive")]), "How strongly evaluator subagents push for new approaches instead of corrections to the current one."),
        not_yet("enable_quality_rethink_on_iteration", Kind::Bool, "Whether, from the second round, agents also start a subagent that proposes better versions of single parts."),
        not_yet("enable_novelty_on_iteration", Kind::Bool, "Whether, from the second round, agents also start a subagent that proposes a fundamentally different approach."),
        not_yet("novelty_injection", Kind::Choice(&[word("none"), word("gentle"), word("moderate"), word("aggressive")]), "How strongly agents are urged to try new approaches when rounds bring only small improvements.").off("none"),
        not_yet("enable_execution_trace_analyzer", Kind::Bool, "Whether, next to each round's evaluator, a subagent draws lessons from the record of the agent's tool calls."),
        not_yet("auto_trace_analysis", Kind::Bool, "Whether MassGen starts, from the second round, a background subagent that draws lessons from the record of the previous round."),
        not_yet("evolving_criteria", Kind::Bool, "Whether the criteria for judging answers change between rounds when answers score too well."),
        not_yet("evolving_criteria_score_threshold", Kind::Integer(COUNT_OR_ZERO), "Score, from 0 to 10, from which a criterion counts as too easy; needs `evolving_criteria`."),
        not_yet("evolving_criteria_max_evolutions", Kind::Integer(COUNT_OR_ZERO), "Maximum number of times that the criteria change in a session; needs `evolving_criteria`."),
        not_yet("evolving_criteria_min_high_score_count", Kind::Integer(COUNT_OR_ZERO), "Number of criteria that must be too easy before the criteria change; needs `evolving_criteria`."),
        not_yet("evolving_criteria_timeout", Kind::Number(SECONDS), "Time limit for one change of the criteria, in seconds; needs `evolving_criteria`."),
        not_yet("improvements", Kind::Any, "Minimum numbers of large improvements that an agent must propose for a new answer, such as `min_transformative`."),
        not_yet("checklist_criteria_preset", Kind::Text, "Name of a predefined list of criteria for judging answers, such as `planning` or `analysis`."),
        key("checklist_criteria_inline", Kind::Any, "MassGen's name for `orchestrator.criteria`, which takes precedence: a list of texts, or of entries with `text`; `category` has no effect.").before_trust(),
        not_yet("criteria_mode", Kind::Choice(&[word("static"), word("bootstrap_inline"), word("bootstrap_subagent")]), "Who sets the criteria for judging answers: fixed at the start (`static`), the agents (`bootstrap_inline`), or a subagent between rounds (`bootstrap_subagent`).").off("static"),
        not_yet("bootstrap_max_per_agent_per_round", Kind::Integer(COUNT_OR_ZERO), "Maximum number of criteria that one agent adds in a round; needs a `criteria_mode` other than `static`."),
        not_yet("bootstrap_max_total", Kind::Integer(COUNT_OR_ZERO), "Maximum number of added criteria that are kept, 0 for no limit; needs a `criteria_mode` other than `static`."),
        not_yet("resume_from_log", Kind::Any, "The log of an earlier MassGen run (`log_path`) and the round (`round`) from which to continue."),
        not_yet("checkpoint_enabled", Kind::Bool, "Whether MassGen's checkpoint mode is on, in which a main agent works alone and delegates selected tasks to the team."),
        not_yet("checkpoint_mode", Kind::Choice(&[word("conversation"), word("task")]), "Whether a session in checkpoint mode stays open for your messages (`conversation`) or ends with the task (`task`)."),
        not_yet("checkpoint_guidance", Kind::Text, "Text appended to the main agent's system prompt in checkpoint mode."),
        not_yet("checkpoint_gated_patterns", Kind::List(&Kind::Text), "Patterns of tools that agents in checkpoint mode may not call directly but only propose at a checkpoint."),
        not_yet("standalone_checkpoint", Kind::Any, "Settings of MassGen's MCP server with which a single agent lets a separate team review its work."),
        not_yet("fast_iteration_mode", Kind::Bool, "Whether agents are told to submit answers early and to improve them in later rounds."),
        not_yet("max_verifications_per_round", Kind::Integer(COUNT_OR_ZERO), "Maximum number of times that an agent is told to check its work in a round."),
        not_yet("max_internal_fix_loops", Kind::Integer(COUNT_OR_ZERO), "Maximum number of times that an agent is told to fix what its checks found in a round."),
        not_yet("skip_redundant_scaffolding", Kind::Bool, "Whether agents are told to continue with existing files instead of creating them again."),
        not_yet("web_review", Kind::Bool, "Whether a person can review changes in MassGen's web interface; needs MassGen's option `--web`."),
        alternative("broadcast", Kind::Either(&[Kind::Bool, Kind::Choice(&[word("agents"), word("human")])]), "Whether agents may ask questions during a run: the other agents (`agents`), or also a person (`human`).", BROADCAST).off("false"),
        alternative("broadcast_sensitivity", LEVELS, "How often agents are encouraged to ask questions; needs `broadcast`.", BROADCAST),
        alternative("response_depth", LEVELS, "How thorough the answers to agents' questions are; needs `broadcast`.", BROADCAST),
        alternative("broadcast_timeout", Kind::Number(SECONDS), "Longest wait for the answers to an agent's question, in seconds; needs `broadcast`.", BROADCAST),
        alternative("broadcast_wait_by_default", Kind::Bool, "Whether an agent waits until its question is answered, instead of fetching the answers later; needs `broadcast`.", BROADCAST),
        alternative("max_broadcasts_per_agent", Kind::Integer(COUNT), "Maximum number of open questions of one agent; needs `broadcast`.", BROADCAST),
        key("persona_generator", Kind::Any, "MassGen's settings for a different persona of each agent. With `enabled: true`, `diversity: approaches` is used instead, unless `orchestrator.diversity` is set; other entries have no effect.").before_trust(),
        alternative("enable_evaluator_personas", Kind::Bool, "Whether agents may give different personas to evaluator subagents.", PERSONAS),
        alternative("task_decomposer", Kind::Any, "Settings for splitting the task into a part for each agent in MassGen's decomposition mode.", DECOMPOSITION),
    ],
};

#[rustfmt::skip] // a table: one key a line
static BACKGROUND: Section = Section {
    name: "background_subagents",
    about: "Subagents that run while the agent that started them continues.",
    keys: &[
        key("enabled", Kind::Bool, "Whether an agent may continue to work while its subagents run; needs `enable_subagents`.").default("true"),
        not_yet("injection_strategy", Kind::Choice(&[word("tool_result"), word("user_message")]), "How an agent gets the result of a background subagent: with its next tool result, or as a separate message.").off("tool_result"),
    ],
};
