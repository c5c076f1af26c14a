//! The chat agent's tools that read and change the project's context and its described paths.

use super::{DescribedPath, PathKind, ProjectError, ProjectWorkspace};
use crate::access::Refusal;
use crate::exclusive;
use crate::tools::Args;
use althing_disk::DiskError;
use althing_protocol::{BoxFuture, ContextAccess, ToolCall, ToolHost, ToolOutcome, ToolSpec};
use serde_json::json;
use std::fmt::Write;

const GET: &str = "get_project";
const CONTEXT: &str = "update_project_context";
const DESCRIBE: &str = "describe_path";
const MAX_LISTED_RUNS: usize = 20;

/// The tools that show a project, replace its `CONTEXT.md` and describe its paths. Agents access all other files of the
/// project with the file tools.
pub struct ProjectHost {
    project: ProjectWorkspace,
}

impl ProjectHost {
    /// Creates the tools for this project.
    pub fn new(project: ProjectWorkspace) -> Self {
        Self { project }
    }
}

fn run(project: &ProjectWorkspace, call: &ToolCall) -> Result<String, String> {
    let refusal = |error: Refusal| error.to_string();
    let failed = |error: ProjectError| match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    };
    let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    match call.name.as_str() {
        GET => {
            Args::parse(text, &[]).map_err(refusal)?;
            project.overview().map_err(failed)
        }
        CONTEXT => {
            let args = Args::parse(text, &["content"]).map_err(refusal)?;
            project.set_context(args.text("content").map_err(refusal)?).map_err(failed)?;
            Ok("CONTEXT.md is updated.".to_owned())
        }
        DESCRIBE => {
            let args = Args::parse(text, &["path", "description"]).map_err(refusal)?;
            let path = args.text("path").map_err(refusal)?;
            let description = args.optional_text("description").map_err(refusal)?.unwrap_or_default();
            if description.trim().is_empty() {
                let gone = project.forget(path).map_err(failed)?;
                return Ok(format!(
                    "{path} {}",
                    if gone { "is no longer described." } else { "had no description." }
                ));
            }
            let described = project.describe(path, description).map_err(failed)?;
            Ok(format!("Noted: {}", path_line(&described)))
        }
        other => Err(format!("there is no tool {} here", other.escape_debug())),
    }
}

fn path_line(path: &DescribedPath) -> String {
    let end = if path.kind == PathKind::Directory && !path.path.ends_with('/') { "/" } else { "" };
    format!("{}{end}: {}", path.path, path.description)
}

impl ProjectWorkspace {
    /// An overview of the project: its context, described paths, deliverables and newest runs.
    pub fn overview(&self) -> Result<String, ProjectError> {
        let context = self.context()?;
        let mut text =
            format!("Project {} in {}\n\n{}", self.name(), self.dir().display(), context.text.trim_end());
        if !context.whole {
            let _ = write!(text, "\n[cut; the rest is in {}]", context.path);
        }
        for (n, path) in self.paths()?.iter().enumerate() {
            let head = if n == 0 { "\n\nPaths:" } else { "" };
            let _ = write!(text, "{head}\n- {}", path_line(path));
        }
        for (n, name) in self.deliverables()?.iter().enumerate() {
            let head = if n == 0 { "\n\nDeliverables:" } else { "" };
            let _ = write!(text, "{head}\n- {}", self.deliverables_dir().join(name).display());
        }
        let runs = self.runs()?;
        for (n, run) in runs.iter().take(MAX_LISTED_RUNS).enumerate() {
            let head = if n == 0 { "\n\nRuns, newest first:" } else { "" };
            let task: String =
                run.task.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
            let _ = write!(text, "{head}\n- {} ({}): {task}", run.id, run.status);
        }
        if runs.len() > MAX_LISTED_RUNS {
            let more = althing_text::count((runs.len() - MAX_LISTED_RUNS) as u64, "earlier run");
            let _ = write!(text, "\n- and {more}");
        }
        Ok(text)
    }

    /// The names directly in `deliverables/`, sorted, without those that begin with a dot or are not UTF-8.
    pub fn deliverables(&self) -> Result<Vec<String>, ProjectError> {
        let dir = self.root.open_dir(std::ffi::OsStr::new(super::DELIVERABLES));
        let names = match dir.and_then(|dir| dir.names()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(DiskError::io("list", &self.deliverables_dir()))?,
        };
        let names = names.into_iter().filter_map(|name| name.into_string().ok());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        Ok(names)
    }
}

impl ToolHost for ProjectHost {
    fn tools(&self, _access: ContextAccess) -> Vec<ToolSpec> {
        let spec = |name: &str, description: &str, properties: serde_json::Value, required: &[&str]| {
            ToolSpec {
                name: name.to_owned(),
                description: description.to_owned(),
                parameters: json!({
                    "type": "object", "properties": properties, "required": required, "additionalProperties": false,
                }),
            }
        };
        vec![
            spec(
                GET,
                "Show the project: its context, described paths, deliverables and runs.",
                json!({}),
                &[],
            ),
            spec(
                CONTEXT,
                "Replace the project's CONTEXT.md: what it is about, what was decided, what comes next. Give the whole text.",
                json!({ "content": { "type": "string" } }),
                &["content"],
            ),
            spec(
                DESCRIBE,
                "Describe in one line what a file or directory of the project is for, so that later runs find it. Without a \
                 description, the entry is removed.",
                json!({ "path": { "type": "string" }, "description": { "type": "string" } }),
                &["path"],
            ),
        ]
    }

    fn call<'a>(&'a self, call: &'a ToolCall, _access: ContextAccess) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let (project, call) = (self.project.clone(), call.clone());
            let dir = project.dir().to_owned();
            match exclusive::run_exclusively(&dir, move || run(&project, &call)).await {
                Ok(Ok(content)) => ToolOutcome { content, is_error: false },
                Ok(Err(content)) => ToolOutcome { content, is_error: true },
                Err(e) => {
                    ToolOutcome { content: format!("the tool failed unexpectedly: {e}"), is_error: true }
                }
            }
        })
    }
}
