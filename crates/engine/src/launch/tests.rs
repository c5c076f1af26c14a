//! Tests of resolving launches: the mode matrix, the members of the run, and the error messages.

use super::{Consent, ResolvedRun, execution_run, launch_run_spec, read_launch, read_text, resolve_launch};
use crate::coordination::tests::harness::member;
use crate::interactive::tests::harness::{result, team};
use althing_protocol::{
    AgentMode, ContextPath, FinalAnswerStrategy, LaunchRun, Millis, ModeChoice, PlanRef, RunResult,
    RunStatus, TeamSpec,
};
use serde_json::{Value, json};

fn resolved(arguments: Value) -> Result<ResolvedRun, String> {
    with_choice(arguments, &ModeChoice::default())
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the arguments in place")]
fn with_choice(arguments: Value, choice: &ModeChoice) -> Result<ResolvedRun, String> {
    resolve_launch(
        &team(&["gem", "gpt", "cc"]),
        &read_text(&arguments.to_string())?,
        choice,
        Consent::Person,
        7,
    )
}

fn refused(arguments: Value) -> String {
    resolved(arguments).unwrap_err()
}

fn ids(launch: &ResolvedRun) -> Vec<&str> {
    launch.spec.members.iter().map(|member| member.id.as_str()).collect()
}

// spec: interactive/launch-run-tool/tool-schema-definition
#[test]
fn the_tool_has_every_parameter_and_exactly_the_teams_agents() {
    let tool = launch_run_spec(&team(&["gem", "gpt"]));
    let properties = tool.parameters["properties"].as_object().unwrap();
    let mut names: Vec<&str> = properties.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "agent_mode",
            "agent_system_prompts",
            "agents",
            "context",
            "context_paths",
            "coordination_overrides",
            "execute_after_planning",
            "planning_mode",
            "refinement",
            "task"
        ]
    );
    assert_eq!(tool.parameters["required"], json!(["task"]));
    assert_eq!(tool.parameters["properties"]["agents"]["items"]["enum"], json!(["gem", "gpt"]));
    assert_eq!(tool.parameters["properties"]["agent_mode"]["enum"], json!(["single", "multi"]));
    let text = serde_json::to_string(&tool).unwrap();
    for name in ["new_answer", "vote", "ask_others"] {
        assert!(!text.contains(name), "{name} in {text}");
    }
}

// spec: design/launch-run/mode-matrix
#[test]
fn all_rows_of_the_mode_matrix_set_up_their_run() {
    let quick_single = resolved(json!({"task": "x", "agent_mode": "single"})).unwrap().spec;
    assert!(quick_single.is_single_and_quick() && !quick_single.modes.refinement);
    let refining = resolved(json!({"task": "x", "agent_mode": "single", "refinement": true})).unwrap().spec;
    assert_eq!(
        (refining.members.len(), refining.rules.skip_voting, refining.modes.refinement),
        (1, false, true)
    );
    let quick = resolved(json!({"task": "x", "refinement": false})).unwrap().spec;
    let rules = &quick.rules;
    assert_eq!(
        (quick.members.len(), rules.max_new_answers_per_agent, rules.skip_voting),
        (3, Some(1), false)
    );
    assert!(rules.disable_injection && rules.defer_voting_until_all_answered);
    assert_eq!(rules.strategy(), FinalAnswerStrategy::Synthesize);
    let full = resolved(json!({"task": "x", "agent_mode": "multi"})).unwrap();
    assert_eq!((full.spec.members.len(), &full.spec.rules), (3, &team(&[]).rules));
    assert!(full.spec.modes.refinement);
    let plan = resolved(json!({"task": "x", "planning_mode": true})).unwrap();
    assert!(plan.spec.modes.planning && !plan.proposal.launch.execute_after_planning);
    let both = resolved(json!({"task": "x", "planning_mode": true, "execute_after_planning": true})).unwrap();
    assert!(both.spec.modes.planning && both.proposal.launch.execute_after_planning);
    let planned = result(&"r1".into(), &both.spec, RunStatus::Completed);
    let resolved_with_it = *both.spec.execution.clone().unwrap();
    assert_eq!(resolved(json!({"task": "x"})).unwrap().spec.rules, resolved_with_it.rules);
    let execution = execution_run(resolved_with_it.clone(), &planned);
    assert!(!execution.modes.planning && execution.context.unwrap().contains("the answer of r1"));
    let kept = RunResult {
        final_answer: Some(r#"{"tasks": [{"id": "dig", "description": "Dig"}]}"#.into()),
        plan: Some(PlanRef { id: "p1".into(), path: "/plans/p1".into() }),
        ..planned
    };
    let plan = execution_run(resolved_with_it, &kept).plan.unwrap();
    assert_eq!((plan.plan.id.as_str(), plan.tasks[0].id.as_str()), ("p1", "dig"));
}

#[test]
fn a_quick_single_run_drops_settings_that_would_add_calls_and_shows_so_in_the_proposal() {
    for strategy in ["winner_present", "synthesize", "winner_reuse"] {
        let mut configured = team(&["gem"]);
        configured.rules.final_answer_strategy = Some(FinalAnswerStrategy::Synthesize);
        configured.rules.max_restarts = 3;
        let overrides = json!({"final_answer_strategy": strategy, "max_orchestration_restarts": 2,
            "skip_voting": false, "voting_sensitivity": "strict"});
        let call = json!({"task": "x", "refinement": false, "coordination_overrides": overrides});
        let launch = read_text(&call.to_string()).unwrap();
        let launch =
            resolve_launch(&configured, &launch, &ModeChoice::default(), Consent::Person, 7).unwrap();
        let rules = &launch.spec.rules;
        assert_eq!((rules.strategy(), rules.max_restarts), (FinalAnswerStrategy::WinnerReuse, 0));
        assert!(rules.skip_voting && launch.spec.is_single_and_quick());
        let shown = &launch.proposal.launch.coordination_overrides;
        assert_eq!(Value::Object(shown.clone()), json!({"voting_sensitivity": "strict"}));
    }
}

#[test]
fn a_single_agent_is_the_named_one_the_tab_in_front_or_the_first() {
    let tab = ModeChoice { agent: Some("gpt".into()), ..ModeChoice::default() };
    assert_eq!(ids(&resolved(json!({"task": "x", "agent_mode": "single"})).unwrap()), ["gem"]);
    assert_eq!(ids(&with_choice(json!({"task": "x", "agent_mode": "single"}), &tab).unwrap()), ["gpt"]);
    let named = json!({"task": "x", "agent_mode": "single", "agents": ["cc"]});
    assert_eq!(ids(&with_choice(named.clone(), &tab).unwrap()), ["cc"]);
    let chosen = ModeChoice { agent_mode: Some(AgentMode::Single), ..tab };
    assert_eq!(ids(&with_choice(named, &chosen).unwrap()), ["gpt"], "the user's choice wins");
    let two = json!({"task": "x", "agent_mode": "single", "agents": ["cc", "gem"]});
    assert!(refused(two.clone()).contains("takes one agent"));
    assert_eq!(ids(&with_choice(two, &chosen).unwrap()), ["gpt"]);
    assert_eq!(ids(&resolved(json!({"task": "x", "agents": ["cc"]})).unwrap()), ["cc"]);
    let alone = TeamSpec { members: vec![member("solo")], ..team(&[]) };
    let launch = LaunchRun { task: "x".into(), agent_mode: Some(AgentMode::Multi), ..LaunchRun::default() };
    let launch = resolve_launch(&alone, &launch, &ModeChoice::default(), Consent::Nobody, 0).unwrap();
    assert_eq!((ids(&launch), launch.spec.modes.agent_mode), (vec!["solo"], AgentMode::Single));
}

#[test]
fn several_agents_keep_their_order_and_one_named_agent_may_be_a_multi_run() {
    let launch = resolved(json!({"task": "x", "agents": ["cc", "gem", "cc"]})).unwrap();
    assert_eq!(ids(&launch), ["gem", "cc"]);
    let alone = resolved(json!({"task": "x", "agent_mode": "multi", "agents": ["cc"]})).unwrap();
    assert_eq!((ids(&alone), alone.spec.modes.agent_mode), (vec!["cc"], AgentMode::Multi));
    assert!(alone.spec.modes.refinement, "as for every multi run");
    assert!(refused(json!({"task": "x", "agents": []})).contains("`agents` is empty"));
    assert!(refused(json!({"task": "x", "agents": ["gpr"]})).contains("Did you mean `gpt`?"));
    assert!(
        resolve_launch(
            &team(&[]),
            &LaunchRun { task: "x".into(), ..LaunchRun::default() },
            &ModeChoice::default(),
            Consent::Person,
            0
        )
        .is_err()
    );
}

#[test]
fn every_error_names_its_parameter() {
    for (arguments, words) in [
        (json!({}), "`task` is missing"),
        (json!({"task": "  "}), "`task` is empty"),
        (json!({"task": 3}), "`task` must be a text"),
        (json!({"task": "x", "agnet_mode": "single"}), "Did you mean `agent_mode`?"),
        (json!({"task": "x", "quickly": true}), "The parameters are task, context"),
        (json!({"task": "x", "agent_mode": "dual"}), "`agent_mode` must be \"single\" or \"multi\""),
        (json!({"task": "x", "refinement": "yes"}), "`refinement` must be true or false"),
        (json!({"task": "x", "agents": "gem"}), "`agents` must be a list"),
        (json!({"task": "x", "context_paths": ["/a"]}), "`context_paths` must be a list of objects"),
        (json!({"task": "x", "execute_after_planning": true}), "needs `planning_mode: true`"),
        (json!({"task": "x", "agent_system_prompts": {"gme": "hi"}}), "Did you mean `gem`?"),
        (
            json!({"task": "x", "coordination_overrides": {"voting_sensitivty": "strict"}}),
            "Did you mean `voting_sensitivity`?",
        ),
        (
            json!({"task": "x", "coordination_overrides": {"voting_sensitivity": "hard"}}),
            "\"lenient\", \"balanced\", \"strict\"",
        ),
        (json!({"task": "x", "coordination_overrides": {"max_new_answers_per_agent": 0}}), "at least 1"),
        (
            json!({"task": "x", "coordination_overrides": {"orchestrator_timeout_seconds": 1e6}}),
            "must not exceed",
        ),
        (
            json!({"task": "x", "coordination_overrides": {"override_window_seconds": 0}}),
            "can be set only by the user",
        ),
        (json!({"task": "x", "context_paths": [{"path": "src"}]}), "absolute path"),
        (json!({"task": "x", "context_paths": [{"path": "/a/../b"}]}), "without `..`"),
        (
            json!({"task": "x", "context_paths": [{"path": "/a/b\u{200b}"}]}),
            "`/a/b\\u{200b}` must be written",
        ),
        (
            json!({"task": "x", "context_paths": [{"path": "/a/b\u{2800}"}]}),
            "`/a/b\\u{2800}` must be written",
        ),
        (json!({"task": "x", "context": "y".repeat(70_000)}), "Sum it up"),
    ] {
        let problem = refused(arguments.clone());
        assert!(problem.contains(words), "{arguments}: {problem}");
    }
    let nulls =
        json!({"task": "x", "context": null, "agents": null, "refinement": null, "planning_mode": null});
    assert_eq!(ids(&resolved(nulls).unwrap()).len(), 3, "null is left out");
    assert!(read_launch(json!({"task": "x"}).as_object().unwrap()).is_ok());
    assert!(read_text("[]").unwrap_err().contains("JSON object"));
}

#[test]
fn an_additional_system_prompt_applies_to_its_agent_only() {
    let mut team = team(&["gem", "gpt"]);
    team.members[1].system_message = Some("You are a poet.".into());
    let launch =
        read_text(&json!({"task": "x", "agent_system_prompts": {"gpt": "Rhyme."}}).to_string()).unwrap();
    let spec = resolve_launch(&team, &launch, &ModeChoice::default(), Consent::Nobody, 0).unwrap().spec;
    assert_eq!(spec.members[1].system_message.as_deref(), Some("You are a poet.\n\nRhyme."));
    assert_eq!(spec.members[0].system_message, None);
}

#[test]
fn overrides_change_the_rules_within_the_users_limits_and_mode_choices() {
    let overrides = json!({
        "final_answer_strategy": "winner_reuse", "voting_sensitivity": "strict", "max_new_answers_per_agent": 4,
        "orchestrator_timeout_seconds": 60, "initial_round_timeout_seconds": 5.5, "answer_novelty_requirement": "balanced"
    });
    let call = json!({"task": "x", "refinement": false, "coordination_overrides": overrides});
    let rules = resolved(call.clone()).unwrap().spec.rules;
    assert_eq!(rules.strategy(), FinalAnswerStrategy::WinnerReuse);
    assert_eq!(
        (rules.max_new_answers_per_agent, rules.limits.orchestrator),
        (Some(4), Millis::from_secs(60))
    );
    assert_eq!(rules.limits.initial_round, Some(Millis(5500)));
    let quick = ModeChoice { refinement: Some(false), ..ModeChoice::default() };
    let launch = with_choice(call, &quick).unwrap();
    assert_eq!(launch.spec.rules.max_new_answers_per_agent, Some(1), "the user wants it quick");
    assert_eq!(launch.spec.rules.strategy(), FinalAnswerStrategy::WinnerReuse, "how it ends is a default");
    assert!(!launch.proposal.launch.coordination_overrides.contains_key("max_new_answers_per_agent"));
}

// spec: design/launch-run/context-paths
#[test]
fn context_paths_are_added_to_the_inherited_ones_and_need_consent() {
    let path = |path: &str, writable, protected: &[&str]| ContextPath {
        path: path.into(),
        writable,
        protected: protected.iter().map(|part| (*part).to_owned()).collect(),
    };
    let mut team = team(&["gem", "gpt"]);
    team.context_paths = vec![path("/app", true, &["/app/secret"]), path("/docs", false, &[])];
    let resolve = |paths: Value, consent| {
        let launch = read_text(&json!({"task": "x", "context_paths": paths}).to_string()).unwrap();
        resolve_launch(&team, &launch, &ModeChoice::default(), consent, 0)
    };
    let add = json!([{"path": "/more/"}, {"path": "/docs/api", "permission": "write"}]);
    let spec = resolve(add.clone(), Consent::Person).unwrap().spec;
    let added = [path("/more", false, &[]), path("/docs/api", true, &[])];
    assert_eq!(spec.context_paths, [&team.context_paths[..], &added[..]].concat());
    for (paths, words) in [
        (add, "`/more` may not be read"),
        (json!([{"path": "/docs", "permission": "write"}]), "may not be written to"),
        (json!([{"path": "/application"}]), "may not be read"),
        (json!([{"path": "/"}]), "may not be read"),
    ] {
        let problem = resolve(paths, Consent::Nobody).unwrap_err();
        assert!(problem.contains(words), "{problem}");
    }
    assert_eq!(spec.unapproved_paths, [] as [&str; 0], "a person approved them");
    team.readable_dirs = vec!["/project".into()];
    let resolve = |paths: Value, consent| {
        let launch = read_text(&json!({"task": "x", "context_paths": paths}).to_string()).unwrap();
        resolve_launch(&team, &launch, &ModeChoice::default(), consent, 0)
    };
    let below = resolve(json!([{"path": "/project/src"}]), Consent::Nobody).unwrap().spec;
    assert_eq!(below.context_paths.last(), Some(&path("/project/src", false, &[])));
    assert_eq!(below.unapproved_paths, ["/project/src"], "the app still has to look at links");
    for (paths, words) in [
        (json!([{"path": "/project/src", "permission": "write"}]), "may not be written to"),
        (json!([{"path": "/projects"}]), "may not be read"),
        (json!([{"path": "/project/.env"}]), "may contain secrets"),
        (json!([{"path": "/project/a/.env.local"}]), "may contain secrets"),
        (json!([{"path": "/project/.git/config"}]), "may contain secrets"),
    ] {
        let problem = resolve(paths.clone(), Consent::Nobody).unwrap_err();
        assert!(problem.contains(words), "{problem}");
        assert!(resolve(paths, Consent::Person).is_ok());
    }
    let inside = json!([{"path": "/app/src", "permission": "write"}, {"path": "/docs/x"}]);
    assert_eq!(resolve(inside, Consent::Nobody).unwrap().spec.context_paths, team.context_paths);
    let guarded = json!([{"path": "/app/secret/key", "permission": "write"}]);
    assert!(resolve(guarded, Consent::Person).unwrap_err().contains("protected"));
    let upgraded = resolve(json!([{"path": "/docs", "permission": "write"}]), Consent::Person).unwrap();
    assert_eq!(upgraded.proposal.may_write, ["/app", "/docs"]);
    let plan = LaunchRun { task: "x".into(), planning_mode: true, ..LaunchRun::default() };
    let plan = resolve_launch(&team, &plan, &ModeChoice::default(), Consent::Person, 0).unwrap();
    assert!(!plan.spec.may_write() && plan.proposal.may_write.is_empty(), "a plan changes nothing");
    let mut both = plan.proposal.launch.clone();
    both.execute_after_planning = true;
    let both = resolve_launch(&team, &both, &ModeChoice::default(), Consent::Person, 0).unwrap();
    assert!(!both.spec.may_write() && both.spec.execution.unwrap().may_write());
    assert!(
        !both.proposal.may_write.is_empty(),
        "what the execution may write is shown before it is approved"
    );
}

#[test]
fn resolving_a_proposal_again_yields_the_same_run_and_its_digest_covers_all_of_it() {
    let choice = ModeChoice {
        refinement: Some(true),
        agent_mode: Some(AgentMode::Single),
        agent: Some("gpt".into()),
        planning: Some(false),
    };
    let calls = [
        json!({"task": "x"}),
        json!({"task": "x", "planning_mode": true, "execute_after_planning": true}),
        json!({"task": "x", "refinement": false, "coordination_overrides": {"skip_voting": true}}),
        json!({"task": "x", "agents": ["gem", "cc"], "context_paths": [{"path": "/a", "permission": "write"}]}),
    ];
    let mut proposals = Vec::new();
    for call in calls {
        for choice in [&choice, &ModeChoice::default()] {
            let first = with_choice(call.clone(), choice).unwrap();
            let again = resolve_launch(
                &team(&["gem", "gpt", "cc"]),
                &first.proposal.launch,
                &ModeChoice::default(),
                Consent::Person,
                7,
            )
            .unwrap();
            assert_eq!(first.spec, again.spec, "{call}");
            proposals.push(first.proposal);
        }
    }
    for (one, other) in proposals.iter().flat_map(|one| proposals.iter().map(move |other| (one, other))) {
        assert_eq!(one.digest == other.digest, one == other, "{one:?} and {other:?}");
    }
    assert!(proposals.iter().all(|proposal| proposal.digest.len() == 64));
}
