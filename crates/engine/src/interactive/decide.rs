//! The `Decider` implementation of a conversation.

use super::InteractiveSession;
use crate::decider::{
    AnswerEffects, Consequence, Decider, EffectKey, EffectRequest, EnvOwner, SideTaskKind, Visibility,
    WantedEffects,
};
use althing_protocol::{
    ContextAccess, Decision, Event, InteractionId, Item, Notice, NoticeLevel, Op, RUNS_CODE_LATER, TaskId,
};

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

    /// Warns if the chat agent wrote a file that runs code later.
    fn side_task_warning(&self, effect: &EffectKey, item: &Item) -> Option<(TaskId, Notice)> {
        let EffectKey::SideTask(side_task) = effect else { return None };
        let (SideTaskKind::Edit { .. }, Item::ToolResult { content, is_error: false, .. }) =
            (&side_task.kind, item)
        else {
            return None;
        };
        let lines: Vec<&str> = content.lines().filter(|line| line.contains(RUNS_CODE_LATER)).collect();
        let notice = Notice {
            level: NoticeLevel::Warning,
            text: format!("the chat agent wrote a file that runs code later: {}", lines.join(" ")),
            hint: Some(format!("`althing undo {}.{}` restores what it changed", self.session, self.task)),
        };
        (!lines.is_empty()).then_some((self.task.clone(), notice))
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
