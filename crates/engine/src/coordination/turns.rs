//! Turn-taking: which attempt an idle agent begins, and which agents it waits for. Model calls cost money, so an agent
//! that has already judged waits, for at most `first_answer_wait`, until nobody else judges; then it judges all newer
//! answers in one call.

use super::state::{MemberState, RunState};
use althing_protocol::{Ballot, Purpose, Revision};

/// The progress of the team, computed once per pass, so that large teams stay cheap.
#[derive(Clone, Copy)]
pub(super) struct TeamProgress {
    first_answers_are_in: bool,
    /// The smallest number of answers of a live agent.
    fewest_answers: usize,
    one_candidate: bool,
    someone_judges: bool,
    /// Whether further votes are needless: all agents conclude the same, or the vote is decided.
    is_settled: bool,
}

impl RunState {
    /// Whether a third agent (neither the voter nor its first choice) gave an answer after `knows`, so that the voter did
    /// not know it; the vote does not count then. Always false with `disable_injection`.
    pub(super) fn is_overtaken(&self, ballot: &Ballot, knows: Revision) -> bool {
        let unknown = self.answers.iter().skip(knows.0 as usize);
        let mut of_others = unknown.filter(|it| it.agent != ballot.voter && it.agent != ballot.target);
        !self.spec.rules.disable_injection && of_others.next().is_some()
    }

    fn has_unseen(&self, member: &MemberState, seen: Revision) -> bool {
        self.answers.iter().skip(seen.0 as usize).any(|answer| answer.agent != member.agent.id)
    }

    /// True if all live agents have answered, or no further answers are accepted.
    pub(super) fn first_answers_are_in(&self) -> bool {
        self.global_cap_reached()
            || self.members.iter().all(|member| member.has_answered() || !member.is_live())
    }

    pub(super) fn progress(&self) -> TeamProgress {
        let live = self.members.iter().filter(|member| member.is_live());
        TeamProgress {
            first_answers_are_in: self.first_answers_are_in(),
            fewest_answers: live.map(|member| member.answers.len()).min().unwrap_or_default(),
            one_candidate: self.members.iter().filter(|member| member.has_answered()).take(2).count() == 1,
            someone_judges: self.members.iter().any(MemberState::is_judging),
            is_settled: self.is_unanimous() || self.is_decided(),
        }
    }

    fn may_answer(&self, member: &MemberState, progress: TeamProgress) -> bool {
        let rules = &self.spec.rules;
        let capped = self.has_all_answers(member);
        // With `disable_injection`, agents see the others' answers only to vote on them.
        let independent = rules.disable_injection && self.members.len() > 1;
        !capped && !independent && !self.global_cap_reached() && !self.is_too_far_ahead(member, progress)
    }

    pub(super) fn takes_no_more_answers(&self) -> bool {
        let independent = self.spec.rules.disable_injection && self.members.len() > 1;
        let is_done = |member: &MemberState| {
            !member.is_live() || self.has_all_answers(member) || (independent && member.has_answered())
        };
        self.global_cap_reached() || self.members.iter().all(is_done)
    }

    /// Whether the agent's lead over the live agent with the fewest answers has reached `fairness_lead_cap`.
    fn is_too_far_ahead(&self, member: &MemberState, progress: TeamProgress) -> bool {
        let lead = member.answers.len().saturating_sub(progress.fewest_answers);
        self.spec.rules.fairness_lead_cap.is_some_and(|cap| self.members.len() > 1 && lead >= cap as usize)
    }

    pub(super) fn next_attempt(&self, member: &MemberState, progress: TeamProgress) -> Option<Purpose> {
        if !member.is_live() || member.attempt.is_some() || member.vote.is_some() || member.abstained {
            return None;
        }
        if self.refused_call.is_some() {
            return None;
        }
        if !member.has_answered() && !self.global_cap_reached() {
            return Some(Purpose::Answer);
        }
        if self.spec.rules.skip_voting || progress.is_settled {
            return None;
        }
        let waited = self.early > member.seen && self.has_unseen(member, member.seen);
        let must_wait =
            !progress.first_answers_are_in || (progress.someone_judges && self.has_judged(member));
        if must_wait && !waited {
            return None;
        }
        let may_answer = self.may_answer(member, progress);
        // With a single candidate, a vote decides nothing.
        (may_answer || !progress.one_candidate)
            .then_some(Purpose::Judge { may_answer, knows: self.revision() })
    }

    fn has_judged(&self, member: &MemberState) -> bool {
        member.seen > self.discarded
    }

    /// Whether judging waits, without a time limit, until every agent has answered or dropped out.
    pub(super) fn waits_for_all_first_answers(&self) -> bool {
        let rules = &self.spec.rules;
        rules.defer_voting_until_all_answered || rules.disable_injection || rules.skip_voting
    }

    /// Whether an agent that could judge a new answer waits, for at most `first_answer_wait`, for the first answers of
    /// others or until nobody else judges.
    pub(super) fn someone_waits(&self) -> bool {
        let rules = &self.spec.rules;
        let waits = |member: &MemberState| {
            member.is_live()
                && member.has_answered()
                && member.attempt.is_none()
                && member.vote.is_none()
                && !member.abstained
                && self.has_unseen(member, member.seen)
        };
        let deferred = self.waits_for_all_first_answers();
        let may_wait = if self.first_answers_are_in() {
            !rules.skip_voting && self.members.iter().any(MemberState::is_judging)
        } else {
            !deferred
        };
        may_wait && self.members.iter().any(waits) && !self.is_unanimous()
    }
}
