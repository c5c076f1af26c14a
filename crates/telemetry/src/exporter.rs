//! Follows the feeds of sessions on a separate thread and sends the resulting spans in batches.
//!
//! A run never waits for the exporter: a feed reader that falls behind catches up from the log. While the collector is
//! unreachable, spans wait in a bounded queue; a full queue pauses the reading of the feeds. Spans that are not sent
//! when the process ends are lost, and their number is reported.

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

const MAX_SPANS: usize = 512;
/// The maximum number of spans in one request with message content: small, so that the request does not exceed a
/// collector's size limit.
const MAX_SPANS_WITH_CONTENT: usize = 64;
/// The capacity of the queue of unsent spans, in full requests.
const MAX_QUEUED_REQUESTS: usize = 8;
/// How long spans are collected, at most, before a batch is sent. A full batch is sent at once.
const BATCH_WINDOW: Duration = Duration::from_secs(1);
/// The delay before the first retry of a request. It doubles with every further retry, up to [`MAX_DELAY`].
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The maximum delay before a retry, even if the collector asks for a longer one.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The configuration of an [`Exporter`].
pub struct ExporterSettings {
    /// The collector's address.
    pub endpoint: Endpoint,
    /// Headers of every request, such as an API key.
    pub headers: Vec<(String, String)>,
    /// The attributes that describe this process.
    pub resource: Resource,
    /// Whether spans include message content.
    pub content: ContentCapture,
    /// The HTTP client.
    pub client: reqwest::Client,
}

/// The outcome of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// The number of spans that the collector accepted.
    pub sent: u64,
    /// The number of spans that the collector rejected, or may not have received.
    pub lost: u64,
    /// The latest reason why spans were lost; `None` if none were.
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
    created: AtomicU64,
    sent: AtomicU64,
    why: Mutex<Option<String>>,
}

impl Counts {
    fn record_failure(&self, why: String) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

impl Exporter {
    /// Creates an exporter; does not connect yet.
    pub fn new(settings: ExporterSettings) -> Result<Self, EndpointError> {
        let ExporterSettings { endpoint, headers: pairs, resource, content, client } = settings;
        let sender = Sender { client, endpoint, headers: headers(&pairs)?, resource };
        Ok(Self { sender: Arc::new(sender), content, counts: Arc::default(), running: OnceLock::new() })
    }

    /// The collector's address.
    pub fn endpoint(&self) -> &Endpoint {
        &self.sender.endpoint
    }

    /// Exports a session from the first fact of its feed on. Spans that ended at or before `already_exported` are not
    /// sent: an earlier process sent them, or export was off. Their facts are still folded, because later spans take
    /// ids and start times from them.
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
            // Reported before the runtime shuts down, because a pending DNS lookup would delay the shutdown.
            let _ = done.send(());
            runtime.shutdown_background();
        });
        spawned.map_err(|error| error.to_string())?;
        Ok(Running { sessions, finish, finished: Mutex::new(finished) })
    }

    /// Reads the followed sessions to their end and sends the remaining spans, for at most `limit`. `None` if no
    /// session was followed.
    pub fn finish(&self, limit: Duration) -> Option<ExportReport> {
        let running = self.running.get()?;
        if let Ok(running) = running {
            let _ = running.finish.send(true);
            let finished = running.finished.lock().unwrap_or_else(PoisonError::into_inner);
            if finished.recv_timeout(limit).is_err() {
                let mut why = self.counts.why.lock().unwrap_or_else(PoisonError::into_inner);
                why.get_or_insert_with(|| "it did not respond before the process ended".to_owned());
            }
        }
        let sent = self.counts.sent.load(Ordering::SeqCst);
        let lost = self.counts.created.load(Ordering::SeqCst).saturating_sub(sent);
        let why = self.counts.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(ExportReport { sent, lost, why: why.filter(|_| lost > 0) })
    }
}

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

    fn max_spans(&self) -> usize {
        match self.content {
            ContentCapture::Omit => MAX_SPANS,
            ContentCapture::Include => MAX_SPANS_WITH_CONTENT,
        }
    }

    /// Waits until `Exporter::finish` is called or the exporter is dropped.
    async fn finishing(&mut self) {
        // An error means that the exporter was dropped, which also ends the work.
        let _ = self.finishing.wait_for(|finishing| *finishing).await;
    }

    async fn read(self, mut session: Box<dyn EventStream>, already_exported: Seq, queue: mpsc::Sender<Span>) {
        let mut spans = SpanFold::new(self.content);
        // A log that can no longer be read ends the export of this session. The front end reports the error.
        while let Some(Ok(item)) = session.next().await {
            let FeedItem::Event(event) = item else { continue };
            let ended = spans.apply(&event);
            if event.seq <= already_exported {
                continue;
            }
            for span in ended {
                self.counts.created.fetch_add(1, Ordering::SeqCst);
                // Fails only after the batch sender has stopped; then the span counts as lost.
                let _ = queue.send(span).await;
            }
        }
    }
}

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
                        self.worker
                            .counts
                            .record_failure(format!("it rejected some spans: {}", accepted.why));
                    }
                    self.batch.clear();
                    delay = FIRST_DELAY;
                }
                Err(SendError { why, retry }) => {
                    tracing::warn!(spans = self.batch.len(), why, "spans not sent");
                    self.worker.counts.record_failure(why);
                    match retry {
                        Retry::Never => self.batch.clear(),
                        // The process is ending, so no retry is waited for.
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

    /// Waits for a span, then collects more spans for up to [`BATCH_WINDOW`]. Returns false if the queue is closed and
    /// empty.
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
