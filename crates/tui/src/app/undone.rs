//! Which runs were undone. The host knows, not the log, because the command `althing undo` undoes runs too.

use super::App;
use althing_view::RunView;

fn has_changes(run: &RunView) -> bool {
    run.result.as_ref().is_some_and(|result| !result.context_path_writes.is_empty())
}

impl App {
    /// Asks the host again about all runs that changed files, for example after an undo.
    pub fn find_undone_runs(&mut self) {
        for run in self.model.runs.values_mut().filter(|run| has_changes(run)) {
            run.is_undone = self.host.is_undone(&run.id);
        }
    }

    pub(crate) fn check_new_results(&mut self) {
        for run in self.model.runs.values_mut() {
            if has_changes(run) && self.undo_checked.insert(run.id.clone()) {
                run.is_undone = self.host.is_undone(&run.id);
            }
        }
    }
}
