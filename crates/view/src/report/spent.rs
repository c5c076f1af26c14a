//! What model calls used and cost, with unknown costs kept apart from costs of zero.

use althing_protocol::{Event, Fact, Item, Member, SessionOpened, TaskId, TaskSpec, Timestamp, Usage};
use althing_text::{count, short_number};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// The number of calls, including failed ones and retries.
    pub calls: u64,
    pub input_tokens: u64,
    /// The cached input tokens, which are part of `input_tokens`.
    pub cached_input_tokens: u64,
    pub output_tokens: u64,
    /// The tokens spent on reasoning, which are part of `output_tokens`.
    pub reasoning_tokens: u64,
    /// The sum of the known costs; None (in JSON: null) if the cost of no call is known.
    pub cost_usd: Option<f64>,
    /// The number of calls whose cost is not known.
    pub unpriced_calls: u64,
}

impl Spent {
    /// With `is_old`, the log does not say whether a cost of zero is known; it counts as unknown, except for the
    /// offline model, which costs nothing.
    pub fn of(usage: &Usage, is_old: bool, offline: bool) -> Self {
        let used = usage.input_tokens > 0 || usage.output_tokens > 0;
        let unclear = is_old && usage.cost_usd == 0.0 && used;
        let unpriced_calls = match (offline, unclear) {
            (true, _) => 0,
            (false, true) => usage.calls.max(1),
            (false, false) => usage.unpriced_calls,
        };
        let is_known = usage.cost_usd > 0.0 || unpriced_calls < usage.calls.max(1);
        Self {
            calls: usage.calls,
            input_tokens: usage.input_tokens,
            cached_input_tokens: usage.cached_input_tokens,
            output_tokens: usage.output_tokens,
            reasoning_tokens: usage.reasoning_tokens,
            cost_usd: is_known.then_some(usage.cost_usd),
            unpriced_calls,
        }
    }

    /// The cost in words: never `$0` for a cost that is not known.
    pub fn cost(&self) -> String {
        let unknown = || count(self.unpriced_calls, "call");
        match self.cost_usd {
            None if self.calls == 0 && self.unpriced_calls == 0 => "$0".into(),
            None => "unknown".into(),
            Some(usd) if self.unpriced_calls == 0 => dollars(usd),
            Some(0.0) => format!("unknown for {}", unknown()),
            Some(usd) => format!("{}, unknown for {}", dollars(usd), unknown()),
        }
    }

    pub fn tokens(&self) -> String {
        format!("{} tokens in, {} out", short_number(self.input_tokens), short_number(self.output_tokens))
    }

    pub fn line(&self) -> String {
        format!(
            "{} · {} tokens in, {} out · cost {}",
            count(self.calls, "call"),
            short_number(self.input_tokens),
            short_number(self.output_tokens),
            self.cost()
        )
    }
}

fn dollars(usd: f64) -> String {
    if usd == 0.0 { "$0".into() } else { format!("${usd:.4}") }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(other.cached_input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (None, None) => None,
            (one, another) => Some(one.unwrap_or_default() + another.unwrap_or_default()),
        };
        self.unpriced_calls = self.unpriced_calls.saturating_add(other.unpriced_calls);
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Caller {
    agent: String,
    model: String,
    offline: bool,
}

impl Caller {
    fn member(member: &Member) -> Self {
        let model = match (member.offline, member.model.is_empty()) {
            (true, _) => "offline model".to_owned(),
            (false, true) => member.backend.clone(),
            (false, false) => member.model.clone(),
        };
        Self { agent: member.id.to_string(), model, offline: member.offline }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Callers {
    tasks: BTreeMap<TaskId, Caller>,
    runs: BTreeMap<TaskId, Vec<Member>>,
}

impl Callers {
    pub(super) fn apply(&mut self, event: &Event) {
        let Fact::TaskCreated { id, parent, spec } = &event.fact else { return };
        let caller = match spec {
            TaskSpec::Run(spec) => {
                self.runs.insert(id.clone(), spec.members.clone());
                return;
            }
            TaskSpec::Work { agent } => {
                let members = parent.as_ref().and_then(|run| self.runs.get(run));
                let member = members.and_then(|members| members.iter().find(|member| member.id == *agent));
                let unknown = || Caller { agent: agent.to_string(), ..Caller::default() };
                member.map_or_else(unknown, Caller::member)
            }
            TaskSpec::Chat(spec) => match &spec.agent {
                Some(agent) => Caller::member(&agent.member),
                None => return,
            },
            TaskSpec::Program(spec) => Caller {
                agent: spec.adapter.clone(),
                model: spec.model.clone().unwrap_or_else(|| spec.adapter.clone()),
                offline: false,
            },
            TaskSpec::Workflow(_) => return,
        };
        self.tasks.insert(id.clone(), caller);
    }

    pub(super) fn spent(&self, event: &Event) -> Option<Spent> {
        let (usage, is_old) = match &event.fact {
            Fact::ItemAdded { item: Item::Reply(reply), .. } => (&reply.usage, reply.call.is_none()),
            Fact::AttemptEnded { outcome, usage, call, .. } if outcome.has_own_usage() => {
                (usage, call.is_none())
            }
            _ => return None,
        };
        let offline = self.caller(event).is_some_and(|caller| caller.offline);
        let spent = Spent::of(usage, is_old, offline);
        (spent.calls > 0 || spent.input_tokens.saturating_add(spent.output_tokens) > 0).then_some(spent)
    }

    fn caller(&self, event: &Event) -> Option<&Caller> {
        self.tasks.get(event.task.as_ref()?)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostGroup {
    Model,
    Agent,
    Project,
    Day,
}

impl CostGroup {
    /// The heading of the column with the groups' names; also the name of the field in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Agent => "agent",
            Self::Project => "project",
            Self::Day => "day",
        }
    }
}

/// Adds what a session spent since a time to `groups`. Returns whether it spent anything.
pub fn add_costs(
    events: &[Arc<Event>],
    since: Timestamp,
    by: CostGroup,
    groups: &mut BTreeMap<String, Spent>,
) -> bool {
    let (mut callers, mut project, mut any) = (Callers::default(), String::new(), false);
    for event in events {
        if let Fact::SessionOpened(opened) = &event.fact {
            project = project_of(opened);
        }
        callers.apply(event);
        let Some(spent) = callers.spent(event).filter(|_| event.at >= since) else { continue };
        let caller = callers.caller(event);
        let name = match by {
            CostGroup::Model => caller.map(|caller| caller.model.clone()).unwrap_or_default(),
            CostGroup::Agent => caller.map(|caller| caller.agent.clone()).unwrap_or_default(),
            CostGroup::Project => project.clone(),
            CostGroup::Day => event.at.to_string().chars().take(10).collect(),
        };
        *groups.entry(name).or_default() += spent;
        any = true;
    }
    any
}

/// The project of a session; without one, the directory in which the session was started.
fn project_of(opened: &SessionOpened) -> String {
    opened.project.clone().unwrap_or_else(|| opened.cwd.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cost_usd: f64, unpriced_calls: u64) -> Usage {
        Usage { input_tokens: 10, output_tokens: 2, cost_usd, calls: 1, unpriced_calls, ..Usage::default() }
    }

    #[test]
    fn an_unknown_cost_is_never_shown_as_zero() {
        let unknown = Spent::of(&usage(0.0, 1), false, false);
        assert_eq!((unknown.cost().as_str(), unknown.cost_usd), ("unknown", None));
        let old = Spent::of(&usage(0.0, 0), true, false);
        assert_eq!(old.cost(), "unknown", "a log of 0.1 does not say whether the price was known");
        let free = Spent::of(&usage(0.0, 0), false, false);
        assert_eq!(free.cost(), "$0", "a price of zero, or a model on this machine");
        assert_eq!(Spent::of(&usage(0.0, 0), true, true).cost(), "$0", "the offline model costs nothing");
        let mut sum = Spent::of(&usage(0.25, 0), false, false);
        sum += unknown;
        assert_eq!(sum.cost(), "$0.2500, unknown for 1 call");
        let mut sum = free;
        sum += unknown;
        assert_eq!(sum.cost(), "unknown for 1 call");
        assert_eq!(Spent::default().cost(), "$0");
    }
}
