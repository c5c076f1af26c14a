//! The connections whose requests were admitted, by the token of their requests. No client may hold so many that
//! others are not served: a client over its limit loses its oldest idle connection, and so does the client with the
//! most connections when the limit of the whole listener is reached.

use super::connection::PendingConnection;
use super::gate::Token;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub(super) struct AdmittedConnections {
    /// Oldest first.
    of_token: Mutex<HashMap<Token, Vec<PendingConnection>>>,
}

impl AdmittedConnections {
    /// False if the token has `limit` connections whose requests are being answered.
    pub(super) fn admit(&self, token: &Token, connection: &PendingConnection, limit: usize) -> bool {
        if connection.admitted.is_cancelled() {
            return true;
        }
        self.with(|all| {
            let own = all.entry(token.clone()).or_default();
            if own.len() >= limit && !evict_idle(own) {
                return false;
            }
            own.push(connection.clone());
            connection.admitted.cancel();
            true
        })
    }

    /// Closes an idle connection, if there is one. Clients with more connections lose theirs first.
    pub(super) fn evict_one(&self) {
        self.with(|all| {
            let mut clients: Vec<&mut Vec<PendingConnection>> = all.values_mut().collect();
            clients.sort_by_key(|own| std::cmp::Reverse(own.len()));
            clients.into_iter().any(evict_idle)
        });
    }

    fn with(&self, act: impl FnOnce(&mut HashMap<Token, Vec<PendingConnection>>) -> bool) -> bool {
        let mut all = self.of_token.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, own| {
            own.retain(|connection| !connection.ended.is_cancelled() && !connection.evicted.is_cancelled());
            !own.is_empty()
        });
        act(&mut all)
    }
}

fn evict_idle(own: &mut Vec<PendingConnection>) -> bool {
    let Some(oldest) = own.iter().position(PendingConnection::is_idle) else { return false };
    own.remove(oldest).evicted.cancel();
    true
}
