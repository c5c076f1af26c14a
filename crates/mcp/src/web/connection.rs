//! Serves one HTTP connection: checks each request, reads it within the limits, and answers it. A successful response
//! closes the connection. After an error response to an admitted request the connection stays open (but not after many
//! of them), because older versions of Bun, which runs opencode, reuse it although the response says that it is closed.

use super::admitted::AdmittedConnections;
use super::limits::LINGER;
use super::{HttpResponse, Router, WebLimits, early, gate};
use crate::client::has_too_many_values;
use bytes::Bytes;
use futures_util::future::poll_fn;
use http::header::{ACCEPT, CONNECTION, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

pub(super) struct ConnectionContext {
    pub(super) address: SocketAddr,
    pub(super) limits: WebLimits,
    pub(super) router: Arc<dyn Router>,
    pub(super) admitted: AdmittedConnections,
}

#[derive(Clone, Default)]
pub(super) struct PendingConnection {
    head: Arc<watch::Sender<RequestHead>>,
    /// The request was admitted, or the connection has ended.
    pub(super) admitted: CancellationToken,
    pub(super) evicted: CancellationToken,
    pub(super) ended: CancellationToken,
}

impl PendingConnection {
    /// Whether no request is read or answered.
    pub(super) fn is_idle(&self) -> bool {
        self.head.borrow().due.is_some()
    }
}

#[derive(Clone, Copy, Default)]
struct RequestHead {
    /// `None` while a request is read and answered.
    due: Option<Instant>,
    follows_another: bool,
    /// How many error responses were sent to admitted requests.
    errors: usize,
}

pub(super) async fn serve(stream: TcpStream, context: Arc<ConnectionContext>, pending: PendingConnection) {
    let due = Some(Instant::now() + context.limits.head);
    pending.head.send_replace(RequestHead { due, ..RequestHead::default() });
    let service = service_fn({
        let pending = pending.clone();
        move |request| {
            let (context, pending) = (context.clone(), pending.clone());
            Box::pin(async move { Ok::<_, Infallible>(respond(request, &context, &pending).await) })
        }
    });
    let mut connection = http1::Builder::new()
        // The head limit is enforced below, because hyper would close the connection without a response.
        .header_read_timeout(None)
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let in_time = tokio::select! {
        biased;
        _ = poll_fn(|cx| connection.poll_without_shutdown(cx)) => true,
        () = too_late(&pending) => false,
    };
    let mut stream = connection.into_parts().io.into_inner();
    if !in_time && !pending.head.borrow().follows_another {
        let late = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let _ = stream.write_all(late).await;
    }
    // Closing the socket at once could reset the connection before the client, which may still be sending, has read
    // the response.
    let _ = stream.shutdown().await;
    let _ = timeout(LINGER, async {
        let mut rest = vec![0u8; 16 * 1024];
        while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    })
    .await;
}

/// Resolves when a request head took too long, or the connection was evicted. An admitted request is answered first.
async fn too_late(pending: &PendingConnection) {
    let evicted = async {
        pending.evicted.cancelled().await;
        let mut head = pending.head.subscribe();
        // The sender lives as long as `pending`, so `changed` never fails.
        while pending.admitted.is_cancelled()
            && head.borrow_and_update().due.is_none()
            && head.changed().await.is_ok()
        {}
    };
    let no_head = async {
        let mut head = pending.head.subscribe();
        loop {
            let due = head.borrow_and_update().due;
            // The sender lives as long as `pending`, so `changed` never fails.
            let is_late = match due {
                Some(due) => timeout_at(due, head.changed()).await.is_err(),
                None => head.changed().await.is_err(),
            };
            if is_late {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = evicted => {}
        () = no_head => {}
    }
}

async fn respond(
    request: Request<Incoming>,
    context: &ConnectionContext,
    pending: &PendingConnection,
) -> HttpResponse {
    pending.head.send_modify(|head| head.due = None);
    let (parts, body) = request.into_parts();
    let token = match gate::check(&parts, context.address) {
        Ok(token) => token,
        Err(status) => return refusal(status),
    };
    let Some(service) = context.router.find(parts.uri.path(), &token) else {
        return refusal(StatusCode::UNAUTHORIZED);
    };
    let body = Limited::new(body, context.limits.body_bytes).collect();
    let body: Bytes = match timeout(context.limits.body, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE);
        }
        Ok(Err(_)) => return refusal(StatusCode::BAD_REQUEST),
        Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT),
    };
    if has_too_many_values(&body) {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE);
    }
    if !context.admitted.admit(&token, pending, context.limits.of_one_token) {
        return refusal(StatusCode::SERVICE_UNAVAILABLE);
    }
    let reads_events = parts.method == Method::POST
        && parts
            .headers
            .get(ACCEPT)
            .and_then(|accept| accept.to_str().ok())
            .is_some_and(|accept| accept.contains("text/event-stream"));
    let answer = service.answer(Request::from_parts(parts, Full::new(body)));
    let answer = if reads_events { early::answer(answer, &context.limits).await } else { answer.await };
    if answer.status().is_success() {
        return closing(answer);
    }
    let errors = pending.head.borrow().errors + 1;
    if errors >= context.limits.errors {
        return closing(answer);
    }
    let due = Some(Instant::now() + context.limits.head);
    pending.head.send_replace(RequestHead { due, follows_another: true, errors });
    answer
}

fn closing(mut response: HttpResponse) -> HttpResponse {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn refusal(status: StatusCode) -> HttpResponse {
    let text = match status {
        StatusCode::UNAUTHORIZED => "a valid bearer token for this URL is required\n",
        StatusCode::FORBIDDEN => "the Host or Origin of this request is not allowed\n",
        StatusCode::PAYLOAD_TOO_LARGE => "the request is too large\n",
        StatusCode::SERVICE_UNAVAILABLE => "this client has too many requests at once\n",
        StatusCode::REQUEST_TIMEOUT => "the request took too long to arrive\n",
        _ => "the request is invalid\n",
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync());
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    closing(response)
}
