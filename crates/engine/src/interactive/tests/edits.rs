//! The chat agent's changes of files: when the user is asked, and what an answer means.

use super::harness::{World, chat, preview};
use crate::SideTaskKind;
use crate::coordination::tests::harness::call;
use althing_protocol::{
    ALWAYS_IN_PROJECT, ChatState, Decision, Fact, InteractionKind, Item, LaunchRun, Op, Reply, TaskId,
    ToolCall,
};

fn second_call() -> ToolCall {
    ToolCall { id: "second".into(), ..call("edit_file", "{}") }
}

/// A conversation whose agent has called these tools.
fn world(tool_calls: Vec<ToolCall>) -> World {
    let mut world = World::new(chat());
    world.user("Change it");
    world.says(Reply { tool_calls, ..Reply::default() });
    world
}

fn only_side_task(world: &World) -> (u32, SideTaskKind) {
    let side_tasks = world.chat.wanted().side_tasks;
    let [side_task] = side_tasks.as_slice() else { panic!("{side_tasks:?}") };
    (side_task.attempt, side_task.kind.clone())
}

/// The wanted preview arrives.
fn previews(world: &mut World, ask: bool) {
    let (attempt, kind) = only_side_task(world);
    let SideTaskKind::PreviewEdit(call) = kind else { panic!("{kind:?}") };
    let item = Item::EditProposed { call: call.id, preview: preview(ask) };
    world.happens(TaskId::chat(), Fact::ItemAdded { attempt, item });
}

/// The wanted change is made.
fn makes_change(world: &mut World) {
    let (attempt, kind) = only_side_task(world);
    let SideTaskKind::Edit { call, digest } = kind else { panic!("{kind:?}") };
    assert_eq!(digest, preview(true).digest);
    let item = Item::ToolResult { call: call.id, content: "Changed.".into(), is_error: false };
    world.happens(TaskId::chat(), Fact::ItemAdded { attempt, item });
}

fn approve(digest: Option<&str>) -> Decision {
    Decision::Approve { digest: digest.map(str::to_owned), edited: None, instructions: None }
}

fn always() -> Decision {
    Decision::Choose { option: ALWAYS_IN_PROJECT.into() }
}

#[test]
fn a_change_is_previewed_and_made_only_after_the_user_allows_it() {
    let mut world = world(vec![call("write_file", "{}")]);
    previews(&mut world, true);
    let open = world.open().expect("the user is asked");
    assert!(
        matches!(&open.kind, InteractionKind::EditApproval { preview: shown, .. } if *shown == preview(true))
    );
    assert_eq!(world.chat.state(), ChatState::Chatting, "no run awaits approval");
    assert!(world.chat.wanted().side_tasks.is_empty());
    assert!(world.chat.refusal_of(&Op::StopReply).is_some(), "the question is answered first");

    let edited = Some(Box::new(LaunchRun::default()));
    let other_run = Decision::Approve { digest: None, edited, instructions: None };
    let forever = Decision::Choose { option: "forever".into() };
    for wrong in [approve(Some("another")), other_run, forever, Decision::Continue] {
        assert!(world.decides(wrong.clone()).is_err(), "{wrong:?}");
    }
    world.decides(approve(Some("d1"))).unwrap();
    makes_change(&mut world);
    world.answers("Done.");
    assert_eq!(world.states(), [ChatState::Chatting, ChatState::Idle]);
}

#[test]
fn a_rejected_change_is_not_made_and_the_agent_is_told() {
    let mut world = world(vec![call("delete_file", "{}")]);
    previews(&mut world, true);
    world.decides(Decision::Reject { reason: Some("keep it".into()) }).unwrap();
    let (content, is_error) = world.last_result();
    assert!(is_error && content.contains("did not allow") && content.contains("keep it"), "{content}");
    assert_eq!(world.chat.state(), ChatState::Chatting);
}

#[test]
fn changes_are_previewed_one_after_the_other_and_always_ends_the_questions() {
    let mut world = world(vec![call("write_file", "{}"), second_call(), call("read_file", "{}")]);
    previews(&mut world, true);
    world.decides(approve(None)).unwrap();
    makes_change(&mut world);
    previews(&mut world, true);
    assert!(world.open().is_some(), "an approval is for one change");
    world.decides(always()).unwrap();
    makes_change(&mut world);
    assert!(matches!(only_side_task(&world).1, SideTaskKind::Tool(call) if call.name == "read_file"));

    let (attempt, _) = only_side_task(&world);
    let item = Item::ToolResult { call: "call-read_file".into(), content: "x".into(), is_error: false };
    world.happens(TaskId::chat(), Fact::ItemAdded { attempt, item });
    world.says(Reply { tool_calls: vec![call("apply_patch", "{}")], ..Reply::default() });
    previews(&mut world, true);
    assert!(world.open().is_none());
    makes_change(&mut world);
}

#[test]
fn a_resumed_conversation_does_not_take_always_from_its_log() {
    let mut world = world(vec![call("write_file", "{}"), second_call(), call("apply_patch", "{}")]);
    previews(&mut world, true);
    world.decides(always()).unwrap();
    makes_change(&mut world);
    previews(&mut world, true);
    assert!(world.open().is_none());
    world.crashes(world.last_batch());
    assert!(world.open().is_none(), "the interrupted change is not asked about again");
    assert!(world.last_result().0.contains("may have taken effect"));

    world.says(Reply { tool_calls: vec![call("apply_patch", "{}")], ..Reply::default() });
    previews(&mut world, true);
    assert!(world.open().is_some(), "a preview that says so is asked about");
}

#[test]
fn a_change_that_needs_no_permission_is_made_at_once() {
    let mut world = world(vec![call("write_file", "{}")]);
    previews(&mut world, false);
    assert!(world.open().is_none());
    makes_change(&mut world);
}

#[test]
fn the_question_survives_a_crash_and_an_interrupted_change_is_not_repeated() {
    let mut world = world(vec![call("write_file", "{}")]);
    previews(&mut world, true);
    let asked = world.open().unwrap();
    world.crashes(world.last_batch());
    assert_eq!(world.open(), Some(asked), "the same question is still open");
    world.decides(approve(None)).unwrap();
    assert!(matches!(only_side_task(&world).1, SideTaskKind::Edit { .. }));
    world.crashes(world.last_batch());
    assert!(world.chat.wanted().side_tasks.is_empty());
    let (content, is_error) = world.last_result();
    assert!(is_error && content.contains("may have taken effect"), "{content}");
}

#[test]
fn a_stopped_turn_closes_the_question_and_changes_nothing() {
    let mut world = world(vec![call("write_file", "{}")]);
    previews(&mut world, true);
    world.op(Op::Cancel { task: TaskId::chat() });
    assert!(world.open().is_none() && world.chat.wanted().side_tasks.is_empty());
    assert_eq!(world.chat.state(), ChatState::Idle);
}
