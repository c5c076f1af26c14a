//! State shared by the server's tasks: the script, the records, the counters, and whether the port is open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::FakeModelOptions;
use super::request::Request;
use crate::recorded::{RecordedRequest, RequestData, RequestOutcome};
use crate::script::Script;
use crate::signal::Signal;
use crate::wire::model_in;

#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) script: Script,
    pub(super) options: FakeModelOptions,
    pub(super) calls: Signal<Vec<RecordedRequest>>,
    pub(super) others: Signal<Vec<RecordedRequest>>,
    pub(super) connections: Signal<Connections>,
    pub(super) port: Signal<PortState>,
    numbers: Mutex<Numbers>,
    count: AtomicUsize,
}

#[derive(Debug, Default)]
pub(super) struct Connections {
    pub(super) total: usize,
    pub(super) open: usize,
    pub(super) peak: usize,
}

/// Whether the server listens. Several faults may keep the port closed at once.
#[derive(Debug, Default)]
pub(super) struct PortState {
    pub(super) holds: usize,
    pub(super) listening: bool,
}

#[derive(Debug, Default)]
struct Numbers {
    next: usize,
    others: usize,
    by_model: HashMap<String, usize>,
}

impl ServerState {
    pub(super) fn new(script: Script, options: FakeModelOptions) -> Self {
        Self {
            script,
            options,
            calls: Signal::default(),
            others: Signal::default(),
            connections: Signal::default(),
            port: Signal::new(PortState { holds: 0, listening: true }),
            numbers: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }

    pub(super) fn call_count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// `seq` is assigned under the lock of the list, so that it is the position of a kept call.
    pub(super) fn record_call(&self, request: Request, connection: usize) -> RecordedRequest {
        self.count.fetch_add(1, Ordering::Relaxed);
        let model = request.body["model"].as_str().or_else(|| model_in(&request.path));
        let model = model.unwrap_or_default().to_owned();
        self.calls.update(|calls| {
            let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
            let seq = numbers.next;
            numbers.next += 1;
            let nth = numbers.by_model.entry(model).or_default();
            let recorded = recorded(request, connection, seq, *nth);
            *nth += 1;
            if self.options.keep_requests {
                calls.push(recorded.clone());
            }
            recorded
        })
    }

    pub(super) fn record_other(&self, request: Request, connection: usize) -> RecordedRequest {
        self.others.update(|others| {
            let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
            let recorded = recorded(request, connection, numbers.others, 0);
            numbers.others += 1;
            others.push(recorded.clone());
            recorded
        })
    }

    pub(super) fn ended(&self, seq: usize, outcome: RequestOutcome) {
        if self.options.keep_requests {
            self.calls.update(|calls| {
                calls[seq].outcome = outcome;
                calls[seq].ended = Some(Instant::now());
            });
        }
    }

    pub(super) async fn close_port(&self) {
        self.port.update(|port| port.holds += 1);
        self.port.wait(|port| (!port.listening || port.holds == 0).then_some(())).await;
    }

    /// Takes back one `close_port`. If no other one keeps the port closed, returns once the server listens again.
    pub(super) async fn open_port(&self) {
        self.port.update(|port| port.holds = port.holds.saturating_sub(1));
        self.port.wait(|port| (port.listening || port.holds > 0).then_some(())).await;
    }
}

fn recorded(request: Request, connection: usize, seq: usize, nth_of_model: usize) -> RecordedRequest {
    RecordedRequest {
        call: Arc::new(RequestData {
            seq,
            nth_of_model,
            connection,
            method: request.method,
            path: request.path,
            headers: request.headers,
            raw: request.raw,
            body: request.body,
            arrived: Instant::now(),
        }),
        outcome: RequestOutcome::Underway,
        ended: None,
    }
}
