//! The rules of a run and its decision, in plain words for the report.

use super::agent::AgentReport;
use super::run::RunReport;
use althing_protocol::{AgentMode, DecisionRule, FinalAnswerStrategy, RunSpec};
use althing_text::count;

/// The rules of a run, one sentence each.
pub(super) fn rules(spec: &RunSpec) -> Vec<String> {
    let rules = &spec.rules;
    let mut said = Vec::new();
    let alone = spec.members.len() == 1 || spec.modes.agent_mode == AgentMode::Single;
    said.push(match rules.max_new_answers_per_agent {
        Some(1) => "Each agent answers once.".to_owned(),
        _ if rules.disable_injection => "Agents see each other's answers only for the vote.".to_owned(),
        Some(most) if !alone => {
            format!("Agents see each other's answers and may improve their own, up to {most} answers each.")
        }
        _ if alone => "One agent answers and may improve its answer.".to_owned(),
        _ => "Agents see each other's answers and may improve their own.".to_owned(),
    });
    said.push(
        match (rules.skip_voting, alone) {
            (true, true) => "There is no vote.",
            (true, false) => "There is no vote; the newest answer wins.",
            (false, _) => match rules.decision.rule {
                DecisionRule::Borda => {
                    "Each agent ranks the answers, and the answer with the most points wins."
                }
                DecisionRule::Plurality => {
                    "Each agent votes for one answer, and the answer with the most votes wins."
                }
            },
        }
        .to_owned(),
    );
    said.push(
        match rules.strategy() {
            FinalAnswerStrategy::WinnerReuse => "The winner's answer is the final answer.",
            FinalAnswerStrategy::WinnerPresent => "The winner writes the final answer.",
            FinalAnswerStrategy::Synthesize => "The winner combines all answers into the final answer.",
        }
        .to_owned(),
    );
    if rules.max_restarts > 0 {
        let times = count(rules.max_restarts.into(), "time");
        said.push(format!(
            "The author of the final answer may reject it; then the run starts over, up to {times}."
        ));
    }
    if spec.modes.planning {
        said.push("Agents only plan and change nothing.".into());
    }
    said
}

/// How the run was decided, one sentence each.
pub(super) fn decision(run: &RunReport) -> Vec<String> {
    let decision = &run.decision;
    let mut said = Vec::new();
    for (nth, reason) in (1u32..).zip(&decision.restarts) {
        said.push(format!("Restart {nth}: the final answer was rejected, because {reason}"));
    }
    match &decision.winner {
        Some(winner) => {
            said.push(won(run, winner.as_str()));
            let agent = run.agents.iter().find(|agent| agent.id == *winner);
            if let Some(newest) =
                agent.filter(|agent| agent.answers.len() > 1).and_then(|agent| agent.newest())
            {
                said.push(format!(
                    "Its winning answer is {}, the newest of {}.",
                    newest.label,
                    agent_answers(agent)
                ));
            }
        }
        None if run.is_over && run.final_answer.is_some() => {
            said.push(
                "The run ended before a winner was decided; the best answer so far is the result.".into(),
            );
        }
        None if run.is_over => said.push("Nobody won, because there is no answer.".into()),
        None => said.push("Nothing is decided yet.".into()),
    }
    // If there is a decision report, its explanation says how a tie was broken.
    let tie_break = decision.tie_break.as_ref().filter(|_| decision.report.is_none());
    if let Some(tie_break) = tie_break.filter(|_| decision.winner.is_some()) {
        said.push(sentence(tie_break));
    }
    let presented = |agent: &&AgentReport| {
        agent.attempts.iter().any(|attempt| {
            attempt.activity == "presenting" && attempt.outcome.as_deref() == Some("presented")
        })
    };
    match (&decision.presenter, run.agents.iter().find(presented)) {
        (Some(presenter), _) if decision.overridden => {
            said.push(format!("A person chose {presenter} to give the final answer instead."));
        }
        (_, Some(presenter)) => said.push(format!("{} wrote the final answer.", presenter.id)),
        (Some(presenter), None) if run.final_answer.is_some() => {
            said.push(format!("The answer of {presenter} is the final answer, unchanged."));
        }
        _ => {}
    }
    for agent in &run.agents {
        if let Some(error) = &agent.error {
            let error = error.lines().next().unwrap_or_default();
            said.push(format!("{} {}: {error}.", agent.id, agent.status).replace("..", "."));
        }
    }
    if let Some(error) = run.error.as_ref().filter(|_| run.has_failed() || run.status == "partial") {
        said.push(sentence(error.lines().next().unwrap_or_default()));
    }
    said
}

fn agent_answers(agent: Option<&AgentReport>) -> String {
    count(agent.map_or(0, |agent| agent.answers.len() as u64), "answer")
}

fn won(run: &RunReport, winner: &str) -> String {
    let decision = &run.decision;
    if let Some(report) = &decision.report {
        let explanation = &report.explanation;
        // An agent's name keeps its case.
        return if explanation.starts_with(winner) {
            format!("{explanation}.")
        } else {
            sentence(explanation)
        };
    }
    let all: u32 = decision.votes.values().sum();
    let mine =
        decision.votes.iter().find(|(agent, _)| agent.as_str() == winner).map_or(0, |(_, votes)| *votes);
    let answered = run.agents.iter().filter(|agent| !agent.answers.is_empty()).count();
    if all == 0 && answered <= 1 {
        return format!("{winner} is the only agent that answered.");
    }
    if all == 0 {
        return format!("The answer of {winner} was chosen without a vote.");
    }
    let others = decision.votes.iter().filter(|(agent, votes)| agent.as_str() != winner && **votes > 0);
    let others: Vec<String> = others.map(|(agent, votes)| format!("{agent} got {votes}")).collect();
    if others.is_empty() {
        return format!(
            "{winner} won with {}.",
            if all == 1 { "the only vote".into() } else { format!("all {all} votes") }
        );
    }
    format!("{winner} won with {mine} of {all} votes; {}.", others.join(", "))
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?', '…']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{AnswerReport, Places};
    use althing_protocol::{AgentId, AnswerLabel, Member, Modes, RunRules, TaskId, Timestamp};

    fn spec(agents: &[&str], modes: Modes) -> RunSpec {
        let member = |id: &&str| Member {
            id: (*id).into(),
            backend: "chatcompletion".into(),
            model: "m".into(),
            offline: false,
            system_message: None,
            has_tools: false,
            voting_sensitivity: None,
        };
        RunSpec {
            task: "task".into(),
            context: None,
            history: Vec::new(),
            members: agents.iter().map(member).collect(),
            context_paths: Vec::new(),
            unapproved_paths: Vec::new(),
            modes,
            rules: RunRules::default().with(&modes.overrides()),
            subagent_of: None,
            plan: None,
            execution: None,
            tie_break_seed: 0,
        }
    }

    fn run(agents: &[(&str, u32)]) -> RunReport {
        let names: Vec<&str> = agents.iter().map(|(name, _)| *name).collect();
        let spec = spec(&names, Modes::default());
        let places = Places { session: "/s".into(), task: &|task: &TaskId| format!("/s/tasks/{task}") };
        let mut run = RunReport::new("s", &"r1".into(), &spec, Timestamp(0), &places);
        for (agent, (number, answers)) in
            run.agents.iter_mut().zip((1..).zip(agents.iter().map(|agent| agent.1)))
        {
            for nth in 1..=answers {
                let label = AnswerLabel { agent: number, nth };
                let content = format!("answer {nth}");
                agent.answers.push(AnswerReport {
                    label,
                    at: Timestamp(0),
                    content,
                    snapshot: None,
                    diff: None,
                });
            }
        }
        run.is_over = true;
        run.status = "completed".into();
        run.final_answer = Some("answer".into());
        run
    }

    fn decided(
        mut run: RunReport,
        winner: &str,
        votes: &[(&str, u32)],
        tie_break: Option<&str>,
    ) -> Vec<String> {
        run.decision.winner = Some(winner.into());
        run.decision.presenter = run.decision.presenter.or(Some(winner.into()));
        run.decision.votes = votes.iter().map(|(agent, votes)| (AgentId::from(*agent), *votes)).collect();
        run.decision.tie_break = tie_break.map(str::to_owned);
        decision(&run)
    }

    #[test]
    fn the_decision_says_who_won_by_how_much_and_how_a_tie_was_broken() {
        let said = decided(run(&[("a", 1), ("b", 2)]), "b", &[("a", 1), ("b", 2)], None);
        let expected = [
            "b won with 2 of 3 votes; a got 1.",
            "Its winning answer is agent2.2, the newest of 2 answers.",
            "The answer of b is the final answer, unchanged.",
        ];
        assert_eq!(said, expected);
        let said =
            decided(run(&[("a", 1), ("b", 1)]), "a", &[("a", 1), ("b", 1)], Some("a tie, broken at random"));
        assert_eq!(
            said.get(..2).unwrap_or_default(),
            ["a won with 1 of 2 votes; b got 1.", "A tie, broken at random."]
        );
        let nobody = Some("nobody voted: the newest answer wins");
        let said = decided(run(&[("a", 1), ("b", 1)]), "b", &[], nobody);
        assert_eq!(
            said.get(..2).unwrap_or_default(),
            ["The answer of b was chosen without a vote.", "Nobody voted: the newest answer wins."]
        );
        let said = decided(run(&[("a", 1), ("b", 0)]), "a", &[], None);
        assert_eq!(said.first().map(String::as_str), Some("a is the only agent that answered."));
    }

    #[test]
    fn an_override_a_restart_and_a_failure_are_said() {
        let mut overridden = run(&[("a", 1), ("b", 1)]);
        overridden.decision.overridden = true;
        overridden.decision.presenter = Some("b".into());
        overridden.decision.restarts.push("it lacks an example.".into());
        let said = decided(overridden, "a", &[("a", 2)], None);
        let expected = [
            "Restart 1: the final answer was rejected, because it lacks an example.",
            "a won with all 2 votes.",
            "A person chose b to give the final answer instead.",
        ];
        assert_eq!(said, expected);
        let mut failed = run(&[("a", 0)]);
        failed.final_answer = None;
        failed.status = "failed".into();
        failed.error = Some("no agent gave an answer\na: 401".into());
        "dropped out".clone_into(&mut failed.agents.first_mut().unwrap().status);
        failed.agents.first_mut().unwrap().error = Some("401".into());
        let expected =
            ["Nobody won, because there is no answer.", "a dropped out: 401.", "No agent gave an answer."];
        assert_eq!(decision(&failed), expected);
    }

    #[test]
    fn the_rules_follow_from_the_modes() {
        let quick = Modes { refinement: false, ..Modes::default() };
        let said = rules(&spec(&["a", "b"], quick));
        assert_eq!(said.first().map(String::as_str), Some("Each agent answers once."));
        assert_eq!(
            said.last().map(String::as_str),
            Some("The winner combines all answers into the final answer.")
        );
        let alone = Modes { agent_mode: AgentMode::Single, refinement: false, planning: true };
        let said = rules(&spec(&["a"], alone));
        assert!(said.contains(&"There is no vote.".to_owned()), "{said:?}");
        assert_eq!(said.last().map(String::as_str), Some("Agents only plan and change nothing."));
    }
}
