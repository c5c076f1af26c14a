//! Starts an HTTP response before the answer is available. Clients abandon a silent connection (Gemini CLI after one
//! minute, opencode after five), so a late answer becomes an event stream with keepalive comments.

use super::{HttpResponse, WebLimits};
use althing_protocol::BoxFuture;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, future, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::timeout;

type Part = Result<Frame<Bytes>, Infallible>;

/// Must be called only for a client that accepts event streams.
pub(super) async fn answer(
    mut pending: BoxFuture<'static, HttpResponse>,
    limits: &WebLimits,
) -> HttpResponse {
    match timeout(limits.first_byte, &mut pending).await {
        Ok(answer) => answer,
        Err(_) => event_stream(pending, limits.keep_alive),
    }
}

fn event_stream(pending: BoxFuture<'static, HttpResponse>, keep_alive: Duration) -> HttpResponse {
    let stream = stream::once(future::ready(Ok(nothing()))).chain(rest(pending, keep_alive));
    let mut response = Response::new(StreamBody::new(stream).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// An SSE comment, which carries no data.
fn nothing() -> Frame<Bytes> {
    Frame::data(Bytes::from_static(b":\n\n"))
}

enum StreamState {
    Waiting(BoxFuture<'static, HttpResponse>),
    Passing(UnsyncBoxBody<Bytes, Infallible>),
    Over,
}

fn rest(pending: BoxFuture<'static, HttpResponse>, keep_alive: Duration) -> impl Stream<Item = Part> {
    stream::unfold(StreamState::Waiting(pending), move |stage| async move {
        match stage {
            StreamState::Waiting(mut pending) => match timeout(keep_alive, &mut pending).await {
                Ok(answer) if has_type(&answer, "text/event-stream") => pass(answer.into_body()).await,
                Ok(answer) if has_type(&answer, "application/json") => {
                    let Ok(whole) = answer.into_body().collect().await;
                    let json = String::from_utf8_lossy(&whole.to_bytes()).replace(['\r', '\n'], " ");
                    Some((Ok(Frame::data(format!("data: {json}\n\n").into())), StreamState::Over))
                }
                // This response does not fit an event stream; ending the stream tells the client that there is no
                // answer.
                Ok(_) => None,
                Err(_) => Some((Ok(nothing()), StreamState::Waiting(pending))),
            },
            StreamState::Passing(body) => pass(body).await,
            StreamState::Over => None,
        }
    })
}

async fn pass(mut body: UnsyncBoxBody<Bytes, Infallible>) -> Option<(Part, StreamState)> {
    let part = body.frame().await?;
    Some((part, StreamState::Passing(body)))
}

fn has_type(answer: &HttpResponse, wanted: &str) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(wanted))
}
