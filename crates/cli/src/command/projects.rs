//! `althing projects`: the projects that this user worked in.

use crate::args::{Options, ProjectsAction};
use crate::exit::Exit;
use crate::show::{print, print_json};
use althing_app::AppContext;
use althing_app::Failure;
use althing_app::project;
use althing_text::sanitize;
use althing_workspace::{ProjectWorkspace, RegisteredProject};
use serde_json::{Value, json};
use std::path::Path;

pub fn run(options: &Options, action: Option<ProjectsAction>, app: &AppContext) -> Result<Exit, Failure> {
    match action {
        None => list(options.json, app)?,
        Some(ProjectsAction::Show { project }) => show(&project, app)?,
        Some(ProjectsAction::Forget { project }) => {
            let registry = project::registry(&app.environment);
            let known = match &registry {
                Some(registry) => registry.find(&project.to_string_lossy())?,
                None => None,
            };
            let (Some(registry), Some(known)) = (registry, known) else { return Err(unknown(&project)) };
            registry.forget(&known.path)?;
            print(&format!("{} is no longer listed; its files stay in {}", known.name, known.path.display()));
        }
    }
    Ok(Exit::Answered)
}

fn unknown(which: &Path) -> Failure {
    Failure::usage(format!("there is no project {}", which.display()))
        .hint("`althing projects` lists them; `--project DIR` creates one")
}

fn list(as_json: bool, app: &AppContext) -> Result<(), Failure> {
    let projects = match project::registry(&app.environment) {
        Some(registry) => registry.list()?,
        None => Vec::new(),
    };
    if as_json {
        let entry = |entry: &RegisteredProject| json!({"name": entry.name, "path": entry.path, "last_used": entry.last_used, "exists": entry.exists()});
        print_json(&Value::Array(projects.iter().map(entry).collect()).to_string());
    } else if projects.is_empty() {
        print("no projects; `althing --project DIR` creates one");
    }
    for entry in projects.iter().filter(|_| !as_json) {
        let gone = if entry.exists() { "" } else { "  (no longer exists)" };
        let line = format!("{}  {}  {}{gone}", entry.name, entry.path.display(), entry.last_used);
        print(&sanitize::line(&line));
    }
    Ok(())
}

fn show(which: &Path, app: &AppContext) -> Result<(), Failure> {
    let dir = project::find(which, &app.environment)?;
    // Showing a directory must not turn it into a project.
    if !dir.join("CONTEXT.md").is_file() || !dir.join("deliverables").is_dir() {
        return Err(unknown(which));
    }
    print(&sanitize::output(&ProjectWorkspace::open(&dir)?.overview()?));
    Ok(())
}
