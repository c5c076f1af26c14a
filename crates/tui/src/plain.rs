//! The conversation as lines of text, for screen readers and for terminals that are none.
//!
//! Nothing is drawn over, nothing moves: what is finished is printed once, with a word before it that says what it is.

use crate::app::{App, Effect, Modal};
use crate::event_loop::{Signals, follow};
use crate::outside::{Outside, TuiExit, TuiOptions};
use althing_protocol::{
    Decision, Engine, InteractionId, InteractionKind, Op, Origin, Submission, TaskId, TaskStatus,
};
use althing_text::sanitize;
use althing_view::{Body, SessionView, TaskKind, labels};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Tells what is new of a session, line by line.
#[derive(Debug, Default)]
pub(crate) struct Narrator {
    told: usize,
    asked: BTreeSet<InteractionId>,
    standings: BTreeMap<TaskId, &'static str>,
}

impl Narrator {
    /// What is new, harmless and in order.
    pub(crate) fn news(&mut self, model: &SessionView) -> Vec<String> {
        let mut lines = Vec::new();
        for entry in model.entries.iter().skip(self.told) {
            match &entry.body {
                Body::User { text, .. } => lines.push(format!("You: {text}")),
                Body::Agent { text } => lines.push(format!("Althing: {text}")),
                Body::Tool { name, .. } => lines.push(format!("Althing uses {name}.")),
                Body::Run(_) | Body::Program(_) | Body::Final(_) => {}
                Body::Notice { text, .. } => lines.push(format!("Note: {text}")),
                Body::Compacted { .. } => lines.push("Note: the older conversation was summed up.".into()),
            }
        }
        self.told = model.entries.len();
        for run in model.runs.values() {
            let standing = run.standing();
            if self.standings.insert(run.id.clone(), standing) != Some(standing) {
                lines.push(format!("Run: {}. {standing}", run.task));
                let result = run.result.as_ref();
                if let Some(answer) = result.and_then(|result| result.final_answer.as_ref()) {
                    lines.push(format!("Final answer: {answer}"));
                }
                let writes = result.map(|result| result.context_path_writes.as_slice()).unwrap_or_default();
                if !writes.is_empty() {
                    let words: Vec<String> = writes.iter().map(labels::file_write).collect();
                    lines.push(format!("Files written to context paths: {}", words.join(", ")));
                }
            }
        }
        for task in model.tasks.iter().filter(|task| matches!(task.kind, TaskKind::Program { .. })) {
            let standing = task.standing();
            let told = self.standings.insert(task.id.clone(), standing) == Some(standing);
            if !told && task.status != TaskStatus::Pending {
                let why = task.why.as_ref().filter(|_| task.status == TaskStatus::Failed);
                let why = why.map(|why| format!(". {why}")).unwrap_or_default();
                lines.push(format!("Task {}: {standing}{why}", task.name));
            }
        }
        for question in &model.questions {
            if self.asked.insert(question.interaction.id.clone()) {
                lines.push(asked(&question.interaction.kind));
            }
        }
        lines.iter().map(|line| sanitize::text(line).into_owned()).collect()
    }
}

fn asked(kind: &InteractionKind) -> String {
    match kind {
        InteractionKind::RunApproval { proposal } => {
            let agents: Vec<String> = proposal.members.iter().map(|member| member.id.to_string()).collect();
            let paths = |word: &str, paths: &[String]| match paths {
                [] => String::new(),
                paths => format!(" {word}: {}.", paths.join(", ")),
            };
            format!(
                "Question: launch this run? Task: {}. Agents: {}.{}{} Write /approve or /reject.",
                proposal.launch.task,
                agents.join(", "),
                paths("Reads", &proposal.may_read),
                paths("May write", &proposal.may_write)
            )
        }
        InteractionKind::PlanApproval { preview, plan } => {
            format!(
                "Question: carry out plan {}? {}. Write /approve or /reject.",
                plan.id,
                preview.join("; ")
            )
        }
        InteractionKind::WinnerOverride { winner, candidates } => {
            let names: Vec<String> = candidates.iter().map(|one| one.agent.to_string()).collect();
            format!(
                "Question: {winner} won the vote. Write /approve to continue, or /present and one of {}.",
                names.join(", ")
            )
        }
        InteractionKind::Budget { .. } => {
            "Question: the budget is used up. Write /approve to go on, or /reject.".into()
        }
        InteractionKind::Program(ask) if ask.options.is_empty() => {
            format!("Question: {} Write /type and what to type into its terminal.", ask.text)
        }
        InteractionKind::Program(ask) => {
            let options: Vec<String> = ask
                .options
                .iter()
                .enumerate()
                .map(|(n, option)| format!("{}: {}", n + 1, option.label))
                .collect();
            format!("Question: {} Write /answer and a number. {}", ask.text, options.join(", "))
        }
        InteractionKind::Interrupted => {
            "Question: a task was cut off. Write /approve to start it over, or /reject.".into()
        }
    }
}

/// The answer that a line gives to the oldest open question, if it is one.
pub(crate) fn answer(model: &SessionView, line: &str) -> Option<Op> {
    let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let question = model.questions.first()?;
    if let ("/type", InteractionKind::Program(_), Some(task)) =
        (word, &question.interaction.kind, &question.task)
    {
        return Some(Op::Input { task: task.clone(), bytes: format!("{rest}\r").into_bytes() });
    }
    let decision = match (word, &question.interaction.kind) {
        ("/approve" | "/yes", InteractionKind::RunApproval { proposal }) => {
            Decision::Approve { digest: Some(proposal.digest.clone()), edited: None, instructions: None }
        }
        ("/approve" | "/yes", InteractionKind::WinnerOverride { .. }) => Decision::Continue,
        ("/approve" | "/yes", _) => {
            let instructions = Some(rest.trim().to_owned()).filter(|words| !words.is_empty());
            Decision::Approve { digest: None, edited: None, instructions }
        }
        ("/reject" | "/no", _) => Decision::Reject { reason: None },
        ("/present", InteractionKind::WinnerOverride { .. }) => {
            Decision::Presenter { agent: rest.trim().into() }
        }
        ("/answer", InteractionKind::Program(ask)) => {
            let number: usize = rest.trim().parse().ok()?;
            Decision::Choose { option: ask.options.get(number.checked_sub(1)?)?.id.clone() }
        }
        _ => return None,
    };
    Some(Op::Answer { interaction: question.interaction.id.clone(), decision })
}

/// Shows a session as lines until the user leaves it.
pub(crate) async fn run(
    engine: Arc<dyn Engine>,
    options: TuiOptions,
    outside: Arc<dyn Outside>,
) -> io::Result<TuiExit> {
    let mut narrator = Narrator::default();
    let (mut feed, pump) = follow(&engine, &outside);
    let mut app = App::new(options, outside);
    let (sender, mut typed) = mpsc::unbounded_channel();
    // A thread of its own: a read from a terminal cannot be given up.
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if line.is_err() || sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut signals = Signals::listen()?;
    print(if app.options.workflow {
        "Althing. A workflow is at work. /quit leaves; it can be gone on with."
    } else {
        "Althing. Write a message and press Enter. /help lists the commands, /quit leaves."
    })?;
    if let Some(welcome) = app.welcome.take() {
        print(&format!("Found: {}. Missing: {}.", welcome.found.join(", "), welcome.missing.join(", ")))?;
    }
    let mut effects = app.take_effects();
    let mut live = true;
    let exit = loop {
        if let Some(exit) = carry_out(&engine, &mut app, std::mem::take(&mut effects))? {
            break exit;
        }
        tokio::select! {
            line = typed.recv() => match line {
                None => break TuiExit::Quit,
                Some(line) => effects = take_line(&mut app, &line?)?,
            },
            item = feed.recv(), if live => match item {
                None if app.options.workflow => break TuiExit::Ended,
                None => live = false,
                Some(Ok(item)) => {
                    app.apply(&item);
                    app.sync();
                    app.modal = None;
                    for line in narrator.news(&app.model) {
                        print(&line)?;
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

fn take_line(app: &mut App, line: &str) -> io::Result<Vec<Effect>> {
    if let Some(op) = answer(&app.model, line) {
        return Ok(vec![Effect::Submit(op)]);
    }
    // Nobody is talked to while a workflow is shown.
    if app.options.workflow && !line.trim().starts_with('/') {
        if !line.trim().is_empty() {
            print(
                "There is nobody to talk to here: /type, /answer, /approve and /reject answer what is asked.",
            )?;
        }
        return Ok(Vec::new());
    }
    app.input.set(line);
    app.enter();
    match app.modal.take() {
        Some(Modal::Help) => {
            for (name, about) in crate::app::COMMANDS {
                print(&format!("{name}: {about}"))?;
            }
        }
        Some(Modal::Cost) => {
            let usage = app.model.usage();
            print(&format!("{} calls, {}", usage.calls, labels::money(usage.cost_usd)))?;
        }
        Some(Modal::Agents) => {
            for member in app.team() {
                print(&format!("{}: {} {}", member.id, member.backend, member.model))?;
            }
        }
        _ => {}
    }
    if let Some(toast) = app.toast.take() {
        print(&toast)?;
    }
    Ok(app.take_effects())
}

fn carry_out(engine: &Arc<dyn Engine>, app: &mut App, effects: Vec<Effect>) -> io::Result<Option<TuiExit>> {
    for effect in effects {
        match effect {
            Effect::Submit(op) => {
                if !engine.submit(Submission::new(op, Origin::User)) {
                    print("The session has ended: nothing more can be asked of it.")?;
                }
            }
            Effect::Undo(run) => print(&app.outside.undo(run.as_ref()).unwrap_or_else(|reason| reason))?,
            Effect::WriteConfig => print(&app.outside.write_config().unwrap_or_else(|reason| reason))?,
            Effect::Leave(exit) => return Ok(Some(exit)),
            Effect::Copy(_)
            | Effect::EditInput
            | Effect::EditPlan(_)
            | Effect::Page(_)
            | Effect::Bell
            | Effect::Suspend
            | Effect::Redraw => {}
        }
    }
    Ok(None)
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", sanitize::text(text))?;
    out.flush()
}
