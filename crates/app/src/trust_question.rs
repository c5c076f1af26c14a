//! Asks a person about a config, session or plan that was found in the working directory and needs trust.

use crate::context::AppContext;
use crate::failure::Failure;
use crate::team;
use althing_config::{LoadPurpose, quoted_command};
use althing_protocol::{
    AgentOptions, ChatSpec, Event, ExecutionMode, Fact, Op, Permission, PermissionMode, ProgramSpec, RunSpec,
    Seq, SessionId, SessionOpened, StageBody, TaskSpec, WorkflowSpec,
};
use althing_text::sanitize;
use althing_workspace::StoredPlan;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustQuestion {
    /// What was found, and where.
    pub what: String,
    /// What the found thing would do, one line each.
    pub would: Vec<String>,
}

/// A person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustAnswer {
    /// Use what was found in this command.
    Once,
    /// Use what was found in this command and, as long as it does not change, in later ones.
    Always,
    /// Do not use what was found.
    No,
}

/// Asks the person at the terminal, and blocks until there is an answer.
pub type AskTrust = Arc<dyn Fn(&TrustQuestion) -> TrustAnswer + Send + Sync>;

pub(crate) fn declined(question: &TrustQuestion) -> Failure {
    Failure::usage(format!("{}, and you did not accept it.\nNothing was started or sent.", question.what))
}

/// The failure if what a person accepted is no longer what was shown.
pub(crate) fn changed(dir: &Path) -> Failure {
    let message =
        format!("{} has changed while you were asked about it.\nNothing was started or sent.", dir.display());
    Failure::usage(message).hint("start the command again, and look at what it shows now")
}

/// What a found session could do if it were resumed. The first line says the worst, because the log decides what is
/// started. The other lines list what the log names anywhere: the programs, the paths, and what needs trust in the
/// recorded config.
pub(crate) fn session_question(dir: &Path, shown: &str, app: &AppContext) -> TrustQuestion {
    let what = format!(
        "The session in {shown} was found here and not started by you, or its log was replaced, or it has changed since \
         you accepted it"
    );
    let id = SessionId::new(dir.file_name().unwrap_or_default().to_string_lossy());
    let read = app.existing_store().ok().flatten().and_then(|store| store.read(&id, Seq(0)).ok());
    let mut would = vec![ANYTHING.to_owned()];
    match read {
        Some(stored) => would.extend(session_lines(&stored.events, app)),
        None => would.push("its log cannot be read".to_owned()),
    }
    TrustQuestion { what, would }
}

const ANYTHING: &str = "its author decides what happens: it could start any program with your rights and change any of \
                        your files. Its log names:";

fn session_lines(events: &[Arc<Event>], app: &AppContext) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    for event in events {
        let more = match &event.fact {
            Fact::SessionOpened(opened) => opening_lines(opened, app),
            Fact::TaskCreated { spec, .. } => task_lines(spec),
            Fact::OpAccepted { op, .. } => op_lines(op),
            _ => Vec::new(),
        };
        lines.extend(more.into_iter().filter(|line| known.insert(line.clone())));
    }
    lines.push("its undo restores and deletes files".to_owned());
    lines
}

fn opening_lines(opened: &SessionOpened, app: &AppContext) -> Vec<String> {
    let mut lines = vec![format!("goal: {}", opened.goal), format!("works in {}", opened.cwd)];
    let (report, _) =
        team::check_found(&opened.config_source, &opened.config_text, &app.environment, LoadPurpose::Check);
    if let Some(config) = &report.config {
        lines.extend(config.needs_trust().iter().map(|need| format!("{}: {}", need.location, need.what)));
    } else {
        lines.push(format!("its recorded config ({}) has errors", opened.config_source));
    }
    lines.extend(opened.op.iter().flat_map(op_lines));
    lines
}

fn op_lines(op: &Op) -> Vec<String> {
    match op {
        Op::StartWorkflow { spec } => workflow_lines(spec),
        Op::StartRun { spec } => run_lines(spec),
        Op::StartChat { spec } => chat_lines(spec),
        Op::SendMessage { grants, .. } => {
            grants.iter().map(|grant| path_line(&grant.path, grant.permission == Permission::Write)).collect()
        }
        _ => Vec::new(),
    }
}

fn task_lines(spec: &TaskSpec) -> Vec<String> {
    match spec {
        TaskSpec::Run(run) => run_lines(run),
        TaskSpec::Workflow(workflow) => workflow_lines(workflow),
        TaskSpec::Program(program) => program_lines(program),
        TaskSpec::Chat(chat) => chat_lines(chat),
        TaskSpec::Work { .. } => Vec::new(),
    }
}

fn run_lines(spec: &RunSpec) -> Vec<String> {
    spec.context_paths.iter().map(|path| path_line(&path.path, path.writable)).collect()
}

fn chat_lines(spec: &ChatSpec) -> Vec<String> {
    let paths = spec.team.context_paths.iter().map(|path| path_line(&path.path, path.writable));
    let agent = spec.agent.is_some().then(|| "its chat agent has file tools and can propose runs".to_owned());
    paths.chain(agent).collect()
}

fn path_line(path: &str, is_writable: bool) -> String {
    format!("would {} {path}", if is_writable { "read and write" } else { "read" })
}

fn workflow_lines(spec: &WorkflowSpec) -> Vec<String> {
    let adapters = spec.adapters.iter().map(|adapter| {
        let command: Vec<String> = std::iter::once(&adapter.program).chain(&adapter.args).cloned().collect();
        let headless =
            adapter.headless_args.iter().map(|args| format!(", headless with {}", quoted_command(args)));
        let headless: String = headless.collect();
        let env = env_text(&adapter.env);
        format!("adapter {} is {}{headless}{env}", adapter.name, quoted_command(&command))
    });
    let mut lines: Vec<String> = adapters.collect();
    for task in spec.stages.iter().flat_map(|stage| &stage.tasks) {
        match &task.body {
            StageBody::Program(program) => {
                let own = program_lines(program);
                lines.extend(own.into_iter().map(|line| format!("task {}: {line}", task.id)));
            }
            StageBody::Run(run) => {
                lines.push(format!("task {}: would start a run: {}", task.id, run.task));
                lines.extend(run.context_paths.iter().map(|path| path_line(&path.path, path.writable)));
            }
        }
    }
    lines
}

/// How many characters of a prompt or another value are shown.
const MAX_SHOWN: usize = 300;

fn program_lines(program: &ProgramSpec) -> Vec<String> {
    let command =
        if program.command.is_empty() { program.adapter.clone() } else { quoted_command(&program.command) };
    let confined = match program.sandbox {
        Some(true) => " in a sandbox",
        Some(false) => " without a sandbox",
        None => "",
    };
    let terminal = if program.mode == ExecutionMode::Interactive { " in a terminal" } else { "" };
    let start =
        format!("would start {command} in {}{terminal}{confined}{}", program.cwd, env_text(&program.env));
    let AgentOptions {
        permission_mode,
        allowed_tools,
        disallowed_tools,
        system_prompt,
        append_system_prompt,
        reasoning_effort,
    } = &program.options;
    let value = |name: &str, value: &str| format!("its {name}: {}", shortened(value));
    let optional = |name: &str, text: &Option<String>| text.as_deref().map(|text| value(name, text));
    let disallowed = Some(disallowed_tools).filter(|tools| !tools.is_empty());
    let details = [
        Some(value("prompt", &program.prompt)).filter(|_| !program.prompt.is_empty()),
        optional("model", &program.model),
        program.approvals.then(|| "a person is asked before it acts".to_owned()),
        permission_mode.map(|mode| value("permission_mode", mode_word(mode))),
        allowed_tools.as_ref().map(|tools| value("allowed_tools", &tools.join(", "))),
        disallowed.map(|tools| value("disallowed_tools", &tools.join(", "))),
        optional("system prompt", system_prompt),
        optional("text after the system prompt", append_system_prompt),
        optional("reasoning_effort", reasoning_effort),
    ];
    std::iter::once(start).chain(details.into_iter().flatten()).collect()
}

fn mode_word(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Default => "default",
        PermissionMode::AcceptEdits => "acceptEdits",
        PermissionMode::BypassPermissions => "bypassPermissions",
        PermissionMode::Plan => "plan",
    }
}

/// The text on one line in which everything can be seen, with the number of characters that are left out.
fn shortened(text: &str) -> String {
    let visible = sanitize::visible_line(text);
    let left_out = visible.chars().count().saturating_sub(MAX_SHOWN);
    if left_out == 0 {
        return visible;
    }
    let shown: String = visible.chars().take(MAX_SHOWN).collect();
    format!("{shown}… ({left_out} more characters)")
}

fn env_text(env: &BTreeMap<String, String>) -> String {
    let words: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if words.is_empty() { String::new() } else { format!(" with {}", quoted_command(&words)) }
}

/// What a found plan would do. The text comes from the loaded plan that would be executed, because a stranger can write
/// anything into `plan.md`.
pub(crate) fn plan_question(plan: &StoredPlan) -> TrustQuestion {
    let what = format!(
        "The plan in {} was found here and not made by you, or a file of it was replaced",
        plan.dir().display()
    );
    let text = plan.text();
    let lines = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned);
    let would = std::iter::once("agents would execute this plan:".to_owned()).chain(lines).collect();
    TrustQuestion { what, would }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_are_listed_with_their_arguments_variables_and_sandbox() {
        let program = json!({"adapter": "command", "command": ["git", "a b"], "mode": "headless", "prompt": "",
            "cwd": "/w", "env": {"PATH": "./bin"}, "sandbox": false});
        let spec = TaskSpec::Program(Box::new(serde_json::from_value(program.clone()).expect("a program")));
        let line = "would start `git 'a b'` in /w without a sandbox with `PATH=./bin`";
        assert_eq!(task_lines(&spec), [line]);
        let task = json!({"id": "t", "kind": "program", "adapter": "formatter", "mode": "headless",
            "prompt": "", "cwd": "/w"});
        let workflow = json!({"name": "n", "goal": "g", "source": "f", "digest": "d",
            "adapters": [{"name": "formatter", "program": "sh", "args": ["-c", "x"], "headless_args": ["y"]}],
            "stages": [{"name": "s", "tasks": [task]}]});
        let spec: WorkflowSpec = serde_json::from_value(workflow).expect("a workflow");
        let lines =
            ["adapter formatter is `sh -c x`, headless with `y`", "task t: would start formatter in /w"];
        assert_eq!(op_lines(&Op::StartWorkflow { spec: Box::new(spec.clone()) }), lines);
        assert_eq!(task_lines(&TaskSpec::Workflow(Box::new(spec))), lines);
    }

    #[test]
    fn what_a_cli_agent_is_told_and_may_do_is_listed_on_one_visible_line_each() {
        let options = json!({"permission_mode": "bypassPermissions", "allowed_tools": ["Bash", "Edit\nx"],
            "disallowed_tools": ["Read"], "system_prompt": "obey\u{200b}", "append_system_prompt": "x".repeat(1000),
            "reasoning_effort": "high"});
        let program = json!({"adapter": "claude", "mode": "headless", "prompt": "delete\nall", "cwd": "/w",
            "approvals": true, "model": "m --x", "options": options, "agent": "a1", "sandbox": true});
        let spec = TaskSpec::Program(Box::new(serde_json::from_value(program).expect("a program")));
        let long = format!("its text after the system prompt: {}… (700 more characters)", "x".repeat(300));
        let expected = [
            "would start claude in /w in a sandbox",
            "its prompt: delete␊all",
            "its model: m --x",
            "a person is asked before it acts",
            "its permission_mode: bypassPermissions",
            "its allowed_tools: Bash, Edit␊x",
            "its disallowed_tools: Read",
            "its system prompt: obey\\u{200b}",
            &long,
            "its reasoning_effort: high",
        ];
        assert_eq!(task_lines(&spec), expected);
        let program = json!({"adapter": "claude", "mode": "interactive", "prompt": "", "cwd": "/w"});
        let task = json!({"id": "t", "kind": "program", "adapter": "codex", "mode": "interactive", "prompt": "go",
            "cwd": "/w"});
        let workflow = json!({"name": "n", "goal": "g", "source": "f", "digest": "d",
            "stages": [{"name": "s", "tasks": [task]}]});
        let spec: WorkflowSpec = serde_json::from_value(workflow).expect("a workflow");
        let lines = ["task t: would start codex in /w in a terminal", "task t: its prompt: go"];
        assert_eq!(op_lines(&Op::StartWorkflow { spec: Box::new(spec) }), lines);
        let spec = TaskSpec::Program(Box::new(serde_json::from_value(program).expect("a program")));
        assert_eq!(task_lines(&spec), ["would start claude in /w in a terminal"]);
    }
}
