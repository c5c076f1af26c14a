//! A `launch_run` call of the chat agent, from its arguments through the user's approval to its result. `answers` checks
//! the approval.

use super::InteractiveSession;
use super::budget::Expense;
use super::rules::NextTurnStep;
use super::state::{ChatAttempt, ChatTurn, LaunchState};
use crate::launch::{self, Consent, ResolvedRun};
use althing_protocol::{
    Decision, Fact, Interaction, InteractionId, InteractionKind, LaunchRun, ModeChoice, TeamSpec, ToolCall,
};
use std::borrow::Cow;

impl InteractiveSession {
    pub(super) fn launch(&self, turn: &ChatTurn, attempt: &ChatAttempt, call: &ToolCall) -> NextTurnStep {
        let not_launched = LaunchState::default();
        let launching = turn.launching.as_ref().unwrap_or(&not_launched);
        if launching.active().is_some() {
            return NextTurnStep::Wait;
        }
        if let (true, Some(planned)) = (launching.execution_is_due(), &launching.launched) {
            if let Some(question) = self.budget_question(Expense::Run) {
                return NextTurnStep::Facts(vec![self.fact(question)]);
            }
            let executed =
                launching.last_result().map(|plan| self.execution(turn, planned, plan, self.consent()));
            if let Some(Ok(spec)) = executed {
                return NextTurnStep::Facts(vec![self.create_run(spec)]);
            }
        }
        if launching.last_result().is_some() {
            return NextTurnStep::Facts(vec![self.result(
                attempt,
                call,
                self.launch_result(launching),
                false,
            )]);
        }
        let refused =
            |text: String| NextTurnStep::Facts(vec![self.result(attempt, call, refusal(&text), false)]);
        match &launching.decision {
            Some(Decision::Reject { reason }) => {
                let why = reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                return refused(format!("the user did not approve this run{why}"));
            }
            Some(Decision::Change { text }) => {
                return refused(format!("the user wants this run changed first: {text}"));
            }
            _ => {}
        }
        let launch = match self.approved_launch() {
            Some(approved) => self
                .resolve(turn, &approved, &ModeChoice::default(), Consent::Person)
                .map(|launch| (launch, false)),
            None => launch::read_text(&call.arguments).and_then(|launch| self.proposed(turn, &launch)),
        };
        let (launch, asks) = match launch {
            Ok(launch) => launch,
            Err(problem) => return NextTurnStep::Facts(vec![self.result(attempt, call, problem, true)]),
        };
        if let Some(question) = self.budget_question(Expense::Run) {
            return NextTurnStep::Facts(vec![self.fact(question)]);
        }
        NextTurnStep::Facts(vec![if asks {
            let id = InteractionId::new(format!("{}.approval{}", self.task, self.interactions + 1));
            let kind = InteractionKind::RunApproval { proposal: Box::new(launch.proposal) };
            self.fact(Fact::InteractionOpened(Interaction { id, kind, countdown: None }))
        } else {
            self.create_run(launch.spec)
        }])
    }

    /// The team for a turn, with the paths that the user granted in the message (these paths need no further approval),
    /// with what the conversation's runs have cost, and with what is left of the budget as the cost limit of a run.
    pub(super) fn team(&self, turn: &ChatTurn) -> Cow<'_, TeamSpec> {
        let mut team = Cow::Borrowed(&self.spec.team);
        if let Some(message) = turn.message.as_ref().filter(|message| !message.grants.is_empty())
            // An invalid grant fails the turn before anything is launched.
            && let Ok(context_paths) = launch::with_grants(&team, &message.grants)
        {
            team.to_mut().context_paths = context_paths;
        }
        if team.costs.is_some()
            && !self.runs.is_empty()
            && let Some(costs) = &mut team.to_mut().costs
        {
            for run in &self.runs {
                costs.past.add(run.coordination_summary.agents.len(), run.usage);
            }
        }
        let limit = self.spec.team.rules.limits.cost_micro_usd;
        if let Some(left) = self.budget.left().filter(|left| limit.is_none_or(|limit| *left < limit)) {
            team.to_mut().rules.limits.cost_micro_usd = Some(left);
        }
        team
    }

    /// Resolves a proposed run; also returns whether the user must approve it first. If approvals are not required, a
    /// run that needs more access than a run may have without approval is still shown for approval, or is refused if
    /// no person is present.
    fn proposed(&self, turn: &ChatTurn, launch: &LaunchRun) -> Result<(ResolvedRun, bool), String> {
        let resolve = |consent| self.resolve(turn, launch, &self.choice(turn), consent);
        if self.consent() == Consent::Person {
            return resolve(Consent::Person).map(|run| (run, true));
        }
        match resolve(Consent::Nobody) {
            Err(_) if self.spec.agent.as_ref().is_some_and(|agent| agent.can_ask) => {
                resolve(Consent::Person).map(|run| (run, true))
            }
            resolved => resolved.map(|run| (run, false)),
        }
    }

    pub(super) fn consent(&self) -> Consent {
        match &self.spec.agent {
            Some(agent) if !agent.require_approval => Consent::Nobody,
            _ => Consent::Person,
        }
    }
}

fn refusal(why: &str) -> String {
    serde_json::json!({"status": "cancelled", "final_answer": null, "error": why}).to_string()
}
