//! Tests of a presenter that may write to context paths.

use super::harness::{World, answer, spec, text, vote};
use crate::decider::SideTaskKind;
use althing_protocol::{ContextPath, Fact, FileChange, FileWrite, Item, RunRules, RunStatus};

fn presenting() -> World {
    let mut spec = spec(&["a", "b"], RunRules::default());
    spec.members[0].has_tools = true;
    spec.context_paths = vec![ContextPath { path: "/project".into(), writable: true, protected: Vec::new() }];
    let mut world = World::new(spec);
    world.says(0, answer("one"));
    let kept = Fact::ItemAdded { attempt: 1, item: Item::WorkspaceKept { error: None } };
    world.happens(world.run.work(0), kept);
    world.says(1, answer("two"));
    world.says(0, vote("agent1"));
    world.says(1, vote("agent1"));
    opens(&mut world);
    world
}

fn wanted(world: &World) -> Vec<SideTaskKind> {
    world.run.wanted().side_tasks.into_iter().map(|side_task| side_task.kind).collect()
}

fn opens(world: &mut World) {
    assert_eq!(wanted(world), [SideTaskKind::OpenContext]);
    let item = Item::ContextOpened { error: None };
    world.happens(world.run.work(0), Fact::ItemAdded { attempt: 3, item });
}

fn closes(world: &mut World, writes: &[FileWrite], error: Option<&str>) {
    assert_eq!(wanted(world), [SideTaskKind::CloseContext]);
    let item = Item::ContextClosed { writes: writes.to_vec(), error: error.map(str::to_owned) };
    world.happens(world.run.work(0), Fact::ItemAdded { attempt: 3, item });
}

fn written() -> FileWrite {
    FileWrite { path: "/project/a.rs".into(), change: FileChange::New, note: None }
}

#[test]
fn a_presenter_is_told_that_nothing_has_been_changed_yet() {
    let world = presenting();
    assert!(world.shown_to(0).contains("nothing has been changed there yet"), "{}", world.shown_to(0));
    let mut unwritable = World::start(&["a"], RunRules::default());
    unwritable.says(0, answer("one"));
    unwritable.says(0, vote("agent1"));
    assert!(!unwritable.shown_to(0).contains("changed"), "only where it may write");
}

#[test]
fn a_presenter_that_wrote_nothing_is_reminded_once_and_may_write_again() {
    let mut world = presenting();
    world.says(0, text("I would change the file."));
    assert!(world.asked().is_empty(), "first it is determined what has changed");
    closes(&mut world, &[], None);
    opens(&mut world);
    assert_eq!(world.asked(), [0]);
    assert!(world.shown_to(0).contains("Nothing has been changed in /project"), "{}", world.shown_to(0));
    world.says(0, text("I changed the file."));
    closes(&mut world, &[written()], None);
    let result = world.run.result().expect("the run is over");
    assert_eq!(result.status, RunStatus::Completed);
    assert_eq!(result.final_answer.as_deref(), Some("I changed the file."));
    assert_eq!((result.context_path_writes.len(), result.unchanged_paths.len()), (1, 0));
}

#[test]
fn a_presenter_that_wrote_is_not_reminded() {
    let mut world = presenting();
    world.says(0, text("Done."));
    closes(&mut world, &[written()], None);
    assert_eq!(world.run.result().unwrap().final_answer.as_deref(), Some("Done."));
    let mut world = presenting();
    world.says(0, text("Done."));
    closes(&mut world, &[], Some("the disk said no"));
    assert!(world.run.result().unwrap().unchanged_paths.is_empty(), "nobody knows what has changed");
}

#[test]
fn the_result_says_that_nothing_was_changed_after_the_reminder() {
    let mut world = presenting();
    for _ in 0..2 {
        world.says(0, text("No change is needed."));
        closes(&mut world, &[], None);
        if world.run.result().is_none() {
            opens(&mut world);
        }
    }
    let result = world.run.result().expect("reminded only once");
    assert_eq!(result.unchanged_paths, ["/project"]);
    assert_eq!(result.final_answer.as_deref(), Some("No change is needed."));
    assert_eq!(world.folded(), world.run);
}

#[test]
fn a_notice_and_the_result_say_that_nothing_was_changed_if_the_winner_dropped_out() {
    let mut spec = spec(&["a", "b"], RunRules::default());
    spec.context_paths = vec![ContextPath { path: "/project".into(), writable: true, protected: Vec::new() }];
    let mut world = World::new(spec);
    world.says(0, answer("one"));
    world.says(1, answer("two"));
    world.says(1, vote("agent1"));
    world.fails(0);
    let result = world.run.result().expect("the run is over");
    assert_eq!((result.status, result.final_answer.as_deref()), (RunStatus::Completed, Some("one")));
    assert_eq!(result.unchanged_paths, ["/project"]);
    let is_told = |fact: &Fact| matches!(fact, Fact::Notice(it) if it.text.contains("a dropped out before it could carry out"));
    assert_eq!(world.log.iter().filter(|event| is_told(&event.fact)).count(), 1, "{}", world.story());
}
