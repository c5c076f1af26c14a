//! The table of keys of `orchestrator.limits`: how much agents and their processes may use. Data only. The limits of
//! processes need trust: a stranger's config must not raise them.

use super::{COUNT, Kind, Range, Section, key};

/// Fewer than 64 open files are not enough for a shell and its children.
const OPEN_FILES: Range = Range::between(64.0, 1_000_000.0);
/// The sandbox itself needs a few processes.
const PROCESSES: Range = Range::between(16.0, 1_000_000.0);

#[rustfmt::skip] // a table: one key a line
pub(super) static LIMITS: Section = Section {
    name: "limits",
    about: "Limits that stop agents and programs that never end. Reaching one is reported with the name of its key.",
    keys: &[
        key("answers_per_agent", Kind::Integer(COUNT), "Maximum number of answers of one agent in a run; after that it can only vote. `max_new_answers_per_agent` is a rule for ordinary runs, this is a safeguard.").default("50").before_trust(),
        key("tool_calls_per_agent", Kind::Integer(COUNT), "Maximum number of tool calls of one agent in a run, or of the chat agent for one message; further calls are refused.").default("2000").before_trust(),
        key("model_calls_per_run", Kind::Integer(COUNT), "Maximum number of model calls of a run, including retries; after that the run ends with its best answer so far.").default("5000").before_trust(),
        key("model_calls_per_message", Kind::Integer(COUNT), "Maximum number of model calls of the chat agent for one message; after that its turn ends.").default("200").before_trust(),
        key("processes", Kind::Integer(PROCESSES), "Maximum number of processes and threads of one command, CLI agent or MCP server, with everything it starts; then it is ended. Default: 4096, or 256 per CPU if that is more."),
        key("memory", Kind::Memory, "Maximum memory of one command, CLI agent or MCP server, with everything it starts, such as `8g`; then it is ended. Default: three quarters of the machine's memory."),
        key("open_files", Kind::Integer(OPEN_FILES), "Maximum number of open files of each process of a command, CLI agent or MCP server; then opening another file fails.").default("4096"),
        key("disk", Kind::Memory, "Maximum size of an agent's workspace, together with what a command or CLI agent writes elsewhere; then the command or CLI agent is ended.").default("20g"),
    ],
};
