//! Tests of the conversation that front ends show.

use super::*;
use althing_protocol::{AnswerLabel, Ask, Candidate, Interaction, Member, Modes, Timestamp};
use std::collections::BTreeMap;

fn question(kind: InteractionKind) -> Question {
    let interaction = Interaction { id: "i1".into(), kind, countdown: None };
    Question { interaction, task: Some("w1.ask".into()), since: Timestamp(0), opened: Seq(1), paused: None }
}

fn run_approval() -> InteractionKind {
    proposed(LaunchRun { task: "Do A".into(), ..LaunchRun::default() }, &[])
}

fn proposed(launch: LaunchRun, agents: &[&str]) -> InteractionKind {
    let (may_read, may_write) = (Vec::new(), vec!["./app".into()]);
    let member = |id: &&str| Member {
        id: (*id).into(),
        backend: "gemini".into(),
        model: "m".into(),
        offline: false,
        system_message: None,
        has_tools: false,
        voting_sensitivity: None,
    };
    let (modes, chosen) = (Modes::default(), Vec::new());
    let members = agents.iter().map(member).collect();
    let proposal = Proposal {
        launch,
        members,
        modes,
        chosen,
        may_read,
        may_write,
        costs: None,
        not_signed_in: BTreeMap::new(),
        digest: "d".into(),
    };
    InteractionKind::RunApproval { proposal: Box::new(proposal) }
}

fn decision(kind: InteractionKind, line: &str) -> Option<Decision> {
    match answer(&question(kind), line)? {
        Op::Answer { decision, .. } => Some(decision),
        _ => None,
    }
}

#[test]
fn an_approval_points_out_a_path_that_runs_code_later() {
    let mut kind = run_approval();
    let InteractionKind::RunApproval { proposal } = &mut kind else { panic!("an approval") };
    proposal.may_write =
        ["/p/src", "/p/.envrc", "/p/.vscode/tasks.json", "/p/Makefile"].map(str::to_owned).to_vec();
    for reader in [Audience::Script, Audience::Person] {
        let asked = ask(&kind, reader);
        for part in ["/p/.envrc (runs code when a shell", "tasks.json (runs code when VS Code", "/p/Makefile"]
        {
            assert!(asked.contains(part), "{part}: {asked}");
        }
        assert!(!asked.contains("/p/src (") && !asked.contains("Makefile ("), "{asked}");
    }
}

#[test]
fn a_run_is_approved_edited_or_rejected_by_the_same_input_everywhere() {
    let approved = Decision::Approve { digest: Some("d".into()), edited: None, instructions: None };
    for line in ["y", "YES", "a", " approve ", "/approve", "/yes"] {
        assert_eq!(decision(run_approval(), line).as_ref(), Some(&approved), "{line}");
    }
    let instructions = Some("but count them".to_owned());
    let with_words = Decision::Approve { digest: Some("d".into()), edited: None, instructions };
    assert_eq!(decision(run_approval(), "/approve but count them"), Some(with_words));
    for line in ["n", "no", "c", "Cancel", "/reject", "/no"] {
        assert_eq!(decision(run_approval(), line), Some(Decision::Reject { reason: None }), "{line}");
    }
    let Some(Decision::Approve { digest, edited: Some(edited), .. }) =
        decision(run_approval(), r#"{"task": "Do B"}"#)
    else {
        panic!("the changed run approves")
    };
    assert_eq!((digest.as_deref(), edited.task.as_str()), (Some("d"), "Do B"));
    for line in ["", "yes, but later", "no idea", "/quit", "{}"] {
        assert_eq!(decision(run_approval(), line), None, "{line} is no answer");
    }
}

#[test]
fn a_vote_is_only_overridden_by_commands() {
    let candidate = Candidate {
        agent: "two".into(),
        label: AnswerLabel { agent: 2, nth: 1 },
        votes: 0,
        preview: String::new(),
    };
    let vote =
        || InteractionKind::WinnerOverride { winner: "one".into(), candidates: vec![candidate.clone()] };
    assert_eq!(decision(vote(), "/approve"), Some(Decision::Continue));
    assert_eq!(decision(vote(), "/present two"), Some(Decision::Presenter { agent: "two".into() }));
    assert_eq!(decision(vote(), "no"), None);
}

#[test]
fn a_program_is_answered_by_a_number_or_typed_to() {
    let option = |id: &str| AskOption { id: id.into(), label: id.into() };
    let ask = |options| {
        let (about, text) = (AskKind::Permission, "May I?".into());
        question(InteractionKind::Program(Ask { about, text, options, native: None }))
    };
    let numbered = answer(&ask(vec![option("allow"), option("deny")]), "/answer 2");
    let deny = Decision::Choose { option: "deny".into() };
    assert_eq!(numbered, Some(Op::Answer { interaction: "i1".into(), decision: deny }));
    assert_eq!(answer(&ask(vec![option("allow")]), "/answer 2"), None);
    let choose = |option: &str| {
        let decision = Decision::Choose { option: option.into() };
        Some(Op::Answer { interaction: "i1".into(), decision })
    };
    for (line, chosen) in [("yes", "allow"), ("y", "allow"), ("no", "deny"), ("/no", "deny")] {
        assert_eq!(answer(&ask(vec![option("allow"), option("deny")]), line), choose(chosen), "{line}");
    }
    assert_eq!(answer(&ask(vec![option("allow"), option("later")]), "no"), None);
    let typed = Op::Input { task: "w1.ask".into(), bytes: b"yes\r".to_vec() };
    assert_eq!(answer(&ask(Vec::new()), "/type yes"), Some(typed));
}

#[test]
fn a_question_names_the_same_facts_to_scripts_and_to_people() {
    assert_eq!(
        ask(&run_approval(), Audience::Script),
        "Launch this run?\n  Task      Do A\n  Modes     Multi · Refine\n  May write ./app\n  y approve, n cancel, or \
         the changed run as JSON"
    );
    assert_eq!(
        ask(&run_approval(), Audience::Person),
        "Question: launch this run? Task: Do A. Modes: Multi · Refine. May write: ./app. Write /approve or /reject."
    );
    let launch = LaunchRun {
        task: "Do A".into(),
        context: Some("Small.\nAgents    nobody".into()),
        agent_system_prompts: [("a".into(), "Rhyme".to_owned())].into(),
        coordination_overrides: [("skip_voting".to_owned(), true.into())].into_iter().collect(),
        ..LaunchRun::default()
    };
    let InteractionKind::RunApproval { proposal } = proposed(launch, &["a", "b"]) else { panic!("no run") };
    let shown = "Launch this run?\n  Task      Do A\n  Context   Small.\n          | Agents    nobody\n  Agents    a, b\n  \
                 Modes     Multi · Refine\n  Prompts   a: Rhyme\n  Rules     skip_voting: true\n  May write ./app";
    assert_eq!(launch_question(&proposal), shown);
    let asked = ask(&InteractionKind::RunApproval { proposal }, Audience::Script);
    assert_eq!(asked, format!("{shown}\n  y approve, n cancel, or the changed run as JSON"));
}
