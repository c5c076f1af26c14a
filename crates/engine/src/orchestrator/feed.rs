//! The stream of events to front ends: history, then live, without a gap and without a repeat.
//!
//! A slow reader never slows a writer: the ring holds the newest events only, and a reader that fell behind gets a
//! `Gap` and re-reads what it missed from the log. Passing progress it missed stays missed.

use althing_protocol::{
    BoxFuture, DeltaKind, Event, EventStream, FeedItem, Interest, JournalError, JournalReader, Progress, Seq,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// How many items the ring holds before the oldest go.
const RING: usize = 8192;
/// How much output of programs it holds: a flood must not fill the memory because nobody reads it.
const RING_OUTPUT: usize = 8 << 20;

/// Where events are published and subscribed to. Cheap to clone.
#[derive(Clone)]
pub struct Feed {
    shared: Arc<Shared>,
}

struct Shared {
    // A std mutex: held for a few instructions, never across an await.
    ring: Mutex<Ring>,
    changed: Notify,
    /// Subscribers that want passing progress; with none, nobody pays for it.
    watchers: AtomicUsize,
    log: Arc<dyn JournalReader>,
}

/// The newest items. Every operation on it is atomic under the mutex, so that all interleavings of readers and
/// writers are sequences of these.
pub(crate) struct Ring {
    items: VecDeque<FeedItem>,
    /// The position of the first item; positions count everything ever published.
    start: u64,
    /// The newest fact published.
    last: Seq,
    capacity: usize,
    /// The bytes of programs' output in it.
    output: usize,
    closed: bool,
}

/// Where a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    position: u64,
    /// The last fact it had.
    last: Seq,
}

/// What a reader finds.
#[derive(Debug, PartialEq)]
pub(crate) enum RingRead {
    Item(FeedItem),
    /// Nothing yet.
    Nothing,
    /// Facts after the cursor's `last`, up to this one, must be read from the log.
    Behind(Seq),
    Closed,
}

/// How many bytes of output an item holds.
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
        Self { items: VecDeque::new(), start: 0, last, capacity, output: 0, closed: false }
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

    /// A cursor that stands at the end and has had everything up to `from`: what lies between is behind it.
    pub(crate) fn subscribe(&self, from: Seq) -> Cursor {
        Cursor { position: self.start + self.items.len() as u64, last: from }
    }

    pub(crate) fn next(&self, cursor: &mut Cursor) -> RingRead {
        loop {
            let Some(offset) = cursor.position.checked_sub(self.start) else {
                if cursor.last < self.last {
                    return self.behind(cursor);
                }
                // It fell behind in what it did not want: facts from before the one it asked for, or passing progress.
                cursor.position = self.start;
                continue;
            };
            let Some(item) = self.items.get(offset as usize) else {
                // At the end: everything published must have been seen.
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

    /// Sends the reader to the log for everything up to now, and its cursor to the end.
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
        // A panic elsewhere cannot leave the ring half changed: its operations do not call out.
        self.shared.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn publish(&self, events: &[Arc<Event>]) {
        self.ring().publish(events);
        self.shared.changed.notify_waiters();
    }

    /// Whether anyone wants passing progress.
    pub(crate) fn is_watched(&self) -> bool {
        self.shared.watchers.load(Ordering::Relaxed) > 0
    }

    /// Publishes something passing; `make` is told the newest fact.
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

    /// Everything after `from`: history, then live.
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
    /// The last fact handed out.
    delivered: Seq,
    /// Read from the log, not yet handed out.
    backlog: VecDeque<FeedItem>,
    /// Facts up to this one must be read from the log first. Kept here, since a caller may drop `next` while it reads.
    behind: Option<Seq>,
    /// History at the start is no gap.
    has_started: bool,
    interest: Interest,
}

impl Subscription {
    /// The next item; None once the feed is closed and everything was handed out.
    pub async fn next(&mut self) -> Option<Result<FeedItem, JournalError>> {
        let feed = self.feed.clone();
        loop {
            // Registered before looking, so that a change between looking and waiting still wakes us.
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
            Progress::Delta { kind, .. } => *kind != DeltaKind::Retry,
            Progress::Output { .. } | Progress::ScreenChanged { .. } => true,
            Progress::Gap { .. } | Progress::Stalled { .. } => false,
        };
        is_transient && self.interest == Interest::Facts
    }

    /// The next item that is there already; None where there is none, or the log must be read first.
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
