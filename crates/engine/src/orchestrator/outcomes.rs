//! Records how effects ended.

use super::call_record::masked;
use super::effects::{CallOutcome, EffectId, EffectOutcome};
use super::session::Session;
use crate::decider::EffectKey;
use althing_protocol::{
    AttemptOutcome, BackendError, Briefing, CallRecord, Fact, Item, Notice, ProgramEnd, Reply, TaskId,
};

impl Session {
    pub(super) fn record_outcome(&mut self, id: &EffectId, outcome: EffectOutcome) {
        let Some(decider) = self.deciders.get(&id.owner) else { return };
        let task = decider.task_of(&id.key);
        let attempt = match &id.key {
            EffectKey::Call(call) => call.attempt,
            EffectKey::SideTask(side_task) => side_task.attempt,
            EffectKey::Program(program) => program.attempt,
        };
        let (fact, notices) = match outcome {
            EffectOutcome::ItemAdded(item) => {
                let warning = decider.side_task_warning(&id.key, &item);
                (Fact::ItemAdded { attempt, item }, warning.into_iter().collect())
            }
            EffectOutcome::Replied(outcome) => {
                let CallOutcome { result, record, briefing } = *outcome;
                self.record_briefing(&task, attempt, briefing);
                let (fact, notices) = reply_fact(attempt, result, record);
                (fact, notices.into_iter().map(|notice| (task.clone(), notice)).collect::<Vec<_>>())
            }
            EffectOutcome::Exited(ProgramEnd { ok, exit_code, signal, output, error, hint, usage }) => {
                let outcome = AttemptOutcome::Exited { ok, exit_code, signal, output, error, hint };
                (Fact::AttemptEnded { attempt, outcome, usage, call: None }, Vec::new())
            }
        };
        let cause = self.record(Some(task), None, fact);
        for (task, notice) in notices {
            self.record(Some(task), Some(cause), Fact::Notice(notice));
        }
    }

    /// A briefing that equals the last recorded one of the task is not recorded again.
    fn record_briefing(&mut self, task: &TaskId, attempt: u32, briefing: Option<Briefing>) {
        let Some(briefing) = briefing else { return };
        let last = self.briefings.get(task);
        let masked = last.is_some().then(|| masked(&briefing, &*self.deps.mask));
        if last.is_none() || last != masked.as_ref() {
            let item = Item::Briefed(briefing);
            self.record(Some(task.clone()), None, Fact::ItemAdded { attempt, item });
        }
    }
}

fn reply_fact(
    attempt: u32,
    result: Result<Reply, BackendError>,
    record: Option<CallRecord>,
) -> (Fact, Vec<Notice>) {
    match result {
        Ok(mut reply) => {
            let notices = std::mem::take(&mut reply.notices);
            reply.call = record;
            (Fact::ItemAdded { attempt, item: Item::Reply(reply) }, notices)
        }
        Err(BackendError { kind, message: error, hint, usage }) => {
            let outcome = AttemptOutcome::Failed { error, hint, kind: Some(kind) };
            (Fact::AttemptEnded { attempt, outcome, usage, call: record }, Vec::new())
        }
    }
}
