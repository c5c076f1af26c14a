//! Sends one request and reads the response within all time limits. In a stream, only a complete event or comment
//! counts as a sign of life, not single bytes. Nothing is retried here.

use crate::error::CallFailure;
use crate::error_response;
use crate::limits::{self, CallLimits};
use crate::partial_reply::StreamEnd;
use crate::reply_stream::ReplyStream;
use crate::wire::{FinishedReply, StreamReader, WireInfo};
use althing_protocol::{BackendErrorKind, Delta, DeltaSink};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Request, Response};
use std::error::Error;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// Longer than any reply takes.
const UNLIMITED: Duration = Duration::from_hours(1000);

pub(crate) struct HttpAttempt<'a> {
    pub(crate) client: &'a reqwest::Client,
    pub(crate) limits: &'a CallLimits,
    pub(crate) deadline: Instant,
    /// The estimated input tokens, for replies without token counts.
    pub(crate) input_estimate: u64,
    pub(crate) wire_info: &'static WireInfo,
    pub(crate) shows_waiting: bool,
    /// Whether a reply may take as long as it makes progress, whatever the deadline.
    pub(crate) unlimited_stream: bool,
}

impl HttpAttempt<'_> {
    pub(crate) async fn make<R: StreamReader>(
        &self,
        request: Request,
        reader: R,
        on_delta: &mut DeltaSink<'_>,
    ) -> Result<FinishedReply, CallFailure> {
        let response = self.send(request, on_delta).await?;
        if !response.status().is_success() {
            return Err(error_response::read(response, self.deadline).await);
        }
        match body_kind(&response) {
            BodyKind::Stream => self.stream(response, reader, on_delta).await,
            BodyKind::Whole => self.whole(response, reader, on_delta).await,
            BodyKind::Other(said) => Err(CallFailure::new(
                BackendErrorKind::Protocol,
                format!("the server answered with `{said}` instead of an event stream"),
            )
            .with_hint(format!(
                "check `base_url`: `{}` is appended to it, and it usually ends in `{}`",
                self.wire_info.path, self.wire_info.base
            ))
            // A page instead of a stream means a wrong URL, so retrying does not help.
            .permanent()),
        }
    }

    async fn send(&self, request: Request, on_delta: &mut DeltaSink<'_>) -> Result<Response, CallFailure> {
        let first_byte = Instant::now() + self.limits.first_byte;
        let mut response = pin!(self.client.execute(request));
        if self.shows_waiting {
            tokio::select! {
                biased;
                response = &mut response => {
                    return response.map_err(|error| transport_failure(&error, self.limits));
                }
                () = sleep(limits::WAITING_SHOWN) => {
                    on_delta(Delta::Waiting { reason: "the server loads the model or reads the prompt" });
                }
            }
        }
        match timeout_at(first_byte.min(self.deadline), response).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(transport_failure(&error, self.limits)),
            Err(_) if first_byte < self.deadline => Err(CallFailure::new(
                BackendErrorKind::Timeout,
                format!("no response within {}", seconds(self.limits.first_byte)),
            )),
            Err(_) => Err(self.overdue()),
        }
    }

    async fn stream<R: StreamReader>(
        &self,
        mut response: Response,
        reply: R,
        on_delta: &mut DeltaSink<'_>,
    ) -> Result<FinishedReply, CallFailure> {
        let mut reply_stream = ReplyStream::new(reply);
        let ended = self.read_events(&mut response, &mut reply_stream, on_delta).await;
        if reply_stream.is_done() {
            // The connection can be reused only after its body has been read to the end.
            let _ = timeout_at(Instant::now() + limits::DRAIN, response.chunk()).await;
        }
        reply_stream.end(ended, on_delta, self.input_estimate)
    }

    async fn read_events<R: StreamReader>(
        &self,
        response: &mut Response,
        reply_stream: &mut ReplyStream<R>,
        on_delta: &mut DeltaSink<'_>,
    ) -> StreamEnd {
        let deadline = if self.unlimited_stream { self.deadline + UNLIMITED } else { self.deadline };
        let mut watch = IdleWatch::new(self.limits.idle, deadline);
        let mut alarm = pin!(sleep_until(watch.next_check(watch.alive)));
        for n in 1_u32.. {
            let chunk = tokio::select! {
                biased;
                chunk = response.chunk() => chunk,
                // The deadlines are checked when this timer fires, so that the clock need not be read for every
                // event.
                () = &mut alarm => {
                    let now = Instant::now();
                    let due = watch.due_at(now);
                    if now >= due {
                        return StreamEnd::Broken(if due == deadline { self.overdue() } else { self.idle() });
                    }
                    alarm.as_mut().reset(watch.next_check(now));
                    continue;
                }
            };
            let bytes = match chunk {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return StreamEnd::Whole,
                Err(error) => return StreamEnd::Broken(transport_failure(&error, self.limits)),
            };
            match reply_stream.take(&bytes, on_delta) {
                Ok(moved) => watch.moved |= moved,
                Err(failure) => return StreamEnd::Broken(failure),
            }
            if reply_stream.is_done() {
                return StreamEnd::Whole;
            }
            if watch.finished.is_none() && reply_stream.is_finished() {
                let now = Instant::now();
                watch.finished = Some(now);
                alarm.as_mut().reset(watch.next_check(now));
            }
            // A server may send so fast that the timer is never polled.
            if n.is_multiple_of(256) && Instant::now() >= deadline {
                return StreamEnd::Broken(self.overdue());
            }
        }
        StreamEnd::Whole
    }

    async fn whole<R: StreamReader>(
        &self,
        response: Response,
        mut reply: R,
        on_delta: &mut DeltaSink<'_>,
    ) -> Result<FinishedReply, CallFailure> {
        let by = (Instant::now() + self.limits.idle).min(self.deadline);
        let ended = match read_body(response, limits::EVENT_BYTES, by).await {
            Ok(body) => match reply.event(&body, on_delta) {
                Ok(()) => StreamEnd::Document,
                Err(failure) => StreamEnd::Broken(failure),
            },
            Err(BodyError::TooLarge) => StreamEnd::Broken(CallFailure::new(
                BackendErrorKind::TooLarge,
                "the reply is larger than 8 MiB",
            )),
            Err(BodyError::Late) if by == self.deadline => StreamEnd::Broken(self.overdue()),
            Err(BodyError::Late) => StreamEnd::Broken(self.idle()),
            Err(BodyError::Broken(error)) => StreamEnd::Broken(transport_failure(&error, self.limits)),
        };
        reply.end(ended, self.input_estimate)
    }

    fn idle(&self) -> CallFailure {
        CallFailure::new(BackendErrorKind::Timeout, format!("no data for {}", seconds(self.limits.idle)))
    }

    pub(crate) fn overdue(&self) -> CallFailure {
        CallFailure::new(
            BackendErrorKind::Timeout,
            format!("the call took longer than {}", seconds(self.limits.whole)),
        )
        .with_hint("raise `request_timeout_seconds` if the model really needs that long")
        .permanent()
    }
}

struct IdleWatch {
    idle: Duration,
    deadline: Instant,
    alive: Instant,
    moved: bool,
    finished: Option<Instant>,
}

impl IdleWatch {
    fn new(idle: Duration, deadline: Instant) -> Self {
        Self { idle, deadline, alive: Instant::now(), moved: false, finished: None }
    }

    /// An event since the last check counts as if it arrived now, so silence is detected at most a quarter of the
    /// idle limit too late.
    fn due_at(&mut self, now: Instant) -> Instant {
        if std::mem::take(&mut self.moved) {
            self.alive = now;
        }
        self.due()
    }

    fn due(&self) -> Instant {
        let idle = self.alive + self.idle;
        self.finished.map_or(idle, |at| idle.min(at + limits::TAIL)).min(self.deadline)
    }

    fn next_check(&self, now: Instant) -> Instant {
        (now + self.idle / 4).min(self.due())
    }
}

enum BodyKind {
    Stream,
    Whole,
    Other(String),
}

/// A stream with a generic or missing content type is accepted.
fn body_kind(response: &Response) -> BodyKind {
    let Some(value) = response.headers().get(CONTENT_TYPE) else { return BodyKind::Stream };
    let value = value.to_str().unwrap_or("?").split(';').next().unwrap_or_default().trim();
    match value.to_ascii_lowercase().as_str() {
        "text/event-stream" | "text/plain" | "application/octet-stream" | "application/x-ndjson" | "" => {
            BodyKind::Stream
        }
        "application/json" => BodyKind::Whole,
        // A short value is kept unchanged and complete, so that a secret in it is recognized and masked.
        _ if value.len() <= 60 => BodyKind::Other(value.to_owned()),
        _ => BodyKind::Other("an unknown content type".to_owned()),
    }
}

pub(crate) enum BodyError {
    TooLarge,
    Late,
    Broken(reqwest::Error),
}

pub(crate) async fn read_body(
    mut response: Response,
    limit: usize,
    by: Instant,
) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    loop {
        match timeout_at(by, response.chunk()).await {
            Err(_) => return Err(BodyError::Late),
            Ok(Err(error)) => return Err(BodyError::Broken(error)),
            Ok(Ok(None)) => return Ok(body),
            Ok(Ok(Some(bytes))) if body.len() + bytes.len() > limit => return Err(BodyError::TooLarge),
            Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
        }
    }
}

/// The URL is not included, because it may contain a password.
pub(crate) fn transport_failure(error: &reqwest::Error, limits: &CallLimits) -> CallFailure {
    let reason = innermost(error);
    if error.is_connect() {
        if tls_problem(error) {
            return CallFailure::new(BackendErrorKind::Connect, format!("no secure connection: {reason}"))
                .with_hint(
                    "behind a TLS proxy, set SSL_CERT_FILE to its CA file; for a local server, check whether \
                     `base_url` needs http or https",
                )
                .permanent();
        }
        let what = if error.is_timeout() {
            format!("no connection within {}", seconds(limits.connect))
        } else {
            format!("no connection: {reason}")
        };
        return CallFailure::new(BackendErrorKind::Connect, what);
    }
    if error.is_timeout() {
        return CallFailure::new(BackendErrorKind::Timeout, format!("timed out: {reason}"));
    }
    CallFailure::new(BackendErrorKind::Cut, format!("the connection broke: {reason}"))
}

pub(crate) fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    match cause.downcast_ref::<reqwest::Error>() {
        Some(_) => "no details".to_owned(),
        None => cause.to_string(),
    }
}

/// `std::io::Error` does not report the error it wraps as its `source`, and wrappers may be nested.
fn tls_problem(error: &(dyn Error + 'static)) -> bool {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>()
        || wrapped.is_some_and(|inner| tls_problem(inner))
        || error.source().is_some_and(tls_problem)
}

fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}
