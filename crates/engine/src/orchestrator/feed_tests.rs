//! Tests of the event feed: the transition from history to live events, under every interleaving of a small model and
//! under stress.

use super::*;
use althing_protocol::{Fact, Notice, NoticeLevel, Timestamp};
use std::collections::BTreeSet;

fn event(seq: u64) -> Arc<Event> {
    let notice = Notice { level: NoticeLevel::Info, text: String::new(), hint: None };
    Arc::new(Event { seq: Seq(seq), at: Timestamp(seq), task: None, cause: None, fact: Fact::Notice(notice) })
}

#[derive(Default)]
struct Memory(Mutex<Vec<Arc<Event>>>);

impl JournalReader for Memory {
    fn read(&self, after: Seq, up_to: Seq) -> BoxFuture<'_, Result<Vec<Arc<Event>>, JournalError>> {
        let log = self.0.lock().unwrap();
        let events = log.iter().filter(|event| event.seq > after && event.seq <= up_to).cloned().collect();
        Box::pin(std::future::ready(Ok(events)))
    }
}

/// A model that is small enough for an exhaustive search: a writer that appends and publishes, and a reader that
/// subscribes and reads.
#[derive(Clone)]
struct Model {
    durable: u64,
    published: u64,
    ring: Vec<(bool, u64)>,
    start: u64,
    cursor: Option<(u64, u64)>,
    /// The range of the log that is being read; the reader does nothing else meanwhile.
    reading: Option<(u64, u64)>,
    delivered: Vec<u64>,
    /// The last fact that the reader has when it subscribes; it may be beyond the end of the log.
    from: u64,
}

const FACTS: u64 = 4;
const SMALL_RING: usize = 2;

impl Model {
    fn ring(&self) -> Ring {
        let mut ring = Ring::new(SMALL_RING, Seq(self.published));
        ring.start = self.start;
        for (is_fact, seq) in &self.ring {
            let item = if *is_fact {
                FeedItem::Event(event(*seq))
            } else {
                FeedItem::Progress(Arc::new(Progress::Gap { after: Seq(*seq) }))
            };
            ring.items.push_back(item);
        }
        ring
    }

    fn store(&mut self, ring: &Ring) {
        self.start = ring.start;
        self.published = ring.last.0;
        self.ring = ring
            .items
            .iter()
            .map(|item| match item {
                FeedItem::Event(event) => (true, event.seq.0),
                FeedItem::Progress(_) => (false, 0),
            })
            .collect();
    }

    fn steps(&self) -> Vec<Self> {
        let mut next = Vec::new();
        if self.durable < FACTS {
            next.push(Self { durable: self.durable + 1, ..self.clone() });
        }
        if self.published < self.durable {
            let mut after = self.clone();
            let mut ring = self.ring();
            ring.publish(&[event(self.published + 1)]);
            ring.push(FeedItem::Progress(Arc::new(Progress::Gap { after: Seq(0) })));
            after.store(&ring);
            next.push(after);
        }
        next.extend(self.reader_step());
        next
    }

    fn reader_step(&self) -> Option<Self> {
        let mut after = self.clone();
        if let Some((from, up_to)) = after.reading.take() {
            after.delivered.extend(from + 1..=up_to.min(self.durable));
            return Some(after);
        }
        let ring = self.ring();
        let Some((position, last)) = self.cursor else {
            let cursor = ring.subscribe(Seq(self.from));
            after.cursor = Some((cursor.position, cursor.last.0));
            return Some(after);
        };
        let mut cursor = Cursor { position, last: Seq(last) };
        match ring.next(&mut cursor) {
            RingRead::Item(FeedItem::Event(event)) => after.delivered.push(event.seq.0),
            RingRead::Item(FeedItem::Progress(_)) => {}
            RingRead::Behind(up_to) => after.reading = Some((last, up_to.0)),
            RingRead::Nothing | RingRead::Closed => return None,
        }
        after.cursor = Some((cursor.position, cursor.last.0));
        Some(after)
    }
}

#[test]
fn no_interleaving_of_writing_and_reading_leaves_a_gap_or_repeats_a_fact() {
    for from in 0..=FACTS {
        explore(from);
    }
}

fn explore(from: u64) {
    let start = Model {
        from,
        durable: 0,
        published: 0,
        ring: Vec::new(),
        start: 1,
        cursor: None,
        reading: None,
        delivered: Vec::new(),
    };
    let mut seen = BTreeSet::new();
    let mut open = vec![start];
    let mut ended = 0;
    while let Some(model) = open.pop() {
        let had = from + model.delivered.len() as u64;
        let in_order: Vec<u64> = (from + 1..=had).collect();
        assert_eq!(model.delivered, in_order, "a gap or a repeat");
        assert!(model.delivered.is_empty() || had <= model.published, "shown before it was published");
        let steps = model.steps();
        if steps.is_empty() {
            assert_eq!(had, FACTS, "a reader that is done has everything");
            ended += 1;
        }
        for step in steps {
            let key =
                (step.durable, step.published, step.start, step.cursor, step.reading, step.delivered.clone());
            if seen.insert(key) {
                open.push(step);
            }
        }
    }
    assert!(ended > 0 && seen.len() > 20, "the model was explored: {} states", seen.len());
}

#[test]
fn ten_thousand_subscriptions_under_stress_miss_and_repeat_nothing() {
    const FACTS: u64 = 20_000;
    const READERS: usize = 10_000;
    let memory = Arc::new(Memory::default());
    let feed = Feed::new(memory.clone(), Seq(0));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let writer = {
        let (feed, memory) = (feed.clone(), memory.clone());
        std::thread::spawn(move || {
            for seq in 1..=FACTS {
                memory.0.lock().unwrap().push(event(seq));
                feed.publish(&[event(seq)]);
                if seq % 3 == 0 {
                    feed.publish_progress(|after| Progress::Gap { after });
                }
            }
            feed.close();
        })
    };
    runtime.block_on(async {
        let readers = (0..READERS).map(|n| {
            let feed = feed.clone();
            tokio::spawn(async move {
                // Most readers start near the end, because the transition to live events is what matters.
                let from = if n % 100 == 0 { 0 } else { FACTS - 50 };
                let mut expected = from + 1;
                let mut events = feed.subscribe(Seq(from), Interest::Everything);
                while let Some(item) = events.next().await {
                    if let FeedItem::Event(event) = item.unwrap() {
                        assert_eq!(event.seq, Seq(expected));
                        expected += 1;
                    }
                }
                assert_eq!(expected, FACTS + 1);
            })
        });
        for reader in readers.collect::<Vec<_>>() {
            reader.await.unwrap();
        }
    });
    writer.join().unwrap();
}

#[test]
fn a_reader_that_missed_facts_gets_them_before_newer_progress() {
    let mut ring = Ring::new(SMALL_RING, Seq(3));
    let mut cursor = ring.subscribe(Seq(1));
    ring.push(FeedItem::Progress(Arc::new(Progress::Gap { after: Seq(3) })));
    assert_eq!(ring.next(&mut cursor), RingRead::Behind(Seq(3)));
}

#[tokio::test]
async fn a_slow_reader_is_told_of_the_gap_and_catches_up() {
    let memory = Arc::new(Memory::default());
    let feed = Feed::new(memory.clone(), Seq(0));
    let mut events = feed.subscribe(Seq(0), Interest::Everything);
    let publish = |seq| {
        memory.0.lock().unwrap().push(event(seq));
        feed.publish(&[event(seq)]);
    };
    publish(1);
    assert_eq!(events.next().await, Some(Ok(FeedItem::Event(event(1)))));
    let many = RING as u64 + 10;
    (2..=many).for_each(publish);
    feed.close();
    let gap = FeedItem::Progress(Arc::new(Progress::Gap { after: Seq(1) }));
    assert_eq!(events.next().await, Some(Ok(gap)));
    for seq in 2..=many {
        assert_eq!(events.next().await, Some(Ok(FeedItem::Event(event(seq)))));
    }
    assert_eq!(events.next().await, None);
}
