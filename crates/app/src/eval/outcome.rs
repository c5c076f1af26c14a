//! The outcome of one run of an evaluation, read from the run's log.

use althing_engine::Coordination;
use althing_engine::tally::{Count, Election, Rule, count};
use althing_protocol::{
    AgentId, Answer, DecisionRule, Event, Fact, FeedItem, Item, RunResult, RunStatus, SessionId, TaskId,
    TaskSpec, Usage,
};
use althing_view::SessionView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A rule for counting recorded ballots, with its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedRule {
    /// The name of the rule on the command line.
    pub name: &'static str,
    /// How ballots are counted.
    pub rule: Rule,
}

const fn rule(
    name: &'static str,
    method: DecisionRule,
    merge_conclusions: bool,
    unanimity: bool,
) -> NamedRule {
    NamedRule { name, rule: Rule { method, merge_conclusions, unanimity } }
}

/// The rules that `althing eval --rules` accepts.
pub const RULES: [NamedRule; 4] = [
    rule("borda", DecisionRule::Borda, true, true),
    rule("plurality", DecisionRule::Plurality, false, false),
    rule("borda-unmerged", DecisionRule::Borda, false, false),
    rule("plurality-merged", DecisionRule::Plurality, true, false),
];

impl std::str::FromStr for NamedRule {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = RULES.map(|rule| rule.name);
        RULES.into_iter().find(|rule| rule.name == name).ok_or_else(|| {
            let near =
                althing_text::did_you_mean(name, names).map(|near| format!("; {near}")).unwrap_or_default();
            format!("the rules are {}{near}", names.join(", "))
        })
    }
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The result; `None` if the run is not over.
    pub result: Option<RunResult>,
    /// The usage of the whole session.
    pub usage: Usage,
    /// The candidates and the ballots.
    pub election: Election,
    /// The first answer of each agent.
    pub first: BTreeMap<AgentId, Answer>,
    /// The newest answer of each agent, which ballots are counted for.
    pub newest: BTreeMap<AgentId, Answer>,
}

impl RunOutcome {
    /// The outcome of a run; `None` if the events contain no such run.
    pub fn of(session: &SessionId, run: &TaskId, events: &[Arc<Event>]) -> Option<Self> {
        let mut decider = None;
        let mut view = SessionView::without_transcript();
        let (mut first, mut newest) = (BTreeMap::new(), BTreeMap::new());
        let mut members = BTreeSet::new();
        for event in events {
            view.apply(&FeedItem::Event(event.clone()));
            match &event.fact {
                Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. } if id == run => {
                    decider =
                        Some(Coordination::new(session.clone(), id.clone(), (**spec).clone(), String::new()));
                }
                Fact::TaskCreated { id, parent: Some(parent), .. } if parent == run => {
                    members.insert(id.clone());
                }
                Fact::ItemAdded { item: Item::Answer(answer), .. }
                    if event.task.as_ref().is_some_and(|task| members.contains(task)) =>
                {
                    first.entry(answer.agent.clone()).or_insert_with(|| answer.clone());
                    newest.insert(answer.agent.clone(), answer.clone());
                }
                _ => {}
            }
            if let Some(decider) = &mut decider {
                decider.apply(event);
            }
        }
        let election = decider?.election();
        Some(Self { result: view.result(run).cloned(), usage: view.usage(), election, first, newest })
    }

    /// Whether the run can be judged: a failed run counts as wrong, and a cancelled run is not judged.
    pub fn is_over(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result.status != RunStatus::Cancelled)
    }

    /// Counts the recorded ballots under a rule.
    pub fn count(&self, rule: Rule) -> Count {
        count(&self.election, rule)
    }

    /// The newest answer of the winner under a rule.
    pub fn winner(&self, rule: Rule) -> Option<&Answer> {
        let count = self.count(rule);
        self.newest.get(count.winner(&self.election)?)
    }
}
