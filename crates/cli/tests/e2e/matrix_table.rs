//! The table of the mode matrix: the cells, and what the specification says that the run of a cell does. It follows the
//! specification's run-mode matrix and requirements on modes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planning {
    No,
    Plan,
    /// Agents plan, and a second run executes the plan.
    PlanAndExecute,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub number: usize,
    pub is_single: bool,
    pub refinement: bool,
    pub planning: Planning,
    /// `default` if no strategy is named.
    pub strategy: &'static str,
    pub has_path: bool,
}

/// What a run does for one combination of agent mode, refinement and strategy.
pub struct Row {
    pub is_single: bool,
    pub refinement: bool,
    pub strategy: &'static str,
    pub answers: usize,
    pub judges: usize,
    pub presents: usize,
    pub presents_with_path: usize,
    /// The strategy in the result. `None` if the specification does not say.
    pub used: Option<&'static str>,
}

pub const fn row(
    (is_single, refinement): (bool, bool),
    strategy: &'static str,
    [answers, judges, presents, presents_with_path]: [usize; 4],
    used: Option<&'static str>,
) -> Row {
    Row { is_single, refinement, strategy, answers, judges, presents, presents_with_path, used }
}

pub const QUICK_SINGLE: (bool, bool) = (true, false);
pub const SINGLE: (bool, bool) = (true, true);
pub const QUICK_MULTI: (bool, bool) = (false, false);
pub const MULTI: (bool, bool) = (false, true);

/// In a multi-agent run two agents take part, and both vote for the second, so it wins.
pub const TABLE: [Row; 16] = [
    // One agent, direct execution: one answer, no vote, no presentation, whatever strategy is named. The agent writes
    // to the context path while it works.
    row(QUICK_SINGLE, "default", [1, 0, 0, 0], None),
    row(QUICK_SINGLE, "winner_reuse", [1, 0, 0, 0], None),
    row(QUICK_SINGLE, "winner_present", [1, 0, 0, 0], None),
    row(QUICK_SINGLE, "synthesize", [1, 0, 0, 0], None),
    // One agent with self-refinement: it votes when it is done, and presents by default. With `winner_reuse` it
    // presents only if there is a writable context path.
    row(SINGLE, "default", [1, 1, 1, 1], Some("winner_present")),
    row(SINGLE, "winner_reuse", [1, 1, 0, 1], Some("winner_reuse")),
    row(SINGLE, "winner_present", [1, 1, 1, 1], Some("winner_present")),
    row(SINGLE, "synthesize", [1, 1, 1, 1], Some("synthesize")),
    // Several agents without refinement: one independent answer each, a vote for the presenter, and a synthesis by
    // default.
    row(QUICK_MULTI, "default", [2, 2, 1, 1], Some("synthesize")),
    row(QUICK_MULTI, "winner_reuse", [2, 2, 0, 1], Some("winner_reuse")),
    row(QUICK_MULTI, "winner_present", [2, 2, 1, 1], Some("winner_present")),
    row(QUICK_MULTI, "synthesize", [2, 2, 1, 1], Some("synthesize")),
    // Full coordination with voting.
    row(MULTI, "default", [2, 2, 1, 1], Some("winner_present")),
    row(MULTI, "winner_reuse", [2, 2, 0, 1], Some("winner_reuse")),
    row(MULTI, "winner_present", [2, 2, 1, 1], Some("winner_present")),
    row(MULTI, "synthesize", [2, 2, 1, 1], Some("synthesize")),
];

pub fn all_cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for row in &TABLE {
        for planning in [Planning::No, Planning::Plan, Planning::PlanAndExecute] {
            for has_path in [false, true] {
                cells.push(Cell {
                    number: cells.len(),
                    is_single: row.is_single,
                    refinement: row.refinement,
                    planning,
                    strategy: row.strategy,
                    has_path,
                });
            }
        }
    }
    cells
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Plan,
    Act,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Act => "act",
        }
    }
}

impl Cell {
    pub fn task(self) -> String {
        format!("Matrix cell {}", self.number)
    }

    pub fn row(self) -> &'static Row {
        let fits = |row: &&Row| {
            (row.is_single, row.refinement, row.strategy) == (self.is_single, self.refinement, self.strategy)
        };
        TABLE.iter().find(fits).expect("the table has a row for every cell")
    }

    pub fn phases(self) -> &'static [Phase] {
        match self.planning {
            Planning::No => &[Phase::Act],
            Planning::Plan => &[Phase::Plan],
            Planning::PlanAndExecute => &[Phase::Plan, Phase::Act],
        }
    }

    /// In a planning run no agent may write to the context path.
    pub fn attempts(self, phase: Phase) -> BTreeMap<&'static str, usize> {
        let row = self.row();
        let writes = self.has_path && phase == Phase::Act;
        let presents = if writes { row.presents_with_path } else { row.presents };
        let all = [("answer", row.answers), ("judge", row.judges), ("present", presents)];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Without a presentation, only a quick single agent writes to the context path.
    pub fn is_presented(self, phase: Phase) -> bool {
        self.attempts(phase).contains_key("present")
    }

    pub fn favorite(self) -> &'static str {
        if self.is_single { "agent1" } else { "agent2" }
    }

    pub fn launch(self, paths: &Path) -> Value {
        let mut launch = json!({
            "task": self.task(),
            "agent_mode": if self.is_single { "single" } else { "multi" },
            "refinement": self.refinement,
            "planning_mode": self.planning != Planning::No,
            "execute_after_planning": self.planning == Planning::PlanAndExecute,
        });
        if self.is_single {
            launch["agents"] = json!(["b"]);
        }
        if self.strategy != "default" {
            launch["coordination_overrides"] = json!({"final_answer_strategy": self.strategy});
        }
        if self.has_path {
            launch["context_paths"] = json!([{"path": self.dir(paths), "permission": "write"}]);
        }
        launch
    }

    pub fn dir(self, paths: &Path) -> PathBuf {
        paths.join(self.number.to_string())
    }
}
