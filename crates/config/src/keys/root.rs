//! The table of keys at the top level of a config, and of its small sections. Data only.

use super::agent::AGENT;
use super::orchestrator::ORCHESTRATOR;
use super::tools::HOOKS;
use super::workflow::ADAPTERS;
use super::{
    Key, Kind, NOT_NEGATIVE, SECONDS, SECONDS_OR_ZERO, Section, Status, alternative, key, not_yet, word,
};

const V1: &str = "it belongs to MassGen's first config format, which is no longer supported";

const fn replaced(name: &'static str, by: &'static str) -> Key {
    Key { status: Status::Replaced(by), ..key(name, Kind::Any, V1) }
}

#[rustfmt::skip] // a table: one key a line
pub(crate) static ROOT: Section = Section {
    name: "config",
    about: "A team of agents for Althing: the agents, how they coordinate, and their limits.",
    keys: &[
        key("agents", Kind::List(&Kind::Section(&AGENT)), "The agents of the team, in order.").before_trust(),
        key("agent", Kind::Section(&AGENT), "The only agent, instead of `agents`.").before_trust(),
        key("orchestrator", Kind::Section(&ORCHESTRATOR), "How the agents coordinate.").before_trust(),
        key("timeout_settings", Kind::Section(&TIMEOUTS), "Time limits of a run.").before_trust(),
        key("ui", Kind::Section(&UI), "How progress is shown.").before_trust(),
        key("notify", Kind::Section(&NOTIFY), "How you are notified when something asks you or a run ends while the terminal does not have the focus, in addition to the terminal's own notifications. Only in your own config (`~/.config/althing/config.yaml`) or in one that you name with `--config`; in a config that is found in the working directory it has no effect."),
        key("prices", Kind::Map(&Kind::Section(&PRICE)), "Prices by model name, for models whose price Althing does not know or whose price is different for you."),
        key("adapters", ADAPTERS, "Descriptions of CLI agents that Althing does not know, by name, for use as `agent` in tasks of workflows."),
        not_yet("memory", Kind::Any, "Settings of MassGen's persistent memory, which agents keep across runs."),
        not_yet("hooks", Kind::Section(&HOOKS), "Programs called before and after every tool call."),
        not_yet("checkpoint", Kind::Any, "Settings of MassGen's checkpoint mode, in which a main agent works alone and delegates selected tasks to the team."),
        alternative("display", Kind::Any, "An older spelling of `ui`.", "use `ui`"),
        alternative("timeout", Kind::Any, "An older spelling of `timeout_settings`.", "use `timeout_settings`"),
        alternative("task", Kind::Text, "The task to work on.", "give the task on the command line"),
        alternative("nlip", Kind::Any, "Settings of MassGen's message routing with NLIP, the Natural Language Interaction Protocol.", "not supported"),
        alternative("enable_nlip", Kind::Bool, "Whether MassGen routes messages with NLIP, the Natural Language Interaction Protocol.", "not supported"),
        replaced("models", "list each model as an agent: `agents: [{id: …, backend: {type: …, model: …}}]`"),
        replaced("model_configs", "write each model's settings into its agent's `backend`"),
        replaced("num_agents", "list the agents under `agents`; their number is the number of agents"),
        replaced("max_rounds", "use `orchestrator.max_new_answers_per_agent`"),
        replaced("consensus_threshold", "remove this key; votes are counted without a threshold"),
        replaced("voting_enabled", "use `orchestrator.skip_voting`"),
        replaced("enable_voting", "use `orchestrator.skip_voting`"),
    ],
};

#[rustfmt::skip] // a table: one key a line
static TIMEOUTS: Section = Section {
    name: "timeout_settings",
    about: "Time limits of a run. They are deadlines: they also end a model call that has stalled.",
    keys: &[
        key("orchestrator_timeout_seconds", Kind::Number(SECONDS), "Longest time of a whole run, in seconds; after that the run ends with its best answer so far.").default("1800").before_trust(),
        key("initial_round_timeout_seconds", Kind::Number(SECONDS), "Time for an agent's first answer, in seconds; then the agent is warned and has `round_timeout_grace_seconds` more.").before_trust(),
        key("subsequent_round_timeout_seconds", Kind::Number(SECONDS), "Time for each later round of an agent, in seconds; then the agent is warned and has `round_timeout_grace_seconds` more.").before_trust(),
        key("round_timeout_grace_seconds", Kind::Number(SECONDS_OR_ZERO), "How long, in seconds, an agent may still work after the warning that its time for the round is over.").default("120").before_trust(),
    ],
};

#[rustfmt::skip] // a table: one key a line
static UI: Section = Section {
    name: "ui",
    about: "How progress is shown.",
    keys: &[
        key("display_type", Kind::Choice(&[word("textual_terminal"), word("rich_terminal"), word("simple")]), "How progress is shown: with `simple`, a workflow, or a run without the screen, prints plain lines; with the other values, a workflow opens the screen, and a run without the screen redraws one line per agent. Conversations ignore this key.").before_trust(),
        key("type", Kind::Text, "An older spelling of `display_type`.").before_trust(),
        alternative("logging_enabled", Kind::Bool, "Whether a run is logged.", "every run is logged").off("true").before_trust(),
        alternative("automation_mode", Kind::Bool, "Whether the run works without a person.", "use `--automation`").before_trust(),
        not_yet("theme", Kind::Text, "Name of the screen's color theme.").before_trust(),
        not_yet("skip_agent_selector", Kind::Bool, "Whether MassGen exits after the final answer instead of offering to show the work of single agents.").before_trust(),
        alternative("use_orchestrator_for_single_agent", Kind::Bool, "Whether a single agent also goes through the steps of a run instead of answering directly.", "a single agent is always a normal run").off("true").before_trust(),
        not_yet("display_kwargs", Kind::Any, "Further settings that are passed to MassGen's screen."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static NOTIFY: Section = Section {
    name: "notify",
    about: "How you are notified while the terminal does not have the focus.",
    keys: &[
        key("command", Kind::List(&Kind::Text), "A program and its arguments. It is started with the text of the notification as one more argument and, as JSON, on stdin (`{\"text\": \"…\"}`); its output is discarded."),
        key("webhook", Kind::Url, "An address that gets the same JSON in a POST request. Write a secret part of the address as `${VARIABLE}`."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static PRICE: Section = Section {
    name: "price",
    about: "What a model costs, in US dollars per million tokens.",
    keys: &[
        key("input_per_million", Kind::Number(NOT_NEGATIVE), "Price of a million input tokens, in US dollars.").required(),
        key("output_per_million", Kind::Number(NOT_NEGATIVE), "Price of a million output tokens, in US dollars.").required(),
        key("cached_input_per_million", Kind::Number(NOT_NEGATIVE), "Price, in US dollars, of a million input tokens read from the provider's cache; default: the input price."),
    ],
};
