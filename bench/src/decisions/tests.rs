//! The default way to decide, compared with plurality in the simulated worlds.

use super::worlds::WORLDS;
use super::{Score, TEAMS, WAYS, score};
use althing_protocol::DecisionRules;

/// Few tasks, because the tests are not optimized.
fn runs(agents: usize) -> u32 {
    if agents < 4 { 100 } else { 30 }
}

fn scores(agents: usize, way: &str) -> Vec<(&'static str, Score)> {
    let way = WAYS.iter().find(|one| one.name == way).expect("a way of this name");
    WORLDS.iter().map(|world| (world.name, score(*world, agents, &(way.rules)(), runs(agents)))).collect()
}

#[test]
fn the_default_is_at_least_as_accurate_as_plurality_over_all_worlds() {
    for agents in TEAMS {
        let right = |way| scores(agents, way).iter().map(|(_, score)| score.right).sum::<u32>();
        let (default, plurality) = (right("default"), right("`decision: plurality` alone"));
        assert!(default >= plurality, "{agents} agents: {default} against {plurality}");
    }
}

#[test]
fn the_default_needs_fewer_calls_where_conclusions_agree_and_never_more() {
    for agents in TEAMS.into_iter().filter(|agents| *agents > 1) {
        let old = scores(agents, "0.1 (plurality, own answer last)");
        for ((world, default), (_, old)) in scores(agents, "default").into_iter().zip(old) {
            assert_eq!(old.calls, 2 * agents as u32 * runs(agents), "{world}");
            assert!(default.calls <= old.calls, "{world}, {agents} agents: {default:?} against {old:?}");
            // Eight agents of whom half or more are wrong hardly ever agree.
            let agree = agents < 8 || !["hard", "one expert"].contains(&world);
            assert!(!agree || default.calls < old.calls, "{world}, {agents} agents: {default:?}");
        }
    }
}

#[test]
fn a_lone_agent_answers_and_is_not_asked_to_vote() {
    for (world, score) in scores(1, "default") {
        assert_eq!(score.calls, runs(1), "{world}");
    }
}

#[test]
fn the_rules_of_a_run_are_the_ones_that_are_recorded() {
    let recorded = serde_json::to_value(DecisionRules::default()).unwrap();
    assert_eq!(recorded["rule"], "borda");
    assert_eq!(recorded["judge_order"], "rotated");
    assert_eq!(recorded["prompts"], 2);
}
