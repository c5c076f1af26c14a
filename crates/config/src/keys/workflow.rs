//! Keys of a workflow file, and of the adapters that a workflow or a config may describe.
//!
//! Facts only; see `keys`.

use super::orchestrator::SENSITIVITY;
use super::{COUNT, COUNT_OR_ZERO, Kind, SCALAR, SECONDS, SECONDS_OR_ZERO, Section, key, word};

const MODES: Kind = Kind::Choice(&[word("headless"), word("interactive")]);

/// The whole file.
#[rustfmt::skip] // a table: one key a line
pub(crate) static WORKFLOW: Section = Section {
    name: "workflow",
    about: "Stages of tasks, one stage after the other; the tasks of a stage run together.",
    keys: &[
        key("name", Kind::Text, "What the workflow is called; the file's name where absent."),
        key("goal", Kind::Text, "What it is for; `{{goal}}` in a prompt stands for it."),
        key("stages", Kind::List(&Kind::Section(&STAGE)), "The stages, in order.").required(),
        key("adapters", ADAPTERS, "Agents' command lines besides those that Althing knows, by name."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static STAGE: Section = Section {
    name: "stage",
    about: "Tasks that run together; all of them end before the next stage begins.",
    keys: &[
        key("name", Kind::Text, "What the stage is called; its number where absent."),
        key("tasks", Kind::List(&Kind::Section(&TASK)), "Its tasks.").required(),
    ],
};

/// One task.
#[rustfmt::skip] // a table: one key a line
static TASK: Section = Section {
    name: "task",
    about: "A program, an agent of the config, or a whole run of agents.",
    keys: &[
        key("id", Kind::Text, "Its name, unique in the workflow: letters, digits, `-` and `_`.").required(),
        key("agent", Kind::Text, "Who does it: a CLI agent by the name of its adapter (such as `claude`), `command`, one of `adapters`, or an agent of the config."),
        key("run", Kind::Section(&RUN), "A run of agents, instead of `agent`."),
        key("executionMode", MODES, "`headless`: over pipes, nobody is asked; `interactive`: in a terminal that a person can attach to.").default("headless"),
        key("execution_mode", MODES, "Another spelling of `executionMode`."),
        key("prompt", Kind::Text, "What it is told. `{{goal}}` stands for the goal, `{{id.output}}` for what a task of an earlier stage gave. A headless task needs it; for `command` it is the input, and may be blank."),
        key("command", Kind::List(&SCALAR), "For `agent: command`: the program and its arguments. No shell reads them."),
        key("model", Kind::Text, "The model that the agent's program is to use; its own choice where absent."),
        key("cwd", Kind::Text, "Where the program works; a relative path counts from where Althing was started."),
        key("env", Kind::Map(&SCALAR), "More environment; secrets as `${VARIABLE}`, which is filled in when the program starts."),
        key("timeout_seconds", Kind::Number(SECONDS), "Longest time of the task."),
        key("idle_timeout_seconds", Kind::Number(SECONDS), "Longest time that the program may say nothing."),
        key("continue_on_failure", Kind::Bool, "Whether the workflow goes on although the task failed.").default("false"),
        key("on_interrupt", Kind::Choice(&[word("restart"), word("ask"), word("fail")]), "What becomes of it when the workflow is resumed after it was cut off; where absent, its own conversation goes on if it has one, else it starts over."),
        key("sandbox", Kind::Bool, "Whether the program runs inside walls; where absent, an agent's does and your own `command` does not."),
        key("approvals", Kind::Bool, "Whether a headless agent asks you before it acts, instead of acting inside walls.").default("false"),
    ],
};

/// A run as a task.
#[rustfmt::skip] // a table: one key a line
static RUN: Section = Section {
    name: "run",
    about: "A run of the config's agents; the same as `launch_run` takes.",
    keys: &[
        key("task", Kind::Text, "What to accomplish; may hold `{{goal}}` and `{{id.output}}`.").required(),
        key("context", Kind::Text, "Background; may hold `{{goal}}` and `{{id.output}}`."),
        key("agent_mode", Kind::Choice(&[word("multi"), word("single")]), "Several agents, or one.").default("multi"),
        key("agents", Kind::List(&Kind::Text), "Which agents of the config; all where absent."),
        key("refinement", Kind::Bool, "Whether agents refine and vote; where absent, several do and one does not."),
        key("planning_mode", Kind::Bool, "Whether agents plan without acting.").default("false"),
        key("execute_after_planning", Kind::Bool, "Whether a second run carries the plan out.").default("false"),
        key("context_paths", Kind::List(&Kind::Either(&[Kind::Section(&RUN_PATH), Kind::Text])), "More paths that the run is about."),
        key("agent_system_prompts", Kind::Map(&Kind::Text), "More words for an agent's system prompt, by agent."),
        key("coordination_overrides", Kind::Section(&OVERRIDES), "Changes to the rules of the run."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static RUN_PATH: Section = Section {
    name: "run_path",
    about: "A file or directory that the run is about; a path alone is one to read.",
    keys: &[
        key("path", Kind::Text, "The path; a relative one counts from where Althing was started.").required(),
        key("permission", Kind::Choice(&[word("read"), word("write")]), "Whether it may be written.").default("read"),
    ],
};

/// Rules that a run may change, by their config keys.
#[rustfmt::skip] // a table: one key a line
pub(crate) static OVERRIDES: Section = Section {
    name: "coordination_overrides",
    about: "Changes to the rules of one run, by the keys of `orchestrator`.",
    keys: &[
        key("voting_sensitivity", Kind::Choice(SENSITIVITY), "How good an answer must be before agents vote for it."),
        key("max_new_answers_per_agent", Kind::Integer(COUNT), "Most answers of one agent."),
        key("max_new_answers_global", Kind::Integer(COUNT), "Most answers of all agents together."),
        key("skip_voting", Kind::Bool, "Whether to go from the answers straight to the presentation."),
        key("disable_injection", Kind::Bool, "Whether agents work without seeing each other's answers until they vote."),
        key("defer_voting_until_all_answered", Kind::Bool, "Whether nobody votes before everybody has answered."),
        key("final_answer_strategy", Kind::Choice(&[word("winner_reuse"), word("winner_present"), word("synthesize")]), "Who writes the final answer, and from what."),
        key("skip_final_presentation", Kind::Bool, "Whether the winner's answer is the final one as it stands."),
        key("answer_novelty_requirement", Kind::Choice(&[word("lenient"), word("balanced"), word("strict")]), "How different a new answer must be."),
        key("fairness_lead_cap_answers", Kind::Integer(COUNT_OR_ZERO), "How many answers an agent may be ahead of the slowest."),
        key("max_orchestration_restarts", Kind::Integer(COUNT_OR_ZERO), "How often the run may start over after it was judged."),
        key("first_answer_wait_seconds", Kind::Number(SECONDS_OR_ZERO), "How long an agent that has answered waits for the others' first answers."),
        key("orchestrator_timeout_seconds", Kind::Number(SECONDS), "Longest time of the run."),
        key("initial_round_timeout_seconds", Kind::Number(SECONDS), "Longest time for an agent's first answer."),
        key("subsequent_round_timeout_seconds", Kind::Number(SECONDS), "Longest time for each later round of an agent."),
        key("round_timeout_grace_seconds", Kind::Number(SECONDS_OR_ZERO), "Time between the warning and the end of a round."),
    ],
};

/// Adapters by name.
pub(super) const ADAPTERS: Kind = Kind::Map(&Kind::Section(&ADAPTER));

#[rustfmt::skip] // a table: one key a line
static ADAPTER: Section = Section {
    name: "adapter",
    about: "An agent's command line: how it is started, and how its screen is read. Patterns are regular expressions.",
    keys: &[
        key("program", Kind::Text, "The program.").required(),
        key("args", Kind::List(&SCALAR), "Its arguments in a terminal."),
        key("headless_args", Kind::List(&SCALAR), "Its arguments over pipes, where the prompt comes on its input; absent, it cannot run headless."),
        key("resume_args", Kind::List(&SCALAR), "Arguments behind the others that go on with its conversation; `{session}` stands for the conversation's id."),
        key("session", Kind::Pattern, "Pattern of its output whose first group is the conversation's id."),
        key("ready", Kind::Pattern, "Pattern of its screen once it takes a prompt."),
        key("interactions", Kind::List(&Kind::Section(&INTERACTION)), "Patterns of its screen when it waits for a person."),
        key("env", Kind::Map(&SCALAR), "More environment; secrets as `${VARIABLE}`."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static INTERACTION: Section = Section {
    name: "interaction",
    about: "How a screen tells that the program waits for a person.",
    keys: &[
        key("pattern", Kind::Pattern, "What the screen shows then.").required(),
        key("about", Kind::Choice(&[word("permission"), word("question"), word("auth"), word("other")]), "What it waits for.").default("other"),
    ],
};
