//! One connection: one request, checked, read within its limits, answered.
//!
//! A connection serves a single request. On the loopback interface a new connection is cheap, and a client cannot send
//! its next request into a connection that is being closed.

use super::limits::LINGER;
use super::{HttpResponse, Router, WebLimits, early, gate};
use bytes::Bytes;
use futures_util::future::poll_fn;
use http::header::{ACCEPT, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// What every connection of a listener shares.
pub(super) struct ConnectionContext {
    pub(super) address: SocketAddr,
    pub(super) limits: WebLimits,
    pub(super) router: Arc<dyn Router>,
}

/// The state of a connection until its request is admitted.
#[derive(Clone, Default)]
pub(super) struct PendingConnection {
    /// The request head has arrived; from now on the body limit applies.
    head_received: CancellationToken,
    /// The request was admitted, or the connection has ended.
    pub(super) admitted: CancellationToken,
    /// Cancelled to close the connection because there are too many unauthenticated ones.
    pub(super) evicted: CancellationToken,
}

/// Serves a connection to its end.
pub(super) async fn serve(stream: TcpStream, context: Arc<ConnectionContext>, pending: PendingConnection) {
    let limit = context.limits.head;
    let service = service_fn({
        let pending = pending.clone();
        move |request| {
            let (context, pending) = (context.clone(), pending.clone());
            Box::pin(async move { Ok::<_, Infallible>(respond(request, &context, &pending).await) })
        }
    });
    let mut connection = http1::Builder::new()
        .keep_alive(false)
        // The head limit is enforced below, because hyper would close the connection without a response.
        .header_read_timeout(None)
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let in_time = tokio::select! {
        biased;
        _ = poll_fn(|cx| connection.poll_without_shutdown(cx)) => true,
        () = too_late(&pending, limit) => false,
    };
    let mut stream = connection.into_parts().io.into_inner();
    if !in_time {
        let late = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let _ = stream.write_all(late).await;
    }
    // Closing the socket at once could reset the connection before the client, which may still be sending, has read
    // the response. So close only our direction, and read what still arrives for a moment.
    let _ = stream.shutdown().await;
    let _ = timeout(LINGER, async {
        let mut rest = vec![0u8; 16 * 1024];
        while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    })
    .await;
}

/// Resolves when the connection has to be closed: the request head took too long, or the connection was evicted.
async fn too_late(pending: &PendingConnection, limit: Duration) {
    tokio::select! {
        biased;
        () = pending.admitted.cancelled() => std::future::pending().await,
        () = pending.evicted.cancelled() => {}
        () = async {
            if timeout(limit, pending.head_received.cancelled()).await.is_ok() {
                std::future::pending::<()>().await;
            }
        } => {}
    }
}

async fn respond(
    request: Request<Incoming>,
    context: &ConnectionContext,
    pending: &PendingConnection,
) -> HttpResponse {
    pending.head_received.cancel();
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
    pending.admitted.cancel();
    let reads_events = parts.method == Method::POST
        && parts
            .headers
            .get(ACCEPT)
            .and_then(|accept| accept.to_str().ok())
            .is_some_and(|accept| accept.contains("text/event-stream"));
    let answer = service.answer(Request::from_parts(parts, Full::new(body)));
    if reads_events { early::answer(answer, &context.limits).await } else { answer.await }
}

fn refusal(status: StatusCode) -> HttpResponse {
    let text = match status {
        StatusCode::UNAUTHORIZED => "a valid bearer token for this URL is required\n",
        StatusCode::FORBIDDEN => "the Host or Origin of this request is not allowed\n",
        StatusCode::PAYLOAD_TOO_LARGE => "the request is too large\n",
        StatusCode::REQUEST_TIMEOUT => "the request took too long to arrive\n",
        _ => "the request is invalid\n",
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync());
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
