//! What the conversation and its runs have cost, and when the user is asked before it costs more.

use super::InteractiveSession;
use althing_protocol::{Fact, Interaction, InteractionId, InteractionKind, Usage};

/// The session's money, in millionths of a US dollar where it is whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SessionBudget {
    /// What the conversation itself has cost.
    pub(super) conversation: Usage,
    runs_usd: f64,
    /// What the last model call of the conversation cost, and the dearest run: about what the next will.
    last_call_usd: f64,
    max_run_usd: f64,
    budget: Option<u64>,
    /// What may be spent before the user is asked.
    allowed: u64,
}

/// What is about to be paid for.
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
            allowed: budget.unwrap_or_default(),
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

    /// The user agreed: as much again as the budget.
    pub(super) fn allow_more(&mut self) {
        self.allowed = self.allowed.max(self.spent()) + self.budget.unwrap_or_default();
    }

    /// What a run may cost at most; None where there is no budget.
    pub(super) fn left(&self) -> Option<u64> {
        self.budget.map(|_| self.allowed.saturating_sub(self.spent()))
    }

    /// Whether the next expense is about to pass what is allowed.
    fn must_ask(&self, expense: Expense) -> bool {
        let expected = match expense {
            Expense::Call => self.last_call_usd,
            Expense::Run => self.max_run_usd,
        };
        let spent = self.spent();
        self.budget.is_some() && (spent >= self.allowed || spent + micro(expected) > self.allowed)
    }
}

fn micro(usd: f64) -> u64 {
    (usd * 1e6).ceil().max(0.0) as u64
}

impl InteractiveSession {
    /// The question that must be answered before something is paid for.
    pub(super) fn budget_question(&self, expense: Expense) -> Option<Fact> {
        let budget_micro_usd = self.budget.allowed;
        self.budget.must_ask(expense).then(|| {
            let id = InteractionId::new(format!("{}.budget{}", self.task, self.interactions + 1));
            let kind = InteractionKind::Budget { spent_micro_usd: self.budget.spent(), budget_micro_usd };
            Fact::InteractionOpened(Interaction { id, kind, countdown: None })
        })
    }
}
