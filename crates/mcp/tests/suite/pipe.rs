//! A hand-written client over pipes that sees every message.

use super::scripted::{GUIDANCE, Scripted};
use super::support::DEADLINE;
use althing_mcp::{McpServer, ServeOptions};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex, split,
};
use tokio::time::timeout;

pub struct Pipe {
    writer: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    next: u64,
    /// The metadata that is sent with every request of the newest revision.
    meta: Option<Value>,
    pub other_messages: Vec<Value>,
}

pub fn brief() -> ServeOptions {
    ServeOptions { wait: Duration::from_millis(100), ..patient() }
}

pub fn patient() -> ServeOptions {
    ServeOptions::new(GUIDANCE)
}

impl Pipe {
    fn start(options: ServeOptions) -> (Self, Arc<Scripted>) {
        let runs = Arc::new(Scripted::default());
        let server = McpServer::new(runs.clone(), options);
        let (ours, theirs) = duplex(1024 * 1024);
        let (input, output) = split(theirs);
        tokio::spawn(async move { server.serve_pipes(input, output).await.unwrap() });
        let (reader, writer) = split(ours);
        let lines = BufReader::new(reader).lines();
        (Self { writer, lines, next: 0, meta: None, other_messages: Vec::new() }, runs)
    }

    pub async fn earlier(options: ServeOptions, capabilities: Value) -> (Self, Arc<Scripted>, Value) {
        let (mut pipe, runs) = Self::start(options);
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}});
        let info = pipe.request("initialize", hello).await;
        pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        (pipe, runs, info["result"].clone())
    }

    pub async fn newest(options: ServeOptions, capabilities: Value) -> (Self, Arc<Scripted>) {
        let (mut pipe, runs) = Self::start(options);
        pipe.meta = Some(json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }));
        pipe.request("server/discover", json!({})).await;
        (pipe, runs)
    }

    pub async fn send(&mut self, message: &Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub async fn receive(&mut self) -> Value {
        let line = timeout(DEADLINE, self.lines.next_line()).await.expect("a message in time").unwrap();
        serde_json::from_str(&line.expect("a message")).unwrap()
    }

    pub async fn ask(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        if let Some(Value::Object(meta)) = self.meta.clone() {
            for (name, value) in meta {
                params["_meta"][name] = value;
            }
        }
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    pub async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.other_messages.push(message);
        }
    }

    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Returns the structured content, which the text must repeat.
    pub async fn structured(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_ne!(result["isError"], true, "{result}");
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"]);
        text
    }

    pub async fn failure(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}
