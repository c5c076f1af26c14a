//! The session's budget: what the conversation and its runs have cost, and when the user is asked before more is spent.

use super::InteractiveSession;
use althing_protocol::{Fact, Interaction, InteractionId, InteractionKind, Usage};

/// The session's costs and budget. Integer amounts are millionths of a US dollar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SessionBudget {
    /// The usage of the conversation itself, without the runs.
    pub(super) conversation: Usage,
    runs_usd: f64,
    /// The cost of the last model call that was not free: the estimate for the next call.
    last_call_usd: f64,
    /// The cost of the most expensive run so far: the estimate for the next run.
    max_run_usd: f64,
    budget: Option<u64>,
    /// What may be spent before the user is asked.
    limit: u64,
}

#[derive(Clone, Copy)]
pub(super) enum Expense {
    Call,
    Run,
}

impl SessionBudget {
    pub(super) fn new(budget: Option<u64>) -> Self {
        Self {
            conversation: Usage::default(),
            runs_usd: 0.0,
            last_call_usd: 0.0,
            max_run_usd: 0.0,
            budget,
            limit: budget.unwrap_or_default(),
        }
    }

    pub(super) fn add_call(&mut self, usage: &Usage) {
        self.conversation += *usage;
        if usage.cost_usd > 0.0 {
            self.last_call_usd = usage.cost_usd;
        }
    }

    pub(super) fn add_run(&mut self, usage: &Usage) {
        self.runs_usd += usage.cost_usd;
        self.max_run_usd = self.max_run_usd.max(usage.cost_usd);
    }

    fn spent(&self) -> u64 {
        micro(self.conversation.cost_usd + self.runs_usd)
    }

    pub(super) fn allow_more(&mut self) {
        self.limit = self.raised();
    }

    /// The limit after the user's next approval: one budget above the present limit, or above what was spent if that is
    /// more.
    fn raised(&self) -> u64 {
        self.limit.max(self.spent()) + self.budget.unwrap_or_default()
    }

    /// What is left of the budget; None if there is no budget.
    pub(super) fn left(&self) -> Option<u64> {
        self.budget.map(|_| self.limit.saturating_sub(self.spent()))
    }

    /// True if the limit is reached, or the next expense is expected to exceed it.
    fn must_ask(&self, expense: Expense) -> bool {
        let expected = match expense {
            Expense::Call => self.last_call_usd,
            Expense::Run => self.max_run_usd,
        };
        let spent = self.spent();
        self.budget.is_some() && (spent >= self.limit || spent + micro(expected) > self.limit)
    }
}

fn micro(usd: f64) -> u64 {
    (usd * 1e6).ceil().max(0.0) as u64
}

impl InteractiveSession {
    pub(super) fn budget_question(&self, expense: Expense) -> Option<Fact> {
        let budget_micro_usd = self.budget.limit;
        self.budget.must_ask(expense).then(|| {
            let id = InteractionId::new(format!("{}.budget{}", self.task, self.interactions + 1));
            let kind = InteractionKind::Budget {
                spent_micro_usd: self.budget.spent(),
                budget_micro_usd,
                raised_micro_usd: Some(self.budget.raised()),
            };
            Fact::InteractionOpened(Interaction { id, kind, countdown: None })
        })
    }
}
