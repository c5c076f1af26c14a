//! Asks the person at the terminal before something that was found in the working directory is used.

use crate::args::Options;
use crate::command::tui::screen_options;
use crate::host::LocalHost;
use crate::show;
use althing_app::{AppContext, TrustAnswer, TrustQuestion, secrets};
use althing_tui::TrustChoice;
use std::sync::Arc;

/// Lets `app` ask the user before it uses something found in the working directory, if stdin and stdout are terminals
/// and no option for scripts is given.
pub fn asking(app: AppContext, options: &Options) -> AppContext {
    let script = options.automation || options.json || options.stream_events.is_some() || options.take_ops;
    let environment = &app.environment;
    if script || !environment.stdin_is_terminal || !environment.stdout_is_terminal {
        return app;
    }
    let context = app.clone();
    app.asking(Arc::new(move |question: &TrustQuestion| ask(question, &context)))
}

fn ask(question: &TrustQuestion, app: &AppContext) -> TrustAnswer {
    let screen = screen_options(None, app);
    if screen.plain {
        return ask_in_lines(question);
    }
    let head = format!("{}. It would do this:", question.what);
    let lines = std::iter::once(&head).chain(&question.would);
    let would: Vec<String> = lines.map(|line| secrets::mask_own(line).into_owned()).collect();
    let host = Arc::new(LocalHost::of_recording(app.clone()));
    // The caller may run on a runtime, which must not be blocked by another runtime on the same thread.
    let asked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(althing_tui::ask_trust(would, screen, host))
    });
    match asked.join() {
        Ok(Ok(TrustChoice::Once)) => TrustAnswer::Once,
        Ok(Ok(TrustChoice::Always)) => TrustAnswer::Always,
        Ok(Ok(TrustChoice::No) | Err(_)) | Err(_) => TrustAnswer::No,
    }
}

fn ask_in_lines(question: &TrustQuestion) -> TrustAnswer {
    show::question(&format!("{}. It would do this:", question.what));
    for line in &question.would {
        show::question(&format!("  {line}"));
    }
    show::question("Use it? Write once, always or no.");
    let mut answer = String::new();
    match std::io::stdin().read_line(&mut answer).map(|_| answer.trim()) {
        Ok("once") => TrustAnswer::Once,
        Ok("always") => TrustAnswer::Always,
        _ => TrustAnswer::No,
    }
}
