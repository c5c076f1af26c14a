//! The chat agent's changes of files: each is previewed, shown, allowed if a person must allow it, and only then made.
//!
//! Calls that change files are handled one at a time, in the order of the reply, so that each preview shows what the
//! files really contain then. While the user is asked, the conversation's `ChatState` stays the same: it does not become
//! `AwaitingApproval`.

use super::InteractiveSession;
use super::rules::NextTurnStep;
use super::state::{ChatAttempt, ChatTurn, ProposedEdit};
use crate::decider::SideTaskKind;
use althing_protocol::{
    ALWAYS_IN_PROJECT, Decision, EDIT_TOOLS, EditPreview, Fact, Interaction, InteractionId, InteractionKind,
    ToolCall,
};

/// Whether a call may change files.
fn is_edit(call: &ToolCall) -> bool {
    EDIT_TOOLS.contains(&call.name.as_str())
}

/// Whether an answer allows this change and all later ones.
fn is_always(decision: &Decision) -> bool {
    matches!(decision, Decision::Choose { option } if option == ALWAYS_IN_PROJECT)
}

/// Checks an answer to the question whether a change is allowed; returns why it is rejected.
pub(super) fn check_permission(preview: &EditPreview, decision: &Decision) -> Result<(), String> {
    match decision {
        Decision::Approve { edited: None, instructions: None, digest } => match digest {
            Some(digest) if *digest != preview.digest => {
                Err("the approval is for a different change than the one in question".into())
            }
            _ => Ok(()),
        },
        decision if is_always(decision) => Ok(()),
        _ => Err(format!("this question accepts only approve, reject or the choice `{ALWAYS_IN_PROJECT}`")),
    }
}

impl ProposedEdit {
    fn must_ask(&self) -> bool {
        self.preview.ask && self.decision.is_none()
    }
}

impl ChatTurn {
    /// Notes what an open call would change. `is_allowed`: whether the user has already allowed all changes.
    pub(super) fn propose_edit(&mut self, call: &str, preview: &EditPreview, is_allowed: bool) {
        if self.open_calls().iter().any(|open| open.id == call) {
            let mut preview = preview.clone();
            preview.ask &= !is_allowed;
            self.edits.insert(call.to_owned(), ProposedEdit { preview, decision: None });
        }
    }

    /// Notes the user's answer about a call; returns whether it allows all later changes, too.
    pub(super) fn decide_edit(&mut self, call: &str, decision: &Decision) -> bool {
        if let Some(edit) = self.edits.get_mut(call) {
            edit.decision = Some(decision.clone());
        }
        is_always(decision)
    }
}

impl InteractiveSession {
    /// Whether a person must still allow a call, so that it has not changed anything yet.
    pub(super) fn awaits_permission(turn: &ChatTurn, call: &ToolCall) -> bool {
        turn.edits.get(&call.id).is_some_and(ProposedEdit::must_ask)
    }

    /// What the open tool calls, except `launch_run`, need next; None if there are none.
    pub(super) fn next_tools(
        &self,
        turn: &ChatTurn,
        attempt: &ChatAttempt,
        open: &[&ToolCall],
    ) -> Option<NextTurnStep> {
        let first = open.first()?;
        if is_edit(first) {
            return Some(self.next_edit_step(turn, attempt, first));
        }
        let before_edit = open.iter().take_while(|call| !is_edit(call));
        Some(NextTurnStep::Tools(before_edit.map(|call| SideTaskKind::Tool((*call).clone())).collect()))
    }

    fn next_edit_step(&self, turn: &ChatTurn, attempt: &ChatAttempt, call: &ToolCall) -> NextTurnStep {
        let Some(edit) = turn.edits.get(&call.id) else {
            return NextTurnStep::Tools(vec![SideTaskKind::PreviewEdit(call.clone())]);
        };
        if let Some(Decision::Reject { reason }) = &edit.decision {
            let why = reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            let text = format!("The user did not allow this change{why}. Nothing was changed.");
            return NextTurnStep::Facts(vec![self.result(attempt, call, text, true)]);
        }
        if edit.must_ask() {
            let id = InteractionId::new(format!("{}.edit{}", self.task, self.interactions + 1));
            let (call, preview) = (call.id.clone(), edit.preview.clone());
            let kind = InteractionKind::EditApproval { call, preview };
            return NextTurnStep::Facts(vec![self.fact(Fact::InteractionOpened(Interaction {
                id,
                kind,
                countdown: None,
            }))]);
        }
        NextTurnStep::Tools(vec![if edit.preview.files.is_empty() {
            SideTaskKind::Tool(call.clone())
        } else {
            SideTaskKind::Edit { call: call.clone(), digest: edit.preview.digest.clone() }
        }])
    }
}
