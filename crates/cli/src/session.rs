//! Wires a session: storage below, backends beside, the engine between them.

use crate::exit::{Exit, Failure};
use crate::secrets;
use crate::stop::StopSignals;
use crate::surroundings::SystemClock;
use crate::team::Team;
use althing_engine::{Backends, Orchestrator, Parts};
use althing_llm::{HttpClient, HttpOptions, PriceTable};
use althing_protocol::{Event, Member, SessionId, SessionOpened, TaskId};
use althing_storage::{Keeper, SessionWriter};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long a disk that takes nothing is waited for.
const DISK_PATIENCE: Duration = Duration::from_secs(60);

/// The agents of a team as members of a run, with their backends.
pub struct Cast {
    pub members: Vec<Member>,
    pub backends: Backends,
}

/// Makes the backends of a team's agents.
pub fn cast(team: &Team) -> Result<Cast, Failure> {
    let http = HttpClient::new(&HttpOptions::default())?;
    let prices = PriceTable::new(&team.config.prices);
    let mut cast = Cast { members: Vec::new(), backends: Backends::new() };
    for agent in &team.config.agents {
        let backend = althing_llm::backend(&agent.backend, &http, &prices).map_err(|error| Failure {
            message: format!("agent {}: {error}", agent.id),
            ..Failure::from(error)
        })?;
        let info = backend.info().clone();
        cast.members.push(Member {
            id: agent.id.clone(),
            backend: info.kind,
            model: info.model,
            offline: info.offline,
            system_message: agent.system_message.clone(),
            hands: false,
            voting_sensitivity: agent.voting_sensitivity,
        });
        cast.backends.insert(agent.id.clone(), backend);
    }
    Ok(cast)
}

/// The runtime on which model calls run: one thread, since they mostly wait.
pub fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| Failure {
        exit: Exit::NoAnswer,
        ..Failure::usage(format!("the system gives no event loop: {error}"))
    })
}

/// The signals that ask to stop; from now on they no longer kill the process.
pub fn signals(runtime: &Runtime) -> Result<StopSignals, Failure> {
    let _inside = runtime.enter();
    StopSignals::listen().map_err(|error| Failure {
        exit: Exit::NoAnswer,
        ..Failure::usage(format!("signals cannot be heard: {error}"))
    })
}

/// Puts a session under supervision.
pub fn open(
    id: SessionId,
    writer: SessionWriter,
    history: Vec<Arc<Event>>,
    backends: Backends,
    opening: Option<SessionOpened>,
    runtime: &Runtime,
) -> Result<Orchestrator, Failure> {
    let dir = writer.dir().to_owned();
    let parts = Parts {
        session: id,
        reader: writer.reader(),
        journal: Box::new(Keeper::new(writer, &history)),
        history,
        backends,
        workplaces: None,
        clock: Arc::new(SystemClock),
        mask: secrets::session_mask(),
        task_dir: Box::new(move |task: &TaskId| dir.join("tasks").join(task.as_str()).display().to_string()),
        runtime: runtime.handle().clone(),
        disk_patience: DISK_PATIENCE,
    };
    Orchestrator::open(parts, opening).map_err(|error| Failure {
        exit: Exit::NoAnswer,
        ..Failure::usage(format!("the system gives no thread: {error}"))
    })
}
