//! Whether a plan makes sense; everything that is wrong with it, at once.

use althing_protocol::PlanTask;
use std::collections::{BTreeMap, BTreeSet};

/// The longest name of a task.
const LONGEST_ID: usize = 64;
/// The longest text of a task.
const LONGEST_TEXT: usize = 8 * 1024;

/// Something that is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanProblem {
    /// It has no tasks.
    #[error("it has no tasks")]
    Empty,
    /// It has too many.
    #[error("it has {count} tasks; {most} are allowed")]
    TooMany {
        /// How many.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A task's name cannot be one.
    #[error("the id of task {number} must be 1 to {LONGEST_ID} letters, digits, `-`, `_` or `.`")]
    BadId {
        /// Which task, counted from 1.
        number: usize,
    },
    /// Two tasks have the same name.
    #[error("two tasks are called `{id}`")]
    Duplicate {
        /// The name.
        id: String,
    },
    /// A task does not say what to do.
    #[error("task `{id}` has no description")]
    NoDescription {
        /// Which.
        id: String,
    },
    /// A task says too much.
    #[error("task `{id}` is described in more than {LONGEST_TEXT} bytes")]
    TooLong {
        /// Which.
        id: String,
    },
    /// A task needs one that is not there.
    #[error("task `{id}` depends on `{needs}`, which is not in the plan")]
    UnknownDependency {
        /// Which.
        id: String,
        /// What it needs.
        needs: String,
    },
    /// Tasks wait for each other.
    #[error("these tasks wait for each other: {}", ids.join(" → "))]
    Cycle {
        /// Round once, the first one again at the end.
        ids: Vec<String>,
    },
}

fn is_id(id: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !id.is_empty() && id.len() <= LONGEST_ID && id.chars().all(fine)
}

/// Everything that is wrong with these tasks, of which there may be `most`.
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

/// Tasks that wait for each other, if there are any.
fn cycle(tasks: &[PlanTask]) -> Option<Vec<String>> {
    let needs: BTreeMap<&str, &[String]> =
        tasks.iter().map(|task| (task.id.as_str(), task.depends_on.as_slice())).collect();
    // Whoever needs nothing that is left goes; what stays at the end stands in a circle, or behind one.
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
    // From anyone left there is always a next one left, so walking on comes round.
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
