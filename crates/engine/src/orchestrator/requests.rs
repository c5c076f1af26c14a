//! Rebuilds the requests of a session's model calls from its log, where they are not recorded: the deciders are folded
//! event by event and asked for each request. The recorded digest tells whether a rebuilt request is the one that was
//! sent.

use super::call_record::request_digest;
use super::result_files::new_decider;
use crate::decider::{CallKey, Decider, EffectKey, EffectRequest};
use althing_protocol::{
    AgentId, AttemptOutcome, Briefing, CallRecord, Event, Fact, Item, ModelRequest, Purpose, Reply,
    SessionId, TaskId, Timestamp, Usage,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A model call of a session, with its rebuilt request.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The work of a member of a run, or the conversation.
    pub task: TaskId,
    /// The agent that was called.
    pub agent: Option<AgentId>,
    /// The attempt that the call belongs to.
    pub attempt: u32,
    /// Why the attempt was made.
    pub purpose: Option<Purpose>,
    /// When the call began.
    pub began: Timestamp,
    /// The rebuilt request.
    pub request: ModelRequest,
    /// Whether the rebuilt request is the one that was sent.
    pub fidelity: Fidelity,
    /// What the session recorded about the call; None if the call did not end, if nothing was sent, and in logs of 0.1.
    pub record: Option<CallRecord>,
    /// How the call ended.
    pub end: CallEnd,
}

/// Whether a rebuilt request is the one that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Its digest is the recorded one.
    Exact,
    /// Its digest is not the recorded one.
    Differs,
    /// The log contains no digest of the request.
    Unknown,
}

/// How a model call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum CallEnd {
    /// The model replied.
    Replied(Box<Reply>),
    /// The call failed.
    Failed {
        /// The error message.
        error: String,
        /// What the call used.
        usage: Usage,
    },
    /// The call was stopped, or the session ended before its reply.
    Stopped,
}

/// The model calls of the tasks that `is_wanted` accepts, in the order in which they began.
pub fn model_calls(
    session: &SessionId,
    events: &[Arc<Event>],
    task_dir: &dyn Fn(&TaskId) -> String,
    is_wanted: &dyn Fn(&TaskId) -> bool,
) -> Vec<ModelCall> {
    let mut rebuilder = Rebuilder {
        is_wanted,
        deciders: BTreeMap::new(),
        purposes: BTreeMap::new(),
        briefings: BTreeMap::new(),
        open: BTreeMap::new(),
        calls: Vec::new(),
    };
    for event in events {
        rebuilder.end_call(event);
        if let Fact::TaskCreated { id, spec, .. } = &event.fact
            && let Some(decider) = new_decider(session, id, spec, task_dir)
        {
            rebuilder.deciders.insert(id.clone(), decider);
        }
        rebuilder.apply(event);
    }
    rebuilder.stop_calls(|_| false);
    let mut calls = rebuilder.calls;
    calls.sort_by_key(|call| call.began);
    calls
}

/// A running call; its request is without the briefing.
struct OpenCall {
    task: TaskId,
    agent: Option<AgentId>,
    began: Timestamp,
    request: ModelRequest,
}

struct Rebuilder<'a> {
    is_wanted: &'a dyn Fn(&TaskId) -> bool,
    deciders: BTreeMap<TaskId, Box<dyn Decider>>,
    purposes: BTreeMap<(TaskId, u32), Purpose>,
    briefings: BTreeMap<TaskId, Briefing>,
    /// The running calls, by the decider that wants them.
    open: BTreeMap<(TaskId, CallKey), OpenCall>,
    calls: Vec<ModelCall>,
}

impl Rebuilder<'_> {
    fn apply(&mut self, event: &Event) {
        match (&event.fact, &event.task) {
            (Fact::AttemptStarted { attempt, purpose, .. }, Some(task)) => {
                self.purposes.insert((task.clone(), *attempt), *purpose);
            }
            (Fact::ItemAdded { item: Item::Briefed(briefing), .. }, Some(task)) => {
                self.briefings.insert(task.clone(), briefing.clone());
            }
            _ => {}
        }
        for decider in self.deciders.values_mut() {
            decider.apply(event);
        }
        // A session starts calls only when no more facts follow from the state.
        if self.deciders.values().all(|decider| decider.consequences().is_empty()) {
            self.start_calls(event.at);
        }
    }

    fn start_calls(&mut self, at: Timestamp) {
        let mut wanted = Vec::new();
        for (owner, decider) in &self.deciders {
            for key in decider.wanted().calls {
                let task = decider.task_of(&EffectKey::Call(key));
                if (self.is_wanted)(&task) {
                    wanted.push((owner.clone(), key, task));
                }
            }
        }
        self.stop_calls(|id| wanted.iter().any(|(owner, key, _)| (owner, key) == (&id.0, &id.1)));
        for (owner, key, task) in wanted {
            let id = (owner, key);
            if !self.open.contains_key(&id)
                && let Some((request, agent)) = self.request(&id)
            {
                self.open.insert(id, OpenCall { task, agent, began: at, request });
            }
        }
    }

    fn request(&self, (owner, key): &(TaskId, CallKey)) -> Option<(ModelRequest, Option<AgentId>)> {
        match self.deciders.get(owner)?.effect_request(&EffectKey::Call(*key))? {
            EffectRequest::Call { request, agent, .. } => Some((*request, agent)),
            _ => None,
        }
    }

    fn stop_calls(&mut self, keep: impl Fn(&(TaskId, CallKey)) -> bool) {
        let stopped: Vec<_> = self.open.keys().filter(|id| !keep(id)).cloned().collect();
        for id in stopped {
            if let Some(call) = self.open.remove(&id) {
                self.add(id.1.attempt, call, None, CallEnd::Stopped);
            }
        }
    }

    fn end_call(&mut self, event: &Event) {
        let Some(task) = event.task.as_ref().filter(|task| (self.is_wanted)(task)) else { return };
        let (attempt, record, end) = match &event.fact {
            Fact::ItemAdded { attempt, item: Item::Reply(reply) } => {
                (*attempt, reply.call.clone(), CallEnd::Replied(Box::new(reply.clone())))
            }
            Fact::AttemptEnded {
                attempt,
                outcome: AttemptOutcome::Failed { error, kind: Some(_), .. },
                usage,
                call,
            } => (*attempt, call.clone(), CallEnd::Failed { error: error.clone(), usage: *usage }),
            _ => return,
        };
        let open = self.open.iter().find(|(id, call)| call.task == *task && id.1.attempt == attempt);
        let Some(id) = open.map(|(id, _)| id.clone()) else { return };
        // The call may have begun a few facts after it was first wanted, at the end of the batch. Then its request
        // follows from a later state.
        let later = self.request(&id).map(|(request, _)| request);
        let Some(mut call) = self.open.remove(&id) else { return };
        let digest = record.as_ref().map(|record| record.digest.as_str());
        if let Some(later) = later
            && later != call.request
            && digest == Some(&request_digest(&self.with_briefing(task, &later)))
        {
            call.request = later;
        }
        self.add(attempt, call, record, end);
    }

    fn add(&mut self, attempt: u32, call: OpenCall, record: Option<CallRecord>, end: CallEnd) {
        let request = self.with_briefing(&call.task, &call.request);
        let fidelity = match &record {
            None => Fidelity::Unknown,
            Some(record) if record.digest == request_digest(&request) => Fidelity::Exact,
            Some(_) => Fidelity::Differs,
        };
        let purpose = self.purposes.get(&(call.task.clone(), attempt)).copied();
        let OpenCall { task, agent, began, .. } = call;
        self.calls.push(ModelCall { task, agent, attempt, purpose, began, request, fidelity, record, end });
    }

    fn with_briefing(&self, task: &TaskId, request: &ModelRequest) -> ModelRequest {
        let mut request = request.clone();
        if let Some(briefing) = self.briefings.get(task) {
            briefing.add_to(&mut request);
        }
        request
    }
}
