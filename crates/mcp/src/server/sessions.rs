//! The sessions of HTTP clients, within limits. Few clients end their sessions, and each session costs memory.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of sessions. A new one ends the session that was not used for the longest time.
const MAX_SESSIONS: usize = 64;

/// The maximum size of the parameters of `initialize`, in bytes. They are kept as long as the session.
const MAX_INTRODUCTION: usize = 32 * 1024;

#[derive(Debug, thiserror::Error)]
pub(super) enum SessionLimitError {
    #[error("all {MAX_SESSIONS} sessions have running calls; try again when one has ended")]
    AllBusy,
    #[error("the parameters of `initialize` are larger than {} KiB", MAX_INTRODUCTION / 1024)]
    LargeIntroduction,
    #[error(transparent)]
    Session(#[from] LocalSessionManagerError),
}

#[derive(Clone, Copy, Default)]
struct SessionUse {
    /// Higher means later.
    last: u64,
    running_calls: usize,
}

#[derive(Default)]
struct Uses {
    count: u64,
    sessions: HashMap<SessionId, SessionUse>,
}

/// Which sessions are in use.
#[derive(Clone, Default)]
pub(super) struct SessionUses(Arc<Mutex<Uses>>);

impl SessionUses {
    fn all(&self) -> MutexGuard<'_, Uses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self, id: &str, act: impl FnOnce(&mut SessionUse)) {
        let mut all = self.all();
        all.count += 1;
        let count = all.count;
        if let Some(session) = all.sessions.get_mut(id) {
            session.last = count;
            act(session);
        }
    }

    /// The session counts as busy until the returned value is dropped.
    pub(super) fn call(&self, id: SessionId) -> RunningCall {
        self.touch(&id, |session| session.running_calls += 1);
        RunningCall { uses: self.clone(), id }
    }

    /// Adds a session, and removes and returns the one that has to end for it.
    fn add(&self, id: &SessionId) -> Result<Option<SessionId>, SessionLimitError> {
        let mut all = self.all();
        let idle = all.sessions.iter().filter(|(_, session)| session.running_calls == 0);
        let oldest = idle.min_by_key(|(_, session)| session.last).map(|(id, _)| id.clone());
        let ended = if all.sessions.len() < MAX_SESSIONS {
            None
        } else {
            Some(oldest.ok_or(SessionLimitError::AllBusy)?)
        };
        if let Some(ended) = &ended {
            all.sessions.remove(ended);
        }
        all.count += 1;
        let last = all.count;
        all.sessions.insert(id.clone(), SessionUse { last, running_calls: 0 });
        Ok(ended)
    }
}

pub(super) struct RunningCall {
    uses: SessionUses,
    id: SessionId,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.uses.touch(&self.id, |session| session.running_calls = session.running_calls.saturating_sub(1));
    }
}

pub(super) struct LimitedSessions {
    pub(super) sessions: LocalSessionManager,
    pub(super) uses: SessionUses,
}

type Stream<T> = Result<T, SessionLimitError>;

impl SessionManager for LimitedSessions {
    type Error = SessionLimitError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.sessions.create_session().await?;
        match self.uses.add(&id) {
            Ok(None) => {}
            Ok(Some(ended)) => self.sessions.close_session(&ended).await?,
            Err(refused) => {
                self.sessions.close_session(&id).await?;
                return Err(refused);
            }
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        if is_large_introduction(&message) {
            self.close_session(id).await?;
            return Err(SessionLimitError::LargeIntroduction);
        }
        Ok(self.sessions.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.sessions.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.uses.all().sessions.remove(id);
        Ok(self.sessions.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Stream<impl futures_util::Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        self.uses.touch(id, |_| ());
        Ok(self.sessions.create_stream(id, message).await?)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.uses.touch(id, |_| ());
        Ok(self.sessions.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Stream<impl futures_util::Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        self.uses.touch(id, |_| ());
        Ok(self.sessions.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Stream<impl futures_util::Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        self.uses.touch(id, |_| ());
        Ok(self.sessions.resume(id, last_event_id).await?)
    }
}

fn is_large_introduction(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    let ClientRequest::InitializeRequest(initialize) = &request.request else { return false };
    serde_json::to_string(&initialize.params).map_or(true, |params| params.len() > MAX_INTRODUCTION)
}
