//! The first config that `config init` writes.

use althing_config::{BACKENDS, Purpose, Report, Source, Style, check, found_providers, starter};

use althing_protocol::{InteractiveConfig, RunRules};

use super::support::env;

fn without_a_word(text: &str, variables: &[(&str, &str)]) -> Report {
    let report = check(Source { name: "althing.yaml", text }, &env(variables), Purpose::Run);
    assert!(
        report.errors.is_empty() && report.warnings.is_empty(),
        "{text}\n{}",
        report.render(Style::Plain)
    );
    report
}

#[test]
fn without_keys_it_is_three_offline_agents_that_run_as_they_are() {
    let found = found_providers(&env(&[("OPENAI_API_KEY", "")]));
    assert!(found.is_empty());
    let report = without_a_word(&starter(&found), &[]);
    let config = report.config.expect("settings").config;
    let kinds: Vec<&str> = config.agents.iter().map(|agent| agent.backend.kind.as_str()).collect();
    assert_eq!(kinds, ["offline", "offline", "offline"]);
    // It also serves where there is no file, and then the rules are the default ones and the conversation is on.
    assert_eq!(config.rules, RunRules::default());
    assert_eq!(config.interactive, Some(InteractiveConfig::default()));
}

#[test]
fn with_every_key_it_is_one_agent_for_each_and_holds_no_key() {
    let variables: Vec<(&str, &str)> =
        BACKENDS.iter().filter_map(|backend| Some((*backend.key_variables.first()?, "canary-key"))).collect();
    let found = found_providers(&env(&variables));
    let text = starter(&found);
    assert!(!text.contains("canary"));
    let agents = without_a_word(&text, &variables).config.expect("settings").config.agents;
    assert_eq!(agents.len(), found.len());
    assert!(agents.len() > 10);
    for one in &found {
        without_a_word(&starter(&[*one]), &variables);
    }
}
