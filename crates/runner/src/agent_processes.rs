//! Counts the guards that run for each owner (an agent or a task). The files that a program wrote are examined, and
//! what it used is removed, only after all its processes are gone, because a program that was asked to end may write
//! until it is killed.

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Uses {
    guards: usize,
    /// The number of dropped [`UntilEnded`] values whose content still exists.
    kept: usize,
    reviews: usize,
}

impl Uses {
    fn is_settled(&self) -> bool {
        self.guards == 0 && self.kept == 0
    }
}

static USES: LazyLock<watch::Sender<HashMap<PathBuf, Uses>>> = LazyLock::new(watch::Sender::default);

fn change(owner: &Path, change: impl FnOnce(&mut Uses)) {
    USES.send_modify(|all| {
        let uses = all.entry(owner.to_owned()).or_default();
        change(uses);
        if *uses == Uses::default() {
            all.remove(owner);
        }
    });
}

#[derive(Debug)]
pub(crate) struct OwnedGuard(PathBuf);

impl OwnedGuard {
    pub(crate) fn new(owner: PathBuf) -> Self {
        change(&owner, |uses| uses.guards += 1);
        Self(owner)
    }
}

impl Drop for OwnedGuard {
    fn drop(&mut self) {
        change(&self.0, |uses| uses.guards = uses.guards.saturating_sub(1));
    }
}

type Counter = fn(&mut Uses) -> &mut usize;

struct Pending(PathBuf, Counter);

impl Pending {
    fn new(owner: &Path, counter: Counter) -> Self {
        change(owner, |uses| *counter(uses) += 1);
        Self(owner.to_owned(), counter)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Self(owner, counter) = self;
        change(owner, |uses| {
            let count = counter(uses);
            *count = count.saturating_sub(1);
        });
    }
}

async fn wait_for(owner: &Path, is_over: impl Fn(&Uses) -> bool) {
    // The sender is static, so waiting cannot fail.
    let _ = USES.subscribe().wait_for(|all| all.get(owner).is_none_or(&is_over)).await;
}

/// Waits until every process that a launcher of this owner started is gone ([`crate::GuardLauncher::owned_by`]), and
/// until the cleanup and checks that wait for their end are done. Sets no time limit, although some processes cannot
/// be killed.
pub async fn processes_ended(owner: &Path) {
    wait_for(owner, |uses| *uses == Uses::default()).await;
}

/// Does some work in the background after the last process of an owner has ended and everything that its processes
/// used has been removed. Without an async runtime, the work is never done.
pub(crate) fn after_end(owner: &Path, work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let pending = Pending::new(owner, |uses| &mut uses.reviews);
        runtime.spawn(async move {
            wait_for(&pending.0, Uses::is_settled).await;
            work.await;
            drop(pending);
        });
    }
}

/// Something that the processes of an owner use. If this value is dropped while guards of the owner run, its content
/// is dropped only after they have ended (without an async runtime: at once).
#[derive(Debug)]
pub(crate) struct UntilEnded<T: Send + 'static> {
    owner: PathBuf,
    content: Option<T>,
}

impl<T: Send + 'static> UntilEnded<T> {
    pub(crate) fn new(owner: &Path, content: T) -> Self {
        Self { owner: owner.to_owned(), content: Some(content) }
    }
}

impl<T: Send + 'static> Drop for UntilEnded<T> {
    fn drop(&mut self) {
        let Some(content) = self.content.take() else { return };
        if USES.borrow().get(&self.owner).is_none_or(|uses| uses.guards == 0) {
            return drop(content);
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let pending = Pending::new(&self.owner, |uses| &mut uses.kept);
            runtime.spawn(async move {
                wait_for(&pending.0, |uses| uses.guards == 0).await;
                let _ = tokio::task::spawn_blocking(move || drop(content)).await;
                drop(pending);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn what_processes_use_is_dropped_after_the_last_of_them() {
        let owner = Path::new("/an agent");
        let (one, two) = (OwnedGuard::new(owner.to_owned()), OwnedGuard::new(owner.to_owned()));
        let used = Arc::new(());
        drop(UntilEnded::new(owner, Arc::clone(&used)));
        drop(one);
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&used), 2);
        drop(two);
        processes_ended(owner).await;
        assert_eq!(Arc::strong_count(&used), 1);
        drop(UntilEnded::new(owner, Arc::clone(&used)));
        assert_eq!(Arc::strong_count(&used), 1);
    }
}
