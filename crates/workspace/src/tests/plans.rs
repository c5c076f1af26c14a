//! Plans: parsed from answers, validated, stored with their progress.

use super::fixture::temp;
use crate::plans::ready;
use crate::{PlanStore, PlanStoreError, TaskProgress};
use althing_plan::{Plan, PlanProblem, find_plan};
use althing_protocol::{PlanStatus, PlanTask, Timestamp};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

fn task(id: &str, depends_on: &[&str]) -> PlanTask {
    let depends_on = depends_on.iter().map(|id| (*id).to_owned()).collect();
    PlanTask { id: id.into(), description: format!("Do {id}"), depends_on, verification: None }
}

fn chain() -> Plan {
    Plan { tasks: vec![task("a", &[]), task("b", &["a"]), task("c", &["a", "b"])] }
}

fn problems(tasks: Vec<PlanTask>) -> Vec<PlanProblem> {
    Plan { tasks }.problems()
}

const AT: Timestamp = Timestamp(1_763_200_000_000);

#[test]
fn a_link_in_the_place_of_a_plan_is_no_plan_and_neither_is_one_in_the_place_of_its_file() {
    let (dir, elsewhere) = (temp(), temp());
    let (store, other) = (PlanStore::of(dir.path()), PlanStore::of(elsewhere.path()));
    let made = other.create("goal", chain(), "s1.r1", AT).unwrap();
    let plans = dir.path().join("plans");
    fs::create_dir_all(&plans).unwrap();
    std::os::unix::fs::symlink(made.dir(), plans.join("plan-x")).unwrap();
    fs::create_dir(plans.join("plan-y")).unwrap();
    std::os::unix::fs::symlink(made.dir().join("plan.json"), plans.join("plan-y/plan.json")).unwrap();
    assert_eq!(store.ids().unwrap(), Vec::<String>::new());
    for which in ["latest", "plan-x", "plan-y"] {
        assert!(matches!(store.load(which), Err(PlanStoreError::NotFound { .. })), "{which}");
    }
    let named = plans.join("plan-x");
    assert_eq!(
        store.load(named.to_str().unwrap()).unwrap().id(),
        made.id(),
        "a path that the user names may be a link"
    );
}

#[test]
fn a_plan_is_parsed_in_the_forms_that_models_write() {
    let block = r#"{"tasks": [{"id": "a", "description": "Do a", "verification": "it runs"}]}"#;
    let expected = "it runs";
    for answer in [
        block.to_owned(),
        format!("Here is my plan.\n\n```json\n{block}\n```\nTell me what you think of {{it}}."),
        format!("```\n{block}\n```\n```rust\nfn main() {{}}\n```"),
        format!("First some thoughts. {block} That is all."),
        format!("```json\n{block}\n```\nOnce more:\n```json\n{block}\n```"),
        r#"[{"id": "a", "description": "Do a", "success_criteria": ["it runs"]}]"#.to_owned(),
        r#"{"tasks": [{"id": "a", "description": "Do a", "metadata": {"verification": "it runs"}, "chunk": "1"}]}"#.to_owned(),
    ] {
        let plan = find_plan(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        assert_eq!(plan.tasks.len(), 1);
        assert_eq!(plan.tasks[0].verification.as_deref(), Some(expected), "{answer}");
    }
    let dependent = find_plan(
        r#"{"tasks": [{"id": 1, "description": "x"}, {"id": 2, "description": "y", "dependencies": [1]}]}"#,
    );
    assert_eq!(dependent.unwrap().tasks[1].depends_on, ["1"]);
}

#[test]
fn a_missing_or_invalid_plan_is_an_error() {
    for (answer, word) in [
        ("I would start with the tests, then mend the code.", "no plan"),
        ("```json\n{\"steps\": []}\n```", "no plan"),
        ("```json\n{\"tasks\": [{\"id\": \"a\", }]}\n```", "not JSON"),
        ("{\"tasks\": []}", "no tasks"),
        ("{\"tasks\": [{\"id\": \"a\"}]}", "no description"),
        ("{\"tasks\": [\"a\"]}", "task 1: must be an object"),
        ("{\"tasks\": [{\"id\": \"a\", \"description\": \"x\", \"depends_on\": \"b\"}]}", "list of ids"),
        (
            "```json\n{\"tasks\": [{\"id\": \"a\", \"description\": \"x\"}]}\n```\nor\n```json\n{\"tasks\": [{\"id\": \"b\", \"description\": \"x\"}]}\n```",
            "2 different plans",
        ),
    ] {
        let error = find_plan(answer).unwrap_err();
        assert!(error.to_string().contains(word), "{answer}: {error}");
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn all_problems_of_a_plan_are_reported_at_once() {
    let mut silent = task("d", &[]);
    silent.description = " ".into();
    let found =
        problems(vec![task("a", &["b", "x"]), task("b", &["a"]), task("a b", &[]), task("b", &[]), silent]);
    assert_eq!(
        found,
        [
            PlanProblem::BadId { number: 3 },
            PlanProblem::Duplicate { id: "b".into() },
            PlanProblem::NoDescription { id: "d".into() },
            PlanProblem::UnknownDependency { id: "a".into(), needs: "x".into() },
        ]
    );
    let round = problems(vec![task("z", &["a"]), task("a", &["b"]), task("b", &["c"]), task("c", &["a"])]);
    assert_eq!(round.len(), 1);
    assert!(round[0].to_string().ends_with("a → b → c → a"), "{}", round[0]);
    assert_eq!(problems(vec![task("a", &["a"])])[0].to_string(), "these tasks depend on each other: a → a");
    let many = (0..201).map(|n| task(&n.to_string(), &[])).collect();
    assert_eq!(problems(many), [PlanProblem::TooMany { count: 201, most: 200 }]);
}

proptest! {
    #[test]
    fn dependencies_are_respected_and_a_cycle_is_detected(needs in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..3), 1..30), at in any::<prop::sample::Index>()) {
        let name = |n: usize| format!("t{n}");
        let mut tasks: Vec<PlanTask> = Vec::new();
        for (n, needs) in needs.iter().enumerate() {
            let ids: BTreeSet<String> = if n == 0 { BTreeSet::new() } else { needs.iter().map(|index| name(index.index(n))).collect() };
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            tasks.push(task(&name(n), &ids));
        }
        prop_assert_eq!(problems(tasks.clone()), []);
        let mut progress_by_task = BTreeMap::new();
        while let Some(next) = ready(&tasks, &progress_by_task).first().map(|task| (*task).clone()) {
            prop_assert!(next.depends_on.iter().all(|id| progress_by_task.contains_key(id)));
            let done = TaskProgress { status: PlanStatus::Completed, note: None };
            prop_assert!(progress_by_task.insert(next.id.clone(), done).is_none(), "twice");
        }
        prop_assert_eq!(progress_by_task.len(), tasks.len());

        // A cycle: the root of a dependency chain now depends on the last task of that chain.
        let last = at.index(tasks.len());
        let mut first = last;
        while let Some(needs) = tasks[first].depends_on.first() {
            first = needs.trim_start_matches('t').parse().unwrap();
        }
        tasks[first].depends_on.push(name(last));
        let circle = |problem: &PlanProblem| matches!(problem, PlanProblem::Cycle { .. });
        let found = problems(tasks);
        prop_assert!(found.iter().any(circle));
    }

    #[test]
    fn any_answer_gives_a_valid_plan_or_an_error(text in "(\\PC|\n|```|json|[{}\\[\\]\":,]|\"tasks\"|\"id\"|\"description\"){0,80}") {
        match find_plan(&text) {
            Ok(plan) => prop_assert!(plan.problems().is_empty()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn a_stored_plan_is_found_by_id_by_directory_and_as_latest() {
    let dir = temp();
    let store = PlanStore::of(dir.path());
    assert!(matches!(store.load("latest"), Err(PlanStoreError::NotFound { .. })));
    let first = store.create("Mend the parser", chain(), "s1.r1", AT).unwrap();
    let mut second = store.create("Mend the lexer", chain(), "s1.r2", Timestamp(AT.0 + 1000)).unwrap();
    assert_eq!(store.ids().unwrap(), [first.id(), second.id()]);
    assert_eq!(store.load("latest").unwrap(), store.load(second.id()).unwrap());
    assert_eq!(store.load(&first.dir().display().to_string()).unwrap().goal(), "Mend the parser");
    for wrong in ["plan-nowhere", "../..", "/etc", ""] {
        let error = store.load(wrong).unwrap_err();
        assert!(matches!(error, PlanStoreError::NotFound { .. }), "{error}");
        assert!(error.hint().unwrap().contains("latest"));
    }
    assert!(!second.is_approved());
    second.approve(Some("Use tabs.".into())).unwrap();
    second.set("a", PlanStatus::Completed, Some("in 3 files".into())).unwrap();
    let text = fs::read_to_string(second.dir().join("plan.md")).unwrap();
    assert_eq!(
        text,
        "# Mend the lexer\n\nAlso: Use tabs.\n\n- [x] **a**: Do a\n  - note: in 3 files\n- [ ] **b**: Do b (after a)\n\
         - [ ] **c**: Do c (after a, b)\n"
    );
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(second.dir().join("plan.json")).unwrap()).unwrap();
    assert_eq!(json["tasks"][2]["depends_on"], serde_json::json!(["a", "b"]));
    assert_eq!(json["additions"], "Use tabs.");
    assert_eq!(second.reference().path, second.dir().display().to_string());
}

#[test]
fn progress_survives_the_process_and_unfinished_tasks_start_over() {
    let dir = temp();
    let store = PlanStore::of(dir.path());
    let mut plan = store.create("goal", chain(), "s1.r1", AT).unwrap();
    plan.set("a", PlanStatus::Completed, None).unwrap();
    plan.set("b", PlanStatus::InProgress, None).unwrap();
    assert!(matches!(plan.set("x", PlanStatus::Failed, None), Err(PlanStoreError::NoSuchTask { .. })));
    let lock = plan.lock().unwrap();
    let mut again = store.load("latest").unwrap();
    assert!(again.ready().is_empty(), "its only ready task is in progress");
    let refused = again.lock().map(drop).unwrap_err();
    assert!(refused.to_string().contains(&format!("pid {}", std::process::id())), "{refused}");
    drop(lock);
    again.lock().unwrap();
    again.reset_unfinished().unwrap();
    assert_eq!(again.ready().iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(again.done(), (1, 3));
    assert_eq!(store.load("latest").unwrap(), again);
}

#[test]
fn an_edited_plan_is_validated_keeps_progress_and_needs_approval_again() {
    let dir = temp();
    let store = PlanStore::of(dir.path());
    let mut plan = store.create("goal", chain(), "s1.r1", AT).unwrap();
    plan.approve(None).unwrap();
    plan.set("a", PlanStatus::Completed, None).unwrap();
    plan.set("b", PlanStatus::Completed, None).unwrap();
    let refused = plan.edit(Plan { tasks: vec![task("a", &["b"])] }).unwrap_err();
    assert!(refused.to_string().contains("`b`"), "{refused}");
    plan.edit(Plan { tasks: vec![task("a", &[]), task("d", &["a"])] }).unwrap();
    assert!(!plan.is_approved());
    assert_eq!(plan.done(), (1, 2));
    let file = plan.dir().join("plan.json");
    let text = fs::read_to_string(&file).unwrap().replace("\"d\"", "\"a\"");
    fs::write(&file, text).unwrap();
    assert!(store.load("latest").unwrap_err().to_string().contains("two tasks are called `a`"));
    fs::write(&file, "{").unwrap();
    assert!(store.load("latest").unwrap_err().to_string().contains("plan.json"));
}

#[test]
fn storing_the_plan_of_a_run_is_idempotent_and_other_runs_get_other_ids() {
    let dir = temp();
    let store = PlanStore::of(dir.path());
    let mut stored = store.create("goal", chain(), "s1.r1", AT).unwrap();
    stored.edit(Plan { tasks: vec![task("edited", &[])] }).unwrap();
    let again = store.create("goal", chain(), "s1.r1", AT).unwrap();
    assert_eq!((again.id(), again.plan()), (stored.id(), stored.plan()), "edits of people stay");
    // These runs began in the same second, so the ids of their plans differ only in the tag after the time.
    let ids: BTreeSet<String> = (0..300)
        .map(|n| store.create("goal", chain(), &format!("s{n}.r1"), AT).unwrap().id().to_owned())
        .collect();
    assert_eq!(ids.len(), 300);
    assert!(ids.contains(stored.id()), "s1.r1 has the same id as before");
}

#[test]
fn nothing_is_left_of_a_plan_that_a_killed_process_did_not_finish_storing() {
    let dir = temp();
    let store = PlanStore::of(dir.path());
    let unfinished = dir.path().join("plans").join(format!(".new-{:016x}", althing_text::fnv1a("s1.r1")));
    fs::create_dir_all(&unfinished).unwrap();
    fs::write(unfinished.join(".plan.json.tmp"), "{").unwrap();
    assert!(store.ids().unwrap().is_empty());
    let names = |dir: &std::path::Path| {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let stored = store.create("goal", chain(), "s1.r1", AT).unwrap();
    assert_eq!(store.create("goal", chain(), "s1.r1", AT).unwrap().id(), stored.id());
    assert_eq!(names(&dir.path().join("plans")), [stored.id()]);
    assert_eq!(names(stored.dir()), ["plan.json", "plan.md", "progress.json"]);
}
