//! The evaluation of the final answer, and how a run starts over. The agents are shown the rejected answer after the
//! restart, and it stays the result if no new answer follows. After the last allowed restart, the final answer is not
//! evaluated.

use super::state::{Evaluation, MemberState, PostVoteState, Presentation};
use super::{Consequence, Coordination};
use althing_protocol::{Fact, Phase, Purpose, Restart, Verdict};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RejectedAnswer {
    pub(crate) answer: String,
    pub(crate) why: Restart,
    pub(crate) post_vote: PostVoteState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Review {
    Evaluate(usize),
    StartOver(Restart),
    Final,
}

impl Coordination {
    pub(super) fn is_presented(&self) -> bool {
        let post_vote = &self.state.post_vote;
        let presented = post_vote.presented.is_some() || self.presenter().is_none();
        self.phase == Phase::Presenting && post_vote.winner.is_some() && presented
    }

    pub(super) fn is_answer_final(&self) -> bool {
        self.is_presented() && self.review() == Review::Final
    }

    fn review(&self) -> Review {
        let (state, post_vote) = (&self.state, &self.state.post_vote);
        let again = state.restarts < state.spec.rules.max_restarts && !state.limit_passed();
        // If the presentation failed or was rejected, nobody evaluates the answer.
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

    fn evaluator(&self) -> Option<usize> {
        let author = || self.state.find_member(&self.answer_author()?);
        let (index, _) = self.presenter().or_else(author).filter(|(_, member)| member.is_live())?;
        Some(index)
    }

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

    /// Votes and answers are reset; workspaces, labels and costs continue.
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
