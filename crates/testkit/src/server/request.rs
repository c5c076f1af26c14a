//! Reads one HTTP/1.1 request: the head with `httparse`, the body by length or in chunks.

use bytes::{Buf, Bytes, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAX_HEADERS: usize = 100;
const MAX_REQUEST: usize = 256 << 20;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) raw: Bytes,
    /// `Null` if there is no body, or if it is not JSON.
    pub(super) body: Value,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// The next request on the connection. `None` if the client has disconnected or does not speak HTTP.
pub(super) async fn read(stream: &mut TcpStream, inbox: &mut BytesMut) -> Option<Request> {
    let mut request = loop {
        match parse_head(inbox) {
            Ok(Some(request)) => break request,
            Ok(None) => fill(stream, inbox).await?,
            Err(_) => return None,
        }
    };
    if request.header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
    }
    let chunked =
        request.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    request.raw = if chunked {
        read_chunks(stream, inbox).await?
    } else {
        let length = request.header("content-length").map_or(Some(0), |value| value.parse().ok())?;
        take(stream, inbox, length).await?
    };
    request.body = serde_json::from_slice(&request.raw).unwrap_or_default();
    Some(request)
}

fn parse_head(inbox: &mut BytesMut) -> Result<Option<Request>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(inbox)? else {
        return Ok(None);
    };
    let request = Request {
        method: head.method.unwrap_or_default().to_owned(),
        path: head.path.unwrap_or_default().to_owned(),
        headers: head
            .headers
            .iter()
            .map(|header| {
                let value = String::from_utf8_lossy(header.value).into_owned();
                (header.name.to_ascii_lowercase(), value)
            })
            .collect(),
        raw: Bytes::new(),
        body: Value::Null,
    };
    inbox.advance(length);
    Ok(Some(request))
}

async fn read_chunks(stream: &mut TcpStream, inbox: &mut BytesMut) -> Option<Bytes> {
    let mut body = BytesMut::new();
    loop {
        match httparse::parse_chunk_size(inbox).ok()? {
            httparse::Status::Partial => fill(stream, inbox).await?,
            httparse::Status::Complete((head, size)) => {
                inbox.advance(head);
                let data = take(stream, inbox, usize::try_from(size).ok()?).await?;
                take(stream, inbox, 2).await?;
                if size == 0 {
                    return Some(body.freeze());
                }
                body.extend_from_slice(&data);
            }
        }
    }
}

async fn take(stream: &mut TcpStream, inbox: &mut BytesMut, length: usize) -> Option<Bytes> {
    inbox.reserve(length.saturating_sub(inbox.len()).min(MAX_REQUEST));
    while inbox.len() < length {
        fill(stream, inbox).await?;
    }
    Some(inbox.split_to(length).freeze())
}

async fn fill(stream: &mut TcpStream, inbox: &mut BytesMut) -> Option<()> {
    if inbox.len() > MAX_REQUEST {
        return None;
    }
    match stream.read_buf(inbox).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(()),
    }
}
