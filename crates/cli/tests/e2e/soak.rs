//! Long-running processes: an MCP server that does one run after another, a conversation, and a workflow of endless
//! programs. Memory use and the numbers of file descriptors, threads and children must not grow. `ALTHING_SOAK_MINUTES`
//! makes the test run for that long.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use althing_testkit::process::Signal;
use althing_testkit::{
    Action, Althing, FakeModel, FakeModelOptions, Parliament, RecordedRequest, Reply, RunningProcess, Script,
    wait,
};
use serde_json::{Value, json};

use super::support::{LIMIT, SKY, Team, althing};

const TOKEN: &str = "a-token-of-the-soak-that-is-long-enough";
const CHAT_MODEL: &str = "talker";
const WARM_UP: usize = 2;
/// The number of rounds after the baseline is measured, if `ALTHING_SOAK_MINUTES` is not set.
const ROUNDS: usize = 4;
/// The largest memory growth that passes, in kilobytes per hour: above the noise of a test of half an hour, and low
/// enough that a leak of three kilobytes a run is detected.
const MAX_GROWTH: f64 = 4096.0;
/// How many kilobytes of memory a turn of a conversation may add: the whole conversation is held in memory.
const KB_PER_TURN: f64 = 8.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    second: f64,
    /// Resident anonymous memory, in kilobytes.
    memory: u64,
    descriptors: usize,
    threads: u64,
    children: usize,
    zombies: usize,
}

fn sample(pid: u32, start: Instant) -> Sample {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let children: Vec<String> =
        lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    let is_zombie = |child: &&String| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
    };
    Sample {
        second: start.elapsed().as_secs_f64(),
        memory: number("RssAnon:"),
        descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count),
        threads: number("Threads:"),
        children: children.len(),
        zombies: children.iter().filter(is_zombie).count(),
    }
}

struct WatchedProcess {
    name: &'static str,
    running: RunningProcess,
    samples: Vec<Sample>,
}

impl WatchedProcess {
    fn new(name: &'static str, running: RunningProcess) -> Self {
        Self { name, running, samples: Vec::new() }
    }

    /// The resources of the process when idle: the current memory, and the minimum of each count over one second.
    fn when_idle(&self, start: Instant) -> Sample {
        let begun = Instant::now();
        let mut least = sample(self.running.id(), start);
        wait::until(LIMIT, || {
            let now = sample(self.running.id(), start);
            least = Sample {
                descriptors: least.descriptors.min(now.descriptors),
                children: least.children.min(now.children),
                zombies: least.zombies.min(now.zombies),
                threads: least.threads.min(now.threads),
                ..now
            };
            begun.elapsed() > Duration::from_secs(1)
        });
        least
    }

    /// Without the first fifth, in which caches and pools fill.
    fn settled(&self) -> &[Sample] {
        &self.samples[self.samples.len() / 5..]
    }

    fn minutes(&self) -> Vec<(f64, f64)> {
        let mut minutes: Vec<(f64, f64)> = Vec::new();
        for of_minute in
            self.settled().chunk_by(|one, next| (one.second / 60.0) as u64 == (next.second / 60.0) as u64)
        {
            let mut memory: Vec<u64> = of_minute.iter().map(|sample| sample.memory).collect();
            memory.sort_unstable();
            minutes.push((of_minute[0].second / 60.0, memory[memory.len() / 2] as f64));
        }
        minutes
    }

    /// In kilobytes per hour: the median of the slopes between all pairs of minutes, which is robust against outliers.
    fn growth(&self) -> f64 {
        let minutes = self.minutes();
        let mut slopes: Vec<f64> = Vec::new();
        for (n, (at, memory)) in minutes.iter().enumerate() {
            slopes.extend(minutes[n + 1..].iter().map(|(later, more)| 60.0 * (more - memory) / (later - at)));
        }
        slopes.sort_by(f64::total_cmp);
        slopes.get(slopes.len() / 2).copied().unwrap_or_default()
    }

    /// The maximum of a count in the first fifth of the settled samples, and the maximum in the last fifth.
    fn ends(&self, count: impl Fn(&Sample) -> u64) -> (u64, u64) {
        let settled = self.settled();
        let fifth = (settled.len() / 5).max(1);
        let most = |samples: &[Sample]| samples.iter().map(&count).max().unwrap_or_default();
        (most(&settled[..fifth]), most(&settled[settled.len() - fifth..]))
    }
}

struct Client {
    address: String,
    session: Option<String>,
}

impl Client {
    fn connect(address: &str) -> Self {
        let mut client = Self { address: address.to_owned(), session: None };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}});
        let welcome = client.ask("initialize", &hello);
        assert!(welcome["result"]["serverInfo"].is_object(), "{welcome}");
        client.http("POST", &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        client
    }

    fn http(&mut self, method: &str, body: &str) -> String {
        let session = self.session.as_ref().map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\n{session}Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let head = answer.split("\r\n\r\n").next().unwrap_or_default();
        assert!(head.starts_with("HTTP/1.1 2"), "{answer}");
        let given = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        self.session = given.map(str::to_owned).or(self.session.take());
        answer
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let answer = self.http("POST", &request.to_string());
        // The server sends each event as one HTTP chunk, so the data of an event is on one line.
        let data = answer.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let mut messages = data.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        messages.find(|message| message["id"] == 7).unwrap_or_else(|| panic!("no answer: {answer}"))
    }

    fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": name, "arguments": arguments}))["result"].clone()
    }

    fn run(&mut self, task: &str) -> Value {
        let mut told = self.tool("launch_run", &json!({"task": task}))["structuredContent"].clone();
        while told["status"] == "running" {
            let again = json!({"run_id": told["run_id"], "wait_seconds": 20});
            told = self.tool("run_result", &again)["structuredContent"].clone();
        }
        told
    }

    fn leave(mut self) {
        self.http("DELETE", "");
    }
}

/// The second agent uses its tools first, and the chat agent launches a run now and then. A run that will be cancelled
/// gets no reply.
fn models() -> Script {
    Script::from_fn(|request: &RecordedRequest| -> Action {
        let last = request.messages().last().cloned().unwrap_or_default();
        let last_text = last["content"].as_str().unwrap_or_default();
        if request.model() == CHAT_MODEL {
            let launches = last["role"] == "user" && last_text.ends_with('5');
            let launch = json!({"task": "Say hello", "agent_mode": "single", "refinement": false});
            return if launches {
                Reply::call("launch_run", &launch).into()
            } else {
                Reply::text("I heard you.").into()
            };
        }
        if request.body().to_string().contains("HOLD") {
            return Action::after(Duration::from_secs(3600), Reply::text("too late"));
        }
        let told = request.messages().iter().filter(|message| message["role"] == "tool").count();
        match (request.model(), told) {
            ("model-b", 0) => Reply::call("run_command", &json!({"command": "echo hello > made.txt"})).into(),
            ("model-b", 1) => Reply::call("mcp__sky__weather", &json!({"city": "Hof"})).into(),
            ("model-b", 2) => Reply::call("read_file", &json!({"path": "made.txt"})).into(),
            _ => Parliament::default().reply(request).into(),
        }
    })
}

/// A workflow of one stage: a program on pipes and one in a terminal, both busy until the file `stop` exists.
fn busy_workflow(althing: &Althing) -> RunningProcess {
    let until_stopped = |words: &str| {
        let stop = althing.work_dir().join("stop");
        format!("n=0; while [ ! -e {} ]; do n=$((n+1)); {words}; sleep 0.2; done", stop.display())
    };
    let task = |id: &str, mode: &str, words: &str| json!({"id": id, "agent": "command", "command": ["sh", "-c", until_stopped(words)], "executionMode": mode, "prompt": ""});
    let prints = r#"i=0; while [ $i -lt 20 ]; do i=$((i+1)); printf "\033[3%dmline %d of %d\033[0m, with some words\n" $((i%8)) $i $n; done"#;
    let draws = r#"printf "\033[H\033[2J\033[1mframe %d\033[0m\r\n\033]0;title %d\007" $n $n; i=0; while [ $i -lt 20 ]; do i=$((i+1)); printf "\033[%d;5Hcell %d\r\n" $i $((i*n)); done"#;
    let tasks = [task("prints", "headless", prints), task("draws", "interactive", draws)];
    let file = json!({"name": "busy", "goal": "g", "stages": [{"name": "all", "tasks": tasks}]});
    althing.file("flow.yaml", format!("{file:#}"));
    althing.new_command().args(["workflow", "run", "flow.yaml", "--offline", "--unconfined"]).spawn()
}

struct Processes {
    server: Althing,
    address: String,
    /// The MCP server, the conversation, the workflow.
    watched: [WatchedProcess; 3],
    workflow: Althing,
    round: usize,
}

impl Processes {
    fn begin(model: &FakeModel) -> Self {
        let base = model.base_url();
        let servers = json!([{"name": "sky", "type": "stdio", "command": "python3", "args": ["sky.py"]}]);
        let team = Team::on(&base, 3)
            .backend(1, "enable_mcp_command_line", true)
            .backend(1, "cwd", "here")
            .backend(1, "mcp_servers", servers);
        let server = althing();
        server.file("team.yaml", team.text());
        server.file("sky.py", SKY);
        let command =
            server.new_command().args(["mcp", "--config", "team.yaml", "--unconfined", "--wait", "0"]);
        let serving = command.args(["--http", "127.0.0.1:0"]).env("ALTHING_MCP_TOKEN", TOKEN).spawn();
        let line = serving.wait_for_stderr(|line| line.contains("serving MCP at"), LIMIT);
        let url = line.split_whitespace().find_map(|word| word.strip_prefix("http://")).unwrap();
        let address = url.split('/').next().unwrap().to_owned();

        let own = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
        let team =
            Team::on(&base, 2).rule("interactive_mode", json!({"backend": own, "require_approval": false}));
        let chat = althing();
        chat.file("team.yaml", team.text());
        let chat = chat.args(["chat", "--config", "team.yaml"]).open_stdin().spawn();

        let workflow = althing();
        let watched = [
            WatchedProcess::new("mcp server", serving),
            WatchedProcess::new("conversation", chat),
            WatchedProcess::new("workflow", busy_workflow(&workflow)),
        ];
        Self { server, address, watched, workflow, round: 0 }
    }

    fn round(&mut self) {
        self.round += 1;
        let mut client = Client::connect(&self.address);
        let result = client.run(&format!("Round {}", self.round));
        assert_eq!(result["status"], "completed", "{result}");
        let held = client.tool("launch_run", &json!({"task": "HOLD"}))["structuredContent"].clone();
        assert_eq!(held["status"], "running", "{held}");
        let cancelled = client.tool("cancel_run", &json!({"run_id": held["run_id"]}));
        assert_eq!(cancelled["structuredContent"]["status"], "cancelled", "{cancelled}");
        let status = client.tool("run_status", &json!({"run_id": result["run_id"]}));
        assert_eq!(status["structuredContent"]["status"], "completed", "{status}");
        assert_eq!(client.tool("launch_run", &json!({"tsak": "x"}))["isError"], true);
        client.tool("list_runs", &json!({}));
        client.leave();
        // A user would prune sessions now and then; disk usage is not measured here.
        let sessions = self.server.state_dir().join("sessions");
        for run in [&result["run_id"], &held["run_id"]] {
            let session = run.as_str().unwrap().split('.').next().unwrap();
            wait::until(LIMIT, || remove_session(&sessions.join(session)));
        }
        let chat = &self.watched[1].running;
        let before = chat.stdout().len();
        chat.write_stdin(format!("This is message {}\n", self.round));
        wait::until(LIMIT, || chat.stdout().len() > before);
    }

    fn run_rounds(&mut self, minutes: f64, start: Instant) {
        let pids = self.watched.each_ref().map(|watched| watched.running.id());
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let looking = std::thread::spawn(move || {
            let mut samples = pids.map(|_| Vec::new());
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                samples
                    .iter_mut()
                    .zip(pids)
                    .for_each(|(seen, pid): (&mut Vec<Sample>, u32)| seen.push(sample(pid, start)));
                if let (0, Some(seconds)) = (samples[0].len() % 60, samples[0].last().map(|last| last.second))
                {
                    eprintln!("{seconds:.0} s: {:?}", samples.each_ref().map(|seen| seen.last().copied()));
                }
            }
            samples
        });
        while start.elapsed().as_secs_f64() < minutes * 60.0 {
            self.round();
        }
        drop(stop);
        for (watched, samples) in self.watched.iter_mut().zip(looking.join().unwrap()) {
            watched.samples = samples;
        }
    }

    fn end(self) {
        std::fs::write(self.workflow.work_dir().join("stop"), "").unwrap();
        let [server, chat, workflow] = self.watched;
        workflow.running.wait(LIMIT).expect_code(0);
        chat.running.close_stdin();
        chat.running.wait(LIMIT).expect_code(0);
        server.running.signal(Signal::TERM);
        server.running.wait(LIMIT).expect_code(0);
        for dir in [self.server.work_dir(), self.workflow.work_dir()] {
            wait::until(LIMIT, || !is_working_directory(&dir));
        }
    }
}

/// Returns false if the directory cannot be removed yet. Parts of it may be read-only.
fn remove_session(session: &Path) -> bool {
    let _ = std::process::Command::new("chmod").args(["-R", "u+w"]).arg(session).status();
    std::fs::remove_dir_all(session).is_ok() || !session.exists()
}

fn is_working_directory(dir: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok())
        .any(|cwd| cwd.starts_with(dir))
}

fn minutes() -> Option<f64> {
    std::env::var("ALTHING_SOAK_MINUTES").ok().map(|minutes| minutes.parse().expect("a number of minutes"))
}

#[test]
fn long_running_processes_do_not_grow_in_memory_descriptors_threads_or_children() {
    let options = FakeModelOptions { keep_requests: false, ..FakeModelOptions::default() };
    let model = FakeModel::start_on_thread_with(options, models());
    let mut processes = Processes::begin(&model);
    let start = Instant::now();
    (0..WARM_UP).for_each(|_| processes.round());
    let baseline: Vec<Sample> = processes.watched.iter().map(|watched| watched.when_idle(start)).collect();
    match minutes() {
        None => (0..ROUNDS).for_each(|_| processes.round()),
        Some(minutes) => processes.run_rounds(minutes, start),
    }
    for (watched, before) in processes.watched.iter().zip(&baseline) {
        let now = std::cell::Cell::new(*before);
        let back = wait::holds_within(LIMIT, || {
            now.set(watched.when_idle(start));
            let now = now.get();
            now.descriptors <= before.descriptors
                && now.children <= before.children
                && now.zombies == 0
                && now.threads <= before.threads
        });
        assert!(back, "{}: {before:?} became {:?}", watched.name, now.get());
    }
    if minutes().is_some() {
        check_growth(&processes);
    }
    processes.end();
}

fn check_growth(processes: &Processes) {
    let mut report = format!("{} rounds\n", processes.round);
    let mut failed = false;
    for watched in &processes.watched {
        let turns =
            processes.round as f64 / (watched.samples.last().map_or(1.0, |sample| sample.second) / 3600.0);
        let steepest =
            if watched.name == "conversation" { MAX_GROWTH + turns * KB_PER_TURN } else { MAX_GROWTH };
        let (growth, memory) = (watched.growth(), watched.ends(|sample| sample.memory));
        let descriptors = watched.ends(|sample| sample.descriptors as u64);
        let threads = watched.ends(|sample| sample.threads);
        let children = watched.ends(|sample| sample.children as u64);
        let flat =
            descriptors.1 <= descriptors.0 + 2 && threads.1 <= threads.0 + 2 && children.1 <= children.0 + 1;
        failed |= growth > steepest || !flat;
        let _ = writeln!(
            report,
            "{}: memory {growth:.0} kB/h (at most {steepest:.0}), {} to {} kB; descriptors {} to {}; threads {} to {}; \
             children {} to {}",
            watched.name,
            memory.0,
            memory.1,
            descriptors.0,
            descriptors.1,
            threads.0,
            threads.1,
            children.0,
            children.1,
        );
        for (minute, kilobytes) in watched.minutes() {
            let _ = write!(report, " {minute:.0}:{kilobytes:.0}");
        }
        report.push('\n');
    }
    eprintln!("{report}");
    assert!(!failed, "something grew:\n{report}");
}
