//! The `althing` program: arguments in, exit status out.
//!
//! This crate is the composition root: it reads the environment and the user's files, and wires the crates together.
//! Except for the screen (`tui`) and the panic hook (`app`), no other crate writes to stdout or stderr.
#![expect(
    clippy::disallowed_methods,
    reason = "cli owns arguments, environment, the user's own files and the exit status"
)]

mod args;
mod command;
mod exit;
mod follow;
mod host;
mod ops;
mod show;
mod stop;

use althing_app::{AppContext, Environment, Failure, diagnostics, otlp_export, secrets};
use clap::Parser;
use exit::Exit;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // Programs are started through this same executable, which then acts only as their guard or enters their sandbox.
    if let Some(code) = althing_app::reexec_main(std::env::args_os()) {
        return code;
    }
    secrets::guard_panics();
    let parsed = args::Args::try_parse();
    if parsed.as_ref().map_or(true, |args| args.command.is_none())
        && let Some(failure) = std::env::args_os().nth(1).and_then(|first| args::mistyped_command(&first))
    {
        show::failure(&failure);
        return Exit::from(failure.kind).into();
    }
    let args = match parsed {
        Ok(args) => args,
        Err(error) => {
            let asked_for = !error.use_stderr();
            // A write error, such as a closed pipe, is ignored. Help that was asked for is not an error.
            let _ = error.print();
            return if asked_for { Exit::Answered.into() } else { Exit::Usage.into() };
        }
    };
    let exit = run(args).unwrap_or_else(|failure| {
        show::failure(&failure);
        failure.kind.into()
    });
    otlp_export::finish(exit == Exit::Interrupted, &show::notice);
    diagnostics::finish(exit as u8, &show::notice);
    exit.into()
}

fn run(args: args::Args) -> Result<Exit, Failure> {
    let app = AppContext::new(args.options.settings(), Environment::read()?, Arc::new(show::notice));
    secrets::register_secrets(app.environment.secrets());
    otlp_export::prepare(&app)?;
    let level = args.options.log_level.map(Into::into);
    diagnostics::start(args.options.log.as_deref(), level, args.task.as_deref(), &app)?;
    match args.command {
        None if command::tui::is_wanted(&args.options, &app) => command::tui::run(args.task, &app),
        None => command::run::run(&args.options, args.task.as_deref(), &app),
        Some(args::Command::Resume { id }) => command::resume::run(&args.options, id.as_deref(), &app),
        Some(args::Command::Chat { approve }) => command::chat::run(&args.options, approve, &app),
        Some(args::Command::Mcp { http, wait }) => {
            let options = command::mcp::McpOptions { http, wait };
            command::mcp::run(&options, app)
        }
        Some(args::Command::Workflow { action }) => command::workflow::run(&args.options, action, &app),
        Some(args::Command::Undo { run, diff }) => command::undo::run(&run, diff, &app),
        Some(args::Command::Agents) => command::agents::run(&args.options, &app),
        Some(args::Command::Sessions { action }) => command::sessions::run(&args.options, action, &app),
        Some(args::Command::Projects { action }) => command::projects::run(&args.options, action, &app),
        Some(args::Command::Replay { file, speed }) => command::replay::run(&file, speed, &app),
        Some(args::Command::Man) => {
            let page = clap_mangen::Man::new(<args::Args as clap::CommandFactory>::command());
            // Ignore a closed pipe.
            let _ = page.render(&mut std::io::stdout());
            Ok(Exit::Answered)
        }
        Some(args::Command::Completions { shell }) => {
            let mut command = <args::Args as clap::CommandFactory>::command();
            clap_complete::generate(shell, &mut command, "althing", &mut std::io::stdout());
            Ok(Exit::Answered)
        }
        Some(args::Command::Config { action }) => command::config::run(&args.options, action, &app),
    }
}
