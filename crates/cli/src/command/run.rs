//! `althing [OPTIONS] TASK`: one run, from a task to its final answer.

use crate::args::Options;
use crate::exit::Exit;
use crate::follow::{Followed, Follower};
use crate::show;
use crate::stop::StopSignals;
use althing_app::AppContext;
use althing_app::Failure;
use althing_app::choice::Choice;
use althing_app::context_paths;
use althing_app::conversation;
use althing_app::project::{self, Project, with_project};
use althing_app::records::plan_run;
use althing_app::session::{self, Cast, NewSession};
use althing_app::team::{self, Team};
use althing_app::trust;
use althing_engine::{Consent, resolve_launch};
use althing_protocol::{ContextPath, LaunchRun, Member, ModeChoice, Op, RunSpec, Seq, SessionKind};
use althing_workspace::{PlanError, PlanStore, StoredPlan};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A task longer than this is a mistake, not a task.
const MOST_TASK_BYTES: u64 = 4 << 20;

pub fn run(options: &Options, task: Option<&str>, app: &AppContext) -> Result<Exit, Failure> {
    if options.session.is_some() || options.go_on {
        return Err(Failure::usage("a conversation is gone on with on the screen or by `althing chat`")
            .hint("`althing chat --session ID` takes the message from stdin"));
    }
    // First of all, so that no signal finds us unprepared.
    let runtime = session::runtime()?;
    let mut signals = crate::stop::signals(&runtime)?;
    let mut team = team::assemble(app)?;
    let mut choice = Choice::of(app, task.map(str::to_owned), &team)?;
    let plan = match &options.execute_plan {
        Some(which) => Some(kept_plan(which, app)?),
        None => None,
    };
    // Only what a person typed grants paths: neither a kept plan nor a text that is piped in does.
    let (task, is_typed) = match (&plan, choice.task.take()) {
        (Some(plan), None) => (plan.goal().to_owned(), false),
        (_, task) => {
            let is_typed = task.as_deref() != Some("-");
            (read_task(task, &runtime, &mut signals)?, is_typed)
        }
    };
    choice.narrow_to_run(&mut team);
    let home = app.environment.variable("HOME").map(PathBuf::from);
    let from = context_paths::From { cwd: &app.environment.cwd, home: home.as_deref() };
    let typed = if is_typed { task.as_str() } else { "" };
    let (context_paths, written_out) =
        context_paths::gather(&team.config.context_paths, &options.context_path, typed, &from)?;
    let task = if is_typed { written_out } else { task };
    let project = project::named(app)?;
    let context_paths = with_project(context_paths, project.as_deref());
    let stage = Stage { options, team: &team, context_paths, project, app, runtime: &runtime };
    if options.plan_and_execute {
        let Followed { exit, result } = stage.run(&task, None, true, &mut signals)?;
        let kept = result.and_then(|result| result.plan).filter(|_| exit == Exit::Answered);
        let Some(kept) = kept else {
            return Err(Failure::usage("there is no plan that could be carried out").kind(exit.into()));
        };
        show::say(&format!("plan kept in {}", kept.path));
        let plan = kept_plan(&kept.path, app)?;
        return Ok(stage.run(&task, Some(&plan), false, &mut signals)?.exit);
    }
    let Followed { exit, result } = stage.run(&task, plan.as_ref(), options.plan, &mut signals)?;
    if let Some(plan) = result.and_then(|result| result.plan).filter(|_| options.plan) {
        show::say(&format!("plan kept in {}; carry it out with --execute-plan {}", plan.path, plan.id));
    }
    Ok(exit)
}

/// A plan that was kept, approved by whoever asks for it to be carried out.
fn kept_plan(which: &str, app: &AppContext) -> Result<StoredPlan, Failure> {
    let failed = |error: PlanError| Failure::usage(error.to_string()).maybe_hint(error.hint());
    let store = PlanStore::of(&app.state_dir());
    let mut plan = store.load(which).map_err(failed)?;
    if !which.contains('/') {
        trust::require_own_plan(plan.dir(), app)?;
    }
    // Nobody else may be at it; what was under way when somebody stopped begins anew.
    let lock = plan.lock().map_err(failed)?;
    plan.take_back_unfinished().map_err(failed)?;
    if !plan.is_approved() {
        plan.approve(None).map_err(failed)?;
    }
    drop(lock);
    Ok(plan)
}

/// Where runs of this command take place.
struct Stage<'a> {
    options: &'a Options,
    team: &'a Team,
    context_paths: Vec<ContextPath>,
    project: Option<Arc<Project>>,
    app: &'a AppContext,
    runtime: &'a Runtime,
}

impl Stage<'_> {
    fn run(
        &self,
        task: &str,
        plan: Option<&StoredPlan>,
        planning: bool,
        signals: &mut StopSignals,
    ) -> Result<Followed, Failure> {
        let cast = session::cast(self.team, Some(&self.context_paths), self.app)?;
        announce(self.team, &cast.members, self.app);
        let spec = self.spec(task, plan, planning, &cast)?;
        let (goal, op) = (spec.task.clone(), Op::StartRun { spec: Box::new(spec) });
        let new = NewSession { kind: SessionKind::Run, goal, op, project: self.project.clone() };
        let begun = session::begin(new, self.team, cast, None, self.app);
        let begun = self.runtime.block_on(begun)?;
        let follower = Follower::new(begun.id, self.options, self.app, signals);
        let follower = if self.team.plain { follower.plain() } else { follower };
        // Of a plan that is carried out at once, the execution's answer is what is asked for.
        let follower = if planning && self.options.plan_and_execute { follower.silent() } else { follower };
        let ended = follower.run(begun.orchestrator, Seq(0), self.runtime);
        session::close(&begun.places, self.runtime, self.app);
        ended
    }

    /// The run that starts: what was asked for, resolved as every other launch is.
    fn spec(
        &self,
        task: &str,
        plan: Option<&StoredPlan>,
        planning: bool,
        cast: &Cast,
    ) -> Result<RunSpec, Failure> {
        let known = self.project.as_ref().map(|project| project.workspace.overview()).transpose()?;
        let additions = plan.and_then(StoredPlan::additions).map(|words| format!("The user adds: {words}"));
        let context: Vec<String> = known.into_iter().chain(additions).collect();
        let launch = LaunchRun {
            task: task.to_owned(),
            context: (!context.is_empty()).then(|| context.join("\n\n")),
            refinement: Some(!self.app.settings.quick),
            planning_mode: planning,
            ..LaunchRun::default()
        };
        let paths = self.context_paths.clone();
        // Nobody is there to override the winner.
        let team = conversation::team_spec(self.team, cast, paths, false, self.app);
        let launch =
            resolve_launch(&team, &launch, &ModeChoice::default(), Consent::Person, fastrand::u64(..));
        let mut spec = launch.map_err(Failure::usage)?.spec;
        spec.plan = plan.map(plan_run);
        Ok(spec)
    }
}

fn read_task(task: Option<String>, runtime: &Runtime, signals: &mut StopSignals) -> Result<String, Failure> {
    let task = match task {
        Some(dash) if dash == "-" => match runtime.block_on(signals.unless(read_stdin)) {
            Ok(text) => text?,
            Err(signal) => {
                let failure = Failure::usage(format!("{signal}: nothing was started"));
                return Err(failure.kind(Exit::Interrupted.into()));
            }
        },
        Some(task) => task,
        None => {
            return Err(Failure::usage("there is no task")
                .hint("say what to do: althing \"Compare three ways to cache HTTP responses\", or `-` to read it from stdin")
                .hint("althing --help lists everything else"));
        }
    };
    if task.trim().is_empty() {
        return Err(Failure::usage("the task is empty").hint("say what to do"));
    }
    if task.len() as u64 > MOST_TASK_BYTES {
        return Err(Failure::usage(format!("the task is longer than {} MiB", MOST_TASK_BYTES >> 20))
            .hint("put the material into files"));
    }
    Ok(task)
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let stdin = std::io::stdin().lock();
    stdin.take(MOST_TASK_BYTES + 1).read_to_string(&mut text).map_err(|error| {
        Failure::usage(format!("the task could not be read from stdin: {error}"))
            .hint("give it as UTF-8 text")
    })?;
    Ok(text)
}

fn announce(team: &Team, members: &[Member], app: &AppContext) {
    team.announce(app);
    let agents: Vec<String> = members
        .iter()
        .map(|member| {
            let what = if member.offline {
                "offline model, not an AI".to_owned()
            } else {
                format!("{} {}", member.backend, member.model)
            };
            format!("{} ({what})", member.id)
        })
        .collect();
    show::say(&format!("agents: {}", agents.join(", ")));
}
