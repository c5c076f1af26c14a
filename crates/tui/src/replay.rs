//! A recorded log as an engine, so that the same screen replays a session at a chosen speed.

use althing_protocol::{
    BoxFuture, Engine, Event, EventStream, FeedItem, Interest, JournalError, Screen, Seq, Submission, TaskId,
};
use std::sync::Arc;
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct Replay {
    events: Arc<[Arc<Event>]>,
    speed: f64,
}

impl Replay {
    /// A speed of 2 replays twice as fast as recorded. A speed of 0 shows all events at once.
    pub fn new(events: impl IntoIterator<Item = Event>, speed: f64) -> Self {
        Self { events: events.into_iter().map(Arc::new).collect(), speed }
    }
}

impl Engine for Replay {
    fn submit(&self, _: Submission) -> bool {
        false
    }

    fn subscribe(&self, from: Seq, _: Interest) -> Box<dyn EventStream> {
        let next = self.events.partition_point(|event| event.seq <= from);
        Box::new(Playing { events: Arc::clone(&self.events), next, speed: self.speed })
    }

    fn screen(&self, _: &TaskId) -> Option<Screen> {
        None
    }
}

struct Playing {
    events: Arc<[Arc<Event>]>,
    next: usize,
    speed: f64,
}

impl Playing {
    fn pause(&self) -> Duration {
        let at = |n: usize| self.events.get(n).map(|event| event.at);
        let (Some(before), Some(now)) = (self.next.checked_sub(1).and_then(at), at(self.next)) else {
            return Duration::ZERO;
        };
        if self.speed <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(now.since(before).0 as f64 / 1000.0 / self.speed)
            .unwrap_or(LONGEST)
            .min(LONGEST)
    }
}

impl EventStream for Playing {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<FeedItem, JournalError>>> {
        Box::pin(async move {
            let pause = self.pause();
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let event = self.events.get(self.next).cloned()?;
            self.next += 1;
            Some(Ok(FeedItem::Event(event)))
        })
    }
}
