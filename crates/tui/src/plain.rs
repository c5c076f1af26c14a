//! The conversation or workflow as lines of text, for screen readers and dumb terminals. Nothing is redrawn.

use crate::app::{App, COMMANDS, ConfirmedAction, Effect, Modal, SlashCommand};
use crate::event_loop::follow;
use crate::host::{TuiExit, TuiHost, TuiOptions};
use crate::signals::Signals;
use crate::view::confirmation_text;
use althing_protocol::{Engine, Origin, Submission};
use althing_text::{count, marked_rows, sanitize};
use althing_view::conversation::{Audience, ConversationLine, ConversationLines, answer};
use rustix::termios::{QueueSelector, tcflush};
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;

const PLAIN_ONLY: &[(&str, &str)] = &[
    ("/approve, yes", "answer a question with yes; words after /approve are instructions"),
    ("/reject, no", "answer a question with no"),
    ("/present NAME", "choose who presents, after a vote"),
    ("/answer NUMBER", "choose an option of a program's question"),
    ("/type TEXT", "type into a program's terminal"),
];

pub(crate) async fn run(
    engine: Arc<dyn Engine>,
    options: TuiOptions,
    host: Arc<dyn TuiHost>,
) -> io::Result<TuiExit> {
    let mut lines = ConversationLines::new(Audience::Person);
    let (mut feed, pump) = follow(&engine, &host);
    let mut app = App::new(options, host);
    let (sender, mut typed) = mpsc::unbounded_channel();
    // A thread, because reading from a terminal cannot be cancelled.
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if line.is_err() || sender.send((line, Instant::now())).is_err() {
                break;
            }
        }
    });
    let mut signals = Signals::listen()?;
    print(if app.options.workflow {
        "Althing. A workflow is running. /quit leaves: the workflow stops and can be resumed."
    } else {
        "Althing. Write a message and press Enter. /help lists the commands, /quit leaves."
    })?;
    if let Some(welcome) = app.welcome.take() {
        let list = |names: &[String]| if names.is_empty() { "nothing".into() } else { names.join(", ") };
        print(&format!("Found: {}. Missing: {}.", list(&welcome.found), list(&welcome.missing)))?;
    }
    let mut effects = app.take_effects();
    let (mut live, mut asked_at, mut unconfirmed) = (true, None, None);
    let exit = loop {
        if let Some(exit) = execute(&engine, &mut app, std::mem::take(&mut effects))? {
            break exit;
        }
        tokio::select! {
            line = typed.recv() => match line {
                None => break TuiExit::Quit,
                // A line that was typed before the question was printed does not answer it.
                Some((line, read_at)) => {
                    let may_answer = asked_at.is_some_and(|asked_at| read_at > asked_at);
                    effects = take_line(&mut app, &line?, may_answer, &mut unconfirmed)?
                }
            },
            item = feed.recv(), if live => match item {
                None if app.options.workflow => break TuiExit::Ended,
                None => live = false,
                Some(Ok(item)) => {
                    app.apply(&item);
                    app.sync();
                    app.modal = None;
                    for line in lines.updates(&app.model) {
                        if let ConversationLine::Question(text) = &line {
                            // Discards a half-typed line, so that it does not become part of an answer.
                            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
                            (asked_at, unconfirmed) = (Some(Instant::now()), None);
                            print(&marked_rows(text, columns()))?;
                        } else {
                            print(line.text())?;
                        }
                    }
                }
                Some(Err(error)) => print(&error.to_string())?,
            },
            _ = signals.next() => break TuiExit::Stopped,
        }
    };
    pump.abort();
    Ok(exit)
}

/// `may_answer`: whether the line was typed after the newest question was printed. `unconfirmed`: what the last line
/// asked for and this line confirms or not.
fn take_line(
    app: &mut App,
    line: &str,
    may_answer: bool,
    unconfirmed: &mut Option<ConfirmedAction>,
) -> io::Result<Vec<Effect>> {
    if let Some(action) = unconfirmed.take() {
        match line.trim() {
            "yes" | "y" => {
                app.execute(action);
                return take_effects(app);
            }
            "no" | "n" | "" => return Ok(Vec::new()),
            _ => {}
        }
    }
    let question = app.model.questions.first().filter(|_| may_answer);
    if let Some(op) = question.and_then(|question| answer(question, line)) {
        return Ok(vec![Effect::Submit(op)]);
    }
    // On the screen, an empty message keeps the winner of a vote; here only `answer` answers questions.
    if line.trim().is_empty() {
        return Ok(Vec::new());
    }
    if app.options.workflow && !app.is_command(line.trim()) {
        if !line.trim().is_empty() {
            print("There is no chat agent here: /type, /answer, /approve and /reject answer questions.")?;
        }
        return Ok(Vec::new());
    }
    let word = line.split_whitespace().next().unwrap_or_default();
    if SlashCommand::named(word).is_some_and(|command| command.screen_only) {
        print(&format!("{word} works only on the screen; /help lists what works here."))?;
        return Ok(Vec::new());
    }
    app.input.set(line);
    app.enter();
    match app.modal.take() {
        Some(Modal::Help) => {
            let here = COMMANDS.iter().filter(|command| !command.screen_only);
            let here = here.map(|command| (command.name, command.about));
            for (name, about) in here.chain(PLAIN_ONLY.iter().copied()) {
                print(&format!("{name}: {about}"))?;
            }
        }
        Some(Modal::Cost) => {
            let usage = app.model.usage();
            print(&format!("{}, {}", count(usage.calls, "call"), althing_view::money::cost(&usage)))?;
        }
        Some(Modal::Agents) => {
            for member in app.team() {
                print(&format!("{}: {} {}", member.id, member.backend, member.model))?;
            }
        }
        Some(Modal::Confirm(action)) => {
            print(&format!("{} Write yes or no.", confirmation_text(app, &action)))?;
            *unconfirmed = Some(action);
        }
        _ => {}
    }
    take_effects(app)
}

fn take_effects(app: &mut App) -> io::Result<Vec<Effect>> {
    if let Some(toast) = app.toast.take() {
        print(&toast)?;
    }
    Ok(app.take_effects())
}

fn execute(engine: &Arc<dyn Engine>, app: &mut App, effects: Vec<Effect>) -> io::Result<Option<TuiExit>> {
    for effect in effects {
        match effect {
            Effect::Submit(op) => {
                if !engine.submit(Submission::new(op, Origin::User)) {
                    print("The session has ended and accepts no more input.")?;
                }
            }
            Effect::Undo(run) => print(&app.host.undo(&run).unwrap_or_else(|reason| reason))?,
            Effect::RemoveSession(id) => {
                print(&app.host.remove_session(&id).map_or_else(|reason| reason, |()| "deleted".into()))?;
            }
            Effect::WriteConfig => print(&app.host.write_config().unwrap_or_else(|reason| reason))?,
            Effect::Say(text) => print(&text)?,
            Effect::Leave(exit) => return Ok(Some(exit)),
            Effect::Copy(_)
            | Effect::EditInput
            | Effect::EditPlan(_)
            | Effect::Page(_)
            | Effect::Bell
            | Effect::Notify(_)
            | Effect::NotifyUser(_)
            | Effect::Mouse(_)
            | Effect::Suspend
            | Effect::Redraw => {}
        }
    }
    Ok(None)
}

/// The width of the terminal: 80 if the terminal does not report it, and a very large number if stdout is no terminal.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    match size {
        Some(0) => 80,
        Some(columns) => columns,
        None => 10_000,
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", sanitize::text(text))?;
    out.flush()
}
