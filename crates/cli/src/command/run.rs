//! `althing [OPTIONS] TASK`: one run, from a task to its final answer.

use crate::args::Options;
use crate::exit::Exit;
use crate::follow::{Followed, Follower};
use crate::show;
use crate::stop::StopSignals;
use althing_app::choice::Choice;
use althing_app::project::{self, with_project};
use althing_app::records::plan_run;
use althing_app::{AppContext, Consent, Failure, LocalSessions, RunRequest, SessionRequest, SessionService};
use althing_app::{context_paths, launch, session, team, trust};
use althing_protocol::{ContextPath, Fact, FeedItem, Interest, LaunchRun, Seq, SessionId, TaskSpec};
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
    let sessions = LocalSessions::with_team(app.clone(), Arc::new(team), project);
    let team = sessions.team()?;
    team.announce(app);
    let request = request(&task, plan.as_ref(), context_paths, &sessions, options)?;
    let id = runtime.block_on(sessions.launch(SessionRequest::Run(Box::new(request))))?;
    runtime.block_on(announce(&sessions, &id))?;
    let follower = Follower::new(id, options, app, &mut signals);
    let follower = if team.plain { follower.plain() } else { follower };
    let Followed { exit, result } = follower.run(&sessions, &runtime)?;
    if let Some(plan) = result.and_then(|result| result.plan).filter(|_| options.plan) {
        show::say(&format!("plan kept in {}; carry it out with --execute-plan {}", plan.path, plan.id));
    }
    Ok(exit)
}

/// The run that the options ask for.
fn request(
    task: &str,
    plan: Option<&StoredPlan>,
    context_paths: Vec<ContextPath>,
    sessions: &LocalSessions,
    options: &Options,
) -> Result<RunRequest, Failure> {
    let known = launch::project_overview(sessions.project().map(Arc::as_ref))?;
    let additions = plan.and_then(StoredPlan::additions).map(|words| format!("The user adds: {words}"));
    let context: Vec<String> = known.into_iter().chain(additions).collect();
    let launch = LaunchRun {
        task: task.to_owned(),
        context: (!context.is_empty()).then(|| context.join("\n\n")),
        refinement: Some(!options.quick),
        planning_mode: options.plan || options.plan_and_execute,
        execute_after_planning: options.plan_and_execute,
        ..LaunchRun::default()
    };
    Ok(RunRequest { launch, context_paths, plan: plan.map(plan_run), consent: Consent::Person })
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

/// Says who takes part in a run that has just been launched.
async fn announce(sessions: &LocalSessions, id: &SessionId) -> Result<(), Failure> {
    let mut events = sessions.follow(id, Seq(0), Interest::Facts).await?;
    while let Some(Ok(FeedItem::Event(event))) = events.next().await {
        let Fact::TaskCreated { spec: TaskSpec::Run(spec), .. } = &event.fact else { continue };
        let agents = spec.members.iter().map(|member| {
            let what = if member.offline {
                "offline model, not an AI".to_owned()
            } else {
                format!("{} {}", member.backend, member.model)
            };
            format!("{} ({what})", member.id)
        });
        show::say(&format!("agents: {}", agents.collect::<Vec<_>>().join(", ")));
        break;
    }
    Ok(())
}
