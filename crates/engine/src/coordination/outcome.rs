//! The end of a run: its result, its status, and the facts that close it.

use super::state::{Evaluation, MemberState, PostVoteState, Presentation, RunState};
use super::tally::Tally;
use super::{Consequence, Coordination};
use crate::workspaces::workspace_of;
use althing_protocol::{
    AgentId, AgentOutcome, AgentSummary, CoordinationSummary, Decision, Fact, Notice, NoticeLevel, Phase,
    RunEnd, RunResult, RunStatus, TaskStatus, Verdict,
};

impl Coordination {
    pub(super) fn finish(&self, end: RunEnd) -> Vec<Consequence> {
        let mut facts = Vec::new();
        let post_vote = &self.state.post_vote;
        let presenter = self.presenter().map(|(_, member)| &member.agent.id);
        let result = Box::new(self.result_as_of_now(end));
        let unchanged = &result.unchanged_paths;
        let warning = match (&post_vote.presented, &post_vote.evaluated, presenter) {
            (Some(Presentation::Failed(error)), _, Some(presenter)) => {
                let whose = self.answer_instead_of(presenter);
                Some(format!("{presenter} could not present ({error}); {whose} is used instead."))
            }
            (Some(Presentation::Rejected(reason)), _, Some(presenter)) => {
                let whose = self.answer_instead_of(presenter);
                Some(format!("the presentation by {presenter} {reason}; {whose} is used instead."))
            }
            (_, Some(Evaluation::Failed(error)), _) => {
                Some(format!("the final answer could not be evaluated ({error}); it is accepted unchanged."))
            }
            (None, ..) if end == RunEnd::Answered && !unchanged.is_empty() => {
                let author = self.answer_author();
                let is_out = |author: &AgentId| {
                    self.state.find_member(author).is_some_and(|(_, member)| !member.is_live())
                };
                author.filter(is_out).map(|author| {
                    let paths = unchanged.join(", ");
                    format!(
                        "{author} dropped out before it could carry out the change; its answer is used, and nothing was \
                         changed in {paths}."
                    )
                })
            }
            _ if end == RunEnd::Answered && post_vote.winner.is_none() => {
                Some("the restart produced no answer; the earlier answer is used.".to_owned())
            }
            _ => None,
        };
        facts.extend(warning.map(|text| {
            let notice = Notice { level: NoticeLevel::Warning, text, hint: None };
            (self.task.clone(), Fact::Notice(notice))
        }));
        // A run that ends while its override window is open closes the window.
        facts.extend(self.interaction.as_ref().map(|open| {
            let closed = Fact::InteractionClosed { id: open.id.clone(), decision: Decision::MovedOn };
            (self.task.clone(), closed)
        }));
        facts.push((self.task.clone(), Fact::Decided(Verdict::Finished { end, result })));
        facts
    }

    fn answer_instead_of(&self, presenter: &AgentId) -> String {
        let author = self.answer_author().filter(|author| author != presenter);
        author.map_or("its own answer".to_owned(), |author| format!("the answer of {author}"))
    }

    pub(super) fn close(&self) -> Vec<Consequence> {
        let Some(result) = &self.state.result else { return Vec::new() };
        let mut facts = Vec::new();
        for (index, member) in self.state.members.iter().enumerate() {
            let now = member.status.unwrap_or(TaskStatus::Pending);
            let status = work_status(&self.state, member);
            if now.can_become(status) {
                let why = member.out.as_ref().map(|out| out.error.clone());
                facts.push((self.work(index), Fact::StatusChanged { status, why }));
            }
        }
        if self.phase != Phase::Done {
            facts.push((self.task.clone(), Fact::PhaseChanged { phase: Phase::Done }));
        }
        facts.extend(self.start_execution(result));
        let Some(end) = self.overall_status(result) else { return facts };
        let status = match end {
            RunStatus::Completed | RunStatus::Partial => TaskStatus::Done,
            RunStatus::Cancelled => TaskStatus::Cancelled,
            RunStatus::Failed => TaskStatus::Failed,
        };
        if self.status.can_become(status) {
            facts.push((self.task.clone(), Fact::StatusChanged { status, why: result.error.clone() }));
        }
        facts
    }

    /// The run's result if the run ended now with `end`.
    pub fn result_as_of_now(&self, end: RunEnd) -> RunResult {
        let state = &self.state;
        let final_answer = self.final_answer();
        let status = match (end, &final_answer) {
            (RunEnd::Answered, Some(_)) => RunStatus::Completed,
            (RunEnd::Cancelled, _) => RunStatus::Cancelled,
            (RunEnd::Limit, Some(_)) => RunStatus::Partial,
            (RunEnd::Answered | RunEnd::Limit | RunEnd::NoAnswer, _) => RunStatus::Failed,
        };
        RunResult {
            run_id: self.run_id(),
            task: state.spec.task.clone(),
            status,
            modes: state.spec.modes,
            error: self.error(end),
            final_answer,
            workspace_path: self.workspace_path(),
            coordination_summary: self.summary(),
            context_path_writes: state.writes.clone(),
            unchanged_paths: self.unchanged_paths(status),
            plan: state.stored_plan.clone().and_then(Result::ok),
            follow_up: self.follow_up(status),
            usage: state.usage,
            duration: self.active,
            log_dir: self.log_dir.clone(),
        }
    }

    fn unchanged_paths(&self, status: RunStatus) -> Vec<String> {
        let state = &self.state;
        let has_answer = matches!(status, RunStatus::Completed | RunStatus::Partial);
        let applies = has_answer && state.is_unchanged && !state.spec.modes.planning;
        if applies { state.writable_paths() } else { Vec::new() }
    }

    pub(super) fn run_id(&self) -> String {
        format!("{}.{}", self.session, self.task)
    }

    /// The presented text; else, as long as there is no new answer after a restart, the rejected answer; else the
    /// newest answer of `answer_author`.
    pub(crate) fn final_answer(&self) -> Option<String> {
        // A weak model may have copied markers of its prompt into its text; users must not see them.
        if let Some(Presentation::Text(text)) = &self.state.post_vote.presented {
            return Some(self.state.without_copied_markers(text).unwrap_or_else(|| text.clone()));
        }
        if let Some(previous) = self.state.previous.as_ref().filter(|_| self.state.answered() == 0) {
            return Some(previous.answer.clone());
        }
        let best = self.answer_author()?;
        let (_, member) = self.state.find_member(&best)?;
        let answer = &self.state.answers.get(*member.answers.last()?)?.content;
        Some(self.state.without_markers(answer).unwrap_or_else(|| answer.clone()))
    }

    /// The presenter that a person chose, else the winner, else the agent that ranks first so far.
    pub(super) fn answer_author(&self) -> Option<AgentId> {
        let post_vote = self.post_vote();
        let chosen = post_vote.presenter.as_ref().or(post_vote.winner.as_ref()).cloned();
        chosen.or_else(|| self.agent(*Tally::of(&self.state).ranking.first()?).cloned())
    }

    /// As long as there is no new answer after a restart, the result reports the vote and presentation of the rejected
    /// answer.
    fn post_vote(&self) -> &PostVoteState {
        let previous = self.state.previous.as_ref().filter(|_| self.state.answered() == 0);
        previous.map_or(&self.state.post_vote, |previous| &previous.post_vote)
    }

    fn workspace_path(&self) -> Option<String> {
        let (index, member) = self.state.find_member(&self.answer_author()?)?;
        member.agent.has_tools.then(|| workspace_of(&self.state.spec, &self.log_dir, index))
    }

    fn error(&self, end: RunEnd) -> Option<String> {
        match end {
            RunEnd::Answered => None,
            RunEnd::Limit if self.state.is_over_budget() => {
                let refused = self.state.refused_call.as_ref().map(|why| format!(": {why}"));
                let (spent, refused) = (self.state.usage.cost_usd, refused.unwrap_or_default());
                Some(format!("the run reached its cost limit (${spent:.4} spent){refused}"))
            }
            RunEnd::Limit if self.state.is_out_of_calls() && !self.state.timed_out => {
                let most = self.state.spec.rules.limits.model_calls.unwrap_or_default();
                Some(format!(
                    "the run reached its limit of {most} model calls (`orchestrator.limits.model_calls_per_run`)"
                ))
            }
            RunEnd::Limit => {
                let limit = self.state.spec.rules.limits.orchestrator;
                Some(format!("the run reached its time limit ({limit})"))
            }
            RunEnd::Cancelled => Some("the run was cancelled".into()),
            RunEnd::NoAnswer => {
                let failed = self.state.members.iter().map(|member| {
                    let error = member.out.as_ref().map_or("gave no answer", |out| out.error.as_str());
                    format!("{}: {error}", member.agent.id)
                });
                let failed: Vec<String> = failed.collect();
                Some(format!("no agent gave an answer\n{}", failed.join("\n")))
            }
        }
    }

    fn summary(&self) -> CoordinationSummary {
        let state = &self.state;
        let (tally, post_vote) = (Tally::of(state), self.post_vote());
        let presenter = match &state.post_vote.presented {
            Some(Presentation::Text(_)) => self.presenter().map(|(_, member)| member.agent.id.clone()),
            _ => post_vote.winner.as_ref().and(self.answer_author()),
        };
        CoordinationSummary {
            winner: post_vote.winner.clone(),
            presenter,
            strategy: state.spec.rules.strategy(),
            overridden: post_vote.overridden,
            rounds: state.members.iter().map(|member| member.rounds).max().unwrap_or_default(),
            restarts: state.restarts,
            votes: tally.votes,
            ballots: tally.ballots,
            decision: post_vote.decision.clone(),
            agents: state.members.iter().map(agent_summary).collect(),
        }
    }
}

fn agent_summary(member: &MemberState) -> AgentSummary {
    let status = match &member.out {
        Some(out) if out.timed_out => AgentOutcome::TimedOut,
        Some(_) => AgentOutcome::Failed,
        None if member.vote.is_some() => AgentOutcome::Voted,
        None if member.given() > 0 => AgentOutcome::Answered,
        None => AgentOutcome::Cancelled,
    };
    let error = member.out.as_ref().map(|out| out.error.clone());
    AgentSummary { id: member.agent.id.clone(), status, answers: member.given(), error }
}

fn work_status(state: &RunState, member: &MemberState) -> TaskStatus {
    if member.out.is_some() {
        TaskStatus::Failed
    } else if member.given() > 0 || member.vote.is_some() {
        TaskStatus::Done
    } else if state.cancelled || state.limit_passed() {
        TaskStatus::Cancelled
    } else {
        TaskStatus::Failed
    }
}
