//! One connection: reads a request, asks the script and executes the plan, as long as both sides keep the connection
//! alive.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::request::{self, Request};
use super::state::ServerState;
use crate::plan::{Plan, Step, put_chunk};
use crate::recorded::RequestOutcome;
use crate::wire::{Context, Wire, bare};

struct HungUp;

enum AfterPlan {
    KeepAlive,
    Closed,
    Reset,
    /// The connection is reset once the port is closed. The server listens again after this time.
    Refused(Duration),
}

struct Connection {
    stream: TcpStream,
    /// Bytes read but not yet parsed. Also filled while a plan waits, to notice a disconnect.
    inbox: BytesMut,
    /// Bytes not yet written: consecutive steps without a pause are combined into one write.
    outbox: BytesMut,
}

pub(super) async fn serve(stream: TcpStream, number: usize, state: &ServerState) {
    let _ = stream.set_nodelay(true);
    let mut connection =
        Connection { stream, inbox: BytesMut::with_capacity(16 << 10), outbox: BytesMut::new() };
    while let Some(request) = request::read(&mut connection.stream, &mut connection.inbox).await {
        let close = request.wants_close();
        let (plan, seq) = respond(request, number, state);
        let after = connection.execute(plan).await;
        let outcome = match after {
            Ok(AfterPlan::KeepAlive) => RequestOutcome::Served,
            Ok(AfterPlan::Closed | AfterPlan::Reset | AfterPlan::Refused(_)) => RequestOutcome::BrokenOff,
            Err(HungUp) => RequestOutcome::HungUp,
        };
        if let Some(seq) = seq {
            state.ended(seq, outcome);
        }
        match after {
            Ok(AfterPlan::KeepAlive) if !close => {}
            Ok(AfterPlan::KeepAlive | AfterPlan::Closed) => {
                let _ = connection.stream.shutdown().await;
                return;
            }
            Ok(AfterPlan::Reset) => return reset(connection.stream),
            Ok(AfterPlan::Refused(pause)) => {
                state.close_port().await;
                reset(connection.stream);
                sleep(pause).await;
                state.open_port().await;
                return;
            }
            Err(HungUp) => return,
        }
    }
}

fn respond(request: Request, connection: usize, state: &ServerState) -> (Plan, Option<usize>) {
    let Some(wire) = Wire::at(&request.method, &request.path) else {
        let own = state.options.program.answer(
            &request.method,
            bare(&request.path),
            &request.body,
            &state.options.models,
        );
        let plan = match own {
            Some((status, body)) => Plan::document(status, "application/json", &[], &body.to_string()),
            None => other_response(&request, &state.options.models),
        };
        state.record_other(request, connection);
        return (plan, None);
    };
    let recorded = state.record_call(request, connection);
    let context = Context {
        seq: recorded.seq(),
        model: recorded.model().to_owned(),
        include_usage: recorded.body()["stream_options"]["include_usage"] == true,
        reasoning_field: state.script.reasoning_field,
        namespaces: recorded.namespaces(),
    };
    let plan = if recorded.body().is_object() {
        state.script.plan(&recorded, wire, &context)
    } else {
        let body = wire.error_body(400, &context);
        Plan::document(400, "application/json", &[], &body)
    };
    (plan, Some(recorded.seq()))
}

/// The response to a request that is not a model call: a model list, a token count, an availability check, or status
/// 404.
fn other_response(request: &Request, models: &[String]) -> Plan {
    let path = bare(&request.path);
    let json = |value: Value| Plan::document(200, "application/json", &[], &value.to_string());
    // Four bytes per token, as clients estimate it.
    let tokens = request.raw.len().div_ceil(4);
    match request.method.as_str() {
        "GET" if path.ends_with("/models") => json(model_list(models)),
        "GET" if path.ends_with("/api/tags") => {
            let models: Vec<_> = models.iter().map(|name| json!({ "name": name, "model": name })).collect();
            json(json!({ "models": models }))
        }
        "POST" if path.ends_with("/count_tokens") => json(json!({ "input_tokens": tokens })),
        "POST" if path.ends_with(":countTokens") => json(json!({ "totalTokens": tokens })),
        "HEAD" => Plan::document(200, "text/plain", &[], ""),
        method => {
            let message = format!("Invalid URL ({method} {path})");
            let error = json!({ "error": { "message": message, "type": "invalid_request_error", "param": null, "code": null } });
            Plan::document(404, "application/json", &[], &error.to_string())
        }
    }
}

fn model_list(names: &[String]) -> Value {
    let data: Vec<_> = names
        .iter()
        .map(|id| json!({ "id": id, "object": "model", "created": 0, "owned_by": "althing-testkit" }))
        .collect();
    json!({ "object": "list", "data": data })
}

impl Connection {
    async fn execute(&mut self, plan: Plan) -> Result<AfterPlan, HungUp> {
        for step in plan.steps {
            match step {
                Step::Send(bytes) => self.outbox.extend_from_slice(&bytes),
                Step::Chunk(bytes) | Step::UngatedChunk(bytes) => put_chunk(&mut self.outbox, &bytes),
                Step::Flush => self.flush().await?,
                Step::Pause(pause) => self.wait(sleep(pause)).await?,
                Step::Pass(gate) => self.wait(gate.pass()).await?,
                Step::Passed(gate) => {
                    self.flush().await?;
                    gate.note_sent();
                }
                Step::Dribble(bytes, pause) => {
                    for byte in bytes.chunks(1) {
                        self.outbox.extend_from_slice(byte);
                        self.wait(sleep(pause)).await?;
                    }
                }
                Step::Stall => self.wait(std::future::pending()).await?,
                Step::Repeat(bytes, pause) => self.repeat(&bytes, pause).await?,
                Step::Close => return self.flush_then(AfterPlan::Closed).await,
                Step::Reset => return self.flush_then(AfterPlan::Reset).await,
                Step::Refuse(pause) => return self.flush_then(AfterPlan::Refused(pause)).await,
            }
        }
        self.flush_then(AfterPlan::KeepAlive).await
    }

    async fn flush_then(&mut self, after: AfterPlan) -> Result<AfterPlan, HungUp> {
        self.flush().await?;
        Ok(after)
    }

    async fn flush(&mut self) -> Result<(), HungUp> {
        if self.outbox.is_empty() {
            return Ok(());
        }
        let written = self.stream.write_all(&self.outbox).await;
        self.outbox.clear();
        written.map_err(|_| HungUp)
    }

    async fn repeat(&mut self, bytes: &Bytes, pause: Duration) -> Result<(), HungUp> {
        loop {
            put_chunk(&mut self.outbox, bytes);
            self.wait(sleep(pause)).await?;
        }
    }

    /// Writes out the buffer, then waits for `event`. A client that disconnects meanwhile is noticed at once.
    async fn wait(&mut self, event: impl Future<Output = ()>) -> Result<(), HungUp> {
        self.flush().await?;
        let Self { stream, inbox, .. } = self;
        let gone = async { while stream.read_buf(inbox).await.is_ok_and(|read| read > 0) {} };
        tokio::select! {
            biased;
            () = event => Ok(()),
            () = gone => Err(HungUp),
        }
    }
}

/// Closes with RST instead of FIN.
fn reset(stream: TcpStream) {
    let _ = stream.set_zero_linger();
    drop(stream);
}
