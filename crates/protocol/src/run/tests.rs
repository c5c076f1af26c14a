//! Tests of how the modes change the rules of a run.

use super::*;

fn modes(agent_mode: AgentMode, refinement: bool) -> Modes {
    Modes { agent_mode, refinement, planning: false }
}

#[test]
fn refinement_leaves_the_rules_as_configured() {
    for mode in [AgentMode::Multi, AgentMode::Single] {
        assert_eq!(modes(mode, true).overrides(), RunOverrides::default());
    }
}

#[test]
fn a_quick_single_run_neither_votes_nor_presents() {
    let rules = RunRules::default().with(&modes(AgentMode::Single, false).overrides());
    assert!(rules.skip_voting && !rules.disable_injection);
    assert_eq!(rules.max_new_answers_per_agent, Some(1));
    assert_eq!(rules.strategy(), FinalAnswerStrategy::WinnerReuse);
}

#[test]
fn a_quick_single_run_neither_presents_nor_evaluates_whatever_the_config_names() {
    use FinalAnswerStrategy::{Synthesize, WinnerPresent, WinnerReuse};
    for strategy in [None, Some(WinnerPresent), Some(Synthesize), Some(WinnerReuse)] {
        let configured = RunRules { final_answer_strategy: strategy, max_restarts: 2, ..RunRules::default() };
        let rules = configured.clone().with(&modes(AgentMode::Single, false).overrides());
        assert_eq!((rules.strategy(), rules.max_restarts), (WinnerReuse, 0), "{strategy:?}");
        let refining = configured.clone().with(&modes(AgentMode::Single, true).overrides());
        assert_eq!(refining, configured, "with refinement the config decides");
    }
}

#[test]
fn a_quick_run_of_several_agents_synthesizes_unless_the_config_names_a_strategy() {
    let quick = modes(AgentMode::Multi, false).overrides();
    assert_eq!(RunRules::default().with(&quick).strategy(), FinalAnswerStrategy::Synthesize);
    let asked =
        RunRules { final_answer_strategy: Some(FinalAnswerStrategy::WinnerReuse), ..RunRules::default() };
    assert_eq!(asked.with(&quick).strategy(), FinalAnswerStrategy::WinnerReuse);
}
