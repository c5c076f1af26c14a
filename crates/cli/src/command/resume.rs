//! `althing resume [ID]`: resumes an interrupted session where it stopped.

use crate::args::{Approve, Options};
use crate::exit::Exit;
use crate::follow::Follower;
use crate::output_file;
use crate::show;
use crate::stop;
use althing_app::{
    AppContext, Failure, LocalSessions, SessionRequest, SessionService, resume, session, trust,
};
use althing_protocol::{FeedItem, SessionId, SessionKind};

pub fn run(options: &Options, id: Option<&str>, app: &AppContext) -> Result<Exit, Failure> {
    let (id, kind) = resume::to_resume(id, app)?;
    let exit = resume_session(options, &id, kind, app)?;
    // Resuming has changed the session, so the trust in it is recorded for its new contents.
    trust::remember_again(&app.session_dir(&id), app);
    Ok(exit)
}

fn resume_session(
    options: &Options,
    id: &SessionId,
    kind: Option<SessionKind>,
    app: &AppContext,
) -> Result<Exit, Failure> {
    let on_screen = super::tui::is_wanted(options, app);
    if kind == Some(SessionKind::Chat) {
        let mut app = app.clone();
        app.settings.session = Some(id.to_string());
        if on_screen {
            return super::tui::run(None, &app);
        }
        let line = if options.json { "an op as JSON" } else { "a message" };
        show::notice(&format!("resuming the conversation {id}: each line on stdin is {line}"));
        return super::chat::run(options, Approve::Ask, &app);
    }
    let output_file = output_file::resolve(options, app)?;
    let runtime = session::runtime()?;
    let mut signals = stop::signals(&runtime)?;
    let sessions = LocalSessions::new(app.clone());
    let mut follower = Follower::new(id.clone(), options, app, output_file, (&runtime, &mut signals));
    let recorded = runtime.block_on(sessions.read(id))?.events;
    if resume::is_closed(&recorded) {
        show::notice(&format!("session {id} is over; this is its result"));
        for event in &recorded {
            follower.fold(&FeedItem::Event(event.clone()));
        }
        let saved = resume::write_missing_files(id, &recorded, app);
        let exit = follower.print_again()?;
        return saved.map(|()| exit);
    }
    let held = (on_screen && kind == Some(SessionKind::Workflow)).then(show::hold_notices);
    runtime.block_on(sessions.launch(SessionRequest::Resume { id: id.clone(), can_ask: false }))?;
    match held {
        Some(held) => super::tui::watch(&sessions, id, held, follower, app, &runtime),
        None => Ok(follower.run(&sessions, &runtime)?.exit),
    }
}
