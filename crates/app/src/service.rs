//! Sessions as a service: the port through which front ends launch, follow and control sessions, and the service that
//! runs sessions in this process.

use crate::agent_env::SessionEnvs;
use crate::context::AppContext;
use crate::failure::Failure;
use crate::project::Project;
use crate::resume;
use crate::session::{CLOSE_TIMEOUT, StartedSession};
use crate::session_launch::{self, SessionRequest};
use crate::team::Team;
use crate::trust;
use althing_engine::{Orchestrator, SessionEnd};
use althing_protocol::{
    BoxFuture, Engine, Event, EventStream, FeedItem, Interest, JournalError, JournalErrorKind, Op, Origin,
    Seq, SessionId, SessionKind, SessionStore, SessionSummary, StoredSession, Submission,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How often the log of a session in another process is read.
const POLL: Duration = Duration::from_millis(250);
/// How many ended sessions are remembered, for callers that ask late how a session ended.
const MAX_ENDED: usize = 64;

/// The port through which front ends use sessions.
pub trait SessionService: Send + Sync {
    /// Starts or resumes a session. It runs in the background until it ends or is shut down.
    fn launch(&self, request: SessionRequest) -> BoxFuture<'_, Result<SessionId, Failure>>;

    /// All events of a session after `from`: the recorded ones, then live ones, until the session ends. Of a session
    /// in another process, only recorded events are available, until no process owns the session.
    fn follow<'a>(
        &'a self,
        id: &'a SessionId,
        from: Seq,
        interest: Interest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, Failure>>;

    /// Sends an op to a session that runs in this process. Events say what it did; a session that has just ended
    /// ignores it.
    fn submit(&self, id: &SessionId, submission: Submission) -> Result<(), Failure> {
        let engine = self.engine(id).ok_or_else(|| not_running_here(id))?;
        engine.submit(submission);
        Ok(())
    }

    /// Summaries of all sessions, newest first.
    fn list(&self) -> BoxFuture<'_, Result<Vec<SessionSummary>, Failure>>;

    /// Summaries of the newest `most` sessions of this kind, newest first.
    fn newest(&self, most: usize, kind: SessionKind) -> BoxFuture<'_, Result<Vec<SessionSummary>, Failure>>;

    /// Everything that a session has recorded so far.
    fn read<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, Failure>>;

    /// The events that a session had recorded before it was resumed here; empty for a new session, or if they were
    /// taken already.
    fn take_recorded(&self, id: &SessionId) -> Vec<Arc<Event>>;

    /// The engine of a session that runs in this process, for a front end that shows only this session.
    fn engine(&self, id: &SessionId) -> Option<Arc<dyn Engine>>;

    /// Waits for the end of a session that was launched here, and returns why it ended.
    fn ended<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionEnd, Failure>>;

    /// Shuts down every session that still runs here, and waits for a limited time until everything that was started
    /// for agents is closed. A front end must call this before it exits.
    fn close(&self) -> BoxFuture<'_, ()>;
}

fn not_running_here(id: &SessionId) -> Failure {
    Failure::usage(format!("session {id} does not run in this process"))
        .hint("`althing sessions` lists the sessions; `althing resume` continues one")
}

/// Longer than the two seconds that a guard gives its program to end, so that usually no program outlives the exit.
const GUARDS_TIMEOUT: Duration = Duration::from_secs(3);

/// `None` if the session's thread panicked, or if no thread could be started to wait for it.
type ThreadEnd = Option<SessionEnd>;

struct LaunchedSession {
    /// `None` once the session has ended.
    engine: Option<Arc<dyn Engine>>,
    envs: Arc<SessionEnvs>,
    end: watch::Receiver<Option<ThreadEnd>>,
    /// The events from before the session was resumed, until a front end takes them.
    recorded: Vec<Arc<Event>>,
}

/// Runs sessions in this process and stores them in the state directory.
pub struct LocalSessions {
    app: AppContext,
    team: Option<Arc<Team>>,
    project: Option<Arc<Project>>,
    launched: Arc<Mutex<BTreeMap<SessionId, LaunchedSession>>>,
    /// One task per session, which waits for the session's end and then closes the agents' environments.
    closing: Mutex<JoinSet<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LocalSessions {
    /// A service without a team: it can list, follow and resume sessions, but not start new ones.
    pub fn new(app: AppContext) -> Self {
        let (launched, closing) = (Arc::default(), Mutex::default());
        Self { app, team: None, project: None, launched, closing }
    }

    /// A service that starts sessions of this team in this project.
    pub fn with_team(app: AppContext, team: Arc<Team>, project: Option<Arc<Project>>) -> Self {
        let mut sessions = Self::new(app);
        (sessions.team, sessions.project) = (Some(team), project);
        sessions
    }

    /// The team of new sessions. Fails if there is none.
    pub fn team(&self) -> Result<&Team, Failure> {
        self.team.as_deref().ok_or_else(|| Failure::usage("there is no team to start a session with"))
    }

    /// The project of new sessions.
    pub fn project(&self) -> Option<&Arc<Project>> {
        self.project.as_ref()
    }

    fn supervise(&self, StartedSession { id, orchestrator, envs, recorded }: StartedSession) {
        let (ended, end) = watch::channel(None);
        let engine: Arc<dyn Engine> = Arc::new(orchestrator.engine_handle());
        let mut launched = lock(&self.launched);
        let over: Vec<SessionId> =
            launched.iter().filter(|(_, one)| one.engine.is_none()).map(|(id, _)| id.clone()).collect();
        for id in over.iter().take(over.len().saturating_sub(MAX_ENDED)) {
            launched.remove(id);
        }
        let session = LaunchedSession { engine: Some(engine), envs: envs.clone(), end, recorded };
        launched.insert(id.clone(), session);
        drop(launched);
        let (all, app) = (Arc::clone(&self.launched), self.app.clone());
        let mut closing = lock(&self.closing);
        while closing.try_join_next().is_some() {}
        closing.spawn(async move {
            let stopped = join(orchestrator).await;
            if let Some(one) = lock(&all).get_mut(&id) {
                one.engine = None;
                one.recorded = Vec::new();
            }
            let _ = ended.send(Some(stopped));
            close_envs(&envs, &app).await;
        });
    }

    /// Closes everything that was started for agents, without waiting for the sessions to end, for a process that
    /// must exit now.
    pub async fn abandon(&self) {
        let envs: Vec<Arc<SessionEnvs>> = lock(&self.launched).values().map(|one| one.envs.clone()).collect();
        for envs in envs {
            close_envs(&envs, &self.app).await;
        }
    }

    async fn stored(&self, id: &SessionId) -> Result<(Arc<dyn SessionStore>, StoredSession), Failure> {
        let (app, id) = (self.app.clone(), id.clone());
        blocking(move || {
            let store = app.existing_store()?.ok_or_else(|| {
                Failure::usage(format!("there is no session `{id}` in {}", app.state_dir().display()))
                    .hint("--state-dir or ALTHING_STATE_DIR chooses another state directory")
            })?;
            resume::refuse_huge_log(&id, &*store, &app)?;
            let stored = store.read(&id, Seq(0)).map_err(Failure::stored)?;
            Ok((store, stored))
        })
        .await
    }
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::no_answer(format!("internal error: {error}"))))
}

impl Drop for LocalSessions {
    /// Shuts down every session, because nobody can send ops without this value. This also happens if a front end
    /// panics.
    fn drop(&mut self) {
        for engine in lock(&self.launched).values_mut().filter_map(|one| one.engine.take()) {
            engine.submit(Submission::new(Op::Shutdown, Origin::System));
        }
    }
}

/// Joins on a separate thread: the runtime must keep running while the session ends, and dropping the runtime must
/// not wait for a session.
async fn join(orchestrator: Orchestrator) -> ThreadEnd {
    let (ended, end) = tokio::sync::oneshot::channel();
    let waiting = std::thread::Builder::new().name("session end".into()).spawn(move || {
        // Fails only if the process is ending.
        let _ = ended.send(orchestrator.join().ok());
    });
    waiting.ok()?;
    end.await.ok().flatten()
}

async fn close_envs(envs: &SessionEnvs, app: &AppContext) {
    if tokio::time::timeout(CLOSE_TIMEOUT, envs.close()).await.is_err() {
        app.notify("some agents' processes did not end in time; they end with this process");
    }
}

impl SessionService for LocalSessions {
    fn launch(&self, request: SessionRequest) -> BoxFuture<'_, Result<SessionId, Failure>> {
        Box::pin(async move {
            let started = session_launch::start(request, self, &self.app).await?;
            let id = started.id.clone();
            self.supervise(started);
            trust::remember_accepted(&self.app);
            Ok(id)
        })
    }

    fn follow<'a>(
        &'a self,
        id: &'a SessionId,
        from: Seq,
        interest: Interest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, Failure>> {
        Box::pin(async move {
            if let Some(engine) = self.engine(id) {
                return Ok(engine.subscribe(from, interest));
            }
            let (store, stored) = match self.stored(id).await {
                Ok(found) => found,
                Err(failure) => {
                    // A session that panicked may have recorded nothing; then its end is the reason.
                    if lock(&self.launched).contains_key(id) {
                        self.ended(id).await?;
                    }
                    return Err(failure);
                }
            };
            let mut tail =
                LogTail { store, id: id.clone(), last: Seq(0), backlog: VecDeque::new(), is_owned: true };
            tail.take(stored, from);
            Ok(Box::new(tail) as Box<dyn EventStream>)
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SessionSummary>, Failure>> {
        let app = self.app.clone();
        Box::pin(blocking(move || match app.existing_store()? {
            Some(store) => store.list().map_err(Failure::stored),
            None => Ok(Vec::new()),
        }))
    }

    fn newest(&self, most: usize, kind: SessionKind) -> BoxFuture<'_, Result<Vec<SessionSummary>, Failure>> {
        let app = self.app.clone();
        let is_wanted = move |session: &SessionSummary| {
            session.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.kind == kind)
        };
        Box::pin(blocking(move || match app.existing_store()? {
            Some(store) => store.newest(most, &is_wanted).map_err(Failure::stored),
            None => Ok(Vec::new()),
        }))
    }

    fn read<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<StoredSession, Failure>> {
        Box::pin(async move { self.stored(id).await.map(|(_, stored)| stored) })
    }

    fn take_recorded(&self, id: &SessionId) -> Vec<Arc<Event>> {
        lock(&self.launched).get_mut(id).map(|one| std::mem::take(&mut one.recorded)).unwrap_or_default()
    }

    fn engine(&self, id: &SessionId) -> Option<Arc<dyn Engine>> {
        lock(&self.launched).get(id).and_then(|one| one.engine.clone())
    }

    fn ended<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<SessionEnd, Failure>> {
        Box::pin(async move {
            let end = lock(&self.launched).get(id).map(|one| one.end.clone());
            let mut end = end.ok_or_else(|| not_running_here(id))?;
            let ended = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone().flatten());
            ended.ok_or_else(|| Failure::no_answer("the session ended unexpectedly"))
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for engine in lock(&self.launched).values().filter_map(|one| one.engine.as_ref()) {
                engine.submit(Submission::new(Op::Shutdown, Origin::System));
            }
            let mut closing = std::mem::take(&mut *lock(&self.closing));
            let closed = async { while closing.join_next().await.is_some() {} };
            // The sessions may take `CLOSE_TIMEOUT` to end, and the agents' environments as long again to close.
            if tokio::time::timeout(2 * CLOSE_TIMEOUT, closed).await.is_err() {
                self.app.notify("some sessions did not end in time; they end with this process");
            }
            // The exit does not wait longer for a guard: the guard kills its program after this process has exited.
            let _ = tokio::time::timeout(GUARDS_TIMEOUT, althing_runner::all_guards_ended()).await;
        })
    }
}

/// The events of a session that does not run in this process, until no process owns it.
struct LogTail {
    store: Arc<dyn SessionStore>,
    id: SessionId,
    last: Seq,
    backlog: VecDeque<Arc<Event>>,
    is_owned: bool,
}

impl LogTail {
    fn take(&mut self, stored: StoredSession, from: Seq) {
        self.is_owned = stored.is_owned;
        self.last = stored.events.last().map_or(self.last, |event| event.seq);
        self.backlog.extend(stored.events.into_iter().filter(|event| event.seq > from));
    }
}

impl EventStream for LogTail {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<FeedItem, JournalError>>> {
        Box::pin(async move {
            loop {
                if let Some(event) = self.backlog.pop_front() {
                    return Some(Ok(FeedItem::Event(event)));
                }
                if !self.is_owned {
                    return None;
                }
                tokio::time::sleep(POLL).await;
                let (store, id, last) = (Arc::clone(&self.store), self.id.clone(), self.last);
                let error = match blocking(move || Ok(store.read(&id, last))).await {
                    Ok(Ok(stored)) => {
                        self.take(stored, last);
                        continue;
                    }
                    Ok(Err(error)) if error.is_retryable() => continue,
                    Ok(Err(error)) if error.kind == JournalErrorKind::NotFound => return None,
                    Ok(Err(error)) => error,
                    Err(failure) => JournalError {
                        kind: JournalErrorKind::Failed,
                        message: failure.message,
                        hint: failure.hints.into_iter().next(),
                    },
                };
                self.is_owned = false;
                return Some(Err(error));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::{Fact, OwnedSession, Timestamp};

    struct Replies(Mutex<Vec<Result<StoredSession, JournalErrorKind>>>);

    fn error(kind: JournalErrorKind) -> JournalError {
        JournalError { kind, message: "the log".to_owned(), hint: None }
    }

    impl SessionStore for Replies {
        fn create(&self, _: &SessionId) -> Result<OwnedSession, JournalError> {
            Err(error(JournalErrorKind::Failed))
        }
        fn open(&self, _: &SessionId) -> Result<OwnedSession, JournalError> {
            Err(error(JournalErrorKind::Failed))
        }
        fn read(&self, _: &SessionId, _: Seq) -> Result<StoredSession, JournalError> {
            let reply = lock(&self.0).pop();
            reply.unwrap_or(Err(JournalErrorKind::NotFound)).map_err(error)
        }
        fn list(&self) -> Result<Vec<SessionSummary>, JournalError> {
            Ok(Vec::new())
        }
        fn rename(&self, _: &SessionId, _: &str) -> Result<(), JournalError> {
            Ok(())
        }
        fn remove(&self, _: &SessionId) -> Result<(), JournalError> {
            Ok(())
        }
    }

    fn follow_all(
        replies: Vec<Result<StoredSession, JournalErrorKind>>,
    ) -> Vec<Result<FeedItem, JournalError>> {
        let store = Arc::new(Replies(Mutex::new(replies)));
        let mut tail =
            LogTail { store, id: "s1".into(), last: Seq(0), backlog: VecDeque::new(), is_owned: true };
        crate::session::runtime().unwrap().block_on(async {
            let mut items = Vec::new();
            while let Some(item) = tail.next().await {
                items.push(item);
            }
            items
        })
    }

    #[test]
    fn following_a_session_of_another_process_reports_a_log_that_cannot_be_read() {
        assert_eq!(follow_all(vec![Err(JournalErrorKind::NotFound)]), [], "a deleted session has ended");
        for kind in [JournalErrorKind::Unreadable, JournalErrorKind::Failed] {
            assert_eq!(follow_all(vec![Err(kind)]), [Err(error(kind))]);
        }
        let event = Arc::new(Event {
            seq: Seq(1),
            at: Timestamp(0),
            task: None,
            cause: None,
            fact: Fact::SessionClosed {},
        });
        let stored = StoredSession { events: vec![Arc::clone(&event)], ..StoredSession::default() };
        let replies = vec![Ok(stored), Err(JournalErrorKind::Unavailable)];
        assert_eq!(follow_all(replies), [Ok(FeedItem::Event(event))]);
    }
}
