//! `althing [OPTIONS] TASK`: one run, from a task to its final answer.

use crate::args::{Options, Single};
use crate::context;
use crate::exit::Exit;
use crate::exit::Failure;
use crate::follow::Follower;
use crate::session::{self, NewSession};
use crate::show;
use crate::stop::StopSignals;
use crate::surroundings::Surroundings;
use crate::team::{self, Team};
use althing_protocol::{AgentMode, ContextPath, Member, Millis, Modes, Op, RunSpec, Seq, SessionKind};
use std::io::Read;
use std::path::PathBuf;
use tokio::runtime::Runtime;

/// A task longer than this is a mistake, not a task.
const MOST_TASK_BYTES: u64 = 4 << 20;

pub fn run(options: &Options, task: Option<&str>, surroundings: &Surroundings) -> Result<Exit, Failure> {
    // First of all, so that no signal finds us unprepared.
    let runtime = session::runtime()?;
    let mut signals = session::signals(&runtime)?;
    let mut team = team::assemble(options, surroundings)?;
    let mut choice = Choice::new(options, task.map(str::to_owned));
    choice.settle(&team)?;
    let task = read_task(choice.task.take(), &runtime, &mut signals)?;
    choice.narrow(&mut team);
    let home = surroundings.variable("HOME").map(PathBuf::from);
    let from = context::From { cwd: &surroundings.cwd, home: home.as_deref() };
    let (context_paths, task) =
        context::gather(&team.config.context_paths, &options.context_path, &task, &from)?;
    let cast = session::cast(&team, Some(&context_paths), surroundings)?;
    announce(&team, &cast.members);
    let spec = spec(task, context_paths, options, &team, cast.members.clone());

    let new = NewSession {
        kind: SessionKind::Run,
        goal: spec.task.clone(),
        op: Op::StartRun { spec: Box::new(spec) },
    };
    let begun = runtime.block_on(session::begin(new, &team, cast, None, options, surroundings))?;
    let follower = Follower::new(begun.id, options, surroundings, signals);
    let follower = if team.plain { follower.plain() } else { follower };
    let ended = follower.run(begun.orchestrator, Seq(0), &runtime);
    session::close(&begun.places, &runtime);
    ended
}

/// Which agents take part, and whether the word after `--single-agent` was an agent or the task.
struct Choice {
    task: Option<String>,
    single: Option<Single>,
    agents: Vec<String>,
}

impl Choice {
    fn new(options: &Options, task: Option<String>) -> Self {
        Self { task, single: options.single_agent.clone(), agents: options.agents.clone() }
    }

    fn settle(&mut self, team: &Team) -> Result<(), Failure> {
        let known = |id: &str| team.config.agents.iter().any(|agent| agent.id.as_str() == id);
        if let Some(Single::Named(id)) = &self.single
            && !known(id)
            && self.task.is_none()
        {
            self.task = Some(id.clone());
            self.single = Some(Single::First);
        }
        let single = match &self.single {
            Some(Single::Named(id)) => Some(id),
            Some(Single::First) | None => None,
        };
        match self.agents.iter().chain(single).find(|id| !known(id)) {
            None => Ok(()),
            Some(unknown) => {
                let ids: Vec<&str> = team.config.agents.iter().map(|agent| agent.id.as_str()).collect();
                Err(Failure::usage(format!("there is no agent `{unknown}`"))
                    .hint(format!("the agents are: {}", ids.join(", "))))
            }
        }
    }

    /// Leaves only those who take part.
    fn narrow(&self, team: &mut Team) {
        let agents = &mut team.config.agents;
        if !self.agents.is_empty() {
            agents.retain(|agent| self.agents.iter().any(|id| id == agent.id.as_str()));
        }
        match &self.single {
            Some(Single::Named(id)) => agents.retain(|agent| agent.id.as_str() == id),
            Some(Single::First) => agents.truncate(1),
            None => {}
        }
    }
}

fn read_task(task: Option<String>, runtime: &Runtime, signals: &mut StopSignals) -> Result<String, Failure> {
    let task = match task {
        Some(dash) if dash == "-" => match runtime.block_on(signals.unless(read_stdin)) {
            Ok(text) => text?,
            Err(signal) => {
                return Err(Failure {
                    exit: Exit::Interrupted,
                    ..Failure::usage(format!("{signal}: nothing was started"))
                });
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

fn announce(team: &Team, members: &[Member]) {
    for note in &team.notes {
        show::say(note);
    }
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

fn spec(
    task: String,
    context_paths: Vec<ContextPath>,
    options: &Options,
    team: &Team,
    members: Vec<Member>,
) -> RunSpec {
    let agent_mode = if members.len() == 1 { AgentMode::Single } else { AgentMode::Multi };
    let modes = Modes { agent_mode, refinement: !options.quick, planning: false };
    let mut rules = team.config.rules.clone().with(&modes.overrides());
    // Nobody is there to override the winner.
    rules.override_window = None;
    if let Some(seconds) = options.orchestrator_timeout {
        rules.limits.orchestrator = Millis::from_secs(seconds);
    }
    if let Some(dollars) = options.max_cost {
        rules.limits.cost_micro_usd = Some((dollars * 1e6).ceil() as u64);
    }
    RunSpec {
        task,
        context: None,
        history: Vec::new(),
        members,
        context_paths,
        modes,
        rules,
        lot: fastrand::u64(..),
    }
}
