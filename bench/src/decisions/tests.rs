//! The default way to decide, compared with plurality in the simulated worlds.

use super::{Paired, Score, TEAMS, WAYS, WORLDS, difference, orders, page, paired, paired_runs, row, score};
use althing_protocol::DecisionRules;
use althing_testkit::scale;

/// Few tasks, because the tests are not optimized.
fn runs(agents: usize) -> u32 {
    if agents < 4 { 100 } else { 30 }
}

fn scores(agents: usize, way: &str) -> Vec<(&'static str, Score)> {
    let way = WAYS.iter().find(|one| one.name == way).expect("a way of this name");
    WORLDS.iter().map(|world| (world.name, score(*world, agents, &(way.rules)(), runs(agents)))).collect()
}

/// The number of tasks in each world whose ballots are counted by both rules.
fn counted_runs(agents: usize) -> u32 {
    scale(if agents < 4 { 400 } else { 150 }, paired_runs(agents) as usize) as u32
}

/// How many standard deviations a difference is away from none, if only chance decided which of the two rules is right
/// where they differ.
fn deviations(paired: &Paired) -> f64 {
    let (default, plurality) = (f64::from(paired.only_default), f64::from(paired.only_plurality));
    if default + plurality == 0.0 { 0.0 } else { (default - plurality) / (default + plurality).sqrt() }
}

#[test]
fn the_default_is_at_least_as_accurate_as_plurality_on_the_same_ballots_in_every_world() {
    let mut table = Vec::new();
    for agents in TEAMS {
        let worlds = WORLDS.map(|world| (world.name, paired(world, agents, counted_runs(agents))));
        for (world, paired) in &worlds {
            table.push(format!("{agents} agents, {world}: {paired:?}, {:.1}", deviations(paired)));
        }
        let sum = |part: fn(&Paired) -> u32| worlds.iter().map(|(_, paired)| part(paired)).sum::<u32>();
        let (default, plurality) = (sum(|paired| paired.only_default), sum(|paired| paired.only_plurality));
        assert!(default >= plurality, "{agents} agents: {default} against {plurality}\n{}", table.join("\n"));
        // One or two agents: the rules cannot differ in what is right.
        assert!(agents > 2 || default + plurality == 0, "{agents} agents: {default} against {plurality}");
        for (world, paired) in &worlds {
            // With few tasks, a difference that chance explains is none.
            let is_nightly = scale(0, 1) == 1;
            assert!(!is_nightly || deviations(paired) >= 0.0, "{world}:\n{}", table.join("\n"));
            assert!(deviations(paired) > -2.0, "{world}:\n{}", table.join("\n"));
        }
    }
    println!("{}", table.join("\n"));
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

#[test]
fn the_page_shows_rows_and_worlds_of_the_benchmark() {
    let page = page();
    // All tables take too long here; `scripts/nightly` compares them with `decisions --check`.
    let (row, _) = row(WORLDS[0], 2);
    for row in [row, orders::row(WORLDS[0])] {
        assert!(page.contains(&format!("\n{row}")), "{row}");
    }
    for world in WORLDS {
        let about = format!("\n- {}: {}\n", world.name, world.about);
        assert!(page.contains(&about), "{about}");
    }
}

#[test]
fn a_page_that_differs_from_the_tables_is_noticed() {
    let tables = "Teams of 2\n\n| a | 1.0 |\n| b | 2.0 |\n\n";
    let page = format!("# Title\n\n{tables}More\n");
    assert_eq!(difference(&page, tables), None);
    for changed in [page.replace("2.0", "2.1"), page.replace("| b | 2.0 |\n", ""), String::new()] {
        assert!(difference(&changed, tables).is_some(), "{changed}");
    }
}

#[test]
fn no_order_that_hides_the_author_is_better_for_two_agents_than_the_rotated_one() {
    for world in WORLDS {
        let [last, rotated, common, first] = orders::shares(world);
        // Two standard deviations of such a difference are less than a point.
        assert!(rotated > common - 1.0, "{}: {rotated} against {common}", world.name);
        let middle = f64::midpoint(last, first);
        assert!((rotated - middle).abs() < 1.0, "{}: {rotated}, between {last} and {first}", world.name);
    }
}
