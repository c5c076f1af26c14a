//! Workflow files: reads a text, and returns all problems and the stages. Whether a program is installed is not
//! checked here: that depends on the machine.

pub(crate) mod adapters;
mod check;
mod resolve;
mod runs;
mod templates;

use std::fmt;

use althing_protocol::{
    AgentId, AgentKind, AgentMode, AgentOptions, Config, CustomAdapter, LaunchRun, Millis, ProgramSpec,
    RunSpec, StageBody, StageSpec, StageTask, WorkflowSpec,
};

use crate::diagnostic::{Problem, Sink};
use crate::key_checker::KeyChecker;
use crate::keys::WORKFLOW;
use crate::tree::{Node, Value};
use crate::variables::{VariablePlace, Variables};
use crate::{BACKENDS, limits, parse, secrets, substitute, worth_masking};
use crate::{ConfigReport, LoadPurpose, Source, TrustRequirement};

/// The adapter of the user's own commands.
pub(crate) const COMMAND: &str = "command";

pub(crate) fn built_in(kinds: &'static [AgentKind]) -> impl Iterator<Item = &'static str> {
    kinds.iter().map(|row| row.adapter).chain([COMMAND])
}

/// What a workflow is read with.
#[derive(Clone, Copy)]
pub struct WorkflowContext<'a> {
    /// What the workflow is read for.
    pub purpose: LoadPurpose,
    /// The absolute path of the directory where Althing was started, for tasks without `cwd`.
    pub cwd: &'a str,
    /// The environment variables.
    pub env: Variables<'a>,
    /// The supported CLI agents.
    pub kinds: &'static [AgentKind],
    /// The adapters of the config.
    pub custom: &'a [CustomAdapter],
    /// The agents of the config, from [`workflow_agents`].
    pub agents: &'a [(AgentId, WorkflowAgent)],
}

impl fmt::Debug for WorkflowContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkflowContext").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// How an agent of the config runs as a task of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkflowAgent {
    /// A model: the task is a run of this one agent, which answers once.
    Model,
    /// A CLI agent on this machine.
    Program {
        /// The name of the adapter.
        adapter: String,
        /// The model, if the config names one.
        model: Option<String>,
        /// The agent's own permissions, tools, prompt and reasoning effort.
        options: AgentOptions,
    },
}

/// The agents of a config, as a workflow may name them.
pub fn workflow_agents(config: &Config, kinds: &[AgentKind]) -> Vec<(AgentId, WorkflowAgent)> {
    let kind = |backend: &althing_protocol::BackendConfig| {
        let row = kinds.iter().find(|row| row.kind == backend.kind);
        row.map_or(WorkflowAgent::Model, |row| WorkflowAgent::Program {
            adapter: row.adapter.to_owned(),
            model: backend.model.clone(),
            options: backend.options.clone(),
        })
    };
    config.agents.iter().map(|agent| (agent.id.clone(), kind(&agent.backend))).collect()
}

/// A workflow without errors, whose runs are not resolved yet.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowFile {
    /// The name of the workflow.
    pub name: String,
    /// The goal of the workflow; empty if the file has none.
    pub goal: String,
    /// The stages, in order.
    pub stages: Vec<WorkflowStage>,
    /// The file's own adapters. They take precedence over those of the config.
    pub adapters: Vec<CustomAdapter>,
    processes: Vec<TrustRequirement>,
}

/// One stage of a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowStage {
    /// The name of the stage.
    pub name: String,
    /// The tasks of the stage.
    pub tasks: Vec<WorkflowTask>,
}

/// One task of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowTask {
    /// The id of the task.
    pub id: String,
    /// What the task does.
    pub body: TaskBody,
    /// The time limit of the task.
    pub timeout: Option<Millis>,
    /// Whether the workflow continues if the task fails.
    pub continue_on_failure: bool,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskBody {
    /// A program.
    Program(Box<ProgramSpec>),
    /// A run of the config's agents.
    Run(Box<LaunchRun>),
    /// An agent of the config that is a model.
    Agent {
        /// The id of the agent.
        id: AgentId,
        /// The prompt of the task.
        prompt: String,
    },
}

impl WorkflowFile {
    /// The programs that the workflow would start.
    pub fn starts_processes(&self) -> &[TrustRequirement] {
        &self.processes
    }

    /// The workflow as the engine takes it. `source` is the path of the file, `digest` that of its text; `run`
    /// resolves a run's members and rules.
    pub fn into_spec<E>(
        self,
        source: &str,
        digest: &str,
        mut run: impl FnMut(LaunchRun) -> Result<RunSpec, E>,
    ) -> Result<WorkflowSpec, E> {
        let mut task = |task: WorkflowTask| {
            let body = match task.body {
                TaskBody::Program(spec) => StageBody::Program(spec),
                TaskBody::Run(launch) => StageBody::Run(Box::new(run(*launch)?)),
                TaskBody::Agent { id, prompt } => {
                    StageBody::Run(Box::new(run(single_agent_run(id, prompt))?))
                }
            };
            let WorkflowTask { id, timeout, continue_on_failure, .. } = task;
            Ok(StageTask { id, body, timeout, continue_on_failure })
        };
        let mut stages = Vec::new();
        for stage in self.stages {
            let tasks = stage.tasks.into_iter().map(&mut task).collect::<Result<_, E>>()?;
            stages.push(StageSpec { name: stage.name, tasks });
        }
        let (source, digest) = (source.to_owned(), digest.to_owned());
        let Self { name, goal, adapters, .. } = self;
        Ok(WorkflowSpec { name, goal, stages, adapters, source, digest, cost_micro_usd: None })
    }
}

fn single_agent_run(agent: AgentId, task: String) -> LaunchRun {
    LaunchRun {
        task,
        agent_mode: Some(AgentMode::Single),
        agents: Some(vec![agent]),
        refinement: Some(false),
        ..LaunchRun::default()
    }
}

/// Reads a workflow and reports all its problems. The workflow is returned if there is no error.
pub fn load_workflow(
    source: Source<'_>,
    surroundings: &WorkflowContext<'_>,
) -> (Option<WorkflowFile>, ConfigReport) {
    let mut report = ConfigReport::empty(source.name);
    let quotable = if source.text.len() > limits::MAX_BYTES { "" } else { source.text };
    let mut sink = Sink::new(quotable);
    let mut parsed = match parse::parse(source.text) {
        Ok(parsed) => parsed,
        Err(problems) => {
            for parse::Located { span, path, problem } in problems {
                sink.error(span, &path, problem);
            }
            (report.errors, report.warnings) = sink.finish();
            return (None, report);
        }
    };
    let literals = secrets::literals(&parsed);
    sink.set_secret_spans(literals.iter().map(|literal| literal.span).collect());
    for parse::Located { span, path, problem } in parsed.duplicates.drain(..) {
        sink.error(span, &path, problem);
    }
    let written = parsed.root.clone();
    let substituted = substitute_env_and_cwd(&mut parsed.root, surroundings.env);
    if substituted.too_much {
        let problem = Problem::new("substituting variables makes the text too large");
        sink.error(parsed.root.span, "", problem.hint("use fewer `${VARIABLE}`s"));
    }
    KeyChecker::new(&WORKFLOW, &BACKENDS, &mut sink, surroundings.purpose).document(&parsed.root);
    let document = Document::new(&parsed.root, &written, source, surroundings);
    check::check(&document, &mut sink);
    (report.errors, report.warnings) = sink.finish();
    let file = report.is_valid().then(|| resolve::file(&document));

    let mut seen: Vec<String> = literals.into_iter().map(|literal| literal.value).collect();
    seen.extend(secrets::literals(&parsed).into_iter().map(|literal| literal.value));
    seen.extend(substituted.secrets);
    report.secrets = worth_masking(&seen);
    (file, report)
}

#[cfg(test)]
pub(crate) fn resolved(root: &Node) -> WorkflowFile {
    use althing_protocol::AGENT_KINDS;
    let surroundings = WorkflowContext {
        purpose: LoadPurpose::Check,
        cwd: "/home/me",
        env: Variables::all_own(&|_| None),
        kinds: AGENT_KINDS,
        custom: &[],
        agents: &[],
    };
    let source = Source { name: "flow.yaml", text: "" };
    resolve::file(&Document::new(root, root, source, &surroundings))
}

/// Variables are substituted only in `env` and `cwd`, and not inside `run`: a prompt or a command may contain a
/// `${…}` of its own.
fn substitute_env_and_cwd(root: &mut Node, variables: Variables<'_>) -> substitute::Substituted {
    let mut result = substitute::Substituted::default();
    let mut todo = vec![root];
    while let Some(node) = todo.pop() {
        match &mut node.value {
            Value::List(items) => todo.extend(items),
            Value::Map(entries) => {
                for entry in entries {
                    match entry.key.as_str() {
                        key @ ("env" | "cwd") => {
                            result.add(&mut entry.value, VariablePlace::Other.of(key), variables);
                        }
                        "run" => {}
                        _ => todo.push(&mut entry.value),
                    }
                }
            }
            _ => {}
        }
    }
    result
}

struct Document<'a> {
    /// The document with the variables in `env` and `cwd` substituted.
    root: &'a Node,
    /// The document as written, without the values of variables.
    written: &'a Node,
    source: Source<'a>,
    surroundings: &'a WorkflowContext<'a>,
    custom: Vec<CustomAdapter>,
}

struct TaskNode<'a> {
    node: &'a Node,
    path: String,
    stage: usize,
}

enum TaskAgent<'a> {
    BuiltIn(&'a str),
    Custom(&'a CustomAdapter),
    Program { id: &'a AgentId, adapter: &'a str, model: Option<&'a str>, options: &'a AgentOptions },
    Model(&'a AgentId),
}

impl<'a> Document<'a> {
    fn new(
        root: &'a Node,
        written: &'a Node,
        source: Source<'a>,
        surroundings: &'a WorkflowContext<'a>,
    ) -> Self {
        let custom = adapters::resolve(written).into_iter().chain(surroundings.custom.iter().cloned());
        Self { root, written, source, surroundings, custom: custom.collect() }
    }

    fn tasks(&self) -> Vec<TaskNode<'a>> {
        tasks(self.root)
    }

    /// An adapter takes precedence over an agent of the config, so that a workflow means the same with every config.
    fn find_agent(&self, name: &str) -> Option<TaskAgent<'_>> {
        if let Some(name) = built_in(self.surroundings.kinds).find(|known| *known == name) {
            return Some(TaskAgent::BuiltIn(name));
        }
        if let Some(adapter) = self.custom.iter().find(|adapter| adapter.name == name) {
            return Some(TaskAgent::Custom(adapter));
        }
        let (id, agent) = self.surroundings.agents.iter().find(|(id, _)| id.as_str() == name)?;
        Some(match agent {
            WorkflowAgent::Model => TaskAgent::Model(id),
            WorkflowAgent::Program { adapter, model, options } => {
                TaskAgent::Program { id, adapter, model: model.as_deref(), options }
            }
        })
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = built_in(self.surroundings.kinds).collect();
        names.extend(self.custom.iter().map(|adapter| adapter.name.as_str()));
        names.extend(self.agent_ids());
        names
    }

    fn agent_ids(&self) -> impl Iterator<Item = &'a str> {
        self.surroundings.agents.iter().map(|(id, _)| id.as_str())
    }
}

fn tasks(root: &Node) -> Vec<TaskNode<'_>> {
    let mut found = Vec::new();
    for (stage, node) in root.get("stages").map(Node::items).unwrap_or_default().iter().enumerate() {
        for (index, node) in node.get("tasks").map(Node::items).unwrap_or_default().iter().enumerate() {
            // Entries of another type were already reported.
            if matches!(node.value, Value::Map(_)) {
                found.push(TaskNode { node, path: format!("stages[{stage}].tasks[{index}]"), stage });
            }
        }
    }
    found
}

impl<'a> TaskNode<'a> {
    fn id(&self) -> Option<&'a str> {
        self.node.get("id").and_then(Node::as_text)
    }

    fn agent(&self) -> Option<&'a str> {
        self.node.get("agent").and_then(Node::as_text)
    }

    fn mode(&self) -> Option<&'a Node> {
        self.node.get("executionMode").or_else(|| self.node.get("execution_mode"))
    }

    fn is_interactive(&self) -> bool {
        self.mode().and_then(Node::as_text) == Some("interactive")
    }
}
