//! The conversation's decider as the session holds it.

use super::InteractiveSession;
use crate::decider::{Answered, Consequence, Decider, Job, Order, Sight, Wanted, Whose};
use althing_protocol::{ContextAccess, Decision, Event, InteractionId, Op, TaskId};

impl Decider for InteractiveSession {
    fn apply(&mut self, event: &Event) {
        self.apply(event);
    }

    fn consequences(&self) -> Vec<Consequence> {
        self.consequences()
    }

    fn wanted(&self) -> Wanted {
        self.wanted()
    }

    /// A conversation goes on until it is left.
    fn is_over(&self) -> bool {
        false
    }

    fn order(&self, job: &Job) -> Option<Order> {
        let place = Whose::Talker { chat: self.task.clone(), spec: self.spec.clone() };
        // Nobody works beside it.
        let access = ContextAccess::Writable;
        match job {
            Job::Call(_) => Some(Order::Call {
                request: Box::new(self.request()?),
                agent: self.spec.agent.as_ref().map(|agent| agent.member.id.clone()),
                place: self.is_at_work().then_some((place, Sight { access, labels: Vec::new() })),
            }),
            Job::Chore(chore) => Some(Order::Chore { kind: chore.kind.clone(), access, place: Some(place) }),
            Job::Program(_) => None,
        }
    }

    fn task_of(&self, _: &Job) -> TaskId {
        self.task.clone()
    }

    fn answered(&self, interaction: &InteractionId, decision: &Decision) -> Option<Result<Answered, String>> {
        self.interaction.as_ref().filter(|open| open.id == *interaction)?;
        Some(self.answer(interaction, decision).map(|facts| (facts, None)))
    }

    fn refuses(&self, op: &Op) -> Option<String> {
        self.refuses(op)
    }
}
