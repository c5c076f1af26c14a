//! Programs in real terminals: their screen, input, questions, and end.

use super::support::{
    HELPER, PATIENCE, SANDBOXES, launcher, processes_with, sandbox, unique_seconds, wait_until,
};
use althing_protocol::{AskKind, Item, ProgramEnd, ProgramJob, ProgramReport, Programs, ReportSink, TaskId};
use althing_runner::adapter::{Adapters, AskPattern, Pattern, TerminalTraits, UserDefinedAdapter};
use althing_runner::{AcceptedByUser, PatternTable, ProgramLimits, ProgramRunner, ProgramStarter, Sandbox};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinHandle;

pub(super) struct Running {
    pub(super) runner: Arc<ProgramRunner>,
    pub(super) task: TaskId,
    pub(super) reports: Arc<Mutex<Vec<ProgramReport>>>,
    pub(super) end: JoinHandle<ProgramEnd>,
    pub(super) dir: Arc<TempDir>,
}

pub(super) fn runner(script: &str, traits: TerminalTraits) -> Arc<ProgramRunner> {
    runner_in(Sandbox::Unconfined(AcceptedByUser::explicitly()), script, traits)
}

pub(super) fn runner_in(sandbox: Sandbox, script: &str, traits: TerminalTraits) -> Arc<ProgramRunner> {
    let adapter = UserDefinedAdapter {
        name: "fake".to_owned(),
        program: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        terminal: traits,
        ..UserDefinedAdapter::default()
    };
    let starter = ProgramStarter {
        adapters: Adapters::with(vec![adapter]),
        launcher: launcher(),
        sandbox,
        state_dir: None,
        settings_dir: None,
        trusts_project_settings: false,
        limits: ProgramLimits::default(),
        output_masking: None,
    };
    Arc::new(ProgramRunner::new(Arc::new(starter), PatternTable::default()))
}

impl Running {
    pub(super) fn start(script: &str, prompt: &str, traits: TerminalTraits) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        Self::start_as(&runner(script, traits), &dir, "t", prompt)
    }

    fn start_as(runner: &Arc<ProgramRunner>, dir: &Arc<TempDir>, task: &str, prompt: &str) -> Self {
        Self::start_with(runner, dir, task, &serde_json::json!({ "prompt": prompt, "cwd": "/" }))
    }

    pub(super) fn start_with(
        runner: &Arc<ProgramRunner>,
        dir: &Arc<TempDir>,
        task: &str,
        more: &serde_json::Value,
    ) -> Self {
        let mut spec = serde_json::json!({
            "adapter": "fake", "mode": "interactive", "prompt": "", "env": { "NAME": task },
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (spec, task) = (serde_json::from_value(spec).unwrap(), TaskId::from(task));
        let path = dir.path().join(task.as_str()).to_string_lossy().into_owned();
        let job = ProgramJob { task: task.clone(), attempt: 1, spec, resume: None, dir: path };
        let reports: Arc<Mutex<Vec<ProgramReport>>> = Arc::default();
        let sink = reports.clone();
        let sink: ReportSink = Arc::new(move |report| sink.lock().unwrap().push(report));
        let inner = runner.clone();
        let end = tokio::spawn(async move { inner.run(&job, sink).await });
        Self { runner: runner.clone(), task, reports, end, dir: dir.clone() }
    }

    pub(super) fn raw(&self) -> String {
        let reports = self.reports.lock().unwrap();
        let raw = reports.iter().filter_map(|report| match report {
            ProgramReport::Output { raw, .. } => Some(raw.clone()),
            _ => None,
        });
        String::from_utf8_lossy(&raw.flatten().collect::<Vec<u8>>()).into_owned()
    }

    pub(super) fn clean(&self) -> String {
        let reports = self.reports.lock().unwrap();
        let clean = reports.iter().filter_map(|report| match report {
            ProgramReport::Output { clean, .. } => Some(clean.as_str()),
            _ => None,
        });
        clean.collect()
    }

    pub(super) fn prompts(&self) -> Vec<(String, Option<String>)> {
        let reports = self.reports.lock().unwrap();
        let prompts = reports.iter().filter_map(|report| match report {
            ProgramReport::Item(Item::PromptSent { text, error }) => Some((text.clone(), error.clone())),
            _ => None,
        });
        prompts.collect()
    }

    pub(super) fn interactions(&self) -> Vec<String> {
        let reports = self.reports.lock().unwrap();
        let reported = reports.iter().filter_map(|report| match report {
            ProgramReport::Waiting(ask) => Some(format!("waits: {}", ask.text)),
            ProgramReport::MovedOn => Some("moved on".to_owned()),
            _ => None,
        });
        reported.collect()
    }

    pub(super) async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            let (raw, reported) = (self.raw(), self.interactions());
            assert!(start.elapsed() < PATIENCE, "{what}: not in time; {raw:?} {reported:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) fn typed(&self, keys: &str) {
        assert!(self.runner.input(&self.task, keys.as_bytes()));
    }

    pub(super) async fn ended(&mut self) -> ProgramEnd {
        tokio::time::timeout(PATIENCE, &mut self.end).await.expect("it ends").unwrap()
    }
}

pub(super) fn ready_when(pattern: &str) -> TerminalTraits {
    TerminalTraits { ready: vec![Pattern::screen(pattern)], ..TerminalTraits::default() }
}

// spec: core/pty-process-management/lifecycle-management
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_has_a_terminal_of_its_own_until_it_ends() {
    let mut program = Running::start(
        "test -t 0 && test -t 1 && test -t 2 && echo three; tty; ps -o tty= -p $$; stty size; read line; exit 7",
        "",
        TerminalTraits::default(),
    );
    program.until("it runs", |program| program.clean().contains("40 120")).await;
    let clean = program.clean();
    let lines: Vec<&str> = clean.lines().collect();
    assert_eq!(lines[0], "three");
    assert_eq!(lines[1], format!("/dev/{}", lines[2].trim()), "it is the terminal that controls it");
    assert!(!program.end.is_finished(), "the terminal exists while the program waits");
    program.typed("\r");
    let end = program.ended().await;
    assert_eq!((end.ok, end.exit_code), (false, Some(7)));
    assert!(program.runner.screen(&program.task).is_none(), "its terminal is gone");
    assert!(!program.runner.input(&program.task, b"x"));
}

// spec: core/pty-process-management/lifecycle-management
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_run_ends_the_program_and_everything_it_started() {
    let mark = unique_seconds();
    let script = format!("sleep {mark} & setsid sleep {mark} & trap '' HUP TERM; sleep {mark}");
    let program = Running::start(&script, "", TerminalTraits::default());
    let sleeping = || processes_with(&format!("sleep {mark}"));
    wait_until(sleeping, |pids| pids.len() >= 4);
    program.end.abort();
    wait_until(sleeping, Vec::is_empty);
    assert!(program.runner.screen(&program.task).is_none());
}

#[test]
fn no_process_in_a_terminal_is_left_when_we_are_killed() {
    let mark = unique_seconds();
    let script = format!("sleep {mark} & setsid sleep {mark} & sleep {mark}");
    let dir = tempfile::tempdir().unwrap();
    let mut parent = Command::new(HELPER).arg("terminal").arg(dir.path()).arg(&script).spawn().unwrap();
    let sleeping = || processes_with(&format!("sleep {mark}"));
    wait_until(sleeping, |pids| pids.len() >= 5);
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until(sleeping, Vec::is_empty);
}

// spec: core/pty-process-management/bi-directional-communication
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typed_input_reaches_the_program_and_its_output_is_reported_raw_and_clean() {
    let script = r"printf '\033[1;31mwho?\033[0m\r\n'; read name; printf 'hello \033[4m%s\033[0m\n' $name";
    let mut program = Running::start(script, "", TerminalTraits::default());
    program.until("it asks", |program| program.clean().contains("who?")).await;
    program.typed("world\r");
    assert!(program.ended().await.ok);
    assert!(program.raw().contains("hello \x1b[4mworld\x1b[0m"), "{:?}", program.raw());
    let kept = std::fs::read_to_string(program.dir.path().join("t/output.raw")).unwrap();
    assert_eq!(kept, program.raw(), "the raw output is also on disk");
    assert_eq!(program.clean(), "who?\nworld\nhello world\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_notified_of_size_changes_and_absurd_sizes_are_clamped() {
    let script = "trap 'stty size' WINCH; echo ready; while :; do read line && break; done";
    let mut program = Running::start(script, "", TerminalTraits::default());
    program.until("it runs", |program| program.clean().contains("ready")).await;
    for (cols, rows) in [(0, 0), (1, 1), (500, 200), (u16::MAX, u16::MAX), (0, 0), (90, 33)] {
        program.runner.resize(&program.task, cols, rows);
    }
    program.until("it knows its size", |program| program.raw().contains("33 90")).await;
    let screen = program.runner.screen(&program.task).unwrap();
    assert_eq!((screen.cols, screen.rows.len()), (90, 33));
    program.typed("\r");
    program.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandboxed_program_has_a_terminal() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let script =
            "trap 'stty size' WINCH; cat /etc/shadow; echo ready; while :; do read line && break; done";
        let runner = runner_in(sandbox, script, TerminalTraits::default());
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let work = dir.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let spec = serde_json::json!({ "cwd": work, "sandbox": true });
        let mut program = Running::start_with(&runner, &dir, "t", &spec);
        program.until("it runs", |program| program.clean().contains("ready")).await;
        assert!(!program.raw().contains("root:"), "{kind:?}: {}", program.raw());
        program.runner.resize(&program.task, 90, 33);
        program.until("it knows its size", |program| program.raw().contains("33 90")).await;
        program.typed("\r");
        assert!(program.ended().await.ok, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attached_user_sees_what_was_drawn_and_clean_text_comes_from_the_screen() {
    let script =
        r"printf '\033[2J\033[3;5HDo\033[1Cyou\033[1Cwant\033[1Cto\033[1Cproceed?\033[1;1Htop'; read x";
    let mut program = Running::start(script, "", TerminalTraits::default());
    program
        .until("the question is reported", |program| program.clean().contains("    Do you want to proceed?"))
        .await;
    let screen = program.runner.screen(&program.task).unwrap();
    assert_eq!(screen.text()[..3], ["top", "", "    Do you want to proceed?"]);
    assert_eq!(screen.cursor, Some((3, 0)));
    program.typed("\r");
    program.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_answers_harmless_queries_and_ignores_the_rest() {
    let ask = |query: &str| format!(r"printf '{query}'; sleep 0.1; ");
    let queries = [
        r"\033[c",
        r"\033[>0q",
        r"\033[5n",
        r"\033[3;7H\033[6n",
        r"\033]11;?\007",
        r"\033]7501;?\007",
        r"\033[?2004$p",
        r"\033]0;CANARY\007\033[21t",
        r"\033]52;c;?\007",
        r"\033P$qm\033\\",
        r"\033[?u",
    ];
    let asked: String = queries.iter().map(|query| ask(query)).collect();
    let script =
        format!("stty raw -echo; {asked} printf END; dd bs=1 count=200 2>/dev/null | od -An -c; stty sane");
    let mut program = Running::start(&script, "", TerminalTraits::default());
    program.until("it asked", |program| program.raw().contains("END")).await;
    // The replies are fewer than the 200 bytes that `dd` reads; these bytes make up the rest.
    program.typed(&"~".repeat(200));
    program.ended().await;
    let output: String = program.clean().split_whitespace().collect();
    for answer in [
        "033[?62;22c",
        "033P>|althing(",
        "033[0n",
        "033[3;7R",
        "033]11;rgb:",
        "033]7501;?033\\",
        "033[?2004;2$y",
    ] {
        assert!(output.contains(answer), "{answer}: {output}");
    }
    assert!(!output.contains("CANARY"), "a query for the title is not answered: {output}");
    assert!(!output.contains("]52"), "a query for the clipboard is not answered: {output}");
}

// spec: core/strict-output-isolation/silent-execution
#[test]
fn no_program_output_reaches_our_own_output() {
    let script = r"echo LOUD; echo LOUDER >&2; printf '\033]52;c;TE9VRA==\007'; echo LOUDEST > /dev/tty";
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(HELPER).arg("terminal").arg(dir.path()).arg(script).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "clean: LOUD\\nLOUDER\\nLOUDEST\\n\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

// spec: core/interactive-prompt-dispatch/ready-output-gating
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prompt_is_typed_once_when_the_program_is_ready() {
    for says in [
        "echo Ready for your command",
        "sleep 1; echo Ready for your command",
        "echo Ready for your command; sleep 0.5; echo Ready for your command",
        "printf 'Ready for'; sleep 0.3; printf ' your'; sleep 0.3; echo ' command'",
    ] {
        let script = format!(
            "{says}; read one; echo \"first:$one.\"; echo Ready for your command; read -t 1 two; echo \"then:$two.\""
        );
        let script = format!("exec bash -c '{}'", script.replace('\'', "'\\''"));
        let mut program = Running::start(&script, "build it", ready_when("Ready for your command"));
        program.ended().await;
        let clean = program.clean();
        assert!(clean.contains("first:build it.") && clean.contains("then:."), "{says}: {clean}");
        assert_eq!(program.prompts(), [("build it".to_owned(), None)], "{says}");
        let ready_before = clean.find("Ready").unwrap() < clean.find("build it").unwrap();
        assert!(ready_before, "{says}: {clean}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_never_says_it_is_ready_gets_its_prompt_after_the_time_limit() {
    let traits = TerminalTraits { ready_limit: Some(Duration::from_secs(1)), ..ready_when("never said") };
    let start = Instant::now();
    let mut program = Running::start("read line; echo \"got:$line.\"", "go", traits);
    program.ended().await;
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert!(program.clean().contains("got:go."), "{}", program.clean());
    assert_eq!(program.prompts(), [("go".to_owned(), None)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_for_a_program_that_ends_first_is_reported_as_not_sent() {
    for script in ["exit 3", "exit 0", "echo not yet; exit 3", "printf 'Ready for your command'; kill -9 $$"]
    {
        let mut program = Running::start(script, "go", ready_when("Ready for your command"));
        let end = program.ended().await;
        assert!(!end.ok, "{script}");
        let prompts = program.prompts();
        assert_eq!(prompts.len(), 1, "{script}: {prompts:?}");
        assert!(
            prompts[0].1.as_deref().is_some_and(|why| why.contains("ended before")),
            "{script}: {prompts:?}"
        );
    }
    let mut program = Running::start("exit 0", "", TerminalTraits::default());
    program.ended().await;
    assert!(program.prompts().is_empty(), "without a prompt nothing is reported");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_was_lost_before_a_slow_program_was_ready_is_typed_again() {
    // A prompt that is typed before the program is ready is lost, and must be typed again; unless the program shows it
    // later, because then it was not lost.
    for (shows, reads_again) in [("", true), ("echo \"> $lost\"; ", false)] {
        let script = format!(
            "stty -echo; IFS= read -r lost; {shows}echo Ready for your command; IFS= read -t 4 -r one; echo \"first:$one.\""
        );
        let script = format!("exec bash -c '{}'", script.replace('\'', "'\\''"));
        let traits = TerminalTraits {
            ready_limit: Some(Duration::from_millis(500)),
            ..ready_when("Ready for your command")
        };
        let mut program = Running::start(&script, "build it", traits);
        assert!(program.ended().await.ok);
        let clean = program.clean();
        assert_eq!(clean.contains("first:build it."), reads_again, "{clean}");
        assert_eq!(program.prompts(), [("build it".to_owned(), None)], "it is reported once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_enabled_bracketed_paste_gets_its_prompt_as_a_paste() {
    let script =
        r"stty raw -echo; printf '\033[?2004hgo>'; dd bs=1 count=24 2>/dev/null | od -An -c; stty sane";
    let mut program = Running::start(script, "one\ntwo\nthree", ready_when("go>"));
    program.ended().await;
    let output: String = program.clean().split_whitespace().collect();
    assert!(output.contains(r"033[200~one\ntwo\nthree033[2"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_looks_like_a_command_is_typed_as_prose() {
    // A program without bracketed paste reads each line separately, so no line may begin like a command.
    let script = "stty -echo; printf 'go>'; read -r line; echo \"[$line]\"";
    for (prompt, output) in [
        ("!touch x", "[Task: !touch x]"),
        (" /exit now", "[Task:  /exit now]"),
        ("Say this:\n!touch x", "[Say this: !touch x]"),
    ] {
        let mut program = Running::start(script, prompt, ready_when("go>"));
        program.ended().await;
        assert!(program.clean().contains(output), "{}", program.clean());
        let reported = if prompt.starts_with("Say") { prompt.to_owned() } else { format!("Task:\n{prompt}") };
        assert_eq!(program.prompts(), [(reported, None)]);
    }
}

fn asking() -> TerminalTraits {
    let pattern = Pattern::screen(r"(?m)^(?P<text>May I .*\?)\n\z");
    let ask = AskPattern::new(AskKind::Permission, pattern, &[("yes", "Yes", "y\r")]);
    let ask = ask.with_options("> yes / no");
    TerminalTraits { asks: vec![ask], ..ready_when("^READY$") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trouble_that_comes_back_on_the_screen_is_reported_once() {
    let script = r"show() { printf '\033[2J\033[H%s' $1; }; show model:one; read a; show model:two; read a; show model:one
        printf '\nMay I go on?\n> yes / no'; read a";
    let traits = TerminalTraits { troubles: vec![Pattern::screen(r"model:(\w+)")], ..asking() };
    let mut program = Running::start(script, "", traits);
    let troubles = |program: &Running| -> Vec<String> {
        let reports = program.reports.lock().unwrap();
        let notices = reports.iter().filter_map(|report| match report {
            ProgramReport::Notice(notice) => Some(notice.text.clone()),
            _ => None,
        });
        notices.collect()
    };
    for count in [1, 2] {
        program.until("the trouble is reported", |program| troubles(program).len() == count).await;
        program.typed("\r");
    }
    // The question is on the same screen as the trouble that came back, so by now that trouble has been seen again,
    // too.
    program.until("the question is reported", |program| !program.interactions().is_empty()).await;
    assert_eq!(troubles(&program), ["fake: one", "fake: two"]);
    program.typed("\r");
    assert!(program.ended().await.ok);
}

// spec: core/interaction-detection-for-background-tasks/background-prompt
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_a_background_program_is_reported_while_it_waits() {
    // Only an answer ends the wait.
    let script = r"sleep 0.3; printf 'May I format the disk?\n> yes / no'; read a; echo; echo going on; sleep 1; echo done";
    let mut program = Running::start(script, "", asking());
    program.until("the question is reported", |program| !program.interactions().is_empty()).await;
    assert!(program.raw().contains("> yes / no") && !program.raw().contains("going on"), "{}", program.raw());
    assert_eq!(program.interactions(), ["waits: May I format the disk?"]);
    program.typed("no\r");
    program.until("it moves on", |program| program.interactions().len() == 2).await;
    assert_eq!(program.interactions()[1], "moved on");
    assert!(program.ended().await.ok);
    assert_eq!(program.interactions().len(), 2, "{:?}", program.interactions());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_or_no_question_of_a_command_is_reported_and_can_be_answered() {
    let cases = [
        ("Proceed? [y/N] ", "Proceed? [y/N]", Some("y")),
        ("Do you want to continue? [Y/n] ", "Do you want to continue? [Y/n]", Some("y")),
        ("Connect (yes/no/[fingerprint])? ", "Connect (yes/no/[fingerprint])?", Some("yes")),
        ("Overwrite it (y/n): ", "Overwrite it (y/n):", Some("y")),
        ("[sudo] password for ada: ", "[sudo] password for ada:", None),
    ];
    let (runner, dir) = (runner("", TerminalTraits::default()), Arc::new(tempfile::tempdir().unwrap()));
    for (n, (prompt, reported, answer)) in cases.into_iter().enumerate() {
        let script = format!("echo some lines; echo before; printf '{prompt}'; read a; echo \"heard $a.\"");
        let more = serde_json::json!({"adapter": "command", "command": ["sh", "-c", script], "cwd": "/"});
        let mut program = Running::start_with(&runner, &dir, &format!("t{n}"), &more);
        program.until("it asks", |program| !program.interactions().is_empty()).await;
        match (answer, native(&program, 0)) {
            (Some(_), Some(id)) => assert!(runner.answer(&program.task, &id, "yes"), "{prompt}"),
            (None, None) => program.typed("secret\r"),
            (_, native) => panic!("{prompt}: {native:?}"),
        }
        assert!(program.ended().await.ok);
        // What the answer is about is shown with a question that can be answered.
        let above = if answer.is_some() { "\nsome lines\nbefore" } else { "" };
        assert_eq!(program.interactions(), [format!("waits: {reported}{above}"), "moved on".to_owned()]);
        let output = format!("heard {}.", answer.unwrap_or("secret"));
        assert!(program.clean().contains(&output), "{}", program.clean());
    }
    // Text that only mentions such words is not a question.
    let script =
        "echo 'Answer [y/N] was given.'; echo 'password: is a word'; echo 'use -y (y/n) to skip'; echo end";
    let more = serde_json::json!({"adapter": "command", "command": ["sh", "-c", script], "cwd": "/"});
    let mut program = Running::start_with(&runner, &dir, "quiet", &more);
    assert!(program.ended().await.ok);
    assert_eq!(program.interactions(), [""; 0]);
}

pub(super) fn native(program: &Running, nth: usize) -> Option<String> {
    let reports = program.reports.lock().unwrap();
    let asks = reports.iter().filter_map(|report| match report {
        ProgramReport::Waiting(ask) => Some(ask.clone()),
        _ => None,
    });
    asks.collect::<Vec<_>>().get(nth).and_then(|ask| ask.native.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_not_typed_before_the_program_accepts_keys() {
    // Like Claude Code: keys are dropped just after the question was drawn. The time in which they are dropped begins
    // before that, so that a busy machine does not extend it.
    let script = r#"stty -echo; timeout --foreground 0.15 sh -c 'printf "May I go?\n> yes / no"; exec cat >/dev/null'; read a; echo; echo got $a"#;
    let mut program = Running::start(script, "", asking());
    program.until("it asks", |program| native(program, 0).is_some()).await;
    assert!(program.runner.answer(&program.task, &native(&program, 0).unwrap(), "yes"));
    assert!(program.ended().await.ok);
    assert!(program.clean().contains("got y"), "{}", program.clean());
    assert_eq!(program.interactions(), ["waits: May I go?", "moved on"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_ignores_its_answer_is_reported_again() {
    let script = r"stty -echo; printf 'May I go?\n> yes / no'; read a; read b; echo; echo got $a $b";
    let mut program = Running::start(script, "", asking());
    program.until("it asks", |program| native(program, 0).is_some()).await;
    let first = native(&program, 0).unwrap();
    assert!(program.runner.answer(&program.task, &first, "yes"));
    assert!(!program.runner.answer(&program.task, &first, "yes"), "a question can be answered only once");
    program.until("it asks again", |program| native(program, 1).is_some()).await;
    assert!(program.runner.answer(&program.task, &native(&program, 1).unwrap(), "yes"));
    assert!(program.ended().await.ok);
    assert!(program.clean().contains("got y y"), "{}", program.clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_typed_only_into_its_own_question() {
    let script = r"printf 'May I go?\n> yes / no'; read a; printf '\033[2J\033[Hwell\n'; sleep 0.5; printf 'May I stay?\n> yes / no'; read b; echo; echo $a $b";
    let mut program = Running::start(script, "", asking());
    program.until("it asks", |program| native(program, 0).is_some()).await;
    let first = native(&program, 0).unwrap();
    assert!(!program.runner.answer(&program.task, "another", "yes"));
    assert!(!program.runner.answer(&program.task, &first, "maybe"));
    assert!(program.runner.answer(&program.task, &first, "yes"));
    program.until("it asks again", |program| native(program, 1).is_some()).await;
    assert!(!program.runner.answer(&program.task, &first, "yes"), "that question was answered");
    assert!(program.runner.answer(&program.task, &native(&program, 1).unwrap(), "yes"));
    assert!(program.ended().await.ok);
    assert!(program.clean().contains("y y"), "{}", program.clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_programs_own_status_overrides_its_screen() {
    let blocked = r"printf '\033]7501;state=blocked:kind=question:msg=V2hpY2ggY29sb3VyPw==\007'; read a; ";
    let working = r"printf '\033]7501;state=working\007May I lie?\n> yes / no'; sleep 1; printf '\033]7501;state=done\007\033[2J'";
    let mut program = Running::start(&(blocked.to_owned() + working), "", asking());
    program.until("it asks", |program| !program.interactions().is_empty()).await;
    program.typed("\r");
    program.ended().await;
    assert_eq!(program.interactions(), ["waits: Which colour?", "moved on"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_programs_at_once_each_get_the_answer_to_their_own_question() {
    let script = r#"seq 1 2000; printf "May I be $NAME?\n> yes / no"; read a; echo; echo "$NAME heard $a.""#;
    let (runner, dir) = (runner(script, asking()), Arc::new(tempfile::tempdir().unwrap()));
    let mut programs: Vec<Running> =
        (0..50).map(|n| Running::start_as(&runner, &dir, &format!("p{n}"), "")).collect();
    for program in &programs {
        program.until("it asks", |program| !program.interactions().is_empty()).await;
    }
    for program in &mut programs {
        let name = program.task.to_string();
        assert_eq!(program.interactions(), [format!("waits: May I be {name}?")]);
        program.typed(&format!("answer-{name}\r"));
        assert!(program.ended().await.ok);
        assert!(program.clean().contains(&format!("{name} heard answer-{name}.")), "{}", program.clean());
    }
}
