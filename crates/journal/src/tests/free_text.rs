//! Row S6b of docs/reliability.md: values that somebody else chose are masked only in free text, and a secret of the user
//! in what is acted upon is found.

use super::masking::{carriers, named_by_others, texts};
use super::{event, session};
use crate::{Masker, masked_place};
use althing_protocol::{
    ContextPath, CustomAdapter, Event, ExecutionMode, Fact, Op, ProgramSpec, RunSpec, StageBody, StageSpec,
    StageTask, TaskSpec, WorkflowSpec,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

const CHOSEN: &str = "chosen-by-others-2024";

/// Names of fields that may be free text.
const FREE: [&str; 24] = [
    "text",
    "task",
    "context",
    "goal",
    "user",
    "assistant",
    "content",
    "reasoning",
    "native",
    "system",
    "arguments",
    "conclusion",
    "reason",
    "description",
    "verification",
    "additions",
    "note",
    "error",
    "hint",
    "detail",
    "result",
    "why",
    "rejected",
    "output",
];
const MORE_FREE: [&str; 6] =
    ["instructions", "summary", "markers", "explanation", "final_answer", "tie_break"];

fn program() -> ProgramSpec {
    ProgramSpec {
        adapter: "command".into(),
        command: vec!["sh".into(), "plain".into()],
        mode: ExecutionMode::Headless,
        prompt: "plain".into(),
        cwd: "/plain".into(),
        env: BTreeMap::from([("NAME".to_owned(), "plain".to_owned())]),
        model: Some("plain".into()),
        on_interrupt: None,
        sandbox: Some(true),
        idle_timeout: None,
        approvals: false,
        agent: None,
        options: serde_json::from_value(serde_json::json!({"disallowed_tools": ["plain"]})).unwrap(),
    }
}

fn workflow() -> WorkflowSpec {
    let body = StageBody::Program(Box::new(program()));
    let task = StageTask { id: "t".into(), body, timeout: None, continue_on_failure: false };
    let args = vec!["plain".to_owned()];
    let adapter = CustomAdapter {
        name: "tool".into(),
        program: "/plain".into(),
        args: args.clone(),
        headless_args: Some(args.clone()),
        resume_args: Some(args),
        env: BTreeMap::from([("NAME".to_owned(), "plain".to_owned())]),
        ..CustomAdapter::default()
    };
    WorkflowSpec {
        name: "plain".into(),
        goal: "plain".into(),
        stages: vec![StageSpec { name: "s".into(), tasks: vec![task] }],
        adapters: vec![adapter],
        source: "/plain".into(),
        digest: "0".into(),
        cost_micro_usd: None,
    }
}

fn run_spec() -> RunSpec {
    let TaskSpec::Run(spec) = super::run_spec("plain") else { unreachable!() };
    let paths = vec![ContextPath { path: "/plain".into(), writable: true, protected: vec!["plain".into()] }];
    RunSpec { context_paths: paths, unapproved_paths: vec!["/plain".into()], ..*spec }
}

fn started() -> Vec<Arc<Event>> {
    let created = |spec| Fact::TaskCreated { id: "w1".into(), parent: None, spec };
    let facts = [
        created(TaskSpec::Workflow(Box::new(workflow()))),
        created(TaskSpec::Program(Box::new(program()))),
        created(TaskSpec::Run(Box::new(run_spec()))),
    ];
    (1..).zip(facts).map(|(n, fact)| event(n, Some("w1"), fact)).collect()
}

/// The events with one text replaced, and where it is.
fn with_one_text(event: &Event, text: &str) -> Vec<(String, Event)> {
    let json = serde_json::to_value(event).unwrap();
    let mut places = Vec::new();
    texts(&json, "", &mut places);
    let replace = |place: String| {
        let mut json = json.clone();
        *json.pointer_mut(&place).unwrap() = text.into();
        Some((place, serde_json::from_value(json).ok()?))
    };
    places.into_iter().filter_map(replace).collect()
}

#[test]
fn nothing_but_free_text_is_masked_for_values_that_somebody_else_chose() {
    let masker = Masker::new([CHOSEN]);
    let events =
        session(40).into_iter().chain(carriers("plain")).chain(named_by_others("plain")).chain(started());
    let (mut masked, mut kept) = (0, 0);
    for event in events {
        for (place, event) in with_one_text(&event, &format!("x {CHOSEN} y")) {
            let after = masker.mask_free_text(event.clone());
            let words: Vec<&str> = place.split('/').filter(|word| word.parse::<usize>().is_err()).collect();
            let last = *words.last().unwrap();
            if after == event {
                let is_said =
                    place.starts_with("/data/item/") && ["text", "content", "reasoning"].contains(&last);
                assert!(!is_said, "{place} stays");
                kept += 1;
                continue;
            }
            assert!(FREE.contains(&last) || MORE_FREE.contains(&last), "{place} is masked");
            let acted_upon = ["stages", "adapters", "context_paths", "members", "env", "options", "launch"];
            assert!(!words.iter().any(|word| acted_upon.contains(word)), "{place} is masked");
            masked += 1;
        }
    }
    assert!(masked > 20 && kept > 40, "{masked} {kept}");
}

#[test]
fn a_secret_in_what_is_acted_upon_is_found_and_so_is_its_mask() {
    let secret = Masker::new([CHOSEN]);
    let (mut found, mut others) = (Vec::new(), 0);
    for event in started() {
        for (place, event) in with_one_text(&event, CHOSEN) {
            let op = match event.fact {
                Fact::TaskCreated { spec: TaskSpec::Workflow(spec), .. } => Op::StartWorkflow { spec },
                Fact::TaskCreated { spec: TaskSpec::Run(spec), .. } => Op::StartRun { spec },
                _ => continue,
            };
            let masked = secret.mask_event(
                (*super::event(1, None, Fact::accepted(op.clone(), althing_protocol::Origin::User))).clone(),
            );
            let is_found = secret.secret_place(&op);
            assert_eq!(is_found, masked_place(&[Arc::new(masked)]), "{place}");
            match is_found {
                Some(_) => found.push(place),
                None => others += 1,
            }
        }
    }
    for end in [
        "/command/1",
        "/env/NAME",
        "/cwd",
        "/args/0",
        "/headless_args/0",
        "/resume_args/0",
        "/program",
        "/context_paths/0/path",
        "/context_paths/0/protected/0",
        "/unapproved_paths/0",
        "/disallowed_tools/0",
    ] {
        assert!(found.iter().any(|place| place.ends_with(end)), "{end}: {found:?}");
    }
    assert!(others > 5);
    let text = Value::from("x").to_string();
    assert_eq!(
        secret.secret_place(&Op::SendMessage {
            text: text + CHOSEN,
            modes: althing_protocol::ModeChoice::default(),
            grants: vec![]
        }),
        None
    );
}
