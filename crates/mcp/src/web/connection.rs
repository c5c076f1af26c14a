//! One connection: one request, checked, read within its limits, answered.
//!
//! A connection serves a single request. On the loopback interface a new connection is cheap, and a client cannot send
//! its next request into a connection that is being closed.

use super::limits::LINGER;
use super::{Answer, Site, WebLimits, early, gate};
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
pub(super) struct Host {
    pub(super) address: SocketAddr,
    pub(super) limits: WebLimits,
    pub(super) site: Arc<dyn Site>,
}

/// The state of a connection until its request is admitted.
#[derive(Clone, Default)]
pub(super) struct Stranger {
    /// The request head has arrived; from now on the body limit applies.
    head: CancellationToken,
    /// The request was admitted, or the connection has ended.
    pub(super) admitted: CancellationToken,
    /// Cancelled to close the connection because there are too many unauthenticated ones.
    pub(super) out: CancellationToken,
}

/// Serves a connection to its end.
pub(super) async fn serve(stream: TcpStream, host: Arc<Host>, stranger: Stranger) {
    let limit = host.limits.head;
    let service = service_fn({
        let stranger = stranger.clone();
        move |request| {
            let (host, stranger) = (host.clone(), stranger.clone());
            Box::pin(async move { Ok::<_, Infallible>(respond(request, &host, &stranger).await) })
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
        () = too_late(&stranger, limit) => false,
    };
    let mut stream = connection.into_parts().io.into_inner();
    if !in_time {
        let late = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let _ = stream.write_all(late).await;
    }
    // Closing the socket while the client still sends could reset the connection before it reads the response.
    let _ = stream.shutdown().await;
    let _ = timeout(LINGER, async {
        let mut rest = vec![0u8; 16 * 1024];
        while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    })
    .await;
}

/// Resolves when the connection has to be closed: its head took too long, or it was evicted.
async fn too_late(stranger: &Stranger, limit: Duration) {
    tokio::select! {
        biased;
        () = stranger.admitted.cancelled() => std::future::pending().await,
        () = stranger.out.cancelled() => {}
        () = async {
            if timeout(limit, stranger.head.cancelled()).await.is_ok() {
                std::future::pending::<()>().await;
            }
        } => {}
    }
}

async fn respond(request: Request<Incoming>, host: &Host, stranger: &Stranger) -> Answer {
    stranger.head.cancel();
    let (parts, body) = request.into_parts();
    let token = match gate::check(&parts, host.address) {
        Ok(token) => token,
        Err(status) => return refusal(status),
    };
    let Some(service) = host.site.find(parts.uri.path(), &token) else {
        return refusal(StatusCode::UNAUTHORIZED);
    };
    let body = Limited::new(body, host.limits.body_bytes).collect();
    let body: Bytes = match timeout(host.limits.body, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE);
        }
        Ok(Err(_)) => return refusal(StatusCode::BAD_REQUEST),
        Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT),
    };
    stranger.admitted.cancel();
    let reads_events = parts.method == Method::POST
        && parts
            .headers
            .get(ACCEPT)
            .and_then(|accept| accept.to_str().ok())
            .is_some_and(|accept| accept.contains("text/event-stream"));
    let answer = service.answer(Request::from_parts(parts, Full::new(body)));
    if reads_events { early::answer(answer, &host.limits).await } else { answer.await }
}

fn refusal(status: StatusCode) -> Answer {
    let text = match status {
        StatusCode::UNAUTHORIZED => "a bearer token that is good for this address is needed\n",
        StatusCode::FORBIDDEN => "the Host or Origin of this request is not allowed\n",
        StatusCode::PAYLOAD_TOO_LARGE => "the request is too large\n",
        StatusCode::REQUEST_TIMEOUT => "the request took too long to arrive\n",
        _ => "the request cannot be understood\n",
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync());
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
