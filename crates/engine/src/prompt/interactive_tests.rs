//! Snapshots of the chat agent's system prompt for different teams and settings.

use super::interactive::{ChatPromptInput, launch_guidance, system_prompt};
use crate::interactive::tests::harness::{agent, team};
use althing_protocol::{ContextPath, InteractiveAgent, TeamSpec};

fn prompt(agent: &InteractiveAgent, team: &TeamSpec, project: Option<&str>) -> String {
    let text = system_prompt(&ChatPromptInput { agent, team, project });
    for name in ["new_answer", "vote", "ask_others"] {
        assert!(!text.contains(name), "{name} in {text}");
    }
    text
}

// spec: interactive/interactive-agent-system-prompt/added-interactive-orchestrator-section
// spec: interactive/interactive-agent-system-prompt/excluded-system-prompt-sections
#[test]
fn a_team_with_tools_and_paths_and_approval() {
    let mut team = team(&["gem", "gpt", "cc"]);
    team.members[0].has_tools = true;
    team.members[1].system_message = Some("You are a careful reviewer\nof Rust code.".into());
    team.members[2].offline = true;
    let path = |path: &str, writable| ContextPath { path: path.into(), writable, protected: Vec::new() };
    team.context_paths = vec![path("/srv/app", true), path("/srv/docs", false)];
    insta::assert_snapshot!(prompt(&agent(), &team, None));
}

#[test]
fn everything_that_can_be_configured() {
    let mut agent = agent();
    agent.member.system_message = Some("You are Ada, the team's host.".into());
    agent.member.model = "openai/gpt-5-mini".into();
    agent.require_approval = false;
    agent.append_system_prompt = Some("Always answer in English.".into());
    insta::assert_snapshot!(prompt(&agent, &team(&["gem", "gpt"]), Some("/home/ada/bridge")));
}

#[test]
fn one_agent_only() {
    insta::assert_snapshot!(prompt(&agent(), &team(&["gem"]), None));
}

// spec: interactive/interactive-agent-system-prompt/reused-system-prompt-sections
#[test]
fn each_family_of_models_has_its_own_instructions() {
    let mut texts = Vec::new();
    for model in ["gpt-5.1", "grok-4", "x-ai/grok-4", "gemini-3-pro", "claude-opus-4-5", "llama3"] {
        let mut agent = agent();
        agent.member.model = model.into();
        let text = prompt(&agent, &team(&["gem"]), None);
        let words: Vec<&str> = text.split("\n\n").skip(1).take_while(|part| !part.starts_with('#')).collect();
        texts.push(format!("{model}: {}", words.join(" ")));
    }
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn mcp_clients_get_the_same_guidance() {
    let team = team(&["gem", "gpt"]);
    assert!(prompt(&agent(), &team, None).contains(&launch_guidance(&team)));
}
