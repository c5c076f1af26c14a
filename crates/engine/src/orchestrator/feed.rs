//! The event feed for front ends: first history, then live events, without gaps or repeats. A slow subscriber never
//! slows the writer: if it missed facts in the ring buffer, it gets `Progress::Gap` and then the missed facts from the
//! log. Missed progress is lost.

use althing_protocol::{
    BoxFuture, DeltaKind, Event, EventStream, FeedItem, Interest, JournalError, JournalReader, Progress, Seq,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The maximum number of items in the ring buffer.
const RING: usize = 8192;
/// The maximum number of bytes of program output in the ring buffer, because a program may flood its output.
const RING_OUTPUT: usize = 8 << 20;

/// Publishes events to subscribers. Cheap to clone.
#[derive(Clone)]
pub struct Feed {
    shared: Arc<Shared>,
}

struct Shared {
    // The lock is held only briefly, never across an await.
    ring: Mutex<Ring>,
    changed: Notify,
    /// Subscribers that want all progress. While there are none, streaming text and program output are not published.
    watchers: AtomicUsize,
    log: Arc<dyn JournalReader>,
}

/// The newest items. Every operation is atomic under the mutex.
pub(crate) struct Ring {
    items: VecDeque<FeedItem>,
    /// The position of the first item, counted over all items ever published, beginning with 1.
    start: u64,
    last: Seq,
    capacity: usize,
    /// The bytes of program output in the buffer.
    output: usize,
    closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    position: u64,
    /// The last fact that the reader had when it subscribed, has received since, or was told to read from the log.
    last: Seq,
}

#[derive(Debug, PartialEq)]
pub(crate) enum RingRead {
    Item(FeedItem),
    Nothing,
    /// The reader fell behind: it must read from the log all facts up to this one that it has not received.
    Behind(Seq),
    Closed,
}

fn output(item: &FeedItem) -> usize {
    match item {
        FeedItem::Progress(progress) => match &**progress {
            Progress::Output { raw, clean, .. } => raw.len() + clean.len(),
            _ => 0,
        },
        FeedItem::Event(_) => 0,
    }
}

impl Ring {
    pub(crate) fn new(capacity: usize, last: Seq) -> Self {
        Self { items: VecDeque::new(), start: 1, last, capacity, output: 0, closed: false }
    }

    fn push(&mut self, item: FeedItem) {
        if let FeedItem::Event(event) = &item {
            self.last = event.seq;
        }
        self.output += output(&item);
        self.items.push_back(item);
        while self.items.len() > self.capacity || (self.output > RING_OUTPUT && self.items.len() > 1) {
            self.output -= self.items.pop_front().as_ref().map_or(0, output);
            self.start += 1;
        }
    }

    pub(crate) fn publish(&mut self, events: &[Arc<Event>]) {
        for event in events {
            self.push(FeedItem::Event(event.clone()));
        }
    }

    /// A cursor for a reader that has everything up to `from`. Position 0 is before any item, so if later facts were
    /// published already, the first read returns `Behind`.
    pub(crate) fn subscribe(&self, from: Seq) -> Cursor {
        let end = self.start + self.items.len() as u64;
        Cursor { position: if from < self.last { 0 } else { end }, last: from }
    }

    pub(crate) fn next(&self, cursor: &mut Cursor) -> RingRead {
        loop {
            let Some(offset) = cursor.position.checked_sub(self.start) else {
                if cursor.last < self.last {
                    return self.behind(cursor);
                }
                // The reader missed only progress, or facts that it already has.
                cursor.position = self.start;
                continue;
            };
            let Some(item) = self.items.get(offset as usize) else {
                // The reader is at the end of the buffer. If it has missed published facts, it must read them from the
                // log.
                return match cursor.last < self.last {
                    true => self.behind(cursor),
                    false if self.closed => RingRead::Closed,
                    false => RingRead::Nothing,
                };
            };
            if let FeedItem::Event(event) = item {
                if event.seq > cursor.last.next() {
                    return self.behind(cursor);
                }
                cursor.position += 1;
                if event.seq <= cursor.last {
                    continue;
                }
                cursor.last = event.seq;
            } else {
                cursor.position += 1;
            }
            return RingRead::Item(item.clone());
        }
    }

    fn behind(&self, cursor: &mut Cursor) -> RingRead {
        cursor.position = self.start + self.items.len() as u64;
        cursor.last = self.last;
        RingRead::Behind(self.last)
    }
}

impl Feed {
    /// A feed for a log whose newest fact is `last`.
    pub fn new(log: Arc<dyn JournalReader>, last: Seq) -> Self {
        let ring = Mutex::new(Ring::new(RING, last));
        Self { shared: Arc::new(Shared { ring, changed: Notify::new(), watchers: AtomicUsize::new(0), log }) }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // No foreign code is called while the buffer is changed, so a panic leaves no change half done.
        self.shared.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn publish(&self, events: &[Arc<Event>]) {
        self.ring().publish(events);
        self.shared.changed.notify_waiters();
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.shared.watchers.load(Ordering::Relaxed) > 0
    }

    /// `make` gets the number of the newest fact.
    pub(crate) fn publish_progress(&self, make: impl FnOnce(Seq) -> Progress) {
        let mut ring = self.ring();
        let progress = make(ring.last);
        ring.push(FeedItem::Progress(Arc::new(progress)));
        drop(ring);
        self.shared.changed.notify_waiters();
    }

    pub(crate) fn close(&self) {
        self.ring().closed = true;
        self.shared.changed.notify_waiters();
    }

    /// Subscribes to everything after `from`: first history, then live events.
    pub fn subscribe(&self, from: Seq, interest: Interest) -> Subscription {
        if interest == Interest::Everything {
            self.shared.watchers.fetch_add(1, Ordering::Relaxed);
        }
        let cursor = self.ring().subscribe(from);
        Subscription {
            feed: self.clone(),
            cursor,
            delivered: from,
            backlog: VecDeque::new(),
            behind: None,
            has_started: false,
            interest,
        }
    }
}

/// One reader of the feed.
pub struct Subscription {
    feed: Feed,
    cursor: Cursor,
    /// The last delivered fact; before the first delivery, the fact after which the subscription begins.
    delivered: Seq,
    /// Items that were read from the log and not delivered yet.
    backlog: VecDeque<FeedItem>,
    /// All facts up to this one must be read from the log before the next delivery. Kept here so that it is not lost if
    /// the future of `next` is dropped during the read.
    behind: Option<Seq>,
    /// Whether an item was delivered; reading history before that is not a gap.
    has_started: bool,
    interest: Interest,
}

impl Subscription {
    /// The next item; None once the feed is closed and everything was delivered.
    pub async fn next(&mut self) -> Option<Result<FeedItem, JournalError>> {
        let feed = self.feed.clone();
        loop {
            // Registered before the check, so that a change between the check and the wait still wakes this task.
            let changed = feed.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(up_to) = self.behind {
                let read = feed.shared.log.read(self.delivered, up_to).await;
                self.behind = None;
                match read {
                    Ok(events) => self.catch_up(events),
                    Err(error) => return Some(Err(error)),
                }
            }
            match self.try_next() {
                Some(FeedItem::Progress(progress)) if self.is_filtered_out(&progress) => {}
                Some(item) => return Some(Ok(item)),
                None if self.behind.is_some() => {}
                None if self.feed.ring().next(&mut self.cursor.clone()) == RingRead::Closed => return None,
                None => changed.await,
            }
        }
    }

    fn is_filtered_out(&self, progress: &Progress) -> bool {
        let is_transient = match progress {
            Progress::Delta { kind, .. } => !matches!(kind, DeltaKind::Retry | DeltaKind::Waiting),
            Progress::Output { .. } | Progress::ScreenChanged { .. } => true,
            Progress::Gap { .. } | Progress::Stalled { .. } => false,
        };
        is_transient && self.interest == Interest::Facts
    }

    /// The next available item; None if there is none, or if the log must be read first.
    fn try_next(&mut self) -> Option<FeedItem> {
        if let Some(item) = self.backlog.pop_front() {
            return Some(self.deliver(item));
        }
        let found = self.feed.ring().next(&mut self.cursor);
        match found {
            RingRead::Item(item) => Some(self.deliver(item)),
            RingRead::Nothing | RingRead::Closed => None,
            RingRead::Behind(up_to) => {
                self.behind = Some(up_to);
                None
            }
        }
    }

    fn deliver(&mut self, item: FeedItem) -> FeedItem {
        self.has_started = true;
        if let FeedItem::Event(event) = &item {
            self.delivered = event.seq;
        }
        item
    }

    fn catch_up(&mut self, events: Vec<Arc<Event>>) {
        if self.has_started {
            self.backlog.push_back(FeedItem::Progress(Arc::new(Progress::Gap { after: self.delivered })));
        }
        self.backlog.extend(events.into_iter().map(FeedItem::Event));
    }
}

impl EventStream for Subscription {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<FeedItem, JournalError>>> {
        Box::pin(Self::next(self))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.interest == Interest::Everything {
            self.feed.shared.watchers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
