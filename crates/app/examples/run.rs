//! A one-page front end: starts a run with the built-in offline model, shows its progress and prints its answer.
//!
//! `cargo run -p althing-app --example run -- "Compare two sorts"`; the session is stored in `.althing` in the working
//! directory.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a front end prints")]

use althing_app::{
    AppContext, Environment, Failure, SessionRequest, SessionService, Settings, prepare, session,
};
use althing_protocol::{Interest, Seq};
use althing_text::sanitize;
use althing_view::{ProgressLines, labels};
use std::process::ExitCode;
use std::sync::Arc;

async fn run(app: &AppContext, task: &str) -> Result<(), Failure> {
    let (sessions, request) = prepare::run(app, task)?;
    sessions.team()?.announce(app);
    let id = sessions.launch(SessionRequest::Run(Box::new(request))).await?;
    let mut events = sessions.follow(&id, Seq(0), Interest::Facts).await?;
    let mut lines = ProgressLines::default();
    while let Some(item) = events.next().await {
        if let Some(line) = lines.line(&item?) {
            eprintln!("{line}");
        }
    }
    let stopped = sessions.ended(&id).await?;
    sessions.close().await;
    let finished = lines.session().finished_run().and_then(|run| Some((run, run.result.as_ref()?)));
    let Some((run, result)) = finished else {
        return Err(Failure::no_answer(format!("session {id} has no result: {stopped:?}")));
    };
    eprintln!("{}  {}", labels::run_status(result.status), labels::run_summary(run, result));
    if let Some(answer) = &result.final_answer {
        println!("{}", sanitize::output(answer));
    }
    Ok(())
}

fn start(task: &str) -> Result<(), Failure> {
    let settings = Settings { offline: true, ..Settings::default() };
    let app = AppContext::new(settings, Environment::read()?, Arc::new(|text: &str| eprintln!("{text}")));
    session::runtime()?.block_on(run(&app, task))
}

// No `#[tokio::main]`: `reexec_main` must run before a runtime exists.
fn main() -> ExitCode {
    if let Some(code) = althing_app::reexec_main(std::env::args_os()) {
        return code;
    }
    let task = std::env::args().nth(1).unwrap_or_else(|| "Compare two ways to sort".to_owned());
    match start(&task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.message);
            ExitCode::FAILURE
        }
    }
}
