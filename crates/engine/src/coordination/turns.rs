//! Turn-taking: which attempt an idle agent should begin, and which other agents it waits for.
//!
//! Calls cost money, so agents are called as seldom as the rules allow. An agent that has not judged yet judges as soon
//! as the first answers are in. An agent that has already judged waits until nobody else judges. Then it sees all newer
//! answers at once, and no answer that was being written can invalidate its vote. Both waits are limited by
//! `first_answer_wait`, except that some rules wait for all first answers without a limit (see
//! `waits_for_all_first_answers`).

use super::state::{MemberState, RunState};
use althing_protocol::{Ballot, Purpose, Revision};

/// The state of the team, which determines each member's next attempt. Computed once per pass, so that it is cheap for
/// large teams.
#[derive(Clone, Copy)]
pub(super) struct TeamProgress {
    /// Whether the first answers of all active agents are in, or no further answers are accepted.
    first_answers_are_in: bool,
    /// The smallest number of answers that an active agent has given.
    fewest_answers: usize,
    /// Whether exactly one agent has answered.
    one_candidate: bool,
    /// Whether at least one agent judges now.
    someone_judges: bool,
    /// Whether further votes are needless: all agents conclude the same, or the vote is decided.
    is_settled: bool,
}

impl RunState {
    /// Whether a vote does not count because the voter, who knew the answers up to `knows`, did not know a newer answer
    /// of a third agent (neither of the voter nor of the agent voted for). Always false with `disable_injection`.
    pub(super) fn is_overtaken(&self, ballot: &Ballot, knows: Revision) -> bool {
        let unknown = self.answers.iter().skip(knows.0 as usize);
        let mut of_others = unknown.filter(|it| it.agent != ballot.voter && it.agent != ballot.target);
        !self.spec.rules.disable_injection && of_others.next().is_some()
    }

    fn has_unseen(&self, member: &MemberState, seen: Revision) -> bool {
        self.answers.iter().skip(seen.0 as usize).any(|answer| answer.agent != member.agent.id)
    }

    /// Whether the first answers are complete: all active agents have answered, or no further answers are accepted.
    pub(super) fn first_answers_are_in(&self) -> bool {
        self.global_cap_reached()
            || self.members.iter().all(|member| member.has_answered() || !member.is_live())
    }

    /// The progress of the team, which is the same for every member.
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
        // With `disable_injection`, agents see the others' answers only for the vote and do not improve on them.
        let independent = rules.disable_injection && self.members.len() > 1;
        !capped && !independent && !self.global_cap_reached() && !self.is_too_far_ahead(member, progress)
    }

    /// Whether no agent may answer again, whatever happens.
    pub(super) fn takes_no_more_answers(&self) -> bool {
        let independent = self.spec.rules.disable_injection && self.members.len() > 1;
        let is_done = |member: &MemberState| {
            !member.is_live() || self.has_all_answers(member) || (independent && member.has_answered())
        };
        self.global_cap_reached() || self.members.iter().all(is_done)
    }

    /// Whether an agent has so many more answers than the slowest active agent that it may not answer again yet.
    fn is_too_far_ahead(&self, member: &MemberState, progress: TeamProgress) -> bool {
        let lead = member.answers.len().saturating_sub(progress.fewest_answers);
        self.spec.rules.fairness_lead_cap.is_some_and(|cap| self.members.len() > 1 && lead >= cap as usize)
    }

    /// The attempt that an idle member should begin now.
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

    /// Whether an agent has judged since the run last started over.
    fn has_judged(&self, member: &MemberState) -> bool {
        member.seen > self.discarded
    }

    /// Whether judging has to wait, without a time limit, until every agent has given its first answer or dropped out.
    pub(super) fn waits_for_all_first_answers(&self) -> bool {
        let rules = &self.spec.rules;
        // With `disable_injection`, agents see the others' answers only for the vote, which waits for everyone.
        rules.defer_voting_until_all_answered || rules.disable_injection || rules.skip_voting
    }

    /// Whether an agent that could judge a new answer waits, for at most `first_answer_wait`: until all other agents
    /// have given their first answer, or until nobody else judges. Waits without a limit (see
    /// [`Self::waits_for_all_first_answers`]) do not count.
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
