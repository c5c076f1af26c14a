//! Headless programs that ask a person over their structured protocol and continue with the answer.

use super::support::{PATIENCE, launcher};
use althing_protocol::{Item, ProgramJob, ProgramReport, Programs, ReportSink, TaskId};
use althing_runner::adapter::Adapters;
use althing_runner::{AcceptedByUser, PatternTable, ProgramLimits, ProgramRunner, ProgramStarter, Sandbox};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const GEMINI: &str = r#"#!/bin/sh
read -r x; echo '{"jsonrpc":"2.0","id":1,"result":{}}'
read -r x; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s-1"}}'
read -r prompt
echo 'a line that is no message'
echo '{"id":0,"method":"session/request_permission","params":{"toolCall":{"title":"touch it"},"options":[{"optionId":"yes","name":"Allow"},{"optionId":"no","name":"Reject"}]}}'
read -r answer
case "$prompt$answer" in *'"do it"'*'"optionId":"yes"'*) word=allowed;; *) word=refused;; esac
echo '{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"text":"'$word'"}}}}'
echo '{"id":3,"result":{"stopReason":"end_turn"}}'
trap '' TERM
cat > /dev/null
"#;

/// Long enough for the fake to start on a busy machine.
const IDLE_LIMIT: Duration = Duration::from_secs(5);

struct SessionFixture {
    dir: TempDir,
    programs: ProgramRunner,
    reports: Arc<Mutex<Vec<ProgramReport>>>,
}

impl SessionFixture {
    fn new(gemini: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("gemini");
        std::fs::write(&program, gemini).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let starter = ProgramStarter {
            adapters: Adapters::default(),
            launcher: launcher(),
            sandbox: Sandbox::Unconfined(AcceptedByUser::explicitly()),
            state_dir: None,
            settings_dir: None,
            trusts_project_settings: false,
            limits: ProgramLimits::default(),
            output_masking: None,
        };
        Self {
            dir,
            programs: ProgramRunner::new(Arc::new(starter), PatternTable::default()),
            reports: Arc::default(),
        }
    }

    fn job(&self, adapter: &str) -> ProgramJob {
        let path = format!("{}:/usr/bin:/bin", self.dir.path().display());
        // The working directory must exist, because Althing searches it for repositories.
        let cwd = self.dir.path().join("work");
        std::fs::create_dir_all(&cwd).unwrap();
        let spec = serde_json::json!({
            "adapter": adapter, "mode": "headless", "approvals": true, "prompt": "do it", "cwd": cwd,
            "env": { "PATH": path }, "idle_timeout": IDLE_LIMIT.as_millis() as u64,
        });
        let spec = serde_json::from_value(spec).unwrap();
        let dir = self.dir.path().join("task").to_string_lossy().into_owned();
        ProgramJob { task: TaskId::from("t"), attempt: 1, spec, resume: None, dir }
    }

    fn sink(&self) -> ReportSink {
        let reports = self.reports.clone();
        Arc::new(move |report| reports.lock().unwrap().push(report))
    }

    fn reported(&self) -> Vec<String> {
        let reported = |report: &ProgramReport| match report {
            ProgramReport::Waiting(ask) => {
                let ids: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
                Some(format!("{} waits: {} {ids:?}", ask.native.as_deref().unwrap_or_default(), ask.text))
            }
            ProgramReport::MovedOn => Some("moved on".to_owned()),
            ProgramReport::Item(Item::PromptSent { text, error }) => Some(format!("prompt {text} {error:?}")),
            ProgramReport::Item(Item::Conversation { id }) => Some(format!("conversation {id}")),
            ProgramReport::Item(Item::Said { text }) => Some(format!("said {text}")),
            _ => None,
        };
        self.reports.lock().unwrap().iter().filter_map(reported).collect()
    }

    /// Answers the question only when the idle limit has passed since the start: the limit must not apply while the
    /// question is open.
    async fn answer(&self, option: &str) {
        let task = TaskId::from("t");
        let start = Instant::now();
        let waits = || self.reported().iter().any(|reported| reported.contains("waits"));
        while !waits() || start.elapsed() < IDLE_LIMIT + Duration::from_millis(500) {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.reported());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!self.programs.answer(&task, "request-7", option), "there is no such question");
        assert!(!self.programs.answer(&task, "request-0", "perhaps"), "there is no such option");
        assert!(self.programs.answer(&task, "request-0", option));
        assert!(!self.programs.answer(&task, "request-0", option), "the question was already answered");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_headless_program_asks_and_continues_with_the_answer() {
    for (option, word) in [("yes", "allowed"), ("no", "refused")] {
        let fixture = SessionFixture::new(GEMINI);
        let job = fixture.job("gemini");
        let (end, ()) = tokio::join!(fixture.programs.run(&job, fixture.sink()), fixture.answer(option));
        assert!(end.ok, "{end:?}");
        assert_eq!(end.output, word);
        let expected = [
            "conversation s-1".to_owned(),
            "prompt do it None".to_owned(),
            "request-0 waits: touch it [\"yes\", \"no\"]".to_owned(),
            "moved on".to_owned(),
            format!("said {word}"),
        ];
        assert_eq!(fixture.reported(), expected);
        assert!(!fixture.programs.answer(&TaskId::from("t"), "request-0", option), "it is over");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_looks_like_a_command_is_sent_as_prose() {
    let fixture = SessionFixture::new(&GEMINI.replace(r#"'"do it"'"#, r#"'"Task:\n!touch x"'"#));
    let mut job = fixture.job("gemini");
    job.spec.prompt = "!touch x".to_owned();
    let (end, ()) = tokio::join!(fixture.programs.run(&job, fixture.sink()), fixture.answer("yes"));
    assert_eq!((end.ok, end.output.as_str()), (true, "allowed"), "{end:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_dies_early_or_stays_silent_fails_with_a_message() {
    let fixture = SessionFixture::new("#!/bin/sh\necho cannot start: no key >&2\nexit 41\n");
    let end = fixture.programs.run(&fixture.job("gemini"), fixture.sink()).await;
    assert!(
        !end.ok && end.error.as_deref().is_some_and(|why| why.ends_with("cannot start: no key")),
        "{end:?}"
    );
    assert_eq!(end.exit_code, Some(41));
    let not_sent = fixture.reported().iter().any(|reported| reported.starts_with("prompt do it Some("));
    assert!(not_sent, "{:?}", fixture.reported());
    let fixture = SessionFixture::new("#!/bin/sh\ncat > /dev/null\n");
    let end = fixture.programs.run(&fixture.job("gemini"), fixture.sink()).await;
    assert!(!end.ok && end.error.as_deref().is_some_and(|why| why.contains("printed nothing")), "{end:?}");
    let end = fixture.programs.run(&fixture.job("command"), fixture.sink()).await;
    assert!(end.error.as_deref().is_some_and(|why| why.contains("cannot ask for approvals")), "{end:?}");
}
