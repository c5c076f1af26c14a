//! What was undone. The host knows, not the log, because the command `althing undo` undoes changes too.

use super::App;
use althing_protocol::TaskId;
use althing_view::RunView;

pub(crate) fn has_changes(run: &RunView) -> bool {
    run.result.as_ref().is_some_and(|result| !result.context_path_writes.is_empty())
}

impl App {
    /// Asks the host again about everything that changed files, for example after an undo.
    pub fn find_undone_changes(&mut self) {
        for run in self.model.runs.values_mut().filter(|run| has_changes(run)) {
            run.is_undone = self.host.is_undone(&run.id);
        }
        self.check_edits();
    }

    pub(crate) fn check_new_results(&mut self) {
        for run in self.model.runs.values_mut() {
            if has_changes(run) && self.undo_checked.insert(run.id.clone()) {
                run.is_undone = self.host.is_undone(&run.id);
            }
        }
        if std::mem::replace(&mut self.entries_checked, self.model.entries.len()) != self.model.entries.len()
        {
            self.check_edits();
        }
    }

    /// An undo covers all changes that the chat agent has made by then. The first change after it makes the host answer
    /// no, but does not bring the earlier ones back.
    fn check_edits(&mut self) {
        if self.host.is_undone(&TaskId::chat()) {
            self.model.mark_edits_undone();
        }
    }
}
