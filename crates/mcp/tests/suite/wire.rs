//! Hand-written HTTP, for requests that no client would send.

use super::support::DEADLINE;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[derive(Clone)]
pub struct Raw {
    pub address: SocketAddr,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Raw {
    pub fn post(url: &str, token: &str, message: &Value) -> Self {
        let rest = url.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        let mut headers = vec![
            ("Host".to_owned(), host.to_owned()),
            ("Authorization".to_owned(), format!("Bearer {token}")),
            ("Content-Type".to_owned(), "application/json".to_owned()),
            ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
            // The tests read a response until the connection is closed.
            ("Connection".to_owned(), "close".to_owned()),
        ];
        if let Some(version) = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str()
        {
            headers.push(("MCP-Protocol-Version".to_owned(), version.to_owned()));
            headers.push(("Mcp-Method".to_owned(), message["method"].as_str().unwrap().to_owned()));
            if let Some(name) = message["params"]["name"].as_str() {
                headers.push(("Mcp-Name".to_owned(), name.to_owned()));
            }
        }
        let (address, target) = (host.parse().unwrap(), format!("/{path}"));
        Self { address, target, headers, body: message.to_string().into_bytes() }
    }

    pub fn with(mut self, name: &str, value: Option<&str>) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        self
    }

    pub fn head(&self) -> Vec<u8> {
        let lines = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let length = format!("Content-Length: {}\r\n\r\n", self.body.len());
        let target = &self.target;
        format!("POST {target} HTTP/1.1\r\n{}{length}", lines.collect::<String>()).into_bytes()
    }

    pub async fn open(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(&[self.head(), self.body.clone()].concat()).await.unwrap();
        stream
    }

    pub async fn send(&self) -> Response {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that refuses early may stop reading; its response must still be read.
        let _ = stream.write_all(&[self.head(), self.body.clone()].concat()).await;
        read(stream).await
    }
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub text: String,
}

impl Response {
    /// The body may be JSON or an event stream.
    pub fn message(&self) -> Value {
        let mut lines = self.text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let found = lines.find_map(|line| {
            serde_json::from_str::<Value>(line).ok().filter(|value| value.get("id").is_some())
        });
        found.unwrap_or_else(|| panic!("no message in {self:?}"))
    }
}

pub async fn read(mut stream: TcpStream) -> Response {
    let mut bytes = Vec::new();
    timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("an answer in time").unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    Response { status: status.unwrap_or_else(|| panic!("no status in {text:?}")), text }
}

pub async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let reading = async {
        while !text.contains(wanted) {
            let mut some = [0u8; 4096];
            let read = stream.read(&mut some).await.unwrap();
            assert!(read > 0, "{wanted:?} did not come: {text}");
            text.push_str(&String::from_utf8_lossy(&some[..read]));
        }
    };
    timeout(DEADLINE, reading).await.unwrap_or_else(|_| panic!("{wanted:?} did not come"));
    text
}

pub fn modern(method: &str, params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

pub fn call(tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}
