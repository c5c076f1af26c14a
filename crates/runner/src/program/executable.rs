//! Finds the executable of a task's program or of a CLI agent. A program that runs with all rights of the user must
//! not come from a directory to which an agent may write.

use super::prepare::PrepareError;
use crate::adapter::{SearchPath, find_program};
use std::path::{Path, PathBuf};

/// `safe` is the `PATH` without the directories to which agents may write. Those are searched last and, if the
/// program has all rights of the user, not at all.
pub(super) fn find_executable(
    name: &str,
    search: &str,
    has_all_rights: bool,
    cwd: &Path,
    safe: &SearchPath,
) -> Result<PathBuf, PrepareError> {
    let program = resolve_program(name, cwd);
    let found = find_program(&program, &safe.kept);
    match found.or_else(|| find_program(&program, search).filter(|_| !has_all_rights)) {
        Some(found) => Ok(found),
        None if find_program(&program, search).is_some() => Err((
            format!(
                "the program `{name}` is not started without a sandbox: it is only in {}, where agents may write, so \
                 an agent could have put it there",
                safe.removed_text()
            ),
            Some(
                "install the program in a directory of PATH where no agent may write or, for a program of \
                 `adapters`, give its absolute path"
                    .to_owned(),
            ),
        )),
        None => {
            let searched = if name.contains('/') { "" } else { " in PATH" };
            let error = format!("the program `{name}` was not found{searched}");
            Err((error, Some("install the program, or correct its name".to_owned())))
        }
    }
}

fn resolve_program(program: &str, cwd: &Path) -> String {
    if program.contains('/') { cwd.join(program).to_string_lossy().into_owned() } else { program.to_owned() }
}
