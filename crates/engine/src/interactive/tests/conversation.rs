//! The behavior of a conversation, scenario by scenario.

use super::harness::{World, agent, chat, launches, result, team};
use crate::SideTaskKind;
use crate::coordination::tests::harness::call;
use althing_protocol::ChatState::{
    AwaitingApproval, Chatting, Idle, ProcessingCancelled, ProcessingPartial, ProcessingResults, Running,
};
use althing_protocol::{
    AgentMode, AttemptOutcome, ChatSpec, ContextPath, Decision, Event, Fact, Interaction, InteractionKind,
    Item, LaunchRun, Message, ModeChoice, Op, PathGrant, Permission, PlanRef, Purpose, Reply, RunStatus,
    TaskId, Usage,
};
use serde_json::{Value, json};

fn unasked() -> ChatSpec {
    let mut spec = chat();
    spec.agent.as_mut().unwrap().require_approval = false;
    spec
}

fn approve(digest: Option<String>, edited: Option<LaunchRun>) -> Decision {
    Decision::Approve { digest, edited: edited.map(Box::new), instructions: None }
}

fn last_json(world: &World) -> Value {
    let (content, is_error) = world.last_result();
    assert!(!is_error, "{content}");
    serde_json::from_str(&content).unwrap()
}

// spec: interactive/interactive-agent-delegation-behavior/simple-task-handling
// spec: interactive/interactive-session-lifecycle/session-initialization
#[test]
fn a_plain_reply_is_the_answer_and_no_run_begins() {
    let mut world = World::new(chat());
    world.user("What is a monad?");
    assert_eq!(world.chat.state(), Chatting);
    let request = world.request();
    assert_eq!(request.messages, [Message::User("What is a monad?".into())]);
    assert!(request.system.contains("Answer directly"), "the guidance is in the request");
    world.answers("A monoid in the category of endofunctors.");
    assert_eq!(world.states(), [Chatting, Idle]);
    assert!(world.runs().is_empty());
    world.user("And that?");
    let messages = world.request().messages;
    assert_eq!(messages.len(), 3, "it remembers");
}

// spec: interactive/run-approval-flow/approval-required
// spec: interactive/run-approval-flow/approval-granted
// spec: interactive/interactive-agent-delegation-behavior/complex-task-delegation
// spec: interactive/launch-run-tool/results-returned-to-agent
// spec: interactive/context-flow-between-interactive-and-runs/results-consumption
#[test]
fn a_launch_is_shown_approved_run_and_its_result_comes_back() {
    let mut world = World::new(chat());
    world.user("Refactor auth");
    world.says(launches(
        json!({"task": "Refactor auth to Paseto", "context": "Rust", "agents": ["gem", "gpt"]}),
    ));
    assert_eq!(world.chat.state(), AwaitingApproval);
    let proposal = world.proposal();
    assert_eq!(proposal.launch.task, "Refactor auth to Paseto");
    assert_eq!(proposal.launch.context.as_deref(), Some("Rust"));
    let names: Vec<&str> = proposal.members.iter().map(|member| member.id.as_str()).collect();
    assert_eq!(names, ["gem", "gpt"]);
    assert!(world.runs().is_empty(), "nothing runs before it is approved");
    assert!(world.chat.wanted().calls.is_empty());
    world.approves();
    assert_eq!(world.chat.state(), Running);
    let run = TaskId::run(1);
    let spec = world.run_spec(&run).clone();
    assert_eq!((spec.task.as_str(), spec.context.as_deref()), ("Refactor auth to Paseto", Some("Rust")));
    assert_eq!((spec.members.len(), spec.modes), (2, proposal.modes));
    world.run_ends(RunStatus::Completed);
    assert_eq!(world.chat.state(), ProcessingResults);
    let told = last_json(&world);
    assert_eq!(told["final_answer"], "the answer of r1");
    assert_eq!(told["workspace_path"], "/logs/r1/workspaces/gem");
    assert_eq!(told["coordination_summary"]["winner"], "gem");
    assert_eq!(told["coordination_summary"]["votes"], json!({"gem": 2}));
    assert_eq!(told["coordination_summary"]["rounds"], 2);
    assert_eq!(told["usage"]["cost_usd"], 0.25);
    world.answers("It is done.");
    assert_eq!(world.states(), [Chatting, AwaitingApproval, Running, ProcessingResults, Idle]);
}

// spec: interactive/interactive-session-lifecycle/session-persistence-across-runs
#[test]
fn later_turns_still_see_the_results_of_earlier_runs() {
    let mut world = World::new(unasked());
    world.user("Build it");
    world.says(launches(json!({"task": "build"})));
    world.run_ends(RunStatus::Completed);
    world.answers("Built.");
    world.user("Where is it?");
    let request = world.request();
    let told = request.messages.iter().any(
        |message| matches!(message, Message::Tool { content, .. } if content.contains("the answer of r1")),
    );
    assert!(told, "{:#?}", request.messages);
    assert_eq!(world.chat.runs()[0].run_id, "s1.r1");
}

// spec: interactive/run-approval-flow/approval-not-required
#[test]
fn without_approval_a_run_begins_at_once() {
    let mut world = World::new(unasked());
    world.user("Build it");
    world.says(launches(json!({"task": "build"})));
    assert_eq!(world.open(), None);
    assert_eq!(world.runs(), [TaskId::run(1)]);
    world.run_ends(RunStatus::Completed);
    world.answers("Built.");
    assert_eq!(world.states(), [Chatting, Running, ProcessingResults, Idle]);
}

// spec: interactive/run-approval-flow/approval-cancelled
#[test]
fn a_cancelled_approval_comes_back_to_the_agent_and_nothing_runs() {
    let mut world = World::new(chat());
    world.user("Build it");
    world.says(launches(json!({"task": "build"})));
    world.decides(Decision::Reject { reason: Some("too dear".into()) }).unwrap();
    assert_eq!(world.chat.state(), Chatting);
    let told = last_json(&world);
    assert_eq!(told["status"], "cancelled");
    assert!(told["error"].as_str().unwrap().contains("too dear"), "{told}");
    world.answers("Then not.");
    assert_eq!(world.states(), [Chatting, AwaitingApproval, Chatting, Idle]);
    assert!(world.runs().is_empty());
}

#[test]
fn an_edited_launch_is_checked_again_and_runs_as_edited() {
    let mut world = World::new(chat());
    world.user("Build it");
    world.says(launches(json!({"task": "build"})));
    let digest = world.proposal().digest;
    let wrong = LaunchRun { task: "build".into(), agents: Some(vec!["gpd".into()]), ..LaunchRun::default() };
    let refused = world.decides(approve(Some(digest.clone()), Some(wrong))).unwrap_err();
    assert!(refused.contains("Did you mean `gpt`?"), "{refused}");
    assert_eq!(world.chat.state(), AwaitingApproval, "the question stays open");
    let edited = LaunchRun {
        task: "build it small".into(),
        agent_mode: Some(AgentMode::Single),
        context_paths: vec![PathGrant { path: "/srv".into(), permission: Permission::Write }],
        ..LaunchRun::default()
    };
    world.decides(approve(Some(digest), Some(edited))).unwrap();
    let spec = world.run_spec(&TaskId::run(1));
    assert_eq!((spec.task.as_str(), spec.members.len(), spec.may_write()), ("build it small", 1, true));
}

#[test]
fn an_approval_holds_for_what_was_shown_and_only_once() {
    let mut world = World::new(chat());
    world.user("Build it");
    world.says(launches(json!({"task": "harmless"})));
    let first = world.proposal().digest;
    let id = world.open().unwrap().id;
    world.decides(Decision::Reject { reason: None }).unwrap();
    world.says(launches(json!({"task": "harmful"})));
    assert!(
        world.chat.answer(&id, &approve(Some(first.clone()), None)).is_err(),
        "the old question is closed"
    );
    assert!(world.decides(approve(Some(first), None)).unwrap_err().contains("different proposal"));
    assert!(world.decides(approve(None, None)).unwrap_err().contains("digest"));
    for n in 0..1000 {
        let forged = format!("{n:064x}");
        assert!(world.decides(approve(Some(forged), None)).is_err());
    }
    assert!(world.runs().is_empty());
    let (id, digest) = (world.open().unwrap().id, world.proposal().digest);
    world.approves();
    assert!(world.chat.answer(&id, &approve(Some(digest), None)).is_err(), "it is used up");
    assert_eq!(world.runs().len(), 1);
}

#[test]
fn mode_changes_after_a_proposal_was_shown_do_not_change_the_run() {
    let mut world = World::new(chat());
    world.user("Build it");
    world.says(launches(json!({"task": "build", "agent_mode": "multi"})));
    world.op(Op::SetModes {
        modes: ModeChoice { agent_mode: Some(AgentMode::Single), ..ModeChoice::default() },
    });
    world.approves();
    assert_eq!(world.run_spec(&TaskId::run(1)).members.len(), 3);
}

// spec: design/state/partial-results
#[test]
fn a_run_that_fails_times_out_or_is_cancelled_returns_its_partial_result() {
    let ends = [
        (RunStatus::Partial, ProcessingPartial, "partial"),
        (RunStatus::Failed, ProcessingPartial, "failed"),
        (RunStatus::Cancelled, ProcessingCancelled, "cancelled"),
    ];
    for (status, state, word) in ends {
        let mut world = World::new(unasked());
        world.user("Build it");
        world.says(launches(json!({"task": "build"})));
        if status == RunStatus::Cancelled {
            world.op(Op::Cancel { task: TaskId::run(1) });
            assert_eq!(world.chat.state(), Running, "the run ends itself");
        }
        world.run_ends(status);
        assert_eq!(world.chat.state(), state);
        let told = last_json(&world);
        assert_eq!((&told["status"], &told["final_answer"]), (&json!(word), &json!("the answer of r1")));
        world.says(launches(json!({"task": "again"})));
        assert_eq!(world.chat.state(), Running, "it may try again in the same turn");
        assert_eq!(world.runs().len(), 2);
    }
}

// spec: design/ui/queued-messages
#[test]
fn messages_sent_during_a_run_are_queued_and_can_be_withdrawn() {
    let mut world = World::new(unasked());
    world.user("Build it");
    world.says(launches(json!({"task": "build"})));
    world.user("In Rust");
    let second = world.user("No, in C");
    world.user("With tests");
    assert_eq!(world.chat.state(), Running);
    world.op(Op::Unqueue { message: second });
    let waiting: Vec<&str> = world.chat.queued().map(|(_, text)| text).collect();
    assert_eq!(waiting, ["In Rust", "With tests"]);
    assert!(world.chat.refusal_of(&Op::Unqueue { message: second }).is_some());
    world.run_ends(RunStatus::Completed);
    world.answers("Built.");
    assert_eq!(world.request().messages.last(), Some(&Message::User("In Rust".into())));
    world.answers("Yes, in Rust.");
    assert_eq!(world.request().messages.last(), Some(&Message::User("With tests".into())));
    world.answers("It has them.");
    assert_eq!(world.chat.state(), Idle);
}

#[test]
fn cancelling_the_turn_stops_its_run_and_ends_it() {
    let mut world = World::new(unasked());
    world.user("Build it");
    world.says(launches(json!({"task": "build"})));
    world.op(Op::Cancel { task: TaskId::chat() });
    let cancelled = world.log.iter().any(
        |event| matches!(&event.fact, Fact::OpAccepted { op: Op::Cancel { task }, .. } if *task == TaskId::run(1)),
    );
    assert!(cancelled, "the run is told");
    world.run_ends(RunStatus::Cancelled);
    assert_eq!(world.states(), [Chatting, Running, ProcessingCancelled, Idle]);
    assert!(world.chat.wanted().calls.is_empty());
    world.user("What happened?");
    assert!(format!("{:?}", world.request().messages).contains("the answer of r1"), "what it had is known");
    world.op(Op::Cancel { task: TaskId::chat() });
    assert_eq!(world.chat.state(), Idle);
    assert!(world.chat.refusal_of(&Op::Cancel { task: TaskId::chat() }).is_some());
}

#[test]
fn cancelling_the_turn_withdraws_an_open_approval() {
    let mut world = World::new(chat());
    world.user("Build it");
    world.says(launches(json!({"task": "build"})));
    let (id, digest) = (world.open().unwrap().id, world.proposal().digest);
    world.op(Op::Cancel { task: TaskId::chat() });
    assert_eq!(world.states(), [Chatting, AwaitingApproval, Chatting, Idle]);
    assert!(world.chat.answer(&id, &approve(Some(digest), None)).is_err());
}

#[test]
fn errors_in_a_call_are_returned_to_the_model_and_nothing_is_asked_or_run() {
    for (arguments, word) in [
        ("{\"taks\": \"x\"}", "Did you mean `task`?"),
        ("nonsense", "not valid JSON"),
        ("{\"task\": \"x\", \"agents\": [\"nobody\"]}", "no agent `nobody`"),
        ("{\"task\": \"x\", \"context_paths\": [{\"path\": \"here\"}]}", "absolute"),
    ] {
        let mut world = World::new(chat());
        world.user("Build it");
        world.says(Reply { tool_calls: vec![call("launch_run", arguments)], ..Reply::default() });
        let (content, is_error) = world.last_result();
        assert!(is_error && content.contains(word), "{content}");
        assert_eq!((world.open(), world.chat.state()), (None, Chatting));
    }
}

// spec: interactive/launch-run-tool/planning-then-execution
#[test]
fn a_plan_that_is_to_be_executed_becomes_a_second_run() {
    let mut world = World::new(chat());
    world.user("Migrate the database");
    let call = json!({"task": "Migrate", "planning_mode": true, "execute_after_planning": true});
    world.says(launches(call));
    world.approves();
    assert!(world.run_spec(&TaskId::run(1)).modes.planning);
    world.run_ends(RunStatus::Completed);
    let second = TaskId::run(1).execution();
    assert_eq!(world.runs(), [TaskId::run(1), second.clone()]);
    let execution = world.run_spec(&second);
    assert!(!execution.modes.planning);
    assert_eq!(execution.task, "Migrate");
    assert!(execution.context.as_deref().unwrap().contains("the answer of r1"), "{:?}", execution.context);
    assert_eq!(world.chat.state(), Running);
    world.run_ends(RunStatus::Completed);
    let told = last_json(&world);
    assert_eq!(
        (&told["follow_up"], &told["execution"]["final_answer"]),
        (&json!("s1.r1.execution"), &json!("the answer of r1.execution"))
    );
    world.answers("Migrated.");
    assert_eq!(world.states(), [Chatting, AwaitingApproval, Running, ProcessingResults, Idle]);
}

#[test]
fn a_plan_of_a_failed_run_is_not_executed() {
    let mut world = World::new(unasked());
    world.user("Migrate the database");
    world.says(launches(json!({"task": "Migrate", "planning_mode": true, "execute_after_planning": true})));
    world.run_ends(RunStatus::Partial);
    assert_eq!(world.runs().len(), 1);
    assert_eq!((world.chat.state(), &last_json(&world)["status"]), (ProcessingPartial, &json!("partial")));
}

fn planned(world: &mut World, text: &str) {
    let modes = ModeChoice { planning: Some(true), ..ModeChoice::default() };
    world.op(Op::SendMessage { text: text.into(), modes, grants: Vec::new() });
}

fn ends_with_plan(world: &mut World) {
    let run = world.chat.current_run().unwrap().clone();
    let mut result = result(&run, world.run_spec(&run), RunStatus::Completed);
    result.final_answer = Some(format!("{{\"tasks\": [{{\"id\": \"{run}\", \"description\": \"Dig\"}}]}}"));
    result.plan = Some(PlanRef { id: "p1".into(), path: "/plans/p1".into() });
    world.run_ends_with(result);
}

#[test]
fn a_plan_that_was_not_stored_cannot_be_approved() {
    let mut world = World::new(chat());
    planned(&mut world, "Migrate");
    let run = world.chat.current_run().unwrap().clone();
    let mut result = result(&run, world.run_spec(&run), RunStatus::Completed);
    result.final_answer = Some(r#"{"tasks": [{"id": "a", "description": "Dig"}]}"#.into());
    world.run_ends_with(result);
    assert_eq!((world.open(), world.chat.state()), (None, Idle), "{}", world.story());
    let said =
        |event: &Event| matches!(&event.fact, Fact::Notice(notice) if notice.text.contains("without a plan"));
    assert_eq!(world.log.iter().filter(|event| said(event)).count(), 1);
}

#[test]
fn a_message_in_plan_mode_directly_starts_a_planning_run() {
    let mut world = World::new(chat());
    world.user("Hello");
    world.answers("Hello!");
    planned(&mut world, "Migrate");
    assert_eq!(world.chat.state(), Running);
    let spec = world.run_spec(&TaskId::run(1)).clone();
    assert!(spec.modes.planning && spec.task == "Migrate");
    assert_eq!((spec.history[0].user.as_str(), spec.history[0].assistant.as_str()), ("Hello", "Hello!"));
    world.run_ends(RunStatus::Completed);
    assert_eq!(world.states(), [Chatting, Idle, Chatting, Running, ProcessingResults, Idle]);
    let said =
        |event: &Event| matches!(&event.fact, Fact::Notice(notice) if notice.text.contains("without a plan"));
    assert_eq!(world.log.iter().filter(|event| said(event)).count(), 1, "a missing plan is said, once");
    world.user("Go on");
    assert!(format!("{:?}", world.request().messages).contains("the answer of r1"), "the agent knows it");
}

#[test]
fn a_plan_is_shown_and_executed_with_the_users_additions() {
    let mut world = World::new(chat());
    planned(&mut world, "Migrate");
    ends_with_plan(&mut world);
    assert_eq!(world.chat.state(), AwaitingApproval);
    let Some(InteractionKind::PlanApproval { preview, plan }) = world.open().map(|open| open.kind) else {
        panic!("{}", world.story())
    };
    assert_eq!((preview, plan.path.as_str()), (vec!["r1: Dig".to_owned()], "/plans/p1"));
    let forged = Decision::Approve { digest: Some("other".into()), edited: None, instructions: None };
    assert!(world.decides(forged).is_err());
    let instructions = Some("by hand".to_owned());
    world.decides(Decision::Approve { digest: None, edited: None, instructions }).unwrap();
    let spec = world.run_spec(&TaskId::run(2));
    let context = spec.context.as_deref().unwrap();
    assert!(!spec.modes.planning && spec.task == "Migrate", "{spec:?}");
    assert!(context.contains("by hand") && context.contains("/plans/p1"), "{context}");
    assert_eq!(spec.plan.as_ref().unwrap().tasks[0].description, "Dig");
    world.run_ends(RunStatus::Completed);
    let states = [Chatting, Running, ProcessingResults, AwaitingApproval, Running, ProcessingResults, Idle];
    assert_eq!(world.states(), states);
}

#[test]
fn a_plan_can_be_changed_or_rejected() {
    let mut world = World::new(ChatSpec { agent: None, ..chat() });
    planned(&mut world, "Migrate");
    ends_with_plan(&mut world);
    world.decides(Decision::Change { text: "in two steps".into() }).unwrap();
    let spec = world.run_spec(&TaskId::run(2));
    let context = spec.context.as_deref().unwrap();
    assert!(
        spec.modes.planning && context.contains("in two steps") && context.contains("\"Dig\""),
        "{context}"
    );
    ends_with_plan(&mut world);
    world.decides(Decision::Reject { reason: None }).unwrap();
    assert_eq!((world.runs().len(), world.chat.state()), (2, Idle), "{}", world.story());
    world.user("Next");
    assert_eq!(world.runs().len(), 3);
}

// spec: modes/agent-mode-toggle/context-preservation-across-agent-switches
#[test]
fn without_an_interactive_agent_each_message_is_a_run_with_the_conversation_as_history() {
    let mut world = World::new(ChatSpec { agent: None, ..chat() });
    let single = |id: &str| ModeChoice {
        agent_mode: Some(AgentMode::Single),
        agent: Some(id.into()),
        ..ModeChoice::default()
    };
    world.op(Op::SetModes { modes: single("gem") });
    world.user("Name a color");
    assert_eq!(world.run_spec(&TaskId::run(1)).members[0].id.as_str(), "gem");
    assert!(world.chat.wanted().calls.is_empty(), "nobody else is asked");
    world.run_ends(RunStatus::Completed);
    world.op(Op::SetModes { modes: single("gpt") });
    world.user("Another one");
    let spec = world.run_spec(&TaskId::run(2));
    assert_eq!(spec.members[0].id.as_str(), "gpt");
    assert_eq!(spec.history.len(), 1);
    assert_eq!(
        (spec.history[0].user.as_str(), spec.history[0].assistant.as_str()),
        ("Name a color", "the answer of r1")
    );
    world.run_ends(RunStatus::Failed);
    assert_eq!(
        world.states(),
        [Chatting, Running, ProcessingResults, Idle, Chatting, Running, ProcessingPartial, Idle]
    );
}

#[test]
fn a_message_that_cannot_start_a_run_fails_and_the_conversation_continues() {
    let mut world = World::new(ChatSpec { agent: None, ..chat() });
    let modes = ModeChoice {
        agent: Some("nobody".into()),
        agent_mode: Some(AgentMode::Single),
        ..ModeChoice::default()
    };
    world.op(Op::SendMessage { text: "Hello".into(), modes, grants: Vec::new() });
    let failed = world.log.iter().any(
        |event| matches!(&event.fact, Fact::AttemptEnded { outcome: AttemptOutcome::Failed { error, .. }, .. } if error.contains("nobody")),
    );
    assert!(failed && world.runs().is_empty() && world.chat.state() == Idle, "{}", world.story());
    world.user("Hello");
    assert_eq!(world.runs().len(), 1);
}

fn grant(path: &str, permission: Permission) -> PathGrant {
    PathGrant { path: path.into(), permission }
}

#[test]
fn granted_paths_apply_only_to_the_runs_of_that_message_with_and_without_approval() {
    let granted = |path: &str, writable: bool| ContextPath { path: path.into(), writable, protected: vec![] };
    for spec in [chat(), unasked()] {
        let approval = spec.agent.as_ref().unwrap().require_approval;
        let mut world = World::new(spec);
        let before = world.chat.spec().team.context_paths.clone();
        let grants = vec![grant("/notes", Permission::Write), grant("/plan.md", Permission::Read)];
        let modes = ModeChoice::default();
        world.op(Op::SendMessage { text: "Tidy /notes".into(), modes, grants });
        world.says(launches(json!({"task": "Tidy", "refinement": false})));
        if approval {
            let proposal = world.proposal();
            assert!(proposal.may_read.contains(&"/plan.md".to_owned()), "{proposal:?}");
            assert!(proposal.may_write.contains(&"/notes".to_owned()), "{proposal:?}");
            assert!(proposal.launch.context_paths.is_empty(), "the agent asked for nothing");
            let edited = LaunchRun { task: "Tidy well".into(), ..proposal.launch };
            world.decides(approve(Some(proposal.digest), Some(edited))).unwrap();
        }
        let run = world.chat.current_run().cloned().unwrap();
        let mut expected = before.clone();
        expected.extend([granted("/notes", true), granted("/plan.md", false)]);
        assert_eq!(world.run_spec(&run).context_paths, expected);
        assert!(world.run_spec(&run).members.iter().all(|member| member.has_tools), "they can look at them");
        world.run_ends(RunStatus::Completed);
        world.answers("Done.");
        world.user("And again");
        world.says(launches(json!({"task": "Again", "refinement": false})));
        if approval {
            world.approves();
        }
        let run = world.chat.current_run().cloned().unwrap();
        assert_eq!(world.run_spec(&run).context_paths, before, "the next message grants nothing");
    }
}

#[test]
fn an_invalid_grant_fails_the_message_before_any_model_call() {
    for agent in [chat().agent, None] {
        let mut spec = ChatSpec { agent, ..chat() };
        let guarded =
            ContextPath { path: "/src".into(), writable: true, protected: vec!["/src/keep".into()] };
        spec.team.context_paths = vec![guarded];
        let mut world = World::new(spec);
        let grants = vec![grant("/src/keep", Permission::Write)];
        world.op(Op::SendMessage { text: "Mend it".into(), modes: ModeChoice::default(), grants });
        let failed = world.log.iter().any(
            |event| matches!(&event.fact, Fact::AttemptEnded { outcome: AttemptOutcome::Failed { error, .. }, .. } if error.contains("protected")),
        );
        assert!(failed && world.runs().is_empty() && world.chat.state() == Idle, "{}", world.story());
    }
}

#[test]
fn the_users_mode_choices_override_the_agents_arguments_and_are_listed() {
    let mut world = World::new(chat());
    let modes = ModeChoice {
        refinement: Some(false),
        agent_mode: Some(AgentMode::Single),
        agent: Some("cc".into()),
        planning: None,
    };
    world.op(Op::SendMessage { text: "Build it".into(), modes, grants: Vec::new() });
    world.says(launches(
        json!({"task": "build", "agent_mode": "multi", "refinement": true, "agents": ["gem", "gpt"]}),
    ));
    let proposal = world.proposal();
    assert_eq!(proposal.chosen, ["agent_mode", "refinement"]);
    assert_eq!((proposal.modes.agent_mode, proposal.modes.refinement), (AgentMode::Single, false));
    assert_eq!(proposal.members[0].id.as_str(), "cc");
}

#[test]
fn tools_of_the_environment_run_before_launch_run() {
    let mut world = World::new(chat());
    world.user("Look");
    let tools = vec![call("read_file", "{\"path\":\"a\"}"), call("launch_run", "{\"task\":\"x\"}")];
    world.says(Reply { tool_calls: tools, ..Reply::default() });
    let side_tasks = world.chat.wanted().side_tasks;
    assert!(
        matches!(&side_tasks[..], [side_task] if matches!(&side_task.kind, SideTaskKind::Tool(call) if call.name == "read_file"))
    );
    assert!(world.open().is_none() && world.chat.is_conversing(), "first what it wanted to know");
    let item = Item::ToolResult { call: "call-read_file".into(), content: "text".into(), is_error: false };
    world.happens(TaskId::chat(), Fact::ItemAdded { attempt: side_tasks[0].attempt, item });
    assert_eq!(world.chat.state(), AwaitingApproval);
}

#[test]
fn an_interrupted_turn_is_resumed_and_an_interrupted_tool_is_not_repeated() {
    let mut world = World::new(chat());
    world.user("Look");
    world.says(Reply {
        tool_calls: vec![call("run_command", "{}")],
        native: Some("n1".into()),
        ..Reply::default()
    });
    let left = world.last_batch();
    world.crashes(left);
    assert!(world.chat.wanted().side_tasks.is_empty());
    let (content, is_error) = world.last_result();
    assert!(is_error && content.contains("may have taken effect"), "{content}");
    assert_eq!(
        world.request().call_context.unwrap().native.as_deref(),
        Some("n1"),
        "its own conversation goes on"
    );
    world.op(Op::Shutdown);
    assert!(world.chat.wanted().calls.is_empty());
    world.op(Op::Resume);
    world.answers("It is there.");
    assert_eq!(world.chat.state(), Idle);
}

#[test]
fn a_failed_call_ends_the_turn_and_the_next_message_is_answered() {
    let mut world = World::new(chat());
    world.user("Hello");
    world.fails();
    assert_eq!(world.states(), [Chatting, Idle]);
    world.user("Are you there?");
    world.answers("Yes.");
    assert_eq!(world.chat.state(), Idle);
}

#[test]
fn an_agent_with_empty_replies_is_reminded_and_then_given_up() {
    let mut world = World::new(chat());
    world.user("Hello");
    for _ in 0..3 {
        world.says(Reply::default());
    }
    assert_eq!(world.chat.state(), Idle);
    let gave_up = |outcome: &AttemptOutcome| matches!(outcome, AttemptOutcome::GaveUp { .. });
    assert!(
        world
            .log
            .iter()
            .any(|event| matches!(&event.fact, Fact::AttemptEnded { outcome, .. } if gave_up(outcome)))
    );
}

// spec: interactive/interactive-agent-delegation-behavior/context-efficient-operation
#[test]
fn an_oversized_result_is_shortened_with_the_path_of_the_full_text() {
    let mut world = World::new(unasked());
    world.user("Build it");
    world.says(launches(json!({"task": "build"})));
    let run = TaskId::run(1);
    let mut long = result(&run, world.run_spec(&run), RunStatus::Completed);
    long.final_answer = Some("word ".repeat(100_000));
    world.run_ends_with(long);
    let (content, _) = world.last_result();
    assert!(content.len() < 20_000, "{} bytes", content.len());
    assert!(content.contains("/logs/r1/final_answer.md"), "{content}");
    world.says(launches(json!({"task": "next", "context": "word ".repeat(100_000)})));
    // The call itself is so long that the steps before it are summarized.
    assert!(!world.chat.is_conversing());
    world.answers("A summary.");
    let (content, is_error) = world.last_result();
    assert!(is_error && content.contains("Sum it up") && content.contains("context_paths"), "{content}");
}

// spec: design/cost/per-run
#[test]
fn costs_of_conversation_and_runs_are_separate_and_the_user_is_asked_before_the_budget_is_exceeded() {
    let mut spec = unasked();
    spec.agent.as_mut().unwrap().budget_micro_usd = Some(400_000);
    let mut world = World::new(spec);
    let paid = |reply: Reply| Reply { usage: Usage { cost_usd: 0.1, calls: 1, ..Usage::default() }, ..reply };
    world.user("Build it");
    world.says(paid(launches(json!({"task": "build"}))));
    let limit = world.run_spec(&TaskId::run(1)).rules.limits.cost_micro_usd;
    assert_eq!(limit, Some(300_000), "a run may spend what is left");
    world.run_ends(RunStatus::Completed);
    assert!((world.chat.usage().cost_usd - 0.1).abs() < 1e-9);
    assert!((world.chat.runs()[0].usage.cost_usd - 0.25).abs() < 1e-9);
    let Some(Interaction { kind: InteractionKind::Budget { spent_micro_usd, budget_micro_usd, .. }, .. }) =
        world.open()
    else {
        panic!("the next call would pass the budget: {}", world.story());
    };
    assert_eq!((spent_micro_usd, budget_micro_usd), (350_000, 400_000));
    assert!(world.chat.wanted().calls.is_empty(), "nothing is spent meanwhile");
    world.decides(approve(None, None)).unwrap();
    world.says(paid(Reply { text: "Built.".into(), ..Reply::default() }));
    assert_eq!(world.chat.state(), Idle);
    world.user("And more");
    for _ in 0..3 {
        world.says(paid(launches(json!({"tsk": "wrong"}))));
    }
    world.decides(Decision::Reject { reason: None }).unwrap();
    assert_eq!(world.chat.state(), Idle, "who will not pay ends the turn");
}

#[test]
fn with_approval_writable_paths_are_shown_and_without_it_no_path_is_added() {
    let call = json!({"task": "x", "context_paths": [{"path": "/home/me/.ssh", "permission": "write"}]});
    let mut world = World::new(chat());
    world.user("Build it");
    world.says(launches(call.clone()));
    assert_eq!(world.proposal().may_write, ["/home/me/.ssh"]);
    let mut spec = unasked();
    let path = |path: &str, writable| ContextPath { path: path.into(), writable, protected: Vec::new() };
    spec.team.context_paths = vec![path("/srv/app", true)];
    let mut world = World::new(spec);
    world.user("Build it");
    world.says(launches(call));
    let (content, is_error) = world.last_result();
    assert!(is_error && content.contains("/srv/app") && world.runs().is_empty(), "{content}");
    world.says(launches(
        json!({"task": "x", "context_paths": [{"path": "/srv/app/src", "permission": "write"}]}),
    ));
    assert_eq!(world.run_spec(&TaskId::run(1)).context_paths, [path("/srv/app", true)]);
}

// spec: interactive/interactive-agent-system-prompt/no-coordination-tools
#[test]
fn the_agent_is_offered_launch_run_and_none_of_the_tools_of_a_run() {
    let mut world = World::new(ChatSpec { agent: Some(agent()), team: team(&["gem"]), ..chat() });
    world.user("Hello");
    let tools = world.request().tools;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["launch_run"]);
    let request = world.request();
    assert_eq!(request.call_context.unwrap().work, TaskId::chat());
    let purposes: Vec<&Purpose> = world
        .log
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::AttemptStarted { purpose, .. } => Some(purpose),
            _ => None,
        })
        .collect();
    assert_eq!(purposes, [&Purpose::Converse]);
}
