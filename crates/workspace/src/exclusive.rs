//! Runs blocking file operations one at a time per path. A dropped future does not stop its thread, so the thread
//! holds the path's lock. A caller that is cancelled while it waits never starts; one that is cancelled later sets a
//! flag that long operations check.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::task::JoinError;

/// Process-wide, because two objects may refer to the same directory.
static LOCKS: LazyLock<Mutex<HashMap<PathBuf, Weak<AsyncMutex<()>>>>> = LazyLock::new(Mutex::default);

thread_local! {
    static CURRENT: RefCell<Cancellation> = RefCell::default();
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    #[cfg(test)]
    pub(crate) fn set() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// The cancellation flag of the operation that this thread works on; on other threads, a flag that is never set.
pub(crate) fn cancellation() -> Cancellation {
    CURRENT.with_borrow(Clone::clone)
}

pub(crate) fn cancelled_error() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the operation was cancelled")
}

/// Dropping the claim releases the path.
pub(crate) struct Claim {
    lock: OwnedMutexGuard<()>,
    #[cfg(test)]
    gate: Option<Arc<hold::Gate>>,
}

/// Waiters are served in FIFO order.
pub(crate) async fn claim(path: &Path) -> Claim {
    let lock = {
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = locks.get(path).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            locks.retain(|_, lock| lock.strong_count() > 0);
            let lock = Arc::new(AsyncMutex::new(()));
            locks.insert(path.to_owned(), Arc::downgrade(&lock));
            lock
        })
    };
    let lock = lock.lock_owned().await;
    Claim {
        lock,
        #[cfg(test)]
        gate: hold::gate_of(path),
    }
}

impl Claim {
    /// The thread releases the claim when it has finished.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let cancellation = Cancellation::default();
        let _cancel_on_drop = CancelOnDrop(cancellation.clone());
        let run = move || {
            let _lock = self.lock;
            CURRENT.set(cancellation);
            #[cfg(test)]
            let _inside = self.gate.map(hold::Gate::pass);
            let done = work();
            CURRENT.set(Cancellation::default());
            done
        };
        tokio::task::spawn_blocking(run).await
    }
}

pub(crate) async fn run_exclusively<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    claim(path).await.run(work).await
}

/// Test hooks: block the operations on a path, and count how many run at the same time.
#[cfg(test)]
pub(crate) mod hold {
    use super::{Arc, HashMap, LOCKS, LazyLock, Mutex, Path, PathBuf, Weak};
    use std::sync::Condvar;

    static GATES: LazyLock<Mutex<HashMap<PathBuf, Arc<Gate>>>> = LazyLock::new(Mutex::default);

    #[derive(Default)]
    pub(crate) struct Gate {
        state: Mutex<GateState>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct GateState {
        open: bool,
        began: usize,
        inside: usize,
        most: usize,
    }

    /// Opens the gate when dropped, so that a failing test does not hang.
    pub(crate) struct GateGuard(Arc<Gate>);

    impl std::ops::Deref for GateGuard {
        type Target = Gate;

        fn deref(&self) -> &Gate {
            &self.0
        }
    }

    impl Drop for GateGuard {
        fn drop(&mut self) {
            self.0.open();
        }
    }

    pub(crate) struct GatePass(Arc<Gate>);

    impl Gate {
        pub(crate) fn close(path: &Path) -> GateGuard {
            let gate = Arc::new(Self::default());
            GATES.lock().unwrap().insert(path.to_owned(), gate.clone());
            GateGuard(gate)
        }

        pub(crate) fn open(&self) {
            self.state.lock().unwrap().open = true;
            self.changed.notify_all();
        }

        pub(crate) fn began(&self) -> usize {
            self.state.lock().unwrap().began
        }

        pub(crate) fn most_at_once(&self) -> usize {
            self.state.lock().unwrap().most
        }

        pub(super) fn pass(self: Arc<Self>) -> GatePass {
            let mut state = self.state.lock().unwrap();
            state.began += 1;
            state.inside += 1;
            state.most = state.most.max(state.inside);
            drop(self.changed.wait_while(state, |state| !state.open).unwrap());
            GatePass(self)
        }
    }

    impl Drop for GatePass {
        fn drop(&mut self) {
            self.0.state.lock().unwrap().inside -= 1;
        }
    }

    pub(super) fn gate_of(path: &Path) -> Option<Arc<Gate>> {
        GATES.lock().unwrap().get(path).cloned()
    }

    pub(crate) fn holders_and_waiters(path: &Path) -> usize {
        LOCKS.lock().unwrap().get(path).map_or(0, Weak::strong_count)
    }
}
