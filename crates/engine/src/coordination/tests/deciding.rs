//! How a run decides: rankings, equal conclusions, the order of answers, judges that are stopped, and runs of 0.1.

use super::harness::{World, answer, call, spec, text, vote};
use super::rules::{calls_made, everyone_answers, final_answer};
use althing_protocol::{
    AgentMode, ContextPath, DecidedBy, DecisionRule, DecisionRules, Fact, FinalAnswerStrategy, Item,
    JudgeOrder, Message, Millis, Modes, Op, Phase, Reply, RunRules, RunSpec, VotingSensitivity,
};

const IDS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn concluded(text: &str, conclusion: &str) -> Reply {
    let arguments = serde_json::json!({ "content": text, "conclusion": conclusion }).to_string();
    Reply { tool_calls: vec![call("new_answer", &arguments)], ..Reply::default() }
}

fn ranking(agents: &[&str]) -> Reply {
    let arguments = serde_json::json!({"ranking": agents, "reason": "it checks"}).to_string();
    Reply { tool_calls: vec![call("vote", &arguments)], ..Reply::default() }
}

fn everyone_concludes(world: &mut World, conclusion: &str) {
    for member_index in world.asked() {
        world.says(member_index, concluded(&format!("answer of member {member_index}"), conclusion));
    }
}

fn decision(world: &World) -> althing_protocol::DecisionReport {
    world.run.result().unwrap().coordination_summary.decision.clone().expect("a decision")
}

fn ended_early(world: &World) -> usize {
    let is_stopped = |fact: &Fact| {
        matches!(fact, Fact::AttemptEnded { outcome: althing_protocol::AttemptOutcome::Cancelled, .. })
    };
    world.log.iter().filter(|event| is_stopped(&event.fact)).count()
}

#[test]
fn agents_that_conclude_the_same_do_not_vote() {
    for (strategy, presentation) in
        [(FinalAnswerStrategy::WinnerPresent, 1), (FinalAnswerStrategy::WinnerReuse, 0)]
    {
        for agents in 2..6 {
            let rules = RunRules { final_answer_strategy: Some(strategy), ..RunRules::default() };
            let mut world = World::start(&IDS[..agents], rules);
            everyone_concludes(&mut world, "42");
            if presentation == 1 {
                let [presenter] = world.asked()[..] else { panic!("{}", world.story()) };
                world.says(presenter, text("final"));
            }
            assert_eq!(calls_made(&world), agents + presentation);
            let result = world.run.result().unwrap();
            let summary = &result.coordination_summary;
            assert!(summary.votes.is_empty() && summary.ballots.is_empty());
            assert_eq!(decision(&world).rule, DecidedBy::Unanimous);
            let expected = format!("all {agents} agents concluded the same (\"42\"), so nobody voted");
            assert!(decision(&world).explanation.starts_with(&expected), "{}", decision(&world).explanation);
            assert!(!final_answer(&world).is_empty());
            assert_eq!(world.folded(), world.run);
        }
    }
}

#[test]
fn the_winner_among_equal_conclusions_is_drawn_fairly_by_the_seed() {
    let winner = |seed: u64| {
        let mut spec = spec(&["a", "b"], RunRules::default());
        spec.tie_break_seed = seed;
        let mut world = World::new(spec);
        everyone_concludes(&mut world, "42");
        world.winner().unwrap().to_string()
    };
    let wins = (0..200).filter(|seed| winner(*seed) == "a").count();
    assert!((70..130).contains(&wins), "{wins} of 200");
    assert_eq!(winner(3), winner(3));
}

#[test]
fn a_vote_is_held_wherever_equal_conclusions_do_not_settle_the_matter() {
    type Change = fn(&mut RunSpec);
    let changes: [(&str, Change); 5] = [
        ("unanimity is off", |spec| spec.rules.decision.unanimity = false),
        ("an agent has files", |spec| spec.members[1].has_tools = true),
        ("a path is writable", |spec| {
            spec.context_paths =
                vec![ContextPath { path: "/p".into(), writable: true, protected: Vec::new() }]
        }),
        ("planning", |spec| spec.modes.planning = true),
        ("the agents only plan first", |spec| spec.rules.plan_first = true),
    ];
    for (case, change) in changes {
        let mut spec = spec(&["a", "b"], RunRules::default());
        change(&mut spec);
        let mut world = World::new(spec);
        everyone_concludes(&mut world, "42");
        for member_index in 0..2 {
            if world.run.state.members[member_index].agent.has_tools {
                let item = Item::WorkspaceKept { error: None };
                world.happens(world.run.work(member_index), Fact::ItemAdded { attempt: 1, item });
            }
        }
        assert_eq!(world.asked(), [0, 1], "{case}");
        assert_eq!(world.tools_of(0), ["new_answer", "vote"], "{case}");
    }
    let mut alone = World::start(&["a"], RunRules::default());
    everyone_concludes(&mut alone, "42");
    assert_eq!(alone.tools_of(0), ["new_answer", "vote"], "a lone agent");
    for replies in [[concluded("x", "4"), concluded("y", "5")], [concluded("x", "4"), answer("y")]] {
        let mut world = World::start(&["a", "b"], RunRules::default());
        let [first, second] = replies;
        world.says(0, first);
        world.says(1, second);
        assert_eq!(world.asked(), [0, 1]);
    }
}

#[test]
fn an_agent_that_failed_without_an_answer_has_not_agreed_so_the_others_vote() {
    let mut world = World::start(&["a", "b", "c"], RunRules::default());
    world.says(0, concluded("x", "4"));
    world.says(1, concluded("y", "4.0"));
    world.fails(2);
    assert_eq!(world.asked(), [0, 1]);
    assert_eq!(world.tools_of(0), ["new_answer", "vote"]);
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.says(0, concluded("x", "4"));
    world.fails(1);
    assert_eq!(world.tools_of(0), ["new_answer", "vote"], "one agent is left: it improves or is done");
}

#[test]
fn a_person_may_override_a_winner_that_was_drawn() {
    let mut spec = spec(&["a", "b"], RunRules::default());
    spec.rules.override_window = Some(Millis::from_secs(60));
    let mut world = World::new(spec);
    everyone_concludes(&mut world, "42");
    assert_eq!(world.run.phase, Phase::OverrideWindow);
}

#[test]
fn nobody_is_asked_again_once_an_improvement_makes_the_conclusions_equal() {
    let mut world = World::start(&["a", "b"], RunRules::default());
    world.says(0, concluded("x", "4"));
    world.says(1, concluded("y", "5"));
    world.says(1, concluded("y was wrong", "4"));
    world.says(0, ranking(&["agent1", "agent2"]));
    assert_eq!(world.run.phase, Phase::Presenting, "{}", world.story());
    assert_eq!(calls_made(&world), 4);
}

#[test]
fn whole_rankings_are_counted_and_votes_are_first_choices() {
    // c is the first choice of one judge only, but the second choice of the others.
    let rankings = [
        ["agent1", "agent3", "agent2", "agent4"],
        ["agent2", "agent3", "agent1", "agent4"],
        ["agent3", "agent1", "agent2", "agent4"],
        ["agent1", "agent3", "agent2", "agent4"],
    ];
    for (rule, winner) in [(DecisionRule::Borda, "c"), (DecisionRule::Plurality, "a")] {
        let rules = RunRules {
            final_answer_strategy: Some(FinalAnswerStrategy::WinnerReuse),
            decision: DecisionRules { rule, ..DecisionRules::default() },
            ..RunRules::default()
        };
        let mut world = World::start(&IDS[..4], rules);
        everyone_answers(&mut world);
        for (member_index, agents) in rankings.iter().enumerate() {
            world.says(member_index, ranking(agents));
        }
        assert_eq!(world.winner().unwrap().as_str(), winner);
        let summary = &world.run.result().unwrap().coordination_summary;
        assert_eq!(summary.votes.values().copied().collect::<Vec<_>>(), [2, 1, 1], "first choices");
        assert_eq!(summary.ballots[0].ranking.len(), 4);
        let name = if rule == DecisionRule::Borda { "Borda count" } else { "plurality" };
        assert!(decision(&world).explanation.contains(name), "{:?}", decision(&world));
        assert_eq!(decision(&world).pairwise[&"c".into()][&"b".into()], 3);
        assert_eq!(world.folded(), world.run);
    }
}

#[test]
fn a_ranking_may_be_partial_a_text_or_made_of_labels_but_names_only_candidates() {
    let chosen = |arguments: &str| {
        let mut world = World::start(&["a", "b", "c"], RunRules::default());
        everyone_answers(&mut world);
        world.says(0, Reply { tool_calls: vec![call("vote", arguments)], ..Reply::default() });
        let vote = world.run.state.members[0].vote.clone();
        vote.map(|vote| vote.choices().iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            .ok_or_else(|| world.shown_to(0))
    };
    assert_eq!(chosen(r#"{"ranking": ["agent3", "agent1"], "reason": "x"}"#), Ok("c a".into()));
    assert_eq!(chosen(r#"{"ranking": ["agent2"]}"#), Ok("b".into()));
    assert_eq!(chosen(r#"{"ranking": "agent3 > agent1, agent2"}"#), Ok("c a b".into()));
    assert_eq!(chosen(r#"{"ranking": ["agent3.1", "agent3"]}"#), Ok("c".into()));
    assert_eq!(chosen(r#"{"agent_id": "agent2", "reason": "x"}"#), Ok("b".into()));
    for (wrong, why) in [
        (r#"{"ranking": ["agent3", "agent9"]}"#, "`agent9` is not an agent"),
        (r#"{"ranking": []}"#, "at least one agent"),
        (r#"{"ranking": [1]}"#, "a list of texts"),
        (r#"{"reason": "x"}"#, "needs the argument `ranking`"),
    ] {
        let shown = chosen(wrong).expect_err(wrong);
        assert!(shown.contains(why), "{wrong}: {shown}");
    }
}

#[test]
fn judges_are_stopped_once_they_cannot_change_the_winner() {
    let quick = || {
        let modes = Modes { agent_mode: AgentMode::Multi, refinement: false, planning: false };
        RunRules::default().with(&modes.overrides())
    };
    let mut world = World::start(&IDS[..3], quick());
    everyone_answers(&mut world);
    world.says(0, ranking(&["agent2", "agent1", "agent3"]));
    assert_eq!(world.asked(), [1, 2], "two votes can still change it");
    world.says(1, ranking(&["agent2", "agent3", "agent1"]));
    assert_eq!(world.run.phase, Phase::Presenting, "{}", world.story());
    assert_eq!(ended_early(&world), 1);
    world.says(1, text("final"));
    assert!(decision(&world).explanation.ends_with("were stopped"), "{}", decision(&world).explanation);
    assert_eq!(world.folded(), world.run);

    let mut patient = quick();
    patient.decision.stop_when_decided = false;
    let mut world = World::start(&IDS[..3], patient);
    everyone_answers(&mut world);
    world.says(0, vote("agent2"));
    world.says(1, vote("agent2"));
    assert_eq!(world.asked(), [2]);

    let mut world = World::start(&IDS[..3], RunRules::default());
    everyone_answers(&mut world);
    world.says(0, vote("agent2"));
    world.says(1, vote("agent2"));
    assert_eq!(world.asked(), [2], "it may still give a better answer");
}

#[test]
fn a_resumed_run_does_not_ask_judges_that_were_stopped() {
    let rules = RunRules { max_new_answers_per_agent: Some(1), ..RunRules::default() };
    let mut world = World::start(&IDS[..3], rules);
    everyone_answers(&mut world);
    world.says(0, vote("agent2"));
    world.op(Op::Shutdown);
    world.op(Op::Resume);
    world.says(1, vote("agent2"));
    assert_eq!(world.asked(), [1], "the winner presents");
    world.op(Op::Shutdown);
    world.op(Op::Resume);
    assert_eq!(world.asked(), [1]);
}

fn order_shown(world: &World, judge: usize) -> Vec<String> {
    let request = world.run.request(judge).expect("asked");
    let Some(Message::User(text)) = request.messages.first() else { panic!("{request:?}") };
    let labels = text.lines().filter_map(|line| line.strip_prefix("<agent")?.split_once('.'));
    labels.map(|(number, _)| number.to_owned()).collect()
}

#[test]
fn each_answer_is_shown_in_each_place_equally_often() {
    for agents in 2..6 {
        let mut world = World::start(&IDS[..agents], RunRules::default());
        everyone_answers(&mut world);
        for place in 0..agents {
            let mut there: Vec<String> =
                (0..agents).map(|judge| order_shown(&world, judge)[place].clone()).collect();
            there.sort();
            there.dedup();
            assert_eq!(there.len(), agents, "place {place} of {agents}");
        }
        let request = world.run.request(0).unwrap();
        let listed = request.tools[1].parameters.pointer("/properties/ranking/items/enum").unwrap();
        let listed: Vec<String> = serde_json::from_value(listed.clone()).unwrap();
        let shown: Vec<String> = order_shown(&world, 0).iter().map(|n| format!("agent{n}")).collect();
        assert_eq!(listed, shown, "the tool names them in the same order");
    }
}

#[test]
fn in_config_order_a_judges_own_answer_is_the_last() {
    let decision = DecisionRules { judge_order: JudgeOrder::Config, ..DecisionRules::default() };
    let mut world = World::start(&IDS[..3], RunRules { decision, ..RunRules::default() });
    everyone_answers(&mut world);
    assert_eq!(order_shown(&world, 0), ["2", "3", "1"]);
    assert_eq!(order_shown(&world, 1), ["1", "3", "2"]);
}

fn rules_of_0_1() -> RunRules {
    let mut recorded = serde_json::to_value(RunRules::default()).unwrap();
    recorded.as_object_mut().unwrap().remove("decision").expect("recorded at the start of a run");
    serde_json::from_value(recorded).unwrap()
}

#[test]
fn a_run_without_recorded_rules_decides_and_asks_as_0_1_did() {
    let rules = rules_of_0_1();
    assert_eq!(rules.decision, DecisionRules::of_0_1());
    assert!(serde_json::to_value(&rules).unwrap().get("decision").is_none(), "it is written as it was read");
    let mut world = World::start(&IDS[..3], rules);
    let request = world.run.request(0).unwrap();
    assert!(
        request
            .system
            .starts_with("You are one of several agents who work on the same request independently. Work on")
    );
    assert!(!request.system.contains("Today"));
    assert!(request.tools[0].parameters.pointer("/properties/conclusion").is_none());
    everyone_concludes(&mut world, "42");
    assert_eq!(order_shown(&world, 1), ["1", "3", "2"], "its own answer last");
    let parameters = &world.run.request(0).unwrap().tools[1].parameters;
    assert!(parameters.pointer("/properties/agent_id/enum").is_some(), "{parameters}");
    for member_index in 0..3 {
        world.says(member_index, vote("agent3"));
    }
    world.says(2, text("final"));
    assert_eq!(calls_made(&world), 7, "a vote was held");
    assert_eq!(decision(&world).rule, DecidedBy::Plurality);
    assert_eq!(decision(&world).explanation, "c wins by plurality with 3 of 3 votes (others: a 0, b 0)");
}

#[test]
fn a_run_records_how_it_decides_at_its_start() {
    let world = World::start(&["a", "b"], RunRules::default());
    let created = serde_json::to_value(&world.log[0]).unwrap();
    let decision = &created["data"]["spec"]["rules"]["decision"];
    assert_eq!(
        (&decision["rule"], &decision["judge_order"], &decision["prompts"]),
        (&"borda".into(), &"rotated".into(), &2.into())
    );
}

#[test]
fn every_voting_sensitivity_says_something_of_its_own() {
    use VotingSensitivity as Level;
    let levels = [
        Level::Lenient,
        Level::Balanced,
        Level::Strict,
        Level::RoiConservative,
        Level::RoiBalanced,
        Level::RoiAggressive,
        Level::Sequential,
        Level::Adversarial,
        Level::Consistency,
        Level::Diversity,
        Level::Reflective,
        Level::Checklist,
    ];
    let prompts = levels.map(|voting_sensitivity| {
        let mut world = World::start(&["a", "b"], RunRules { voting_sensitivity, ..RunRules::default() });
        everyone_answers(&mut world);
        world.run.request(0).unwrap().system.to_string()
    });
    for (one, prompt) in prompts.iter().enumerate() {
        assert!(prompts.iter().skip(one + 1).all(|other| other != prompt), "{:?}", levels[one]);
        assert!(prompt.len() < 2500, "{:?}: {} bytes", levels[one], prompt.len());
    }
}
