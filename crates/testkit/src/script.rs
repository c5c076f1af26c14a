//! The script decides the response to each request: the most specific rule for its model and index, else the fallback.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::fault::{self, Fault, FaultCase, FaultMoment};
use crate::gate::Gate;
use crate::plan::{Plan, Step};
use crate::policy::Parliament;
use crate::recorded::RecordedRequest;
use crate::reply::Reply;
use crate::wire::{Context, Wire};

type Decide = Arc<dyn Fn(&RecordedRequest) -> Action + Send + Sync>;

#[derive(Clone)]
pub enum Action {
    /// The response of the script's fallback, for example inside `After` or `Gated`.
    Usual,
    Reply(Reply),
    Fault(Fault, FaultMoment),
    FaultIn(Fault, FaultMoment, Reply),
    Gated(Box<Action>, Gate),
    After(Duration, Box<Action>),
    Hang,
    /// These bytes instead of a response; then the connection is closed.
    Raw(Bytes),
    Refuse(u16, String),
    With(Decide),
}

impl Action {
    pub fn gated(action: impl Into<Self>, gate: &Gate) -> Self {
        Self::Gated(Box::new(action.into()), gate.clone())
    }

    pub fn after(delay: Duration, action: impl Into<Self>) -> Self {
        Self::After(delay, Box::new(action.into()))
    }

    pub fn refuse(status: u16, message: &str) -> Self {
        let kind = "invalid_request_error";
        let error = serde_json::json!({"error": {"message": message, "type": kind, "code": status}});
        Self::Refuse(status, error.to_string())
    }

    pub fn with<A: Into<Self>>(decide: impl Fn(&RecordedRequest) -> A + Send + Sync + 'static) -> Self {
        Self::With(Arc::new(move |request| decide(request).into()))
    }
}

impl From<Reply> for Action {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl From<FaultCase> for Action {
    fn from(case: FaultCase) -> Self {
        Self::Fault(case.fault, case.moment)
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usual => f.write_str("Usual"),
            Self::Reply(reply) => f.debug_tuple("Reply").field(reply).finish(),
            Self::Fault(fault, moment) => write!(f, "Fault({fault} {moment})"),
            Self::FaultIn(fault, moment, _) => write!(f, "FaultIn({fault} {moment})"),
            Self::Gated(inner, _) => write!(f, "Gated({inner:?})"),
            Self::After(delay, inner) => write!(f, "After({delay:?}, {inner:?})"),
            Self::Hang => f.write_str("Hang"),
            Self::Raw(bytes) => write!(f, "Raw({} bytes)", bytes.len()),
            Self::Refuse(status, _) => write!(f, "Refuse({status})"),
            Self::With(_) => f.write_str("With(…)"),
        }
    }
}

#[derive(Clone)]
pub struct Script {
    rules: Vec<Rule>,
    fallback: Decide,
    pub(crate) reasoning_field: &'static str,
}

#[derive(Clone)]
struct Rule {
    /// `None` matches any model.
    model: Option<String>,
    /// The index of the request, among the requests of `model` or, without a model, among all. `None` matches every
    /// request.
    nth: Option<usize>,
    action: Action,
}

impl Script {
    /// Every request without a rule gets the reply of a cooperative agent (see [`Parliament`]).
    pub fn parliament() -> Self {
        Self::from_fn(|request| Parliament::default().reply(request))
    }

    pub fn from_fn<A: Into<Action>>(decide: impl Fn(&RecordedRequest) -> A + Send + Sync + 'static) -> Self {
        Self {
            rules: Vec::new(),
            fallback: Arc::new(move |request| decide(request).into()),
            reasoning_field: "reasoning_content",
        }
    }

    pub fn always(action: impl Into<Action>) -> Self {
        let action = action.into();
        Self::from_fn(move |_| action.clone())
    }

    /// The field in which chat completions carry reasoning (default `reasoning_content`; some providers use
    /// `reasoning`).
    pub fn reasoning_field(mut self, field: &'static str) -> Self {
        self.reasoning_field = field;
        self
    }

    pub fn on(self, model: impl Into<String>) -> OnModel {
        OnModel { script: self, model: model.into() }
    }

    /// A rule for the `n`th request of all, from 0.
    pub fn nth(self, n: usize, action: impl Into<Action>) -> Self {
        self.rule(None, Some(n), action.into())
    }

    /// The first request gets the fault, unless a rule for its model applies.
    pub fn fault_once(self, fault: Fault, moment: FaultMoment) -> Self {
        self.nth(0, Action::Fault(fault, moment))
    }

    pub fn fault_always(self, fault: Fault, moment: FaultMoment) -> Self {
        self.rule(None, None, Action::Fault(fault, moment))
    }

    fn rule(mut self, model: Option<String>, nth: Option<usize>, action: Action) -> Self {
        self.rules.push(Rule { model, nth, action });
        self
    }

    /// The action of the most specific rule. From most to least specific: the model's nth request, all of the model's
    /// requests, the nth request of all, every request. Of equally specific rules, the one added last wins.
    fn find(&self, request: &RecordedRequest) -> Option<&Action> {
        let fits = |rule: &&Rule| {
            let (model_fits, count) = match &rule.model {
                Some(model) => (model == request.model(), request.nth_of_model()),
                None => (true, request.seq()),
            };
            model_fits && rule.nth.is_none_or(|n| n == count)
        };
        self.rules
            .iter()
            .filter(fits)
            .max_by_key(|rule| (rule.model.is_some(), rule.nth.is_some()))
            .map(|rule| &rule.action)
    }

    pub(crate) fn plan(&self, request: &RecordedRequest, wire: Wire, context: &Context) -> Plan {
        let action = self.find(request).unwrap_or(&Action::Usual);
        self.build_plan(action, request, wire, context)
    }

    fn build_plan(&self, action: &Action, request: &RecordedRequest, wire: Wire, context: &Context) -> Plan {
        match action {
            Action::Usual => self.build_plan(&self.usual(request), request, wire, context),
            Action::Reply(reply) => Plan::reply(wire, reply, context, request.wants_stream()),
            Action::Fault(fault, moment) => {
                fault::plan(*fault, *moment, self.usual_reply(request), wire, context)
            }
            Action::FaultIn(fault, moment, reply) => {
                fault::plan(*fault, *moment, reply.clone(), wire, context)
            }
            Action::Gated(inner, gate) => self.build_plan(inner, request, wire, context).gated(gate),
            Action::After(delay, inner) => self.build_plan(inner, request, wire, context).after(*delay),
            Action::Hang => Plan::default().step(Step::Stall),
            Action::Raw(bytes) => Plan::default().send(bytes.clone()).step(Step::Close),
            Action::Refuse(status, body) => Plan::document(*status, "application/json", &[], body),
            Action::With(decide) => self.build_plan(&decide(request), request, wire, context),
        }
    }

    fn usual(&self, request: &RecordedRequest) -> Action {
        let action = (self.fallback)(request);
        assert!(!matches!(action, Action::Usual), "a script's fallback cannot ask for the fallback");
        action
    }

    /// The reply that a fault affects. A fallback that is not a plain reply is replaced by the reply of [`Parliament`].
    fn usual_reply(&self, request: &RecordedRequest) -> Reply {
        match self.usual(request) {
            Action::Reply(reply) => reply,
            _ => Parliament::default().reply(request),
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script({} rules)", self.rules.len())
    }
}

/// A script to which rules for one model are being added. It converts into a [`Script`].
#[derive(Debug, Clone)]
pub struct OnModel {
    script: Script,
    model: String,
}

impl OnModel {
    /// A rule for this model's `n`th request, from 0. Retries count.
    pub fn nth(mut self, n: usize, action: impl Into<Action>) -> Self {
        let model = Some(self.model.clone());
        self.script = self.script.rule(model, Some(n), action.into());
        self
    }

    /// The first action is for this model's first request, the second for its second one, and so on. For later
    /// requests, the other rules apply.
    pub fn each<A: Into<Action>>(self, actions: impl IntoIterator<Item = A>) -> Self {
        actions.into_iter().enumerate().fold(self, |on, (n, action)| on.nth(n, action))
    }

    /// A rule for all of this model's requests that have no rule by index.
    pub fn always(mut self, action: impl Into<Action>) -> Self {
        let model = Some(self.model.clone());
        self.script = self.script.rule(model, None, action.into());
        self
    }

    pub fn fault_once(self, fault: Fault, moment: FaultMoment) -> Self {
        self.nth(0, Action::Fault(fault, moment))
    }

    pub fn fault_always(self, fault: Fault, moment: FaultMoment) -> Self {
        self.always(Action::Fault(fault, moment))
    }

    pub fn on(self, model: impl Into<String>) -> Self {
        self.script.on(model)
    }
}

impl From<OnModel> for Script {
    fn from(on: OnModel) -> Self {
        on.script
    }
}
