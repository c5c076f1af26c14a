//! Headless programs: their output, their exit, and that they always end.

use super::programs::{AGENT, TaskFixture};
use super::support::{PATIENCE, processes_with, unique_seconds, wait_until, zombies};
use althing_protocol::{Item, Millis, ProgramReport, Programs, ResumedConversation, TurnProgress};
use althing_testkit::scale;
use std::sync::Arc;
use std::time::{Duration, Instant};

// spec: core/headless-process-management/headless-output-capture
#[tokio::test]
async fn stdout_and_stderr_are_reported_raw_and_clean_and_passed_to_the_adapter() {
    let fixture = TaskFixture::new();
    let script = "write \x1b[31mred\x1b[0m\nsay  and plain\ncomplain oh\nwait WORK/go\nsay late\nexit 3";
    let job = fixture.job("t", &script.replace("WORK", fixture.path("work").to_str().unwrap()));
    let run = fixture.run(&job);
    let watch = async {
        while !fixture.output().1.contains("oh") || !fixture.output().1.contains("plain") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        std::fs::write(fixture.path("work/go"), "").unwrap();
    };
    let (end, ()) = tokio::time::timeout(PATIENCE, async { tokio::join!(run, watch) }).await.unwrap();
    let (raw, clean) = fixture.output();
    let raw = String::from_utf8(raw).unwrap();
    assert!(raw.contains("\x1b[31mred\x1b[0m and plain\n") && raw.contains("oh\n"), "{raw:?}");
    assert!(
        clean.contains("red and plain\n") && clean.contains("oh\n") && !clean.contains('\x1b'),
        "{clean:?}"
    );
    assert_eq!(end.output, "red and plain\nlate\n", "the answer is its stdout without stderr");
    assert_eq!((end.ok, end.exit_code, end.signal), (false, Some(3), None));
    assert_eq!(end.error.as_deref(), Some("it ended with exit code 3: oh"), "the adapter read the errors");
    let kept = std::fs::read(fixture.path("state/t/output.raw")).unwrap();
    assert_eq!(kept.len(), raw.len());
}

// spec: core/strict-output-isolation/silent-execution
#[test]
fn no_program_output_reaches_our_own_output() {
    let dir = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(super::support::HELPER)
        .args(["program"])
        .arg(dir.path())
        .args([AGENT, "say CANARY-out\ncomplain CANARY-err\nflood 1\nwrite CANARY-last"])
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert!(out.contains("reported"), "the program ran and its output was reported: {out}");
    assert!(!out.contains("CANARY") && !err.contains("CANARY"), "{out}{err}");
}

#[tokio::test]
async fn any_prompt_is_passed_unchanged_on_stdin_which_then_ends() {
    let fixture = TaskFixture::new();
    let long = "x".repeat(300_000);
    for prompt in [
        "--help",
        "!x",
        "/clear",
        "exit",
        "x \\",
        "-rf\n'\"$(touch hacked)`;|&",
        "",
        "ä\u{0}\u{1b}[31m",
        &long,
    ] {
        let end = fixture.run(&fixture.command("cat", &["cat"], prompt)).await;
        assert!(end.ok, "{end:?}");
        let raw = std::fs::read(fixture.path("state/cat/output.raw")).unwrap_or_default();
        assert_eq!(raw, prompt.as_bytes());
        let sent = Item::PromptSent { text: prompt.to_owned(), error: None };
        assert!(fixture.items().contains(&sent), "{:?}", fixture.items());
    }
    assert!(!fixture.path("work/hacked").exists());
}

#[tokio::test]
async fn a_prompt_that_looks_like_a_command_reaches_an_agent_as_prose() {
    let fixture = TaskFixture::new();
    for (adapter, prompt) in [("claude", "!touch x"), ("codex", "\n /clear it"), ("claude", "exit")] {
        let mut job = fixture.agent(adapter, prompt);
        for resume in [None, Some("a-conversation".to_owned())] {
            job.resume = resume.map(|id| ResumedConversation { id, turn: TurnProgress::NotBegun });
            fixture.run(&job).await;
            let agent_log = fixture.agent_log();
            let start = agent_log.iter().rposition(|line| line.starts_with("start ")).unwrap();
            assert_eq!(agent_log[start + 1], "Task:", "{agent_log:?}");
            assert!(
                agent_log[start + 2..].contains(&prompt.trim_start_matches('\n').to_owned()),
                "{agent_log:?}"
            );
            let sent = Item::PromptSent { text: format!("Task:\n{prompt}"), error: None };
            assert!(fixture.items().contains(&sent), "{:?}", fixture.items());
        }
    }
}

#[tokio::test]
async fn a_program_that_does_not_read_its_prompt_is_not_waited_for() {
    let fixture = TaskFixture::new();
    let long = "x".repeat(1_000_000);
    let end = fixture.run(&fixture.command("true", &["true"], &long)).await;
    assert!(end.ok, "{end:?}");
}

#[tokio::test]
async fn a_signal_is_distinguished_from_an_exit_code() {
    let fixture = TaskFixture::new();
    let end = fixture.run(&fixture.job("t", "say before\nkill -KILL")).await;
    assert_eq!((end.ok, end.exit_code, end.signal), (false, None, Some(9)));
    assert_eq!(end.output, "before\n");
}

#[tokio::test]
async fn a_program_that_cannot_be_started_gives_an_error_and_a_hint() {
    let fixture = TaskFixture::new();
    let end = fixture.run(&fixture.command("t", &["no-such-program-here"], "")).await;
    assert_eq!(end.error.as_deref(), Some("the program `no-such-program-here` was not found in PATH"));
    assert!(end.hint.is_some());
    let mut job = fixture.job("t", "");
    job.spec.adapter = "clod".to_owned();
    let end = fixture.run(&job).await;
    assert_eq!(end.error.as_deref(), Some("there is no adapter named `clod`"));
    assert!(end.hint.unwrap().contains("claude"));
    let mut job = fixture.job("t", "");
    job.spec.cwd = "/no/such/dir".to_owned();
    assert!(fixture.run(&job).await.error.unwrap().contains("/no/such/dir"));
}

#[tokio::test]
async fn a_silent_program_is_ended_at_its_idle_limit_even_if_it_ignores_term() {
    for script in ["say hello\nsleep 60000", "ignore-term\nsay hello\nsleep 60000"] {
        let fixture = TaskFixture::new();
        let mut job = fixture.job("t", script);
        job.spec.idle_timeout = Some(Millis(5000));
        let start = Instant::now();
        let end = fixture.run(&job).await;
        let took = start.elapsed();
        assert!(!end.ok && end.error.as_deref().unwrap().contains("printed nothing for 5 s"), "{end:?}");
        assert_eq!(end.output, "hello\n");
        assert!(took >= Duration::from_secs(5), "{took:?}");
    }
}

#[tokio::test]
async fn a_program_that_keeps_printing_is_not_idle() {
    let fixture = TaskFixture::new();
    // Each pause is far shorter than the limit; together they are longer.
    let mut job = fixture.job("t", &"say still here\nsleep 500\n".repeat(22));
    job.spec.idle_timeout = Some(Millis(10_000));
    let start = Instant::now();
    let end = fixture.run(&job).await;
    assert!(end.ok, "{end:?}");
    assert!(start.elapsed() > Duration::from_secs(10), "the limit was never passed: nothing is proved");
}

#[tokio::test]
async fn closing_its_output_does_not_end_it() {
    let fixture = TaskFixture::new();
    let end =
        fixture.run(&fixture.job("t", "say one\nclose-output\nsleep 300\nnote still there\nexit 4")).await;
    assert_eq!((end.exit_code, end.output.as_str()), (Some(4), "one\n"));
    assert!(fixture.agent_log().contains(&"note still there".to_owned()));
}

#[tokio::test]
async fn a_held_pipe_does_not_hold_the_task_and_the_holder_is_ended() {
    let fixture = TaskFixture::new();
    let mark = unique_seconds();
    let script = format!("say done\nhold {mark}\ntouch {}", fixture.path("work/over").display());
    let job = fixture.job("t", &script);
    // The holder would hold the pipe for years.
    let end = tokio::time::timeout(PATIENCE, fixture.run(&job)).await.expect("the task ends");
    assert!(end.ok && end.output == "done\n", "{end:?}");
    assert!(fixture.path("work/over").exists(), "the program reached its own end");
    assert!(processes_with(&mark).is_empty());
}

#[tokio::test]
async fn when_a_task_ends_nothing_that_it_started_is_left() {
    let fixture = TaskFixture::new();
    let mark = unique_seconds();
    let script = format!("child {mark}\nsetsid {mark}\ndouble-fork {mark}\nsay done");
    let end = fixture.run(&fixture.job("t", &script)).await;
    assert!(end.ok, "{end:?}");
    wait_until(|| processes_with(&mark), Vec::is_empty);
    assert!(zombies().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_at_any_moment_ends_everything() {
    let rounds = scale(25, 1000);
    let fixture = Arc::new(TaskFixture::new());
    let mark = unique_seconds();
    let mut dice = 12345_u64;
    for round in 0..rounds {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let script =
            format!("child {mark}\nsetsid {mark}\nignore-term\ndouble-fork {mark}\nsay x\nsleep {mark}");
        let job = fixture.job(&format!("t{round}"), &script);
        let run = fixture.run(&job);
        let moment = Duration::from_micros(dice >> 47);
        assert!(tokio::time::timeout(moment, run).await.is_err(), "cancelled after {moment:?}");
    }
    let took = wait_until(|| processes_with(&mark), Vec::is_empty);
    println!("{rounds} cancelled at random moments; nobody left {took:?} after the last");
    wait_until(zombies, Vec::is_empty);
}

#[tokio::test]
async fn a_cancelled_program_may_clean_up_first() {
    let fixture = TaskFixture::patient();
    let shell = "trap 'echo tidied > tidied; exit' TERM; touch ready; while :; do sleep 0.01; done";
    let job = fixture.command("t", &["sh", "-c", shell], "");
    let run = fixture.run(&job);
    let ready = async {
        while !fixture.path("work/ready").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! { _ = run => panic!("it ended by itself"), () = ready => () }
    let tidied = || std::fs::read_to_string(fixture.path("work/tidied")).unwrap_or_default();
    althing_testkit::wait::until_async(PATIENCE, || tidied() == "tidied\n").await;
}

#[tokio::test]
async fn an_agents_events_become_items_and_its_conversation_can_be_resumed() {
    let fixture = TaskFixture::new();
    let mut job = fixture.agent("claude", "say hello\nsay the answer");
    let end = fixture.run(&job).await;
    assert!(end.ok, "{end:?}");
    assert_eq!(end.output, "the answer");
    let items = fixture.items();
    let id = items
        .iter()
        .find_map(|item| if let Item::Conversation { id } = item { Some(id.clone()) } else { None });
    let id = id.unwrap();
    assert!(items.contains(&Item::Said { text: "hello".to_owned() }), "{items:?}");
    assert!(
        fixture.agent_log()[0].contains(&format!("--session-id {id}")),
        "we chose it: {:?}",
        fixture.agent_log()
    );
    job.resume = Some(ResumedConversation { id: id.clone(), turn: TurnProgress::NotBegun });
    job.spec.prompt = "say more".to_owned();
    let again = fixture.run(&job).await;
    assert!(again.ok, "{again:?}");
    assert!(
        fixture.agent_log().iter().filter(|line| line.starts_with("start") && line.contains(&id)).count()
            == 2
    );
    assert_eq!(
        (end.usage.cost_usd, again.usage.cost_usd),
        (0.01, 0.0),
        "its cost is that of the whole conversation"
    );
    assert_eq!(again.usage.input_tokens, 10);
}

#[tokio::test]
async fn a_turn_that_was_finished_before_an_interruption_is_read_without_a_search_of_the_directory() {
    let fixture = TaskFixture::new();
    let mut job = fixture.agent("claude", "say the answer");
    assert_eq!(fixture.run(&job).await.output, "the answer");
    // The path of the last directory is too long for a search, so a program that needs the search is refused.
    let deep = format!("{}/", "d".repeat(250)).repeat(14);
    std::fs::create_dir_all(fixture.path("work").join(deep)).unwrap();
    let refused = fixture.run(&fixture.agent("codex", "say hello")).await;
    assert!(refused.error.clone().unwrap_or_default().contains("could not check whether"), "{refused:?}");
    let id = fixture
        .items()
        .iter()
        .find_map(|item| if let Item::Conversation { id } = item { Some(id.clone()) } else { None });
    job.resume = Some(ResumedConversation { id: id.unwrap(), turn: TurnProgress::Begun });
    let end = fixture.run(&job).await;
    assert_eq!((end.ok, end.output.as_str()), (true, "the answer"), "{end:?}");
    let starts = fixture.agent_log().iter().filter(|line| line.starts_with("start")).count();
    assert_eq!(starts, 1);
}

#[tokio::test]
async fn an_exit_code_of_zero_without_the_last_event_is_a_failure() {
    let fixture = TaskFixture::new();
    let end = fixture.run(&fixture.agent("claude", "say hello\nexit 0")).await;
    assert!(!end.ok && end.error.unwrap().contains("no result"));
    let end = fixture.run(&fixture.agent("codex", "say hello\nexit 0")).await;
    assert!(!end.ok && end.error.unwrap().contains("did not complete"));
    let end = fixture.run(&fixture.agent("codex", "say hello")).await;
    assert!(end.ok, "{end:?}");
}

#[tokio::test]
async fn a_long_answer_is_truncated_and_names_the_file_with_the_rest() {
    let fixture = TaskFixture::new();
    let end = fixture.run(&fixture.job("t", "say first\nflood 1\nsay last")).await;
    assert!(end.ok);
    assert!(
        end.output.len() < 65 * 1024 && end.output.starts_with("first\n") && end.output.ends_with("last\n")
    );
    let file = fixture.path("state/t/output.raw");
    assert!(end.output.contains(file.to_str().unwrap()), "{}", &end.output[32_700..33_000]);
    assert_eq!(std::fs::metadata(file).unwrap().len(), (1 << 20) + 11);
}

#[tokio::test]
async fn an_incomplete_line_is_shown_after_a_delay() {
    let fixture = TaskFixture::new();
    let job = fixture.job("t", "write 50 percent\nsleep 60000");
    let run = fixture.run(&job);
    let seen = async {
        while !fixture.output().1.contains("50 percent") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let shown = async {
        tokio::select! { _ = run => panic!("it ended"), () = seen => () }
    };
    tokio::time::timeout(PATIENCE, shown).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_programs_run_concurrently() {
    let fixture = Arc::new(TaskFixture::new());
    let go = fixture.path("work/go");
    let mut runs = Vec::new();
    for n in 0..200 {
        let (fixture, go) = (Arc::clone(&fixture), go.clone());
        runs.push(tokio::spawn(async move {
            let job = fixture.job(&format!("t{n}"), &format!("say up {n}\nwait {}\nsay {n}", go.display()));
            let quiet: althing_protocol::ReportSink = Arc::new(|_: ProgramReport| ());
            fixture.runner.run(&job, quiet).await
        }));
    }
    let up = || fixture.agent_log().iter().filter(|line| line.starts_with("wait")).count();
    let took = wait_until(up, |up| *up == 200);
    println!("200 programs were up after {took:?}; {}", memory_of_guards());
    std::fs::write(&go, "").unwrap();
    for (n, run) in runs.into_iter().enumerate() {
        let end = run.await.unwrap();
        assert!(end.ok && end.output == format!("up {n}\n{n}\n"), "{end:?}");
    }
}

/// Fails if the average memory (proportional set size) of this process's guards is 400 kB or more.
fn memory_of_guards() -> String {
    let own = format!("PPid:\t{}", std::process::id());
    let is_ours = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line == own)
    };
    let guards: Vec<u32> = processes_with("__guard").into_iter().filter(is_ours).collect();
    assert!(!guards.is_empty());
    // The pages of the executable are not counted: they grow with the size of the debug build.
    let share = |pid: &u32| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
        let (mut is_executable, mut total) = (false, 0);
        for line in maps.lines() {
            if let Some(kb) = line.strip_prefix("Pss:").filter(|_| !is_executable) {
                total +=
                    kb.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default();
            } else if line.split_whitespace().next().is_some_and(|word| word.contains('-')) {
                is_executable = line.contains("/target/");
            }
        }
        total
    };
    let total: u64 = guards.iter().map(share).sum();
    let each = total / guards.len().max(1) as u64;
    assert!((1..400).contains(&each), "a guard costs {each} kB");
    format!("{} guards, {each} kB each", guards.len())
}
