//! The places where agents with hands work, opened when they are first needed, and the model calls made from there.

use super::Parts;
use super::doers::Call;
use crate::coordination::Coordination;
use althing_protocol::{Message, ModelRequest, TaskId, Workplace};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// A place that is open, or why it could not be opened.
type Place = Result<Arc<dyn Workplace>, String>;

/// The places opened so far, by run and seat.
#[derive(Default)]
pub(super) struct Places {
    open: HashMap<(TaskId, usize), Place>,
}

impl Places {
    /// The place of a seat.
    pub(super) fn of(&mut self, parts: &Parts, run: &Coordination, seat: usize) -> Place {
        let key = (run.task.clone(), seat);
        let place = self.open.entry(key).or_insert_with(|| match &parts.workplaces {
            Some(workplaces) => workplaces.open(&run.task, &(parts.task_dir)(&run.task), run.spec(), seat),
            None => Err("there is no place to work in".into()),
        });
        place.clone()
    }

    /// The model call that a seat waits for, as its agent sees the world from its place.
    pub(super) fn call(&mut self, parts: &Parts, run: &Coordination, seat: usize) -> Option<Call> {
        let mut request = run.request(seat)?;
        let member = run.spec().members.get(seat)?;
        let mut place = None;
        if member.hands
            && let Ok(own) = self.of(parts, run, seat)
        {
            let access = run.access(seat);
            let mut system = request.system.to_string();
            let _ = write!(system, "\n\n{}", own.briefing(access));
            request.system = system.into();
            request.tools.extend(own.host().tools(access));
            Self::localise(parts, run, seat, &*own, &mut request);
            let others = run.known_to(seat).into_iter().filter(|label| label.agent as usize != seat + 1);
            place = Some((own, others.collect()));
        }
        Some(Call { work: run.work(seat), request, backend: parts.backends.get(&member.id).cloned(), place })
    }

    /// Rewrites the paths in others' answers to where this agent sees their work.
    fn localise(
        parts: &Parts,
        run: &Coordination,
        seat: usize,
        own: &dyn Workplace,
        request: &mut ModelRequest,
    ) {
        for other in (0..run.spec().members.len()).filter(|other| *other != seat) {
            let path = run.spec().workspace(&(parts.task_dir)(&run.task), other);
            for message in &mut request.messages {
                if let Message::User(text) = message
                    && text.contains(&path)
                {
                    *text = text.replace(&path, &own.view_of(other as u32 + 1));
                }
            }
        }
    }
}
