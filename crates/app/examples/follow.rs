//! A one-page front end: follows a session from its first event to its end, even if another process runs it.
//!
//! Run it in a directory with an `.althing`: `cargo run -p althing-app --example follow -- SESSION`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a front end prints")]

use althing_app::{AppContext, Environment, Failure, LocalSessions, SessionService, Settings};
use althing_protocol::{Interest, Seq, SessionId};
use althing_text::sanitize;
use althing_view::conversation::{Audience, ConversationLine, ConversationLines};
use althing_view::{ProgressLines, SessionView};
use std::process::ExitCode;
use std::sync::Arc;

async fn follow(id: &SessionId) -> Result<(), Failure> {
    let notify = Arc::new(|text: &str| eprintln!("{text}"));
    let app = AppContext::new(Settings::default(), Environment::read()?, notify);
    let sessions = LocalSessions::new(app);
    let mut events = sessions.follow(id, Seq(0), Interest::Facts).await?;
    let (mut progress, mut session) = (ProgressLines::default(), SessionView::default());
    let mut conversation = ConversationLines::new(Audience::Person);
    while let Some(item) = events.next().await {
        let item = item?;
        session.apply(&item);
        if let Some((who, what)) = progress.describe(&item) {
            println!("{who}: {what}");
        }
        for line in conversation.updates(&session) {
            // `ProgressLines` has shown notices already.
            if !matches!(line, ConversationLine::Notice(_)) {
                println!("{}", sanitize::output(line.text()));
            }
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(id) = std::env::args().nth(1) else {
        eprintln!("which session?");
        return ExitCode::from(1);
    };
    match follow(&SessionId::new(id)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.message);
            ExitCode::from(1)
        }
    }
}
