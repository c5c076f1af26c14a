//! The conversation: the overhead of a turn, opening a long session, and the time from `launch_run` to the run.

use crate::measure::{Programs, median, timed};
use crate::verdict::below_ms;
use althing_testkit::process::newest_session;
use althing_testkit::{Action, Althing, FakeModel, FakeModelOptions, Reply, RunningProcess, Script};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const CHAT_MODEL: &str = "talker";
const LIMIT: Duration = Duration::from_secs(60);
const HISTORY: usize = 200;
const EVENTS: usize = 10_000;

pub fn config(base_url: &str, agents: usize) -> String {
    let backend = |model: &str| json!({"type": "chatcompletion", "model": model, "base_url": base_url, "retry_base_ms": 10});
    let agents: Vec<Value> = (1..=agents)
        .map(|n| json!({"id": format!("a{n}"), "backend": backend(&format!("model-{n}"))}))
        .collect();
    let interactive = json!({
        "enabled": true, "backend": backend(CHAT_MODEL), "require_approval": false,
        "context_compaction": {"enabled": false},
    });
    json!({"agents": agents, "orchestrator": {"interactive_mode": interactive}}).to_string()
}

pub fn all(programs: &Programs, rounds: usize) {
    turn(programs, rounds);
    open(programs, rounds.min(11));
    launch(programs, rounds);
}

pub fn echo() -> Script {
    Script::from_fn(|request| Reply::text(format!("Re: {}", request.last_user_text())))
}

pub struct ChatSession {
    pub althing: Althing,
    server: FakeModel,
    chat: Option<RunningProcess>,
    turns: usize,
}

impl ChatSession {
    /// `script` must end each reply with `Re: ` and the message.
    pub fn begin(programs: &Programs, script: Script) -> Self {
        // The server records nothing, because a long conversation is sent again with every turn.
        let options = FakeModelOptions { keep_requests: false, ..FakeModelOptions::default() };
        let server = FakeModel::start_on_thread_with(options, script);
        let althing = Althing::new(programs.althing.clone());
        althing.file("team.yaml", config(&server.base_url(), 1));
        let mut chat_session = Self { althing, server, chat: None, turns: 0 };
        chat_session.chat = Some(chat_session.start(&[]));
        chat_session
    }

    fn start(&self, args: &[&str]) -> RunningProcess {
        self.althing.new_command().args(["chat", "--config", "team.yaml"]).args(args).open_stdin().spawn()
    }

    fn chat(&self) -> &RunningProcess {
        self.chat.as_ref().expect("it goes on")
    }

    pub fn process_id(&self) -> u32 {
        self.chat().id()
    }

    pub fn turn(&mut self) {
        let n = self.turns;
        self.chat().write_stdin(format!("Message {n}.\n"));
        let last = format!("Re: Message {n}.");
        self.chat().wait_for_stdout(|line| line.ends_with(&last), LIMIT);
        self.turns += 1;
    }

    pub fn go_on_until(&mut self, turns: usize) {
        while self.turns < turns {
            self.turn();
        }
    }

    pub fn pause(&mut self) -> String {
        let chat = self.chat.take().expect("it goes on");
        chat.close_stdin();
        chat.wait(LIMIT).expect_code(0);
        let session = newest_session(&self.althing.state_dir()).unwrap();
        session.file_name().unwrap().to_string_lossy().into_owned()
    }

    pub fn resume(&mut self, session: &str) {
        self.chat = Some(self.start(&["--session", session]));
    }

    pub fn events(&self) -> usize {
        let log = newest_session(&self.althing.state_dir()).map(|session| session.join("events.jsonl"));
        log.and_then(|log| std::fs::read_to_string(log).ok()).unwrap_or_default().lines().count()
    }
}

fn turn(programs: &Programs, rounds: usize) {
    let server = FakeModel::start_on_thread(echo());
    let althing = Althing::new(programs.althing.clone());
    althing.file("team.yaml", config(&server.base_url(), 1));
    let chat = althing.new_command().args(["chat", "--config", "team.yaml"]).open_stdin().spawn();
    let mut chat_session = ChatSession { althing, server, chat: Some(chat), turns: 0 };
    chat_session.go_on_until(HISTORY);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client =
        reqwest::Client::builder().tcp_nodelay(true).tls_backend_preconfigured(crate::measure::no_tls());
    let client = client.build().unwrap();
    let url = format!("{}/chat/completions", chat_session.server.base_url());
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(timed(|| chat_session.turn()).0);
        let body = chat_session.server.requests().last().unwrap().raw_body().to_vec();
        let call = async {
            let request = client.post(&url).header("content-type", "application/json").body(body);
            request.send().await.unwrap().bytes().await.unwrap()
        };
        floor.push(timed(|| runtime.block_on(call)).0);
    }
    let (ours, floor) = (median(ours), median(floor));
    let what = format!("a turn after {HISTORY}, beyond the bare call ({:.2} ms)", floor * 1e3);
    below_ms(&what, ours - floor, 5.0);
    chat_session.pause();
}

/// Measures the time from the start of the process to the model request of the first message.
fn open(programs: &Programs, rounds: usize) {
    let mut chat_session = ChatSession::begin(programs, echo());
    while chat_session.events() < EVENTS {
        (0..100).for_each(|_| chat_session.turn());
    }
    let (id, events) = (chat_session.pause(), chat_session.events());
    // A new server on the same port, which records its requests (the first server does not).
    let ChatSession { althing, server, .. } = chat_session;
    let port = server.address().port();
    drop(server);
    let server =
        FakeModel::start_on_thread_with(FakeModelOptions { port, ..FakeModelOptions::default() }, echo());
    let first_request = |args: &[&str]| {
        let before = server.request_count();
        let began = Instant::now();
        let command =
            althing.new_command().args(["chat", "--config", "team.yaml"]).args(args).stdin("Go on.\n");
        command.spawn().wait(LIMIT).expect_code(0);
        let requests = server.wait_for_requests_blocking(before + 1, LIMIT);
        requests[before].arrived().duration_since(began).as_secs_f64()
    };
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floor.push(first_request(&[]));
        ours.push(first_request(&["--session", &id]));
    }
    let what = format!("opening a session of {events} events (a new session: {:.1} ms)", median(floor) * 1e3);
    below_ms(&what, median(ours), 100.0);
}

/// Measures the time from the end of the reply that calls `launch_run` to the first model request of the run.
fn launch(programs: &Programs, rounds: usize) {
    let chat_model = |request: &althing_testkit::RecordedRequest| match request.messages().last() {
        Some(last) if last["role"] == "tool" => Reply::text("It is done."),
        _ => Reply::call("launch_run", &json!({"task": "Say hi", "agent_mode": "multi", "refinement": true})),
    };
    let server =
        FakeModel::start_on_thread(Script::parliament().on(CHAT_MODEL).always(Action::with(chat_model)));
    let althing = Althing::new(programs.althing.clone());
    althing.file("team.yaml", config(&server.base_url(), 3));
    let mut times = Vec::new();
    for _ in 0..rounds {
        let before = server.request_count();
        let chat =
            althing.new_command().args(["chat", "--config", "team.yaml"]).stdin("Say hi, all of you.\n");
        chat.spawn().wait(LIMIT).expect_code(0);
        let requests = server.requests();
        let (asked, first) = (&requests[before], &requests[before + 1]);
        assert!(asked.model() == CHAT_MODEL && first.model() != CHAT_MODEL);
        times.push(first.arrived().saturating_duration_since(asked.ended().unwrap()).as_secs_f64());
    }
    below_ms("launch_run to the run's first model request", median(times), 10.0);
}
