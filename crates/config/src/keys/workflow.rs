//! The table of keys of a workflow file, and of the adapters that a workflow or a config may define. Data only.

use super::orchestrator::{DECISION, DIVERSITY, JUDGE_ORDER, SENSITIVITY};
use super::{COUNT, COUNT_OR_ZERO, Kind, SCALAR, SECONDS, SECONDS_OR_ZERO, Section, key, word};

const MODES: Kind = Kind::Choice(&[word("headless"), word("interactive")]);

#[rustfmt::skip] // a table: one key a line
pub(crate) static WORKFLOW: Section = Section {
    name: "workflow",
    about: "Stages of tasks: one stage after the other, the tasks of a stage in parallel.",
    keys: &[
        key("name", Kind::Text, "The name of the workflow; default: the file's name."),
        key("goal", Kind::Text, "The goal of the workflow; prompts refer to it as `{{goal}}`."),
        key("stages", Kind::List(&Kind::Section(&STAGE)), "The stages, in order.").required(),
        key("adapters", ADAPTERS, "Descriptions of CLI agents that Althing does not know, by name, for use as `agent` in tasks."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static STAGE: Section = Section {
    name: "stage",
    about: "Tasks that run in parallel; all of them end before the next stage starts.",
    keys: &[
        key("name", Kind::Text, "The name of the stage; default: `stage 1`, `stage 2`, …"),
        key("tasks", Kind::List(&Kind::Section(&TASK)), "The tasks of the stage.").required(),
    ],
};

#[rustfmt::skip] // a table: one key a line
static TASK: Section = Section {
    name: "task",
    about: "A CLI agent, a command, an agent of the config, or a run of agents.",
    keys: &[
        key("id", Kind::Text, "The task's id, unique in the workflow: letters, digits, `-` and `_`.").required(),
        key("agent", Kind::Text, "The agent for the task: a CLI agent by the name of its adapter (such as `claude`), `command`, one of `adapters`, or an agent of the config."),
        key("run", Kind::Section(&RUN), "A run of agents, instead of `agent`."),
        key("executionMode", MODES, "`headless`: on pipes, without a terminal; `interactive`: in a terminal that a person can attach to.").default("headless"),
        key("execution_mode", MODES, "Another spelling of `executionMode`."),
        key("prompt", Kind::Text, "The prompt. `{{goal}}` is the goal, `{{id.output}}` the output of a task of an earlier stage. A headless task needs a prompt. For `command`, the prompt is written to stdin and may be empty."),
        key("command", Kind::List(&SCALAR), "For `agent: command`: the program and its arguments. They are not passed to a shell."),
        key("model", Kind::Text, "The model for the CLI agent; default: the CLI agent's own default."),
        key("cwd", Kind::Text, "The working directory. A relative path is resolved against the directory where Althing was started."),
        key("env", Kind::Map(&SCALAR), "Additional environment variables. Write secrets as `${VARIABLE}`, which is filled in when the program starts."),
        key("timeout_seconds", Kind::Number(SECONDS), "Longest time of the task, in seconds."),
        key("idle_timeout_seconds", Kind::Number(SECONDS), "Longest time that the program may print nothing, in seconds."),
        key("continue_on_failure", Kind::Bool, "Whether the workflow continues if the task fails.").default("false"),
        key("on_interrupt", Kind::Choice(&[word("restart"), word("ask"), word("fail")]), "What happens if the task was interrupted and the workflow is resumed. Default: the program's own conversation is resumed if it has one; otherwise the task starts over."),
        key("sandbox", Kind::Bool, "Whether the program runs in a sandbox. Default: a headless CLI agent without `approvals` does, if a sandbox works on this machine; interactive tasks, CLI agents with `approvals` and your own `command` do not."),
        key("approvals", Kind::Bool, "Whether a headless CLI agent asks you before it acts, instead of acting freely in its sandbox.").default("false"),
    ],
};

#[rustfmt::skip] // a table: one key a line
static RUN: Section = Section {
    name: "run",
    about: "A run of the config's agents, with the parameters of `launch_run`.",
    keys: &[
        key("task", Kind::Text, "What to accomplish; may contain `{{goal}}` and `{{id.output}}`.").required(),
        key("context", Kind::Text, "Background information for the agents; may contain `{{goal}}` and `{{id.output}}`."),
        key("agent_mode", Kind::Choice(&[word("multi"), word("single")]), "Whether several agents work on the task (`multi`) or only one (`single`).").default("multi"),
        key("agents", Kind::List(&Kind::Text), "Which agents of the config take part; default: all."),
        key("refinement", Kind::Bool, "Whether agents refine and vote; default: several agents do, a single one does not."),
        key("planning_mode", Kind::Bool, "Whether agents only write a plan and change nothing.").default("false"),
        key("execute_after_planning", Kind::Bool, "Whether a second run executes the plan; needs `planning_mode`.").default("false"),
        key("context_paths", Kind::List(&Kind::Either(&[Kind::Section(&RUN_PATH), Kind::Text])), "Additional context paths of the run."),
        key("agent_system_prompts", Kind::Map(&Kind::Text), "Texts added to agents' system prompts, by agent id."),
        key("coordination_overrides", Kind::Section(&OVERRIDES), "Changes to the config's rules, for this run only."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static RUN_PATH: Section = Section {
    name: "run_path",
    about: "A file or directory for the run. An entry that is only a path is read-only.",
    keys: &[
        key("path", Kind::Text, "The path. A relative path is resolved against the directory where Althing was started.").required(),
        key("permission", Kind::Choice(&[word("read"), word("write")]), "Whether the path is read-only or writable.").default("read"),
    ],
};

#[rustfmt::skip] // a table: one key a line
pub(crate) static OVERRIDES: Section = Section {
    name: "coordination_overrides",
    about: "Changes to the rules of one run, with the names of the config's keys.",
    keys: &[
        key("voting_sensitivity", Kind::Choice(SENSITIVITY), "How good an answer must be before agents vote for it."),
        key("criteria", Kind::List(&Kind::Text), "Your criteria for judging answers, the most important first; judges are told them."),
        key("decision", Kind::Choice(DECISION), "How votes are counted: by whole rankings (`borda`), or by first choices alone (`plurality`)."),
        key("unanimity", Kind::Bool, "Whether the vote is skipped if all agents state the same conclusion. Only where several agents answer in text alone: no tools, writable paths or plans."),
        key("merge_conclusions", Kind::Bool, "Whether a vote for an agent also counts for the agents with the same conclusion. Only where several agents answer in text alone: without tools, writable paths and plans."),
        key("judge_order", Kind::Choice(JUDGE_ORDER), "In which order a judge is shown the answers: in the order of the config, but starting with a different agent for each judge (`rotated`), or in the order of the config with the judge's own answer last (`config`)."),
        key("stop_when_decided", Kind::Bool, "Whether agents that still judge are stopped once their votes can no longer change who wins; only where no agent may answer again."),
        key("diversity", Kind::Choice(DIVERSITY), "Whether each agent is told, in one sentence, to approach the task in another way (`approaches`). Meant for teams of one model."),
        key("max_new_answers_per_agent", Kind::Integer(COUNT), "Maximum number of answers of one agent; after that it can only vote."),
        key("max_new_answers_global", Kind::Integer(COUNT), "Maximum number of answers of all agents together; after that agents can only vote."),
        key("skip_voting", Kind::Bool, "Whether the vote is skipped: once every agent has answered, the newest answer wins."),
        key("disable_injection", Kind::Bool, "Whether agents see each other's answers only when they vote, and do not improve their own."),
        key("defer_voting_until_all_answered", Kind::Bool, "Whether no agent votes before every agent has answered; `first_answer_wait_seconds` then does not limit this wait."),
        key("final_answer_strategy", Kind::Choice(&[word("winner_reuse"), word("winner_present"), word("synthesize")]), "How the final answer is made: `winner_present` lets the winner rewrite its answer, `synthesize` combines all answers, and `winner_reuse` uses the winner's answer unchanged, unless the winner still has to act (write to context paths, or act after `enable_planning_mode`); then it means `winner_present`."),
        key("skip_final_presentation", Kind::Bool, "Whether the winner's answer is used unchanged as the final answer, unless the winner still has to act (write to context paths, or act after `enable_planning_mode`); `final_answer_strategy` takes precedence."),
        key("answer_novelty_requirement", Kind::Choice(&[word("lenient"), word("balanced"), word("strict")]), "How different a new answer must be from the answers that its author has seen; `lenient` refuses only repetitions."),
        key("fairness_lead_cap_answers", Kind::Integer(COUNT_OR_ZERO), "Maximum lead of an agent, in answers, over the agent with the fewest answers. An agent with this lead can only vote until the other agent catches up or drops out. 0: each agent answers only once."),
        key("max_orchestration_restarts", Kind::Integer(COUNT_OR_ZERO), "How often the run may start over because the agent that gave the final answer then rejected it."),
        key("first_answer_wait_seconds", Kind::Number(SECONDS_OR_ZERO), "How long, in seconds, an agent that has answered waits for the others' first answers, or for others that still judge, before it is called again."),
        key("straggler_wait_seconds", Kind::Number(SECONDS_OR_ZERO), "How long, in seconds, a run waits for an agent that has sent nothing while all others are done; then it goes on without the agent. 0: however long it takes."),
        key("orchestrator_timeout_seconds", Kind::Number(SECONDS), "Longest time of the run, in seconds; after that the run ends with its best answer so far."),
        key("initial_round_timeout_seconds", Kind::Number(SECONDS), "Time for an agent's first answer, in seconds; then the agent is warned and has `round_timeout_grace_seconds` more."),
        key("subsequent_round_timeout_seconds", Kind::Number(SECONDS), "Time for each later round of an agent, in seconds; then the agent is warned and has `round_timeout_grace_seconds` more."),
        key("round_timeout_grace_seconds", Kind::Number(SECONDS_OR_ZERO), "How long, in seconds, an agent may still work after the warning that its time for the round is over."),
    ],
};

pub(super) const ADAPTERS: Kind = Kind::Map(&Kind::Section(&ADAPTER));

#[rustfmt::skip] // a table: one key a line
static ADAPTER: Section = Section {
    name: "adapter",
    about: "A custom CLI agent: how it is started, and how its screen is read. Patterns are regular expressions.",
    keys: &[
        key("program", Kind::Text, "The program to start.").required(),
        key("args", Kind::List(&SCALAR), "The CLI agent's arguments if it runs in a terminal."),
        key("headless_args", Kind::List(&SCALAR), "The CLI agent's arguments if it runs headless; it gets the prompt on stdin. Without this key it cannot run headless."),
        key("resume_args", Kind::List(&SCALAR), "Arguments that are appended to resume the CLI agent's conversation; `{session}` is the conversation's id."),
        key("session", Kind::Pattern, "Pattern that is searched for in the CLI agent's output; its first group is the conversation's id (letters, digits, `_` and `-`)."),
        key("ready", Kind::Pattern, "Pattern that the CLI agent's screen matches when it is ready for a prompt."),
        key("interactions", Kind::List(&Kind::Section(&INTERACTION)), "Patterns that the CLI agent's screen matches while it waits for a person."),
        key("env", Kind::Map(&SCALAR), "Additional environment variables. Write secrets as `${VARIABLE}`."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static INTERACTION: Section = Section {
    name: "interaction",
    about: "How to recognize on the screen that the program waits for a person.",
    keys: &[
        key("pattern", Kind::Pattern, "Pattern that the screen matches while the program waits.").required(),
        key("about", Kind::Choice(&[word("permission"), word("question"), word("auth"), word("password"), word("other")]), "What the program waits for: a permission, the answer to a question, a sign-in (`auth`), a password, or something else.").default("other"),
    ],
};
