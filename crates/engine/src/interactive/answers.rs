//! Checks the user's answers to open questions, and rejects ops in a conversation. The approval of a run must contain
//! the digest of the proposal that was shown, and it closes the question, so it counts once.

use super::InteractiveSession;
use super::state::ChatStep;
use crate::decider::Consequence;
use crate::launch::{self, Consent};
use althing_protocol::{
    Decision, Fact, InteractionId, InteractionKind, LaunchRun, ModeChoice, Op, Proposal, Seq,
};

impl InteractiveSession {
    /// Checks an answer to an open question; returns the facts that follow, or why the answer is rejected.
    pub fn answer(
        &self,
        interaction: &InteractionId,
        decision: &Decision,
    ) -> Result<Vec<Consequence>, String> {
        let Some(open) = self.interaction.as_ref().filter(|open| open.id == *interaction) else {
            return Err(format!("the interaction {interaction} is not open"));
        };
        match (&open.kind, decision) {
            (_, Decision::Reject { .. }) => {}
            (InteractionKind::Budget { .. }, Decision::Approve { .. }) => {}
            (
                InteractionKind::RunApproval { .. } | InteractionKind::PlanApproval { .. },
                Decision::Change { .. },
            ) => {}
            (InteractionKind::PlanApproval { plan, .. }, Decision::Approve { digest, edited, .. }) => {
                if digest.as_ref().is_some_and(|digest| *digest != plan.id) {
                    return Err("the approval is for a different plan than the one in question".into());
                }
                if edited.is_some() {
                    return Err("a plan cannot be edited directly; say what should change".into());
                }
            }
            (InteractionKind::RunApproval { proposal }, Decision::Approve { digest, edited, .. }) => {
                self.check_approval(proposal, digest.as_deref(), edited.as_deref())?
            }
            (InteractionKind::EditApproval { preview, .. }, decision) => {
                super::edits::check_permission(preview, decision)?
            }
            (InteractionKind::Budget { .. }, _) => {
                return Err(format!("the interaction {interaction} accepts only approve or reject"));
            }
            _ => return Err(format!("the interaction {interaction} accepts only approve, reject or change")),
        }
        let closed = Fact::InteractionClosed { id: open.id.clone(), decision: decision.clone() };
        Ok(vec![self.fact(closed)])
    }

    fn check_approval(
        &self,
        shown: &Proposal,
        digest: Option<&str>,
        edited: Option<&LaunchRun>,
    ) -> Result<(), String> {
        match digest {
            Some(digest) if digest == shown.digest => {}
            Some(_) => return Err("the approval is for a different proposal than the one in question".into()),
            None => return Err("an approval must contain the digest of its proposal".into()),
        }
        let (Some(edited), Some(turn)) = (edited, &self.turn) else { return Ok(()) };
        let choice = ModeChoice::default();
        launch::resolve_launch(&self.team(turn), edited, &choice, Consent::Person, 0).map(|_| ())
    }

    /// The approved launch, with the user's changes and additional instructions.
    pub(super) fn approved_launch(&self) -> Option<LaunchRun> {
        let launching = self.launching()?;
        let Some(Decision::Approve { edited, instructions, .. }) = &launching.decision else { return None };
        let shown = &launching.proposal.as_ref()?.launch;
        let mut launch = edited.as_deref().unwrap_or(shown).clone();
        if let Some(text) = instructions.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
            let before = launch.context.take().map(|context| context + "\n\n").unwrap_or_default();
            launch.context = Some(format!("{before}The user adds: {text}"));
        }
        Some(launch)
    }

    /// The launch of the newest run: the approved one or, if no approval was needed, that of the message or the call
    /// with its defaults filled in.
    pub(super) fn launched(&self) -> Option<LaunchRun> {
        let turn = self.turn.as_ref()?;
        if let Some(approved) = self.approved_launch() {
            return Some(approved);
        }
        let launch = if turn.direct {
            Self::direct_launch(turn)
        } else {
            launch::read_text(&turn.launch_call()?.arguments).ok()?
        };
        let consent = if turn.direct { Consent::Person } else { Consent::Nobody };
        let settled = launch::resolve_launch(&self.team(turn), &launch, &self.choice(turn), consent, 0);
        settled.ok().map(|launch| launch.proposal.launch)
    }

    pub(super) fn stops_turn(&self, op: &Op) -> bool {
        match op {
            Op::StopReply => true,
            Op::Cancel { task } => *task == self.task,
            _ => false,
        }
    }

    /// Why an op is rejected in the current state; None if it is accepted.
    pub fn refusal_of(&self, op: &Op) -> Option<String> {
        let reason = match op {
            Op::SendMessage { text, .. } if text.trim().is_empty() => "the message is empty".to_owned(),
            Op::Unqueue { message } if self.queue.iter().all(|queued| queued.seq != *message) => {
                "that message is no longer queued".to_owned()
            }
            Op::Pin { message: Some(message) } if !self.knows(*message) => {
                "that message is no longer in the conversation".to_owned()
            }
            Op::Pin { message: None }
                if self.past.is_empty() && self.turn.is_none() && self.queue.is_empty() =>
            {
                "there is no message to pin yet".to_owned()
            }
            Op::Compact if self.spec.agent.is_none() => {
                "the conversation cannot be compacted: interactive mode is off".to_owned()
            }
            Op::Compact if self.cut().turns == 0 => "there is nothing to compact yet".to_owned(),
            Op::Cancel { task } if *task == self.task && self.turn.is_none() => {
                "nothing is running".to_owned()
            }
            Op::StopReply => match &self.turn {
                None => "nothing is running".to_owned(),
                Some(_) if self.interaction.is_some() => "a question is open: answer it".to_owned(),
                Some(turn)
                    if turn.launching.as_ref().is_some_and(|launching| launching.active().is_some()) =>
                {
                    "a run is active: cancel the run to stop it".to_owned()
                }
                Some(_) => return None,
            },
            _ => return None,
        };
        Some(reason)
    }

    /// The newest message: the agent's last text in the newest turn, or else the user's message of that turn.
    pub(super) fn newest_message(&self) -> Option<Seq> {
        let last_text_of = |steps: &[ChatStep]| {
            steps.iter().rev().find_map(|step| match step {
                ChatStep::Reply { seq, reply } if !reply.text.trim().is_empty() => Some(*seq),
                _ => None,
            })
        };
        let of_turn = self.turn.as_ref().and_then(|turn| {
            last_text_of(&turn.steps).or_else(|| turn.message.as_ref().map(|message| message.seq))
        });
        let of_past = || self.past.last().map(|past| last_text_of(&past.steps).unwrap_or(past.message.seq));
        of_turn.or_else(of_past)
    }

    fn knows(&self, message: Seq) -> bool {
        let contains_reply = |steps: &[ChatStep]| {
            steps.iter().any(|step| matches!(step, ChatStep::Reply { seq, .. } if *seq == message))
        };
        let of_turn = self.turn.as_ref().is_some_and(|turn| {
            contains_reply(&turn.steps)
                || turn.message.as_ref().is_some_and(|user_message| user_message.seq == message)
        });
        of_turn
            || self.past.iter().any(|past| past.message.seq == message || contains_reply(&past.steps))
            || self.queue.iter().any(|queued| queued.seq == message)
            || self.preserves(message)
    }
}
