//! The `althing` program: arguments in, exit status out.
//!
//! This crate parses the arguments and connects `app`, which assembles all other crates, to the screen (`tui`).
//! Except for the screen and the panic hook (in `app`), no other crate writes to stdout or stderr.
#![expect(
    clippy::disallowed_methods,
    reason = "cli owns arguments, environment, the user's own files and the exit status"
)]

mod args;
mod ask;
mod command;
mod exit;
mod follow;
mod host;
mod ops;
mod output_file;
mod path_search;
mod show;
mod stop;

use althing_app::eval::EvalRequest;
use althing_app::{AppContext, Environment, Failure, diagnostics, otlp_export, secrets};
use clap::Parser;
use exit::Exit;
use rustix::process::{Resource, getrlimit};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // Althing starts programs through its own executable, which then acts only as their guard or enters their sandbox.
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
            show::parser_message(&error);
            // For `--help` and `--version`, clap returns an error that is not written to stderr.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Answered };
            return unless_unwritten(exit).into();
        }
    };
    let exit = run(args).unwrap_or_else(|failure| {
        show::failure(&failure);
        failure.kind.into()
    });
    let exit = unless_unwritten(exit);
    otlp_export::finish(exit == Exit::Interrupted, &show::notice);
    diagnostics::finish(exit as u8, &show::notice);
    exit.into()
}

/// A command that succeeded fails after all if its output could not be written.
fn unless_unwritten(exit: Exit) -> Exit {
    match show::stdout_failure() {
        Some(failure) if exit == Exit::Answered => {
            show::failure(&failure);
            failure.kind.into()
        }
        _ => exit,
    }
}

/// With a lower limit on open files, the async runtime and the terminal cannot be set up.
const MIN_OPEN_FILES: u64 = 32;

fn require_open_files() -> Result<(), Failure> {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < MIN_OPEN_FILES => {
            let message =
                format!("this process may open only {limit} files, and Althing needs {MIN_OPEN_FILES}");
            Err(Failure::usage(message).hint("raise the limit with `ulimit -n 1024`"))
        }
        _ => Ok(()),
    }
}

fn run(args: args::Args) -> Result<Exit, Failure> {
    require_open_files()?;
    let app = AppContext::new(args.options.settings(), Environment::read()?, Arc::new(show::notice));
    show::keep_on_one_line(&app.environment.cwd);
    let app = ask::asking(app, &args.options);
    secrets::register_environment(&app.environment);
    otlp_export::prepare(&app)?;
    let level = args.options.log_level.map(Into::into);
    diagnostics::start(args.options.log.as_deref(), level, args.task.as_deref(), &app)?;
    match args.command {
        // The task `-` is read from stdin, so the screen cannot read keys from it.
        None if args.task.as_deref() != Some("-") && command::tui::is_wanted(&args.options, &app) => {
            command::tui::run(args.task, &app)
        }
        None => command::run::run(&args.options, args.task.as_deref(), &app),
        Some(args::Command::Resume { id }) => command::resume::run(&args.options, id.as_deref(), &app),
        Some(args::Command::Chat { approve }) => command::chat::run(&args.options, approve, &app),
        Some(args::Command::Mcp { http, wait }) => {
            let options = command::mcp::McpOptions { http, wait };
            command::mcp::run(&options, app)
        }
        Some(args::Command::Workflow { action }) => command::workflow::run(&args.options, action, &app),
        Some(args::Command::Eval { tasks, teams, rules, repeat, jobs, fresh, csv }) => {
            let request = EvalRequest { tasks, teams, repeat, jobs, fresh };
            command::eval::run(&request, &rules, command::eval::Form::of(&args.options, csv), &app)
        }
        Some(args::Command::Recount { runs, rules }) => {
            command::recount::run(&runs, &rules, args.options.json, &app)
        }
        Some(args::Command::Undo { run, diff }) => command::undo::run(&run, diff, &app),
        Some(args::Command::Agents) => command::agents::run(&args.options, &app),
        Some(args::Command::Sessions { limit, action }) => {
            command::sessions::run(&args.options, limit, action, &app)
        }
        Some(args::Command::Projects { action }) => command::projects::run(&args.options, action, &app),
        Some(args::Command::Replay { file, speed }) => command::replay::run(&file, speed, &app),
        Some(args::Command::Man) => {
            let page = clap_mangen::Man::new(<args::Args as clap::CommandFactory>::command());
            let mut text = Vec::new();
            page.render(&mut text).map_err(|error| Failure::no_answer(error.to_string()))?;
            show::print_generated(&text);
            Ok(Exit::Answered)
        }
        Some(args::Command::Completions { shell }) => {
            let mut command = <args::Args as clap::CommandFactory>::command();
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, "althing", &mut script);
            show::print_generated(&script);
            Ok(Exit::Answered)
        }
        Some(args::Command::Config { action }) => command::config::run(&args.options, action, &app),
    }
}
