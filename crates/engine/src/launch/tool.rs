//! The definition of the tool `launch_run` for the chat agent and MCP clients. Calls of the chat agent are handled in
//! `interactive/launch_call.rs`.

use super::overrides::KEYS;
use althing_protocol::{TeamSpec, ToolSpec};
use serde_json::json;

/// The name of the tool that starts a run.
pub const LAUNCH_RUN: &str = "launch_run";

/// The definition of `launch_run`; its parameter `agents` accepts the ids of the team's agents.
pub fn launch_run_spec(team: &TeamSpec) -> ToolSpec {
    let ids: Vec<&str> = team.members.iter().map(|member| member.id.as_str()).collect();
    // The chat agent must not see the names of tools that only agents of a run have, such as `new_answer`.
    let keys: Vec<&str> = KEYS.iter().copied().filter(|key| !key.contains("new_answer")).collect();
    ToolSpec {
        name: LAUNCH_RUN.into(),
        description: "Start a run: one agent, or several who work on the task independently, judge each other's work and agree on \
                      the best. Waits for the run's end and returns its result (status, final_answer, workspace_path, \
                      coordination_summary, usage, log_dir). One run at a time. The agents know only what `task` and \
                      `context` tell them."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "task": {"type": "string", "description": "What to accomplish, complete in itself."},
                "context": {"type": "string", "description": "Background, constraints, earlier decisions and results that matter. A summary, not everything."},
                "agent_mode": {"type": "string", "enum": ["single", "multi"], "description": "One agent or several. Default: multi."},
                "agents": {"type": "array", "items": {"type": "string", "enum": ids}, "description": "Which agents take part. Default: all; with agent_mode single, the one that the user selected, or else the first."},
                "refinement": {"type": "boolean", "description": "Whether agents judge and improve until they agree. Default: true for multi, false for single."},
                "planning_mode": {"type": "boolean", "description": "Agents only plan and change nothing. Default: false."},
                "execute_after_planning": {"type": "boolean", "description": "With planning_mode: carry the winning plan out in a second run. Default: false."},
                "context_paths": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "path": {"type": "string", "description": "An absolute path."},
                            "permission": {"type": "string", "enum": ["read", "write"], "description": "Default: read."},
                        },
                        "required": ["path"],
                        "additionalProperties": false,
                    },
                    "description": "Files or directories for this run, in addition to those that every run can use. Without the user's approval: only for reading, in the working directory or the opened project.",
                },
                "agent_system_prompts": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Text to add to an agent's system prompt, by agent id."},
                "coordination_overrides": {"type": "object", "description": format!("Other settings of this run, by config key, such as {}.", keys.join(", "))},
            },
            "required": ["task"],
            "additionalProperties": false,
        }),
    }
}
