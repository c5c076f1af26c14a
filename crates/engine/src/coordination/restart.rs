//! The evaluation of the final answer, and how a run starts over.
//!
//! In a run that may start over, the author of the final answer evaluates it. A rejected answer is kept: the agents
//! are shown the rejected answer after the restart, and it stays the result if the restart produces no answer. After
//! the last allowed restart, the final answer is not evaluated, because nothing would follow.

use super::state::{Evaluation, MemberState, PostVoteState, Presentation};
use super::{Consequence, Coordination};
use althing_protocol::{Fact, Phase, Purpose, Restart, Verdict};

/// A final answer that was rejected.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RejectedAnswer {
    /// The text of the answer.
    pub(crate) answer: String,
    /// What the answer lacks, and what to do about it.
    pub(crate) why: Restart,
    /// The vote and presentation that led to the answer.
    pub(crate) post_vote: PostVoteState,
}

/// What to do with a final answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Review {
    /// This member evaluates the answer.
    Evaluate(usize),
    /// The run starts over.
    StartOver(Restart),
    /// The answer is the result of the run.
    Final,
}

impl Coordination {
    /// Whether the presentation is over or not needed.
    pub(super) fn is_presented(&self) -> bool {
        let post_vote = &self.state.post_vote;
        let presented = post_vote.presented.is_some() || self.presenter().is_none();
        self.phase == Phase::Presenting && post_vote.winner.is_some() && presented
    }

    /// Whether the final answer exists and will stay the result: no evaluation and no restart can follow.
    pub(super) fn is_answer_final(&self) -> bool {
        self.is_presented() && self.review() == Review::Final
    }

    fn review(&self) -> Review {
        let (state, post_vote) = (&self.state, &self.state.post_vote);
        let again = state.restarts < state.spec.rules.max_restarts && !state.limit_passed();
        // If the presentation failed or was rejected, the answer is final: its presenter is not asked to evaluate.
        let is_presented =
            !matches!(post_vote.presented, Some(Presentation::Failed(_) | Presentation::Rejected(_)));
        if !again || !is_presented {
            return Review::Final;
        }
        match &post_vote.evaluated {
            None => self.evaluator().map_or(Review::Final, Review::Evaluate),
            Some(Evaluation::NeedsRestart(restart)) => Review::StartOver(restart.clone()),
            Some(Evaluation::Accepted | Evaluation::Failed(_)) => Review::Final,
        }
    }

    /// The member that evaluates the final answer: the presenter, else the answer's author. None if that member
    /// dropped out.
    fn evaluator(&self) -> Option<usize> {
        let author = || self.state.find_member(&self.answer_author()?);
        let (index, _) = self.presenter().or_else(author).filter(|(_, member)| member.is_live())?;
        Some(index)
    }

    /// The facts that follow once the presentation is over and the context paths are read-only again.
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

    /// Folds a restart into the state: votes and answers are reset; workspaces, labels and costs continue.
    pub(super) fn start_over(&mut self, nth: u32, why: Restart) {
        let answer = self.final_answer().unwrap_or_default();
        self.window_over = false;
        let state = &mut self.state;
        state.restarts = nth;
        state.previous =
            Some(RejectedAnswer { answer, why, post_vote: std::mem::take(&mut state.post_vote) });
        state.discarded = state.revision();
        let seen = state.revision();
        for member in &mut state.members {
            member.start_over(seen);
        }
    }
}
