//! A minimal HTTP client over a TCP socket that exposes the bytes, the chunks, and how the connection ended.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) const SOON: Duration = althing_testkit::wait::PATIENCE;
/// How long to watch for silence. Used only where silence is expected, because a busy machine looks silent.
pub(crate) const MOMENT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The response was complete by its own framing.
    Complete,
    /// FIN before the response was complete.
    Closed,
    /// RST before the response was complete.
    Reset,
    /// The connection is open and no bytes arrive.
    Silent,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) end: End,
    pub(crate) status: u16,
    pub(crate) head: String,
    /// The data of each chunk. A body of known length is one chunk.
    pub(crate) chunks: Vec<Vec<u8>>,
}

impl Response {
    pub(crate) fn body(&self) -> String {
        String::from_utf8_lossy(&self.chunks.concat()).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            (key == name).then_some(value)
        })
    }

    pub(crate) fn data(&self) -> Vec<String> {
        self.body().lines().filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).collect()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.data().last().is_some_and(|last| last == "[DONE]")
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        self.data().iter().filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    fn joined(&self, pointer: &str) -> String {
        self.events().iter().filter_map(|event| event.pointer(pointer)?.as_str().map(str::to_owned)).collect()
    }

    pub(crate) fn text(&self) -> String {
        self.joined("/choices/0/delta/content")
    }

    pub(crate) fn reasoning(&self) -> String {
        self.joined("/choices/0/delta/reasoning_content")
    }

    pub(crate) fn calls(&self) -> Vec<(String, String)> {
        let mut calls: Vec<(String, String)> = Vec::new();
        for event in self.events() {
            let delta = &event["choices"][0]["delta"]["tool_calls"][0];
            if let Some(name) = delta["function"]["name"].as_str() {
                calls.push((name.to_owned(), String::new()));
            }
            if let (Some(index), Some(piece)) =
                (delta["index"].as_u64(), delta["function"]["arguments"].as_str())
            {
                calls[usize::try_from(index).unwrap()].1.push_str(piece);
            }
        }
        calls
    }

    pub(crate) fn finish(&self) -> String {
        self.joined("/choices/0/finish_reason")
    }

    pub(crate) fn usage(&self) -> Option<Value> {
        self.events().into_iter().map(|mut event| event["usage"].take()).find(|usage| !usage.is_null())
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    inbox: Vec<u8>,
    /// The time without a byte after which the server counts as silent.
    pub(crate) patience: Duration,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, inbox: Vec::new(), patience: SOON }
    }

    pub(crate) async fn post(&mut self, body: &Value) {
        let body = body.to_string();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(&(head + &body)).await;
    }

    pub(crate) async fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// If the server closes or resets the connection or falls silent, returns the part that arrived.
    pub(crate) async fn response(&mut self) -> Response {
        let mut head = None;
        loop {
            if head.is_none() {
                head = take_head(&mut self.inbox);
            }
            if let Some(head) = &head
                && let Some((chunks, used)) = complete_body(head, &self.inbox)
            {
                self.inbox.drain(..used);
                return respond(End::Complete, Some(head), chunks);
            }
            let mut buffer = vec![0; 64 << 10];
            let end = match timeout(self.patience, self.stream.read(&mut buffer)).await {
                Err(_) => End::Silent,
                Ok(Ok(0)) => End::Closed,
                Ok(Err(_)) => End::Reset,
                Ok(Ok(read)) => {
                    self.inbox.extend_from_slice(&buffer[..read]);
                    continue;
                }
            };
            let (chunks, _) = parse_chunks(&self.inbox);
            return respond(end, head.as_ref(), chunks);
        }
    }
}

fn respond(end: End, head: Option<&String>, chunks: Vec<Vec<u8>>) -> Response {
    let head = head.cloned().unwrap_or_default();
    Response {
        end,
        status: head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0),
        head,
        chunks,
    }
}

fn take_head(inbox: &mut Vec<u8>) -> Option<String> {
    let end = inbox.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let head = inbox.drain(..end).collect();
    Some(String::from_utf8(head).unwrap())
}

fn complete_body(head: &str, bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    if let Some(length) = length {
        return (bytes.len() >= length).then(|| (vec![bytes[..length].to_vec()], length));
    }
    let (chunks, used) = parse_chunks(bytes);
    Some((chunks, used?))
}

/// The content of each complete chunk, and the length of the encoded body, or `None` until the last chunk has arrived.
fn parse_chunks(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<usize>) {
    let mut chunks = Vec::new();
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let Some(line) = rest.windows(2).position(|pair| pair == b"\r\n") else {
            return (chunks, None);
        };
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        let from = line + 2;
        if rest.len() < from + size + 2 {
            return (chunks, None);
        }
        at += from + size + 2;
        if size == 0 {
            return (chunks, Some(at));
        }
        chunks.push(rest[from..from + size].to_vec());
    }
}

/// A streaming request with the given tools. `vote` accepts agent1 and agent2.
pub(crate) fn request(model: &str, tools: &[&str]) -> Value {
    let tools: Vec<Value> = tools
        .iter()
        .map(|name| {
            let parameters = match *name {
                "vote" => json!({ "type": "object", "properties": {
                    "agent_id": { "type": "string", "enum": ["agent1", "agent2"] },
                    "reason": { "type": "string" } } }),
                _ => {
                    json!({ "type": "object", "properties": { "content": { "type": "string" } } })
                }
            };
            json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
        })
        .collect();
    json!({
        "model": model,
        "stream": true,
        "stream_options": { "include_usage": true },
        "messages": [
            { "role": "system", "content": "You are one of three." },
            { "role": "user", "content": [{ "type": "text", "text": "Why?" }] },
        ],
        "tools": tools,
    })
}

pub(crate) async fn ask(address: SocketAddr, body: &Value) -> Response {
    let mut client = Client::connect(address).await;
    client.post(body).await;
    client.response().await
}
