//! Checks the answers and votes in replies.

use super::{OfferedTools, ReplyMeaning, refuse_all};
use crate::coordination::novelty::is_new;
use crate::coordination::state::{MemberAttempt, MemberState, RunState};
use crate::prompt::reminders;
use crate::tools::{self, Submission};
use althing_protocol::{AgentId, Answer, AnswerLabel, Ballot, Reply, ToolCall};

pub(super) fn answer(
    state: &RunState,
    member: &MemberState,
    attempt: &MemberAttempt,
    reply: &Reply,
    submission: Submission,
    offered: OfferedTools,
) -> ReplyMeaning {
    // Only answers that the agent knows are compared: two agents may reach the same answer independently.
    let known = |answer: &&Answer| answer.revision <= attempt.knows || answer.agent == member.agent.id;
    let current = state.answers.iter().skip(state.discarded.0 as usize);
    let hint = if offered.vote { ", or vote for it" } else { "" };
    let known: Vec<&Answer> = current.filter(known).collect();
    // After a reminder of any kind, a weak answer is accepted, because it is better than none, unless it is about the
    // run's tools or a placeholder.
    let weakness =
        state.weakness_of_answer(member, attempt, &submission.content).filter(|_| attempt.faults == 0);
    let stored = state.content_of_answer(member, attempt, reply, &submission.content);
    let content = stored.as_deref().unwrap_or(&submission.content);
    if let Some(same) = known.iter().find(|answer| answer.content.trim() == content.trim()) {
        return refuse_all(
            reply,
            &format!("Not stored: this repeats {} word for word. Improve on that answer{hint}.", same.label),
        );
    }
    if let Some(weakness) = weakness.or(stored.as_ref().err().copied()) {
        return refuse_all(reply, &reminders::weak_answer(weakness.reason(), !member.answers.is_empty()));
    }
    let novelty = state.spec.rules.answer_novelty;
    if let Some(close) = known.iter().find(|answer| !is_new(novelty, content, &answer.content)) {
        return refuse_all(
            reply,
            &format!("Not stored: this is too close to {}. Say something new{hint}.", close.label),
        );
    }
    ReplyMeaning::Answer(Submission { content: content.to_owned(), ..submission })
}

pub(super) fn vote(
    state: &RunState,
    member: &MemberState,
    attempt: &MemberAttempt,
    reply: &Reply,
    call: &ToolCall,
    offered: OfferedTools,
) -> ReplyMeaning {
    if !offered.vote {
        return refuse_all(reply, "You cannot vote in this turn.");
    }
    let (choices, reason) = match tools::vote(call) {
        Ok(vote) => vote,
        Err(problem) => return refuse_all(reply, &problem),
    };
    let candidates = state.candidates(attempt.knows);
    let mut ranking: Vec<AgentId> = Vec::new();
    for choice in &choices {
        let chosen = candidates.iter().find(|&&index| is_named(choice, index));
        let Some(chosen) = chosen.and_then(|index| state.members.get(*index)) else {
            let names: Vec<String> = candidates.iter().map(|index| format!("agent{}", index + 1)).collect();
            return refuse_all(
                reply,
                &format!("`{choice}` is not an agent you can vote for. Choose among: {}.", names.join(", ")),
            );
        };
        if !ranking.contains(&chosen.agent.id) {
            ranking.push(chosen.agent.id.clone());
        }
    }
    let Some(target) = ranking.first().cloned() else {
        return refuse_all(reply, "There is nobody to vote for.");
    };
    if ranking.len() == 1 {
        ranking.clear();
    }
    let ballot = Ballot { voter: member.agent.id.clone(), target, reason, ranking };
    if state.is_overtaken(&ballot, attempt.knows) {
        ReplyMeaning::Stale(ballot)
    } else {
        ReplyMeaning::Vote(ballot)
    }
}

/// A choice may be `agent2` or the label of an answer, such as `agent2.1`.
fn is_named(choice: &str, member_index: usize) -> bool {
    let is_label = |label: AnswerLabel| label.agent as usize == member_index + 1;
    choice == format!("agent{}", member_index + 1) || choice.parse().is_ok_and(is_label)
}
