//! The places where agents with hands work, opened when they are first needed, and what a model call looks like from
//! there.

use super::Parts;
use crate::coordination::Coordination;
use crate::interactive::InteractiveSession;
use althing_protocol::{
    AnswerLabel, ChatSpec, ContextAccess, Member, Message, ModelRequest, RunSpec, TaskId, Workplace,
    Workplaces,
};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A place that is open, None where there is none, or why it could not be opened.
type Opened = Result<Option<Arc<dyn Workplace>>, String>;

/// The places, by run and seat.
#[derive(Default)]
pub(super) struct Places {
    known: HashMap<(TaskId, usize), Arc<OnceCell<Opened>>>,
}

/// The way to a place: opening it takes time, so it is opened by the doer that needs it first.
#[derive(Clone)]
pub(super) struct Way {
    workplaces: Option<Arc<dyn Workplaces>>,
    /// Where the task's files are.
    dir: String,
    whose: Whose,
    cell: Arc<OnceCell<Opened>>,
}

/// Whose place it is.
#[derive(Clone)]
enum Whose {
    /// A member's of a run.
    Member { run: TaskId, spec: Arc<RunSpec>, seat: usize },
    /// The interactive agent's.
    Talker(Arc<ChatSpec>),
}

/// What an agent is to see from its place in one call.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    pub(super) access: ContextAccess,
    /// The others' work that it knows.
    pub(super) labels: Vec<AnswerLabel>,
}

impl Places {
    /// The way to a seat's place; None where its agent has no hands.
    pub(super) fn way(&mut self, parts: &Parts, run: &Coordination, seat: usize) -> Option<Way> {
        run.spec().members.get(seat).filter(|member| member.hands)?;
        let cell = self.known.entry((run.task.clone(), seat)).or_default();
        Some(Way {
            workplaces: parts.workplaces.clone(),
            dir: (parts.task_dir)(&run.task),
            whose: Whose::Member { run: run.task.clone(), spec: run.shared_spec(), seat },
            cell: cell.clone(),
        })
    }

    /// The way to the interactive agent's place.
    pub(super) fn way_to_chat(&mut self, parts: &Parts, chat: &InteractiveSession) -> Way {
        let cell = self.known.entry((chat.task().clone(), 0)).or_default();
        Way {
            workplaces: parts.workplaces.clone(),
            dir: (parts.task_dir)(chat.task()),
            whose: Whose::Talker(Arc::new(chat.spec().clone())),
            cell: cell.clone(),
        }
    }

    /// What a seat's agent is to see.
    pub(super) fn sight(run: &Coordination, seat: usize) -> Sight {
        let others = run.known_to(seat).into_iter().filter(|label| label.agent as usize != seat + 1);
        Sight { access: run.access(seat), labels: others.collect() }
    }
}

impl Way {
    /// The place itself.
    pub(super) async fn place(&self) -> Opened {
        let open = || async {
            match (&self.workplaces, &self.whose) {
                (Some(workplaces), Whose::Member { run, spec, seat }) => {
                    workplaces.open(run, &self.dir, spec, *seat).await.map(Some)
                }
                (Some(workplaces), Whose::Talker(spec)) => workplaces.open_chat(&self.dir, spec).await,
                (None, Whose::Member { .. }) => Err("there is no place to work in".into()),
                (None, Whose::Talker(_)) => Ok(None),
            }
        };
        self.cell.get_or_init(open).await.clone()
    }

    fn is_programs(&self) -> bool {
        match &self.whose {
            Whose::Member { spec, seat, .. } => spec.members.get(*seat).is_some_and(Member::is_program),
            Whose::Talker(spec) => spec.agent.as_ref().is_some_and(|agent| agent.member.is_program()),
        }
    }

    /// Makes a request one from this place: its tools, what there is to know of it, others' paths as they are seen here.
    pub(super) async fn dress(&self, request: &mut ModelRequest, sight: Sight) -> Result<(), String> {
        let Some(place) = self.place().await? else { return Ok(()) };
        place.show(sight.labels).await?;
        request.system = format!("{}\n\n{}", request.system, place.briefing(sight.access)).into();
        // A program has tools of its own for files and commands; those of a run's place would only be in their way. The
        // place of a conversation's program offers no such tools.
        if !self.is_programs() || matches!(self.whose, Whose::Talker(_)) {
            request.tools.extend(place.host().tools(sight.access));
        }
        if let Some(desk) = &mut request.desk {
            desk.workspace = Some(place.path().to_owned());
            // The run decides when an agent plans; the workspace decides what there is to touch.
            let planning = desk.grant.planning;
            desk.grant = place.grant(sight.access);
            desk.grant.planning |= planning;
        }
        let Whose::Member { spec, seat, .. } = &self.whose else { return Ok(()) };
        for other in (0..spec.members.len()).filter(|other| other != seat) {
            let path = spec.workspace(&self.dir, other);
            let seen = place.view_of(other as u32 + 1);
            for message in &mut request.messages {
                if let Message::User(text) = message
                    && text.contains(&path)
                {
                    *text = text.replace(&path, &seen);
                }
            }
        }
        Ok(())
    }
}
