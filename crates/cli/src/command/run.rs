//! `althing [OPTIONS] TASK`: one run, from a task to its final answer.

use crate::args::Options;
use crate::exit::Exit;
use crate::follow::{Followed, Follower};
use crate::output_file;
use crate::show;
use althing_app::prepare::{MAX_TASK_BYTES, RunDraft};
use althing_app::{AppContext, Failure, LocalSessions, SessionRequest, SessionService, session};
use althing_protocol::{Fact, FeedItem, Interest, Seq, SessionId, TaskSpec};
use std::io::Read;

pub fn run(options: &Options, task: Option<&str>, app: &AppContext) -> Result<Exit, Failure> {
    // The signal handlers are registered first, so that an early signal does not kill the process.
    let runtime = session::runtime()?;
    let mut signals = crate::stop::signals(&runtime)?;
    let output_file = output_file::resolve(options, app)?;
    let mut draft = RunDraft::of(app, task.map(str::to_owned))?;
    if draft.task() == Some("-") {
        if app.environment.stdin_is_terminal {
            show::notice("type the task; Ctrl+D on an empty line ends it");
        }
        match runtime.block_on(signals.run_unless_stopped(read_stdin)) {
            Ok(text) => draft.set_untyped_task(text?),
            Err(signal) => {
                let failure = Failure::usage(format!("{signal}: nothing was started"));
                return Err(failure.kind(Exit::Interrupted.into()));
            }
        }
    }
    let (sessions, request) = draft.finish()?;
    let team = sessions.team()?;
    team.announce(app);
    let id = runtime.block_on(sessions.launch(SessionRequest::Run(Box::new(request))))?;
    runtime.block_on(announce(&sessions, &id))?;
    let follower = Follower::new(id, options, app, output_file, (&runtime, &mut signals));
    let follower = if team.plain { follower.plain() } else { follower };
    let Followed { exit, result } = follower.run(&sessions, &runtime)?;
    if let Some(plan) = result.and_then(|result| result.plan).filter(|_| options.plan) {
        show::notice(&format!("plan stored in {}; execute it with --execute-plan {}", plan.path, plan.id));
    }
    Ok(exit)
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let stdin = std::io::stdin().lock();
    stdin.take(MAX_TASK_BYTES + 1).read_to_string(&mut text).map_err(|error| {
        Failure::usage(format!("the task could not be read from stdin: {error}"))
            .hint("give the task as UTF-8 text")
    })?;
    Ok(text)
}

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
        show::notice(&format!("agents: {}", agents.collect::<Vec<_>>().join(", ")));
        break;
    }
    Ok(())
}
