//! A run's decider as the session holds it.

use super::Coordination;
use crate::decider::{Answered, ChoreKind, Consequence, Decider, Job, Order, Sight, Wanted, Whose};
use althing_protocol::{
    Decision, Event, InteractionId, Item, Notice, NoticeLevel, RunEnd, RunResult, TaskId,
};
use std::fmt::Write;

impl Decider for Coordination {
    fn apply(&mut self, event: &Event) {
        self.apply(event);
    }

    fn consequences(&self) -> Vec<Consequence> {
        self.consequences()
    }

    fn wanted(&self) -> Wanted {
        self.wanted()
    }

    fn is_over(&self) -> bool {
        self.is_over()
    }

    fn order(&self, job: &Job) -> Option<Order> {
        Some(match job {
            Job::Call(call) => Order::Call {
                request: Box::new(self.request(call.seat)?),
                agent: self.agent(call.seat).cloned(),
                place: self.place(call.seat).map(|place| (place, self.sight(call.seat))),
            },
            Job::Chore(chore) => match &chore.kind {
                ChoreKind::StorePlan => Order::StorePlan(self.plan_draft()?),
                ChoreKind::OpenPlan => Order::OpenPlan(self.spec().plan.clone()?),
                kind => Order::Chore {
                    kind: kind.clone(),
                    access: self.access(chore.seat),
                    place: self.place(chore.seat),
                },
            },
            Job::Program(_) => return None,
        })
    }

    fn task_of(&self, job: &Job) -> TaskId {
        match job {
            Job::Call(call) => self.work(call.seat),
            Job::Chore(chore) => self.work(chore.seat),
            Job::Program(program) => program.task.clone(),
        }
    }

    fn problem(&self, job: &Job, item: &Item) -> Option<(TaskId, Notice)> {
        let Job::Chore(chore) = job else { return None };
        let (task, text, hint) = match item {
            Item::WorkspaceKept { error: Some(error) } => {
                let agent = self.agent(chore.seat)?;
                let text = format!("{agent}'s answer stands, but its files are not part of it: {error}");
                (self.work(chore.seat), text, None)
            }
            Item::PlanStored { error: Some(error), .. } => {
                let hint = "its answer is kept as it is; ask again, or write the plan yourself";
                (self.task.clone(), format!("no plan was kept: {error}"), Some(hint.to_owned()))
            }
            Item::PlanOpened { error: Some(error), .. } => {
                (self.task.clone(), format!("the plan is carried out as it was made: {error}"), None)
            }
            _ => return None,
        };
        Some((task, Notice { level: NoticeLevel::Warning, text, hint }))
    }

    fn answered(&self, interaction: &InteractionId, decision: &Decision) -> Option<Result<Answered, String>> {
        self.asks(interaction).then(|| self.answer_override(interaction, decision).map(|facts| (facts, None)))
    }

    fn files(&self) -> Result<Vec<(&'static str, String)>, serde_json::Error> {
        let Some(result) = self.result() else { return Ok(Vec::new()) };
        // One file for all of them: hundreds of agents must not mean hundreds of files.
        let mut answers = String::new();
        for answer in self.answers() {
            let _ = write!(answers, "# {} ({})\n\n{}\n\n", answer.label, answer.agent, answer.content);
        }
        let mut files = vec![("answers.md", answers)];
        files.extend(result.final_answer.clone().map(|answer| ("final_answer.md", answer)));
        files.push(("result.json", serde_json::to_string_pretty(result)?));
        Ok(files)
    }

    fn result_if_stopped(&self) -> Option<RunResult> {
        Some(self.result_as_of_now(RunEnd::Cancelled))
    }
}

impl Coordination {
    /// Where the agent in a seat works; None where it has no hands.
    fn place(&self, seat: usize) -> Option<Whose> {
        self.spec().members.get(seat).filter(|member| member.has_tools)?;
        Some(Whose::Member { run: self.task.clone(), spec: self.shared_spec(), seat })
    }

    /// What the agent in a seat is to see from there.
    fn sight(&self, seat: usize) -> Sight {
        let others = self.known_to(seat).into_iter().filter(|label| label.agent as usize != seat + 1);
        Sight { access: self.access(seat), labels: others.collect() }
    }
}
