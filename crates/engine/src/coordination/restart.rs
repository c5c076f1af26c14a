//! After the final answer: whether someone judges it, and how a run starts over.
//!
//! A run that may start over has its final answer judged by whoever gave it. What is found wanting is kept: the next
//! try is told of it, and where the next try comes to nothing, it is still the answer. The last try is not judged,
//! since nothing would follow from it.

use super::state::{Ending, Evaluation, MemberState, Presentation};
use super::{Consequence, Coordination};
use althing_protocol::{Fact, Phase, Purpose, Restart, Verdict};

/// A final answer that was found wanting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RejectedAnswer {
    /// The answer.
    pub(crate) answer: String,
    /// What it lacks, and what to do about it.
    pub(crate) why: Restart,
    /// How it had come about.
    pub(crate) ending: Ending,
}

/// What is left to do about a final answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Review {
    /// This seat judges it.
    Evaluate(usize),
    /// The run starts over.
    StartOver(Restart),
    /// Nothing.
    Final,
}

impl Coordination {
    /// Whether nothing more comes of the presentation.
    pub(super) fn is_presented(&self) -> bool {
        let ending = &self.state.ending;
        let presented = ending.presented.is_some() || self.presenter().is_none();
        self.phase == Phase::Presenting && ending.winner.is_some() && presented
    }

    /// Whether what was presented is the run's answer for good.
    pub(super) fn is_answer_final(&self) -> bool {
        self.is_presented() && self.review() == Review::Final
    }

    fn review(&self) -> Review {
        let (state, ending) = (&self.state, &self.state.ending);
        let again = state.restarts < state.spec.rules.max_restarts && !state.limit_passed();
        // Who could not even present is not asked once more.
        if !again || matches!(ending.presented, Some(Presentation::Failed(_))) {
            return Review::Final;
        }
        match &ending.evaluated {
            None => self.evaluator().map_or(Review::Final, Review::Evaluate),
            Some(Evaluation::NeedsRestart(restart)) => Review::StartOver(restart.clone()),
            Some(Evaluation::Accepted | Evaluation::Failed(_)) => Review::Final,
        }
    }

    /// Who judges the final answer: whoever gave it.
    fn evaluator(&self) -> Option<usize> {
        let author = || self.state.find_member(&self.answer_author()?);
        let (index, _) = self.presenter().or_else(author).filter(|(_, member)| member.is_live())?;
        Some(index)
    }

    /// What follows once the presentation is over and the context paths are closed.
    pub(super) fn after_presentation(&self) -> Vec<Consequence> {
        match self.review() {
            Review::Evaluate(index) => {
                let free = self.state.members.get(index).filter(|member| member.attempt.is_none());
                let start = |member: &MemberState| {
                    let (attempt, purpose) = (member.attempts + 1, Purpose::Evaluate);
                    (self.work(index), Fact::AttemptStarted { attempt, purpose, continues: None })
                };
                free.map(start).into_iter().collect()
            }
            Review::StartOver(Restart { reason, instructions }) => {
                let nth = self.state.restarts + 1;
                let verdict = Verdict::Restarted { reason, instructions, nth };
                vec![(self.task.clone(), Fact::Decided(verdict))]
            }
            Review::Final => Vec::new(),
        }
    }

    /// Folds a restart: everything that led to the old answer is put aside; workspaces, names and costs go on.
    pub(super) fn start_over(&mut self, nth: u32, why: Restart) {
        let answer = self.final_answer().unwrap_or_default();
        self.window_over = false;
        let state = &mut self.state;
        state.restarts = nth;
        state.previous = Some(RejectedAnswer { answer, why, ending: std::mem::take(&mut state.ending) });
        state.discarded = state.revision();
        let seen = state.revision();
        for member in &mut state.members {
            member.start_over(seen);
        }
    }
}
