//! How questions change the state of a session: their countdowns, and what an answer means.

use super::{EntryBody, SessionView};
use crate::money::exact_money;
use althing_protocol::{Decision, Event, InteractionId, InteractionKind, NoticeLevel, Op};

impl SessionView {
    /// The entry of a tool call of the chat agent that has no result yet.
    pub(super) fn open_tool(&mut self, id: &str) -> Option<&mut EntryBody> {
        let mut bodies = self.entries.iter_mut().rev().map(|entry| &mut entry.body);
        bodies.find(|body| matches!(body, EntryBody::Tool { call, result: None, .. } if call == id))
    }

    /// Folds an op that changes countdowns into the open questions; other ops change nothing here.
    pub(super) fn apply_op_to_questions(&mut self, event: &Event, op: &Op) {
        match op {
            Op::PauseCountdown { interaction, paused } => {
                let mut open = self.questions.iter_mut();
                if let Some(question) = open.find(|question| question.interaction.id == *interaction) {
                    question.pause(*paused, event.at);
                }
            }
            Op::Resume => self.questions.iter_mut().for_each(|question| question.restart_countdown(event.at)),
            _ => {}
        }
    }

    pub(super) fn close_question(&mut self, event: &Event, id: &InteractionId, decision: &Decision) {
        let Some(at) = self.questions.iter().position(|question| question.interaction.id == *id) else {
            return;
        };
        let question = self.questions.remove(at);
        match (question.interaction.kind, decision) {
            (InteractionKind::PlanApproval { plan, .. }, Decision::Approve { .. } | Decision::Continue) => {
                self.pending_plan = Some(plan);
                // The plan is approved, so plan mode ends; the user must choose it again to plan the next message.
                self.choice.planning = None;
            }
            (InteractionKind::Budget { raised_micro_usd: Some(raised), .. }, Decision::Approve { .. }) => {
                self.budget_micro_usd = Some(raised);
                let text = format!("You raised the cost limit of this session to {}.", exact_money(raised));
                self.add_entry(event, EntryBody::Notice { level: NoticeLevel::Info, text });
            }
            (InteractionKind::EditApproval { call, .. }, Decision::Reject { .. }) => {
                if let Some(EntryBody::Tool { rejected, .. }) = self.open_tool(&call) {
                    *rejected = true;
                }
            }
            (InteractionKind::EditApproval { preview, .. }, Decision::Choose { .. }) => {
                let text = format!("The chat agent may now always change files in {}.", preview.project);
                self.add_entry(event, EntryBody::Notice { level: NoticeLevel::Info, text });
            }
            (InteractionKind::RunApproval { proposal }, Decision::Reject { reason }) => {
                let (task, reason) = (proposal.launch.task, reason.clone());
                self.add_entry(event, EntryBody::Rejected { task, reason });
            }
            _ => {}
        }
    }
}
