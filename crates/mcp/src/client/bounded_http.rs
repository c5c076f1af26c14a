//! Streamable HTTP to MCP servers with size limits, because `rmcp` by itself reads JSON bodies of any size.

use super::exit_reason::ExitReason;
use super::limits;
use super::sanitize::{self, SkippedTools};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

const SESSION: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

type HttpFailure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

#[derive(Clone)]
pub(crate) struct BoundedHttp {
    pub(crate) client: reqwest::Client,
    pub(crate) skipped_tools: Arc<SkippedTools>,
    /// Why an event stream was aborted, which `rmcp` does not report.
    pub(crate) exit_reason: Arc<ExitReason>,
}

impl StreamableHttpClient for BoundedHttp {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpFailure> {
        let mut request = self.client.post(uri.as_ref()).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        for (name, value) in custom_headers {
            request = request.header(name, value);
        }
        if let Some(session) = &session_id {
            request = request.header(SESSION, session.as_ref());
        }
        let body = serde_json::to_vec(&message)?;
        let response = request.header(CONTENT_TYPE, JSON).body(body).send().await.map_err(without_address)?;
        self.answer(response, wants_reply(&message), session_id.is_some()).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), HttpFailure> {
        self.client.delete_session(uri, session_id, auth_header, custom_headers).await.map_err(without_url)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events, HttpFailure> {
        let events = self
            .client
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                limits::FRAME,
            )
            .await
            .map_err(without_url)?;
        Ok(self.repaired(events))
    }
}

impl BoundedHttp {
    async fn answer(
        &self,
        response: Response,
        wants: Wants,
        in_session: bool,
    ) -> Result<StreamableHttpPostResponse, HttpFailure> {
        let status = response.status();
        refuse(&response, in_session)?;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let header = |name: HeaderName| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let kind = header(CONTENT_TYPE);
        let session = header(HeaderName::from_static(SESSION));
        let is = |mime: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(mime));
        if status.is_success() && is(EVENTS) {
            let events =
                SseStream::from_bytes_stream(bounded(response.bytes_stream(), self.exit_reason.clone()))
                    .boxed();
            return Ok(StreamableHttpPostResponse::Sse(self.repaired(events), session));
        }
        let is_json = is(JSON);
        let body = read(response).await?;
        let message = is_json.then(|| self.message(&body)).flatten();
        match (message, wants) {
            (Some(message), _)
                if status.is_success() || matches!(message, ServerJsonRpcMessage::Error(_)) =>
            {
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            (_, _) if !status.is_success() => Err(HttpStatusError::new(status.as_u16(), None).into()),
            (_, Wants::Nothing) => Ok(StreamableHttpPostResponse::Accepted),
            (_, Wants::Reply) if is_json => Err(unexpected("its answer is not MCP")),
            (_, Wants::Reply) => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }

    fn message(&self, body: &[u8]) -> Option<ServerJsonRpcMessage> {
        serde_json::from_slice(body).ok().and_then(|value| sanitize::message(value, &self.skipped_tools))
    }

    fn repaired(&self, events: Events) -> Events {
        let skipped_tools = self.skipped_tools.clone();
        let shortest_pause = limits::RECONNECT_PAUSE.as_millis().try_into().unwrap_or(u64::MAX);
        events
            .map(move |event| {
                event.map(|mut event| {
                    event.data = event.data.map(|data| sanitize::text(data, &skipped_tools));
                    event.retry = event.retry.map(|millis| millis.max(shortest_pause));
                    event
                })
            })
            .boxed()
    }
}

#[derive(Clone, Copy)]
enum Wants {
    Reply,
    Nothing,
}

fn wants_reply(message: &ClientJsonRpcMessage) -> Wants {
    match message {
        ClientJsonRpcMessage::Request(_) => Wants::Reply,
        ClientJsonRpcMessage::Response(_)
        | ClientJsonRpcMessage::Notification(_)
        | ClientJsonRpcMessage::Error(_) => Wants::Nothing,
    }
}

/// Handles the statuses that have a meaning in MCP.
fn refuse(response: &Response, in_session: bool) -> Result<(), HttpFailure> {
    let status = response.status();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let challenge = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let error = AuthRequiredError::new(challenge.unwrap_or_default().to_owned());
        return Err(StreamableHttpError::AuthRequired(error));
    }
    if status == StatusCode::NOT_FOUND && in_session {
        return Err(StreamableHttpError::SessionExpired);
    }
    Ok(())
}

async fn read(response: Response) -> Result<Vec<u8>, HttpFailure> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(without_address)?;
        if body.len() + chunk.len() > limits::FRAME {
            return Err(unexpected(&format!("it {}", too_large())));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn bounded<E>(
    chunks: impl Stream<Item = Result<Bytes, E>>,
    exit_reason: Arc<ExitReason>,
) -> impl Stream<Item = Result<Bytes, io::Error>>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let (mut event, mut line) = (0_usize, 0_usize);
    chunks.map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        for byte in &chunk {
            match byte {
                b'\n' | b'\r' if line == 0 => event = 0,
                b'\n' | b'\r' => line = 0,
                _ => (event, line) = (event + 1, line + 1),
            }
        }
        if event > limits::FRAME {
            exit_reason.set(too_large());
            return Err(io::Error::other(too_large()));
        }
        Ok(chunk)
    })
}

fn too_large() -> String {
    format!("sent a message of more than {} MiB", limits::FRAME / (1024 * 1024))
}

fn unexpected(reason: &str) -> HttpFailure {
    StreamableHttpError::UnexpectedServerResponse(reason.to_owned().into())
}

fn without_address(error: reqwest::Error) -> HttpFailure {
    StreamableHttpError::Client(error.without_url())
}

/// The URL is removed, because it may contain a key.
fn without_url(error: HttpFailure) -> HttpFailure {
    match error {
        StreamableHttpError::Client(error) => without_address(error),
        other => other,
    }
}
