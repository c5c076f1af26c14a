//! Turns the settings into a service with the selected team and a request to launch, for runs and conversations.

use crate::agent_selection::AgentSelection;
use crate::base_dirs::BaseDirs;
use crate::context::AppContext;
use crate::context_paths;
use crate::continuation::{self, Continuation};
use crate::failure::Failure;
use crate::plans;
use crate::project::with_project;
use crate::project_recorder::plan_run;
use crate::service::LocalSessions;
use crate::session_launch::{ChatRequest, RunRequest};
use crate::team::Team;
use althing_engine::Consent;
use althing_protocol::{LaunchRun, Seq, SessionId};
use althing_workspace::StoredPlan;
use std::sync::Arc;

/// The maximum size of a task, in bytes.
pub const MAX_TASK_BYTES: u64 = 4 << 20;

/// A run whose team is known, but whose task may still have to be read.
pub struct RunDraft {
    app: AppContext,
    team: Team,
    selection: AgentSelection,
    plan: Option<StoredPlan>,
    is_typed: bool,
    continued: Option<Continuation>,
}

impl RunDraft {
    /// The run that the settings ask for. `task` is what a person typed, if anything.
    pub fn of(app: &AppContext, task: Option<String>) -> Result<Self, Failure> {
        let continued = continuation::of(app)?;
        let team = continuation::team(continued.as_ref(), app)?;
        let selection = AgentSelection::of(app, task, &team)?;
        let plan = app.settings.execute_plan.as_deref().map(|which| plans::load_for_execution(which, app));
        Ok(Self { app: app.clone(), team, selection, plan: plan.transpose()?, is_typed: true, continued })
    }

    /// The task; None if there is none yet. If no task was typed, the word after `--single-agent` is the task unless
    /// it is an agent's id.
    pub fn task(&self) -> Option<&str> {
        self.selection.task.as_deref()
    }

    /// Sets a task that no person typed, such as text from a pipe. `@path`s in it grant nothing.
    pub fn set_untyped_task(&mut self, text: String) {
        (self.selection.task, self.is_typed) = (Some(text), false);
    }

    /// The service and the request for the run.
    pub fn finish(mut self) -> Result<(LocalSessions, RunRequest), Failure> {
        // Only a task that a person typed grants paths; a stored plan or text from a pipe does not.
        let (task, is_typed) = match (self.selection.task.take(), &self.plan) {
            (None, Some(plan)) => (plan.goal().to_owned(), false),
            (task, _) => (checked_task(task)?, self.is_typed),
        };
        let (app, plan) = (self.app, self.plan);
        let mut team = self.team;
        self.selection.narrow_to_run(&mut team);
        let from = BaseDirs::of(&app.environment);
        let typed = if is_typed { task.as_str() } else { "" };
        let (context_paths, expanded_task) = context_paths::collect_paths(
            &team.config.context_paths,
            &app.settings.context_path,
            typed,
            &from,
        )?;
        for notice in context_paths::link_notices(&app.settings.context_path, &from) {
            app.notify(&notice);
        }
        let project = continuation::project(self.continued.as_ref(), &app)?;
        let context_paths = with_project(context_paths, project.as_deref());
        let overview = project.as_deref().map(|project| project.workspace.overview()).transpose()?;
        let additions =
            plan.as_ref().and_then(StoredPlan::additions).map(|words| format!("The user adds: {words}"));
        let context: Vec<String> = overview.into_iter().chain(additions).collect();
        let settings = &app.settings;
        let launch = LaunchRun {
            task: if is_typed { expanded_task } else { task },
            context: (!context.is_empty()).then(|| context.join("\n\n")),
            refinement: Some(!settings.quick),
            planning_mode: settings.plan || settings.plan_and_execute,
            execute_after_planning: settings.plan_and_execute,
            ..LaunchRun::default()
        };
        let plan = plan.as_ref().map(plan_run);
        let history = self.continued.map(|continued| continued.history).unwrap_or_default();
        let consent = Consent::Person;
        let request =
            RunRequest { launch, context_paths, plan, history, consent, cost_micro_usd: None, session: None };
        Ok((LocalSessions::with_team(app, Arc::new(team), project), request))
    }
}

fn checked_task(task: Option<String>) -> Result<String, Failure> {
    let task = task.ok_or_else(|| {
        Failure::usage("there is no task")
            .hint("give a task: althing \"Compare three ways to cache HTTP responses\", or `-` to read it from stdin")
            .hint("althing --help lists everything else")
    })?;
    if task.trim().is_empty() {
        return Err(Failure::usage("the task is empty").hint("describe what to do"));
    }
    if task.len() as u64 > MAX_TASK_BYTES {
        return Err(Failure::usage(format!("the task is longer than {} MiB", MAX_TASK_BYTES >> 20))
            .hint("put large material into files"));
    }
    Ok(task)
}

/// The service and the request for a run of a task that a person typed.
pub fn run(app: &AppContext, task: &str) -> Result<(LocalSessions, RunRequest), Failure> {
    RunDraft::of(app, Some(task.to_owned()))?.finish()
}

/// The service and the request for a conversation. `first_message` only becomes its title and `selection.task`; the
/// front end sends the message. `attended`: whether a person is present who can override winners and approve runs.
pub fn conversation(
    app: &AppContext,
    first_message: Option<String>,
    attended: bool,
) -> Result<(LocalSessions, ChatRequest), Failure> {
    new_conversation(continuation::of(app)?, None, first_message, attended, app)
}

/// The service and the request for a branch of a conversation: a new conversation that begins with what was said before
/// `message`. Otherwise like [`conversation`].
pub fn branch(
    app: &AppContext,
    origin: &SessionId,
    message: Seq,
    first_message: Option<String>,
) -> Result<(LocalSessions, ChatRequest), Failure> {
    let continued = continuation::before_message(origin, message, app)?;
    new_conversation(Some(continued), Some(origin.clone()), first_message, true, app)
}

fn new_conversation(
    continued: Option<Continuation>,
    branch_of: Option<SessionId>,
    first_message: Option<String>,
    attended: bool,
    app: &AppContext,
) -> Result<(LocalSessions, ChatRequest), Failure> {
    let mut team = continuation::team(continued.as_ref(), app)?;
    let selection = AgentSelection::of(app, first_message, &team)?;
    selection.narrow(&mut team);
    let goal = selection.task.clone().filter(|task| !task.is_empty());
    let goal = goal.unwrap_or_else(|| "conversation".to_owned());
    let project = continuation::project(continued.as_ref(), app)?;
    let sessions = LocalSessions::with_team(app.clone(), Arc::new(team), project);
    let history = continued.map(|continued| continued.history).unwrap_or_default();
    Ok((sessions, ChatRequest { selection, goal, attended, can_ask: attended, history, branch_of }))
}
