//! Effects that were aborted but have not ended yet: a program that is asked to end may act until it is killed. Effects
//! that depend on them, and the end of the session, wait for them for a limited time.

use super::Input;
use super::effects::EffectId;
use crate::decider::EffectKey;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::watch;

/// How long an effect waits for aborted effects: a process that cannot be killed must not block a run forever.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// Held by everything that belongs to an effect. The effect has ended when the last copy is dropped.
pub(super) struct Alive {
    serial: u64,
    inbox: Sender<Input>,
    is_aborted: Arc<AtomicBool>,
    closes: Option<watch::Sender<()>>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        // `Ending::add` does these two steps in the opposite order, so that at least one side sees what the other did.
        drop(self.closes.take());
        if self.is_aborted.load(Ordering::SeqCst) {
            // Sending fails if the session has ended; then nobody waits for the effect.
            let _ = self.inbox.send(Input::EffectGone { serial: self.serial });
        }
    }
}

#[derive(Clone)]
pub(super) struct AliveObserver {
    pub(super) serial: u64,
    is_aborted: Arc<AtomicBool>,
    closed: watch::Receiver<()>,
}

pub(super) fn alive(serial: u64, inbox: Sender<Input>) -> (Alive, AliveObserver) {
    let (closes, closed) = watch::channel(());
    let is_aborted = Arc::new(AtomicBool::new(false));
    let alive = Alive { serial, inbox, is_aborted: Arc::clone(&is_aborted), closes: Some(closes) };
    (alive, AliveObserver { serial, is_aborted, closed })
}

#[derive(Default)]
pub(super) struct Ending(HashMap<u64, (EffectId, AliveObserver)>);

impl Ending {
    pub(super) fn add(&mut self, id: EffectId, observer: AliveObserver) {
        observer.is_aborted.store(true, Ordering::SeqCst);
        if observer.closed.has_changed().is_ok() {
            self.0.insert(observer.serial, (id, observer));
        }
    }

    pub(super) fn remove(&mut self, serial: u64) {
        self.0.remove(&serial);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The aborted effects that must end before this one starts: those of the same agent. A program waits for all
    /// aborted effects, and every effect waits for aborted programs, because a workflow stage may use what the stage
    /// before it left.
    pub(super) fn before(&self, id: &EffectId) -> Vec<AliveObserver> {
        let precedes = |other: &EffectId| match (actor(&other.key), actor(&id.key)) {
            (Some(other_actor), Some(actor)) => other.owner == id.owner && other_actor == actor,
            (None, _) | (_, None) => true,
        };
        self.0.values().filter(|(other, _)| precedes(other)).map(|(_, observer)| observer.clone()).collect()
    }
}

/// The index of the member that an effect belongs to; None for programs.
fn actor(key: &EffectKey) -> Option<usize> {
    match key {
        EffectKey::Call(call) => Some(call.member_index),
        EffectKey::SideTask(side_task) => Some(side_task.member_index),
        EffectKey::Program(_) => None,
    }
}

pub(super) async fn wait_for(effects: Vec<AliveObserver>) {
    let ended = async {
        for AliveObserver { mut closed, .. } in effects {
            while closed.changed().await.is_ok() {}
        }
    };
    let _ = tokio::time::timeout(WAIT_LIMIT, ended).await;
}
