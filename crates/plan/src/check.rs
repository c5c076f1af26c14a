//! Validates a plan and reports all problems at once.

use althing_protocol::PlanTask;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum length of a task's id, in bytes.
const LONGEST_ID: usize = 64;
/// The maximum length of a task's description and of its verification, in bytes.
const LONGEST_TEXT: usize = 8 * 1024;

/// A problem in a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanProblem {
    /// The plan has no tasks.
    #[error("it has no tasks")]
    Empty,
    /// The plan has more tasks than allowed.
    #[error("it has {count} tasks; at most {most} are allowed")]
    TooMany {
        /// The number of tasks in the plan.
        count: usize,
        /// The allowed number of tasks.
        most: usize,
    },
    /// The id is empty, too long, or contains characters other than ASCII letters, digits, `-`, `_` and `.`.
    #[error("the id of task {number} must be 1 to {LONGEST_ID} letters, digits, `-`, `_` or `.`")]
    BadId {
        /// The position of the task in the plan, counted from 1.
        number: usize,
    },
    /// Two tasks have the same id.
    #[error("two tasks are called `{id}`")]
    Duplicate {
        /// The repeated id.
        id: String,
    },
    /// The description is missing or blank.
    #[error("task `{id}` has no description")]
    NoDescription {
        /// The id of the task.
        id: String,
    },
    /// The description or verification is too long.
    #[error("the description or verification of task `{id}` is longer than {LONGEST_TEXT} bytes")]
    TooLong {
        /// The id of the task.
        id: String,
    },
    /// A dependency does not name a task of the plan.
    #[error("task `{id}` depends on `{needs}`, which is not in the plan")]
    UnknownDependency {
        /// The id of the task.
        id: String,
        /// The id in the task's `depends_on` that no task has.
        needs: String,
    },
    /// Tasks depend on each other in a cycle.
    #[error("these tasks depend on each other: {}", ids.join(" → "))]
    Cycle {
        /// One cycle; the first id is repeated at the end.
        ids: Vec<String>,
    },
}

fn is_id(id: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !id.is_empty() && id.len() <= LONGEST_ID && id.chars().all(fine)
}

/// All problems of these tasks. At most `most` tasks are allowed; if there are more, that is the only problem reported.
pub fn problems(tasks: &[PlanTask], most: usize) -> Vec<PlanProblem> {
    let mut found = Vec::new();
    if tasks.is_empty() {
        found.push(PlanProblem::Empty);
    }
    if tasks.len() > most {
        found.push(PlanProblem::TooMany { count: tasks.len(), most });
        return found;
    }
    let mut known = BTreeSet::new();
    for (number, task) in (1..).zip(tasks) {
        if !is_id(&task.id) {
            found.push(PlanProblem::BadId { number });
        } else if !known.insert(task.id.as_str()) {
            found.push(PlanProblem::Duplicate { id: task.id.clone() });
        }
        if task.description.trim().is_empty() {
            found.push(PlanProblem::NoDescription { id: task.id.clone() });
        }
        let texts = [Some(&task.description), task.verification.as_ref()];
        if texts.into_iter().flatten().any(|text| text.len() > LONGEST_TEXT) {
            found.push(PlanProblem::TooLong { id: task.id.clone() });
        }
    }
    for task in tasks {
        let unknown = task.depends_on.iter().filter(|needs| !known.contains(needs.as_str()));
        found.extend(
            unknown.map(|needs| PlanProblem::UnknownDependency { id: task.id.clone(), needs: needs.clone() }),
        );
    }
    found.extend(cycle(tasks).map(|ids| PlanProblem::Cycle { ids }));
    found
}

fn cycle(tasks: &[PlanTask]) -> Option<Vec<String>> {
    let needs: BTreeMap<&str, &[String]> =
        tasks.iter().map(|task| (task.id.as_str(), task.depends_on.as_slice())).collect();
    // Kahn's algorithm: repeatedly remove tasks with no remaining dependencies. Tasks that are left are in, or depend
    // on, a cycle.
    let mut left: BTreeSet<&str> = needs.keys().copied().collect();
    loop {
        let free =
            |id: &&str| needs.get(id).is_none_or(|needs| !needs.iter().any(|id| left.contains(id.as_str())));
        let gone: Vec<&str> = left.iter().copied().filter(free).collect();
        if gone.is_empty() {
            break;
        }
        left.retain(|id| !gone.contains(id));
    }
    // Every remaining task depends on a remaining task (perhaps on itself), so following dependencies leads into a
    // cycle.
    let mut way: Vec<&str> = Vec::new();
    let mut at = left.first().copied()?;
    loop {
        if let Some(start) = way.iter().position(|id| *id == at) {
            let round = way.into_iter().skip(start).chain([at]);
            return Some(round.map(str::to_owned).collect());
        }
        way.push(at);
        at = needs.get(at)?.iter().map(String::as_str).find(|id| left.contains(id))?;
    }
}
