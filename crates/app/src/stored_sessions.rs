//! Renaming and deleting stored sessions, for every front end.

use crate::context::AppContext;
use crate::failure::Failure;
use crate::{programs, resume, secrets, trust};
use althing_protocol::SessionId;

/// Deletes a session, and what is remembered about it. Fails while a process owns the session.
pub fn remove(id: &SessionId, app: &AppContext) -> Result<(), Failure> {
    let store = resume::existing_store(app)?;
    let dir = trust::remembered_path(&app.session_dir(id));
    store.remove(id).map_err(Failure::stored)?;
    programs::clean_left_settings(app);
    trust::forget(&dir, &app.environment);
    Ok(())
}

/// Gives a session a title, with known secrets masked; an empty title removes it. Returns the title that lists show
/// from now on.
pub fn rename(id: &SessionId, title: &str, app: &AppContext) -> Result<String, Failure> {
    let store = resume::existing_store(app)?;
    store.rename(id, &secrets::mask(title)).map_err(Failure::stored)?;
    let renamed = store.summary(id).map_err(Failure::stored)?;
    Ok(renamed.map(|session| althing_view::session_list::title(&session)).unwrap_or_default())
}
