//! `althing resume [ID]`: resumes an interrupted session where it stopped.

use crate::args::{Approve, Options};
use crate::exit::Exit;
use crate::follow::Follower;
use crate::show;
use crate::stop;
use althing_app::resume::{self, Reopened};
use althing_app::{AppContext, Failure, session};
use althing_protocol::{Seq, SessionKind};

pub fn run(options: &Options, id: Option<&str>, app: &AppContext) -> Result<Exit, Failure> {
    let (state, id, kind) = resume::to_resume(id, app)?;
    let on_screen = super::tui::is_meant(options, app);
    if kind == Some(SessionKind::Chat) {
        let mut app = app.clone();
        app.settings.session = Some(id.to_string());
        if on_screen {
            return super::tui::run(None, &app);
        }
        show::say(&format!("going on with the conversation {id}: messages are lines on stdin"));
        return super::chat::run(options, Approve::Ask, &app);
    }
    let runtime = session::runtime()?;
    let mut signals = stop::signals(&runtime)?;
    let mut follower = Follower::new(id.clone(), options, app, &mut signals);
    let opened = resume::open(&state, &id, app)?;
    if resume::is_closed(&opened.events) {
        show::say(&format!("session {id} is complete; this is its result"));
        for event in &opened.events {
            follower.fold(event);
        }
        return follower.print_end();
    }
    if on_screen && kind == Some(SessionKind::Workflow) {
        let hold = show::hold();
        let Reopened { begun, .. } = resume::resume(&state, opened, app, &runtime)?;
        return super::tui::watch(begun, hold, follower, app, &runtime);
    }
    // Replayed from the start, so that the progress shown is whole.
    let Reopened { begun, .. } = resume::resume(&state, opened, app, &runtime)?;
    let ended = follower.run(begun.orchestrator, Seq(0), &runtime);
    session::close(&begun.places, &runtime, app);
    Ok(ended?.exit)
}
