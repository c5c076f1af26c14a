//! `althing sessions prompt`: what an agent was sent, and what it replied.
//!
//! The requests are rebuilt from the log. The digest that the log contains for each of them tells whether the rebuilt
//! text is exactly what was sent.

use super::session_report::no_run;
use super::sessions::{SessionName, find};
use crate::exit::Exit;
use crate::show::{self, print, print_json};
use althing_app::{AppContext, Failure, reports};
use althing_engine::{CallEnd, Fidelity, ModelCall, model_calls};
use althing_protocol::{
    AttemptOutcome, Event, Fact, Item, Message, ProgramSpec, Seq, SessionId, SessionStore, StoredSession,
    TaskId, TaskSpec, ToolCall,
};
use althing_text::{count, did_you_mean};
use althing_view::labels;
use althing_view::report::{RunReport, SessionReport, Spent};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

pub struct PromptRequest<'a> {
    /// `<session>.<run>`, `<session>` or `latest`; `<session>.c1` for the chat agent.
    pub run: &'a str,
    pub agent: &'a str,
    /// The number of the model call, counted from 1. `None` shows all calls.
    pub step: Option<usize>,
}

pub fn run(
    request: &PromptRequest<'_>,
    as_json: bool,
    store: &dyn SessionStore,
    app: &AppContext,
) -> Result<Exit, Failure> {
    let SessionName { session, task } = find(request.run, store)?;
    let StoredSession { events, damage, .. } = store.read(&session, Seq(0)).map_err(Failure::stored)?;
    let report = reports::session_report(&session, &events, app)
        .ok_or_else(|| Failure::usage(format!("the log of session {session} cannot be read")))?;
    if let Some(program) = ProgramTask::find(&events, task.as_deref(), request.agent) {
        program.show(as_json, &session);
        return Ok(Exit::Answered);
    }
    let (name, work) = match task.as_deref() {
        Some("c1") => ("c1".to_owned(), TaskId::chat()),
        Some(task) => find_agent(report.run(task).ok_or_else(|| no_run(&report, task))?, request.agent)?,
        None => find_anywhere(&report, request.agent)?,
    };
    let dir = app.session_dir(&session);
    let task_dir = |task: &TaskId| althing_journal::task_dir(&dir, task).display().to_string();
    let calls = model_calls(&session, &events, &task_dir, &|task| *task == work);
    if let Some(damage) = damage {
        show::notice(&format!("the log is damaged: {damage}"));
    }
    if calls.is_empty() {
        return Err(Failure::usage(format!("{} was not called in {session}.{name}", request.agent)));
    }
    let numbered: Vec<(usize, &ModelCall)> = (1..).zip(&calls).collect();
    let wanted: Vec<_> = match request.step {
        None => numbered,
        Some(step) => numbered.into_iter().filter(|(number, _)| *number == step).collect(),
    };
    if wanted.is_empty() {
        let made = count(calls.len() as u64, "call");
        return Err(Failure::usage(format!("{} made {made} in {session}.{name}", request.agent))
            .hint(format!("STEP is a number from 1 to {}", calls.len())));
    }
    if as_json {
        let all: Vec<Value> = wanted.iter().map(|(number, call)| call_json(*number, call)).collect();
        let run = format!("{session}.{name}");
        print_json(&json!({"run": run, "agent": request.agent, "task": work, "calls": all}).to_string());
        return Ok(Exit::Answered);
    }
    let mut text = String::new();
    let mut last: Option<&ModelCall> = None;
    for (number, call) in wanted {
        let title = format!("Call {number} of {} of {} in {session}.{name}", calls.len(), request.agent);
        call_text(&mut text, &title, call, last);
        last = Some(call);
    }
    print(text.trim_end_matches('\n'));
    Ok(Exit::Answered)
}

struct ProgramTask<'a> {
    id: &'a TaskId,
    spec: &'a ProgramSpec,
    said: Vec<&'a str>,
    output: Option<&'a str>,
}

impl<'a> ProgramTask<'a> {
    fn find(events: &'a [Arc<Event>], task: Option<&str>, name: &str) -> Option<Self> {
        let wanted = TaskId::workflow().stage_task(name);
        task.is_none_or(|task| task == TaskId::workflow().as_str()).then_some(())?;
        let mut found: Option<Self> = None;
        for event in events.iter().filter(|event| event.task.as_ref() == Some(&wanted)) {
            match (&event.fact, &mut found) {
                (Fact::TaskCreated { id, spec: TaskSpec::Program(spec), .. }, _) => {
                    found = Some(Self { id, spec, said: Vec::new(), output: None });
                }
                (Fact::ItemAdded { item: Item::Said { text }, .. }, Some(program)) => program.said.push(text),
                (
                    Fact::AttemptEnded { outcome: AttemptOutcome::Exited { output, .. }, .. },
                    Some(program),
                ) => program.output = Some(output),
                _ => {}
            }
        }
        found
    }

    fn show(&self, as_json: bool, session: &SessionId) {
        let ProgramSpec { adapter, command, prompt, .. } = self.spec;
        if as_json {
            let run = format!("{session}.{}", TaskId::workflow());
            print_json(
                &json!({
                    "run": run, "agent": adapter, "task": self.id, "command": command, "prompt": prompt,
                    "said": self.said, "output": self.output,
                })
                .to_string(),
            );
            return;
        }
        let title = format!("{adapter} in {session}.{}", self.id);
        let mut out = format!("{title}\n{}\n", "═".repeat(title.chars().count()));
        if !command.is_empty() {
            part(&mut out, "command");
            let _ = writeln!(out, "{}", command.join(" "));
        }
        part(&mut out, "prompt");
        let _ = writeln!(out, "{prompt}");
        for text in &self.said {
            part(&mut out, "message of the program");
            let _ = writeln!(out, "{text}");
        }
        if let Some(output) = self.output {
            part(&mut out, "output");
            let _ = writeln!(out, "{output}");
        }
        print(out.trim_end_matches('\n'));
    }
}

/// Finds an agent of a run by its id in the config or by its anonymous name.
fn find_agent(run: &RunReport, agent: &str) -> Result<(String, TaskId), Failure> {
    let named =
        |known: &&althing_view::report::AgentReport| known.id.as_str() == agent || known.anonymous == agent;
    let index = run.agents.iter().position(|known| named(&known)).ok_or_else(|| {
        let names: Vec<&str> = run.agents.iter().map(|agent| agent.id.as_str()).collect();
        let hint = did_you_mean(agent, names.iter().copied());
        Failure::usage(format!("run {} has no agent {agent}", run.run_id))
            .hint(hint.unwrap_or_else(|| format!("its agents: {}", names.join(", "))))
    })?;
    Ok((run.task_id().to_string(), run.task_id().work(index as u32 + 1)))
}

/// Searches the runs from the newest to the oldest, without runs of subagents; then the conversation, if the agent is
/// its chat agent.
fn find_anywhere(report: &SessionReport, agent: &str) -> Result<(String, TaskId), Failure> {
    let runs = report.runs.iter().rev().filter(|run| !run.is_subagent);
    let mut failure = None;
    for run in runs {
        match find_agent(run, agent) {
            Ok(found) => return Ok(found),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if report.chat_agent.as_deref() == Some(agent) {
        return Ok(("c1".to_owned(), TaskId::chat()));
    }
    Err(failure.unwrap_or_else(|| match &report.chat_agent {
        Some(chat_agent) => Failure::usage(format!("session {} has no agent {agent}", report.session))
            .hint(format!("its chat agent: {chat_agent}")),
        None => Failure::usage(format!("session {} has no run with model calls", report.session)),
    }))
}

fn fidelity(call: &ModelCall) -> &'static str {
    match call.fidelity {
        Fidelity::Exact => {
            "rebuilt from the log; its digest is the recorded one, so this is exactly what was sent"
        }
        Fidelity::Differs => {
            "rebuilt from the log, but its digest differs from the recorded one: what was sent was different. Another \
             version of Althing may have written the log, or the state directory was moved"
        }
        Fidelity::Unknown if matches!(call.end, CallEnd::Stopped) => {
            "rebuilt from the log; the call did not end, so no digest is recorded"
        }
        Fidelity::Unknown => {
            "rebuilt from the log, which contains no digest: nothing was sent, or an older version of Althing wrote \
             the log"
        }
    }
}

/// A system prompt or a list of tools that is the same as in the call before is not repeated.
fn call_text(out: &mut String, title: &str, call: &ModelCall, last: Option<&ModelCall>) {
    let purpose = call.purpose.map(labels::activity).unwrap_or_default();
    let _ = writeln!(out, "{title}\n{}", "═".repeat(title.chars().count()));
    let _ = writeln!(out, "{purpose}, attempt {}, began {}\n{}", call.attempt, call.began, fidelity(call));
    if let Some(record) = &call.record {
        let _ = writeln!(out, "SHA-256 {}", record.digest);
    }
    part(out, "system prompt");
    if last.is_some_and(|last| last.request.system == call.request.system) {
        let _ = writeln!(out, "(as in the call before)");
    } else {
        let _ = writeln!(out, "{}", call.request.system);
    }
    for (number, message) in (1..).zip(&call.request.messages) {
        match message {
            Message::User(text) => {
                part(out, &format!("message {number}, to the agent"));
                let _ = writeln!(out, "{text}");
            }
            Message::Assistant { text, tool_calls } => {
                part(out, &format!("message {number}, earlier reply of the agent"));
                said(out, text, tool_calls);
            }
            Message::Tool { call, content, is_error } => {
                let failed = if *is_error { ", an error" } else { "" };
                part(out, &format!("message {number}, result of tool call {call}{failed}"));
                let _ = writeln!(out, "{content}");
            }
        }
    }
    part(out, &format!("{} on offer", count(call.request.tools.len() as u64, "tool")));
    let same_tools = last.is_some_and(|last| last.request.tools == call.request.tools);
    if same_tools && !call.request.tools.is_empty() {
        let _ = writeln!(out, "(as in the call before)");
    }
    for tool in call.request.tools.iter().filter(|_| !same_tools) {
        let _ = writeln!(out, "{}: {}\n  {}", tool.name, tool.description, tool.parameters);
    }
    end_text(out, call);
}

fn end_text(out: &mut String, call: &ModelCall) {
    let times = call.record.as_ref().map(|record| {
        let first =
            record.first_token.map(|first| format!(", first token after {first}")).unwrap_or_default();
        format!(" after {}{first}", record.duration)
    });
    let times = times.unwrap_or_default();
    match &call.end {
        CallEnd::Replied(reply) => {
            part(out, &format!("reply{times}"));
            if !reply.reasoning.is_empty() {
                let _ = writeln!(out, "(reasoning)\n{}\n", reply.reasoning);
            }
            said(out, &reply.text, &reply.tool_calls);
            let _ = writeln!(out, "\n{}", Spent::of(&reply.usage, call.record.is_none(), false).tokens());
        }
        CallEnd::Failed { error, .. } => {
            part(out, &format!("failed{times}"));
            let _ = writeln!(out, "{error}");
        }
        CallEnd::Stopped => part(out, "stopped before the reply was complete, or still running"),
    }
    out.push('\n');
}

fn said(out: &mut String, text: &str, tool_calls: &[ToolCall]) {
    if !text.is_empty() {
        let _ = writeln!(out, "{text}");
    }
    for call in tool_calls {
        let _ = writeln!(out, "→ {} {}", call.name, call.arguments);
    }
}

fn part(out: &mut String, title: &str) {
    let _ = writeln!(out, "\n── {title} ──");
}

fn call_json(number: usize, call: &ModelCall) -> Value {
    let message = |message: &Message| match message {
        Message::User(text) => json!({"role": "user", "text": text}),
        Message::Assistant { text, tool_calls } => {
            json!({"role": "assistant", "text": text, "tool_calls": tool_calls})
        }
        Message::Tool { call, content, is_error } => {
            json!({"role": "tool", "call": call, "content": content, "is_error": is_error})
        }
    };
    let exact = match call.fidelity {
        Fidelity::Exact => Some(true),
        Fidelity::Differs => Some(false),
        Fidelity::Unknown => None,
    };
    let (reply, error) = match &call.end {
        CallEnd::Replied(reply) => (json!(reply), None),
        CallEnd::Failed { error, .. } => (Value::Null, Some(error)),
        CallEnd::Stopped => (Value::Null, None),
    };
    let record = call.record.as_ref();
    json!({
        "step": number,
        "attempt": call.attempt,
        "purpose": call.purpose,
        "began": call.began,
        "exact": exact,
        "digest": record.map(|record| &record.digest),
        "first_token_ms": record.and_then(|record| record.first_token),
        "duration_ms": record.map(|record| record.duration),
        "system": &*call.request.system,
        "messages": call.request.messages.iter().map(message).collect::<Vec<_>>(),
        "tools": call.request.tools,
        "reply": reply,
        "error": error,
    })
}
