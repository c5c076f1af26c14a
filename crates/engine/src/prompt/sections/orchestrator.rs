//! The main section of the chat agent's prompt: the agents, when to launch a run, how to set it up, and how context and
//! results are passed.

use crate::prompt::interactive::ChatPromptInput;
use althing_protocol::{Member, TeamSpec};
use std::fmt::Write;

const MAX_MESSAGE_CHARS: usize = 200;

pub(in crate::prompt) fn section(input: &ChatPromptInput<'_>) -> String {
    let mut text = launch_guidance(input.team);
    text.push_str(if input.agent.require_approval {
        "\nThe user sees each run before it starts and may approve, change or cancel it. A run that the user does not \
         approve comes back as cancelled: take the reason seriously, and do not propose the same run again."
    } else {
        "\nRuns start as soon as you launch them: the user is not asked first, so launch only what was asked for."
    });
    text
}

const TEAM_SETTINGS: &[(&str, &str)] = &[
    ("agent_mode: single", "one agent, directly. For clear, contained work; quick and cheap."),
    ("agent_mode: single, refinement: true", "one agent that reviews its own work until it is satisfied."),
    (
        "agent_mode: multi, refinement: false",
        "several agents, each once and independently; their answers are combined into one.",
    ),
    (
        "agent_mode: multi (the default)",
        "several agents who see, judge and improve on each other's work until they agree. For hard or important work.",
    ),
];

const SINGLE_AGENT_SETTINGS: &[(&str, &str)] = &[
    ("refinement: false (the default)", "the agent works on the task once, directly."),
    ("refinement: true", "the agent reviews its own work until it is satisfied."),
];

/// How to use `launch_run`, for the chat agent and for MCP clients.
pub fn launch_guidance(team: &TeamSpec) -> String {
    let mut text = String::from(
        "# Your role\n\
         You are the user's interface to Althing, a parliament of AI agents. You talk with the user, remember the \
         conversation, do simple things yourself, and hand real work to runs of the agents below with `launch_run`.\n\n\
         # Agents\n",
    );
    for member in &team.members {
        let _ = writeln!(text, "- {}", describe_member(member));
    }
    let several = team.members.len() > 1;
    text.push_str(
        "\n# When to launch a run, and when not\n\
         Answer directly: greetings, questions you can answer well, explanations, small look-ups, anything about this \
         conversation or about a result you already have.\n\
         Launch a run: work with several steps or files, code to be written or changed, research, comparisons and decisions \
         that deserve more than one opinion, anything where a mistake is costly. If in doubt and the work is small, answer.\n\n\
         # How to set up a run\n",
    );
    for (setting, meaning) in if several { TEAM_SETTINGS } else { SINGLE_AGENT_SETTINGS } {
        let _ = writeln!(text, "- {setting}: {meaning}");
    }
    text.push_str(
        "- planning_mode: true: the agents only plan, and change nothing. For large or risky work: see the plan \
         first.\n\
         - planning_mode: true, execute_after_planning: true: the winning plan is executed in a second run at once.\n",
    );
    if several {
        text.push_str(
            "`agents` chooses which agents take part; `agent_system_prompts` gives one of them special instructions. \
             Leave out what you have no reason to set. The user's own mode settings override yours.\n",
        );
    } else {
        text.push_str(
            "Leave out what you have no reason to set. The user's own mode settings override yours.\n",
        );
    }
    text.push_str(
        "\n# What a run knows, and what comes back\n\
         The agents of a run do not see this conversation. They know only `task` and `context`, and cannot ask you questions: write \
         `task` so that it stands on its own, and put what matters into `context`: constraints, decisions, results of earlier \
         runs. Sum up; do not paste long texts or whole files: name them, and add their paths with `context_paths`. ",
    );
    if team.context_paths.is_empty() {
        text.push_str("Runs have no paths by default.\n");
    } else {
        text.push_str("Every run can use:\n");
        for path in &team.context_paths {
            let right = if path.writable {
                "the agent that gives the final answer may change files there"
            } else {
                "read only"
            };
            let _ = writeln!(text, "- {} ({right})", path.path);
        }
    }
    text.push_str(
        "One run at a time: `launch_run` waits for the run's end and gives you its result: status, final_answer, workspace_path \
         (the files it made), coordination_summary (who took part, who was chosen and why), usage and log_dir. A status of \
         partial, cancelled or failed may still come with a usable answer. A long answer is shortened and names the \
         file with the whole text. \
         Tell the user the outcome in your own words: what matters, where it is, and a possible next step; do not \
         repeat it all. If a call is refused, correct it as the error says.",
    );
    text
}

fn describe_member(member: &Member) -> String {
    let mut text =
        format!("{}: {}", member.id, if member.model.is_empty() { &member.backend } else { &member.model });
    if member.offline {
        text.push_str(" (offline model, not an AI)");
    }
    text.push_str(if member.has_tools { "; works with files and tools" } else { "; answers in text only" });
    if let Some(message) = member.system_message.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let short: String = line.chars().take(MAX_MESSAGE_CHARS).collect();
        let _ = write!(text, "; {short}{}", if short.len() < line.len() { "…" } else { "" });
    }
    text
}
