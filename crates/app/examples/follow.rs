//! A front end in a page: follows a session from its first event to its end, whoever runs it.
//!
//! `cargo run -p althing-app --example follow -- SESSION` in a directory with an `.althing`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example speaks to the terminal")]

use althing_app::{AppContext, Environment, Failure, LocalSessions, SessionService, Settings};
use althing_protocol::{Interest, Seq, SessionId};
use althing_view::ProgressLines;
use std::process::ExitCode;
use std::sync::Arc;

async fn follow(id: &SessionId) -> Result<(), Failure> {
    let notify = Arc::new(|text: &str| eprintln!("{text}"));
    let app = AppContext::new(Settings::default(), Environment::read()?, notify);
    let sessions = LocalSessions::new(app);
    let mut events = sessions.follow(id, Seq(0), Interest::Facts).await?;
    let mut lines = ProgressLines::default();
    while let Some(item) = events.next().await {
        if let Some((who, what)) = lines.words(&item?) {
            println!("{who}: {what}");
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
