//! What the newest runs of the same models used, for the estimate that a person is shown before a run is launched.

use crate::context::AppContext;
use crate::failure::Failure;
use crate::trust;
use althing_protocol::{
    Event, Fact, Member, PastRuns, Seq, SessionKind, SessionSummary, TaskId, TaskSpec, TeamSpec, Verdict,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many sessions are read.
const SESSIONS: usize = 8;
/// Logs above this size are not read, so that a conversation starts quickly.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Adds what past runs of the team's models used. A launch does not need the estimate, so if the sessions cannot be
/// read, there are simply no past runs.
pub(crate) fn add(team: &mut TeamSpec, app: &AppContext) {
    let models = models(&team.members);
    let Some(costs) = &mut team.costs else { return };
    match past_runs(&models, app) {
        Ok(past) => costs.past = past,
        Err(failure) => tracing::debug!(error = failure.message, "past runs cannot be read"),
    }
}

fn past_runs(models: &BTreeSet<&str>, app: &AppContext) -> Result<PastRuns, Failure> {
    let mut past = PastRuns::default();
    let Some(store) = app.existing_store()? else { return Ok(past) };
    let is_wanted = |session: &SessionSummary| {
        let kind = session.checkpoint.as_ref().map(|checkpoint| checkpoint.kind);
        matches!(kind, Some(SessionKind::Run | SessionKind::Chat)) && session.size <= MAX_LOG_BYTES
    };
    let mut read = 0;
    for id in store.ids().map_err(Failure::stored)? {
        if read >= SESSIONS {
            break;
        }
        // A session of somebody else could say that a run costs nothing. Nothing of it is read.
        if !trust::is_own_session(&app.session_dir(&id), app)
            || !store.summary(&id).map_err(Failure::stored)?.as_ref().is_some_and(is_wanted)
        {
            continue;
        }
        read += 1;
        // A session that cannot be read is left out; `althing sessions` reports it.
        if let Ok(stored) = store.read(&id, Seq(0)) {
            add_session(&mut past, models, &stored.events);
        }
    }
    Ok(past)
}

/// Adds the runs of a session whose agents all use models of this team.
fn add_session(past: &mut PastRuns, team: &BTreeSet<&str>, events: &[Arc<Event>]) {
    let mut agents: BTreeMap<&TaskId, usize> = BTreeMap::new();
    for event in events {
        match (&event.fact, &event.task) {
            (Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. }, _)
                if models(&spec.members).is_subset(team) =>
            {
                agents.insert(id, spec.members.len());
            }
            (Fact::Decided(Verdict::Finished { result, .. }), Some(task)) => {
                if let Some(agents) = agents.get(task) {
                    past.add(*agents, result.usage);
                }
            }
            _ => {}
        }
    }
}

fn models(members: &[Member]) -> BTreeSet<&str> {
    members.iter().map(|member| member.model.as_str()).collect()
}
