//! Reads sessions' feeds on a thread of its own, and sends the spans that come of them in batches.
//!
//! A run never waits for it: a feed's reader that falls behind is caught up from the log. While a collector is away, spans
//! wait, so many as there is room for and then the reading of the feed with them; what is not sent by the end is lost, counted, and
//! told once.

use crate::endpoint::{Endpoint, EndpointError, headers};
use crate::fold::{ContentCapture, SpanFold};
use crate::otlp::Resource;
use crate::send::{Retry, SendError, Sender};
use crate::span::Span;
use althing_protocol::{EventStream, FeedItem, Seq};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The most spans in one request: fewer where they carry words, so that no collector finds it too large.
const MAX_SPANS: usize = 512;
const MAX_SPANS_WITH_CONTENT: usize = 64;
/// So many requests' worth of spans may wait to be sent.
const MAX_QUEUED_REQUESTS: usize = 8;
/// How long spans are gathered before they are sent.
const BATCH_WINDOW: Duration = Duration::from_secs(1);
/// The first wait before a request is made again, which doubles, and the longest.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Where spans go, and what they say.
pub struct ExporterSettings {
    /// The collector.
    pub endpoint: Endpoint,
    /// Headers of every request, such as a key.
    pub headers: Vec<(String, String)>,
    /// Who tells.
    pub resource: Resource,
    /// Whether somebody's words are told.
    pub content: ContentCapture,
    /// How to connect.
    pub client: reqwest::Client,
}

/// What became of the spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Those the collector took.
    pub sent: u64,
    /// Those it did not, or may not have.
    pub lost: u64,
    /// Why the last of them did not arrive.
    pub why: Option<String>,
}

/// Sends spans to a collector. Its thread starts with the first session.
pub struct Exporter {
    sender: Arc<Sender>,
    content: ContentCapture,
    counts: Arc<Counts>,
    running: OnceLock<Result<Running, String>>,
}

struct Running {
    sessions: mpsc::UnboundedSender<(Box<dyn EventStream>, Seq)>,
    finish: watch::Sender<bool>,
    finished: Mutex<std::sync::mpsc::Receiver<()>>,
}

#[derive(Default)]
struct Counts {
    made: AtomicU64,
    sent: AtomicU64,
    why: Mutex<Option<String>>,
}

impl Counts {
    fn record_failure(&self, why: String) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

impl Exporter {
    /// Makes one; connects to nothing yet.
    pub fn new(settings: ExporterSettings) -> Result<Self, EndpointError> {
        let ExporterSettings { endpoint, headers: pairs, resource, content, client } = settings;
        let sender = Sender { client, endpoint, headers: headers(&pairs)?, resource };
        Ok(Self { sender: Arc::new(sender), content, counts: Arc::default(), running: OnceLock::new() })
    }

    /// The collector.
    pub fn endpoint(&self) -> &Endpoint {
        &self.sender.endpoint
    }

    /// Tells of a session, from its feed's first fact on. What happened up to the fact `already_exported` is known to the collector, or was
    /// never meant for it: it gives ids and beginnings to what follows, and is not sent.
    pub fn follow(&self, session: Box<dyn EventStream>, already_exported: Seq) {
        let running = self.running.get_or_init(|| self.start());
        match running {
            Ok(running) => drop(running.sessions.send((session, already_exported))),
            Err(error) => self.counts.record_failure(format!("the exporter could not be started: {error}")),
        }
    }

    fn start(&self) -> Result<Running, String> {
        let (sessions, inbox) = mpsc::unbounded_channel();
        let (finish, finishing) = watch::channel(false);
        let (done, finished) = std::sync::mpsc::channel();
        let worker = Worker {
            sender: self.sender.clone(),
            content: self.content,
            counts: self.counts.clone(),
            finishing,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let thread = std::thread::Builder::new().name("telemetry".to_owned());
        let spawned = thread.spawn(move || {
            runtime.block_on(worker.run(inbox));
            // Whoever waits for us need not wait for a name that is being looked up.
            let _ = done.send(());
            runtime.shutdown_background();
        });
        spawned.map_err(|error| error.to_string())?;
        Ok(Running { sessions, finish, finished: Mutex::new(finished) })
    }

    /// Sends what is there, and reads sessions that are ending to their end, but takes no longer than `limit`. None where no
    /// session was told of.
    pub fn finish(&self, limit: Duration) -> Option<ExportReport> {
        let running = self.running.get()?;
        if let Ok(running) = running {
            let _ = running.finish.send(true);
            let finished = running.finished.lock().unwrap_or_else(PoisonError::into_inner);
            if finished.recv_timeout(limit).is_err() {
                let mut why = self.counts.why.lock().unwrap_or_else(PoisonError::into_inner);
                why.get_or_insert_with(|| "there was no time left to wait for it".to_owned());
            }
        }
        let sent = self.counts.sent.load(Ordering::SeqCst);
        let lost = self.counts.made.load(Ordering::SeqCst).saturating_sub(sent);
        let why = self.counts.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(ExportReport { sent, lost, why: why.filter(|_| lost > 0) })
    }
}

/// What the thread does.
#[derive(Clone)]
struct Worker {
    sender: Arc<Sender>,
    content: ContentCapture,
    counts: Arc<Counts>,
    finishing: watch::Receiver<bool>,
}

impl Worker {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<(Box<dyn EventStream>, Seq)>) {
        let (queue, waiting) = mpsc::channel(MAX_QUEUED_REQUESTS * self.max_spans());
        let sender_task = BatchSender { worker: self.clone(), waiting, batch: Vec::new() };
        let sender_task = tokio::spawn(sender_task.run());
        let mut readers = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some((session, already_exported)) = inbox.recv() => {
                    readers.spawn(self.clone().read(session, already_exported, queue.clone()));
                }
                Some(_) = readers.join_next() => {}
                _ = self.finishing.changed() => break,
            }
        }
        while readers.join_next().await.is_some() {}
        drop(queue);
        let _ = sender_task.await;
    }

    /// The most spans in one request.
    fn max_spans(&self) -> usize {
        match self.content {
            ContentCapture::Omit => MAX_SPANS,
            ContentCapture::Include => MAX_SPANS_WITH_CONTENT,
        }
    }

    /// Waits until it is time to finish.
    async fn finishing(&mut self) {
        // Where nobody is left to say so, it is.
        let _ = self.finishing.wait_for(|finishing| *finishing).await;
    }

    /// Reads one session to its end.
    async fn read(self, mut session: Box<dyn EventStream>, already_exported: Seq, queue: mpsc::Sender<Span>) {
        let mut spans = SpanFold::new(self.content);
        // A log that cannot be read any more ends it: who shows the session says why.
        while let Some(Ok(item)) = session.next().await {
            let FeedItem::Event(event) = item else { continue };
            let ended = spans.apply(&event);
            if event.seq <= already_exported {
                continue;
            }
            for span in ended {
                self.counts.made.fetch_add(1, Ordering::SeqCst);
                // Once nothing is sent any more, what is left is only counted.
                let _ = queue.send(span).await;
            }
        }
    }
}

/// What sends.
struct BatchSender {
    worker: Worker,
    waiting: mpsc::Receiver<Span>,
    batch: Vec<Span>,
}

impl BatchSender {
    async fn run(mut self) {
        let mut delay = FIRST_DELAY;
        loop {
            if self.batch.is_empty() && !self.collect_batch().await {
                return;
            }
            match self.worker.sender.send(&self.batch).await {
                Ok(accepted) => {
                    let count = self.batch.len() as u64;
                    tracing::debug!(spans = count, rejected = accepted.rejected, "spans sent");
                    self.worker
                        .counts
                        .sent
                        .fetch_add(count.saturating_sub(accepted.rejected), Ordering::SeqCst);
                    if accepted.rejected > 0 {
                        self.worker.counts.record_failure(format!("it refused some: {}", accepted.why));
                    }
                    self.batch.clear();
                    delay = FIRST_DELAY;
                }
                Err(SendError { why, retry }) => {
                    tracing::warn!(spans = self.batch.len(), why, "spans not sent");
                    self.worker.counts.record_failure(why);
                    match retry {
                        Retry::Never => self.batch.clear(),
                        // No time to wait for better times.
                        Retry::Later(_) if *self.worker.finishing.borrow() => return,
                        Retry::Later(after) => {
                            let pause = after.unwrap_or(delay).min(MAX_DELAY);
                            delay = (delay * 2).min(MAX_DELAY);
                            let _ = timeout(pause, self.worker.finishing()).await;
                        }
                    }
                }
            }
        }
    }

    /// Gathers a batch, for a moment. False when there is nothing left to send.
    async fn collect_batch(&mut self) -> bool {
        let max_spans = self.worker.max_spans();
        if self.waiting.recv_many(&mut self.batch, max_spans).await == 0 {
            return false;
        }
        let (waiting, batch) = (&mut self.waiting, &mut self.batch);
        let more = async {
            while batch.len() < max_spans && waiting.recv_many(batch, max_spans - batch.len()).await > 0 {}
        };
        tokio::select! {
            () = more => {}
            () = sleep(BATCH_WINDOW) => {}
            () = self.worker.finishing() => {}
        }
        true
    }
}
