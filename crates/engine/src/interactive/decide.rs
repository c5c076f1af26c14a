//! The `Decider` implementation of a conversation.

use super::InteractiveSession;
use crate::decider::{
    AnswerEffects, Consequence, Decider, EffectKey, EffectRequest, EnvOwner, Visibility, WantedEffects,
};
use althing_protocol::{ContextAccess, Decision, Event, InteractionId, Op, TaskId};

impl Decider for InteractiveSession {
    fn apply(&mut self, event: &Event) {
        self.apply(event);
    }

    fn consequences(&self) -> Vec<Consequence> {
        self.consequences()
    }

    fn wanted(&self) -> WantedEffects {
        self.wanted()
    }

    /// A conversation never ends by itself.
    fn is_over(&self) -> bool {
        false
    }

    fn effect_request(&self, effect: &EffectKey) -> Option<EffectRequest> {
        let env = EnvOwner::ChatAgent { chat: self.task.clone(), spec: self.spec.clone() };
        // The chat agent works alone, so it may write.
        let access = ContextAccess::Writable;
        match effect {
            EffectKey::Call(_) => Some(EffectRequest::Call {
                request: Box::new(self.request()?),
                agent: self.spec.agent.as_ref().map(|agent| agent.member.id.clone()),
                env: self.is_conversing().then_some((env, Visibility { access, labels: Vec::new() })),
            }),
            EffectKey::SideTask(side_task) => {
                Some(EffectRequest::SideTask { kind: side_task.kind.clone(), access, env: Some(env) })
            }
            EffectKey::Program(_) => None,
        }
    }

    fn task_of(&self, _: &EffectKey) -> TaskId {
        self.task.clone()
    }

    fn answer_question(
        &self,
        interaction: &InteractionId,
        decision: &Decision,
    ) -> Option<Result<AnswerEffects, String>> {
        self.interaction.as_ref().filter(|open| open.id == *interaction)?;
        Some(self.answer(interaction, decision).map(|facts| (facts, None)))
    }

    fn refusal_of(&self, op: &Op) -> Option<String> {
        self.refusal_of(op)
    }
}
