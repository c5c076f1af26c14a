//! Commands that succeed, fail, hang, flood or refuse to end.

use super::support::{
    AgentFixture, HELPER, PATIENCE, SANDBOXES, call, processes_with, run, run_as, sandbox, unique_seconds,
    wait_until, zombies,
};
use althing_protocol::{ContextAccess, ProcessLimits, ToolHost};
use althing_runner::{ChildEnvironment, SandboxKind};
use std::time::{Duration, Instant};

const ALL: [SandboxKind; 3] = [SandboxKind::Bubblewrap, SandboxKind::Landlock, SandboxKind::Unconfined];

#[tokio::test(flavor = "multi_thread")]
async fn output_is_returned_in_order_with_the_exit_code() {
    for kind in ALL {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let outcome =
            run(&agent_files.host(sandbox), "echo one; echo two >&2; echo three; cat own.txt; exit 3").await;
        assert_eq!(outcome.content, "exit code: 3\none\ntwo\nthree\nown", "{kind:?}");
        assert!(!outcome.is_error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_is_distinguished_from_an_exit() {
    for kind in ALL {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let outcome = run(&agent_files.host(sandbox), "kill -SEGV $$").await;
        assert!(outcome.content.contains("signal 11, SIGSEGV"), "{kind:?}: {}", outcome.content);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_closed() {
    for kind in ALL {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let outcome = run(&agent_files.host(sandbox), "cat; read x; echo \"read gave $?\"").await;
        assert_eq!(outcome.content, "exit code: 0\nread gave 1\n", "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workspace_is_home_and_working_directory_and_keeps_its_files() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let command = "pwd; echo $HOME; mkdir -p a/b && echo new > a/b/c && mv a d && ln own.txt hard && rm own.txt; \
                       echo tmp > $TMPDIR/x && cat $TMPDIR/x";
        let outcome = run(&agent_files.host(sandbox), command).await;
        let workspace = agent_files.path("workspace");
        let expected = format!("exit code: 0\n{0}\n{0}\ntmp\n", workspace.display());
        assert_eq!((outcome.content, outcome.is_error), (expected, false), "{kind:?}");
        assert_eq!(agent_files.read("workspace/d/b/c"), "new\n");
        assert_eq!(agent_files.read("workspace/hard"), "own");
        assert!(!workspace.join("own.txt").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn context_paths_are_writable_only_if_both_the_access_and_the_mount_allow_it() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let host = agent_files.host(sandbox);
        let project = agent_files.path("project");
        let write = format!("echo more >> {0}/src/main.rs && echo more > {0}/src/new", project.display());
        let outcome = run(&host, &write).await;
        assert!(!outcome.content.starts_with("exit code: 0"), "{kind:?}: {}", outcome.content);
        assert!(!project.join("src/new").exists());

        let outcome = run_as(&host, &write, ContextAccess::Writable).await;
        assert_eq!(outcome.content, "exit code: 0\n(no output)", "{kind:?}");
        assert_eq!(agent_files.read("project/src/new"), "more\n");

        let outcome = run(&host, &format!("ls {}", project.display())).await;
        assert_eq!(outcome.content, "exit code: 0\nnotes.txt\nsrc\nvendor\n", "{kind:?}");

        let never = format!("cat {0}/book.txt && echo x > {0}/new", agent_files.path("reference").display());
        let outcome = run_as(&host, &never, ContextAccess::Writable).await;
        assert!(outcome.content.contains("book"), "{kind:?}: {}", outcome.content);
        assert!(!agent_files.path("reference/new").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_can_be_written_next_to_a_git_symlink() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        std::fs::rename(agent_files.path("project/.git"), agent_files.path("elsewhere")).unwrap();
        std::os::unix::fs::symlink(agent_files.path("elsewhere"), agent_files.path("project/.git")).unwrap();
        let command = format!(
            "cd {}; cat notes.txt; rm -f .git; ln -sfn {} .git; echo x > notes.txt; echo x > src/new",
            agent_files.path("project").display(),
            agent_files.path("workspace").display()
        );
        let outcome = run_as(&agent_files.host(sandbox), &command, ContextAccess::Writable).await;
        assert!(outcome.content.contains("notes"), "{kind:?}: {}", outcome.content);
        assert_eq!(
            std::fs::read_link(agent_files.path("project/.git")).unwrap(),
            agent_files.path("elsewhere"),
            "{kind:?}"
        );
        assert_eq!(agent_files.read("project/notes.txt"), "notes", "{kind:?}");
        assert!(!agent_files.path("project/src/new").exists(), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_directory_must_be_inside_the_mounts() {
    let Some(sandbox) = sandbox(SandboxKind::Bubblewrap).await else { return };
    let agent_files = AgentFixture::new();
    let host = agent_files.host(sandbox);
    for (cwd, given) in [("project/src", true), ("home", false), ("project/.althing", false), ("none", false)]
    {
        let arguments = serde_json::json!({ "command": "pwd", "cwd": agent_files.path(cwd) });
        let outcome = host.call(&call(&arguments), ContextAccess::ReadOnly).await;
        assert_eq!(!outcome.is_error, given, "{cwd}: {}", outcome.content);
    }
    let outcome = host
        .call(&call(&serde_json::json!({ "command": "pwd", "cwd": ".." })), ContextAccess::ReadOnly)
        .await;
    assert!(outcome.is_error);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_an_allow_list() {
    for kind in ["bubblewrap", "landlock", "unconfined"] {
        let dir = tempfile::tempdir().unwrap();
        let output = std::process::Command::new(HELPER)
            .args(["run", kind])
            .arg(dir.path())
            .arg("env; echo OTHERS; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
            .env("OPENAI_API_KEY", "CANARY-secret")
            .env("SSH_AUTH_SOCK", "/tmp/CANARY-agent")
            .env("LANG", "C.UTF-8")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("LANG=C.UTF-8"), "{text}");
        // An unconfined command can read its parents' environment.
        let own = if kind == "unconfined" { text.split("OTHERS").next().unwrap() } else { &text };
        assert!(!own.contains("CANARY"), "{kind}: {own}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explicit_variables_override_passed_ones() {
    let Some(sandbox) = sandbox(SandboxKind::Bubblewrap).await else { return };
    let env = ChildEnvironment {
        pass: vec!["PATH".to_owned(), "CARGO_MANIFEST_DIR".to_owned()],
        set: vec![("CARGO_MANIFEST_DIR".to_owned(), "given".to_owned())],
    };
    let agent_files = AgentFixture::new();
    let host = agent_files.host_with(sandbox, |policy| policy.env = env);
    let outcome = run(&host, "echo $CARGO_MANIFEST_DIR").await;
    assert_eq!(outcome.content, "exit code: 0\ngiven\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ignores_term_is_ended_soon_after_its_time_limit() {
    for kind in ALL {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let mark = unique_seconds();
        let agent_files = AgentFixture::new();
        let host = agent_files.host_with(sandbox, |policy| policy.limits.grace = Duration::from_millis(300));
        let command = format!("trap '' TERM; echo begun; setsid sleep {mark} & while :; do sleep 0.1; done");
        let arguments = serde_json::json!({ "command": command, "timeout_seconds": 4 });
        let outcome = host.call(&call(&arguments), ContextAccess::ReadOnly).await;
        assert_eq!(outcome.content, "ended: the time limit of 4 s was reached\nbegun\n", "{kind:?}");
        assert!(outcome.is_error);
        wait_until(|| processes_with(&mark), Vec::is_empty);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_may_clean_up_at_its_time_limit() {
    for kind in ALL {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let host = agent_files.host_with(sandbox, |policy| policy.limits.grace = PATIENCE);
        let command = "trap 'echo tidied; exit 0' TERM; sleep 360000 & wait";
        // The shell must have set its trap by then, also on a busy machine.
        let arguments = serde_json::json!({ "command": command, "timeout_seconds": 10 });
        let outcome = host.call(&call(&arguments), ContextAccess::ReadOnly).await;
        assert_eq!(outcome.content, "ended: the time limit of 10 s was reached\ntidied\n", "{kind:?}");
    }
}

/// The process changes its pid and session all the time, so neither a process list nor a process group contains it
/// for long.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_keeps_forking_is_killed() {
    for kind in ALL {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let host = agent_files.host(sandbox);
        let mark = unique_seconds();
        let runaway = format!(
            "perl -e 'use POSIX; while (1) {{ fork and exit; POSIX::setsid(); }} # {mark}' & sleep 0.3"
        );
        let start = Instant::now();
        let outcome = run(&host, &runaway).await;
        println!("{kind:?}: caught after {:?}", start.elapsed().saturating_sub(Duration::from_millis(300)));
        assert_eq!(outcome.content, "exit code: 0\n(no output)", "{kind:?}");
        for _ in 0..20 {
            assert_eq!(processes_with(&mark), Vec::<u32>::new(), "{kind:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn network_access_opens_nothing_else() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let host = agent_files.host_with(sandbox, |policy| policy.network = true);
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("althing-{}", unique_seconds());
        let address =
            <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name);
        let hidden = std::os::unix::net::UnixListener::bind_addr(&address.unwrap()).unwrap();
        hidden.set_nonblocking(true).unwrap();
        let command = format!(
            "echo hello > /dev/tcp/127.0.0.1/{}; perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); \
             connect(S, pack(\"Sa*\", 1, \"\\0{name}\")) and print \"CANARY\"'",
            tcp.local_addr().unwrap().port()
        );
        let outcome = run(&host, &command).await;
        assert!(!outcome.content.contains("CANARY"), "{kind:?}: {}", outcome.content);
        assert!(hidden.accept().is_err(), "{kind:?}");
        let mut output = String::new();
        tcp.set_nonblocking(true).unwrap();
        std::io::Read::read_to_string(&mut tcp.accept().unwrap().0, &mut output).unwrap();
        assert_eq!(output, "hello\n", "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_holds_the_pipe_does_not_block_the_call() {
    for kind in ALL {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let mark = unique_seconds();
        let agent_files = AgentFixture::new();
        let host = agent_files.host(sandbox);
        // If the call waited for the two processes that hold its pipe open, it would reach its time limit and have
        // another result.
        let command = format!("setsid sleep {mark} & (trap '' TERM HUP; sleep {mark}) & echo over");
        let outcome = run(&host, &command).await;
        assert_eq!(outcome.content, "exit code: 0\nover\n", "{kind:?}");
        wait_until(|| processes_with(&mark), Vec::is_empty);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_pipe_inside_a_command_behaves_as_usual() {
    for kind in ALL {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let outcome = run(&agent_files.host(sandbox), "yes | head -n 1; echo ${PIPESTATUS[0]}").await;
        assert_eq!(outcome.content, "exit code: 0\ny\n141\n", "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_call_ends_everything_it_started() {
    for kind in ALL {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let mark = unique_seconds();
        let agent_files = AgentFixture::new();
        let host = agent_files.host(sandbox);
        let command =
            format!("setsid sleep {mark} & (setsid sh -c 'sleep {mark} & sleep {mark}' &) ; sleep {mark}");
        {
            let work = run(&host, &command);
            tokio::select! {
                outcome = work => panic!("ended by itself: {}", outcome.content),
                () = async {
                    let all = |pids: &Vec<u32>| pids.len() >= 4;
                    let mark = mark.clone();
                    tokio::task::spawn_blocking(move || {
                        wait_until(|| processes_with(&format!("sleep {mark}")), all)
                    }).await.unwrap();
                } => {}
            }
        }
        wait_until(|| processes_with(&mark), Vec::is_empty);
        wait_until(zombies, Vec::is_empty);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_output_is_shown_in_part_and_stored_completely_in_a_readable_file() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let host = agent_files.host(sandbox);
        let outcome = run(&host, "seq 1 100000").await;
        assert!(outcome.content.len() < 66 * 1024, "{}", outcome.content.len());
        assert!(outcome.content.starts_with("exit code: 0\n1\n2\n"), "{kind:?}");
        assert!(outcome.content.ends_with("99999\n100000\n"), "{kind:?}");
        let (_, rest) = outcome.content.split_once("the complete output is in ").expect("a file is named");
        let (path, _) = rest.split_once(" …]").unwrap();
        let kept = std::fs::read_to_string(path).unwrap();
        assert_eq!(kept, (1..=100_000).fold(String::new(), |all, n| all + &n.to_string() + "\n"));
        let again = run(&host, &format!("wc -l < {path}; echo x >> {path}")).await;
        assert!(again.content.contains("100000\n"), "{kind:?}: {}", again.content);
        assert_eq!(
            std::fs::metadata(path).unwrap().len(),
            kept.len() as u64,
            "{kind:?}: changed by the agent"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stored_outputs_of_an_agent_together_have_a_limit_and_the_agent_is_told() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let limits = ProcessLimits { disk: 8 << 20, ..ProcessLimits::default() };
        let output_dir = agent_files.sandbox_paths().output_dir;
        let stored = || {
            let files = std::fs::read_dir(&output_dir).unwrap();
            files
                .map(|file| file.unwrap().metadata().unwrap())
                .filter(std::fs::Metadata::is_file)
                .map(|file| file.len())
                .sum()
        };
        let flood = "head -c 3000000 /dev/zero | tr '\\0' a";
        let host = agent_files.host_limited(sandbox.clone(), limits);
        let mut told = Vec::new();
        for _ in 0..4 {
            told.push(run(&host, flood).await.content);
        }
        let sum: u64 = stored();
        assert_eq!(sum, 8 << 20, "{kind:?}");
        assert!(told[1].contains("the complete output is in "), "{kind:?}: {}", told[1]);
        assert!(told[2].contains("the first 2388608 bytes are in "), "{kind:?}: {}", told[2]);
        assert!(told[3].contains("`orchestrator.limits.disk`"), "{kind:?}: {}", told[3]);
        // Also after a restart.
        let again = run(&agent_files.host_limited(sandbox, limits), flood).await.content;
        assert!(again.contains("`orchestrator.limits.disk`"), "{kind:?}: {again}");
        assert_eq!(stored(), sum, "{kind:?}");
    }
}

#[test]
fn a_flood_of_a_gibibyte_costs_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let output = std::process::Command::new(HELPER)
        .args(["run", "unconfined"])
        .arg(dir.path())
        .arg("head -c 1073741824 /dev/zero; echo; echo end; exit 7")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("exit code: 7"), "{}", text.get(..200).unwrap_or(&text));
    assert!(text.contains("of 1073741829 bytes left out here; the first 16777216 bytes are in"));
    let peak =
        text.split("VmHWM:").nth(1).unwrap().trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap();
    println!("1 GiB in {:?}, peak memory {peak} kB", start.elapsed());
    assert!(peak < 64 * 1024, "{peak} kB");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commands_run_concurrently() {
    let Some(sandbox) = sandbox(SandboxKind::Bubblewrap).await else { return };
    let agent_files = AgentFixture::new();
    let host = std::sync::Arc::new(agent_files.host(sandbox));
    let start = Instant::now();
    let work: Vec<_> = (0..20)
        .map(|n| {
            let host = std::sync::Arc::clone(&host);
            tokio::spawn(async move { (n, run(&host, &format!("echo {n}")).await.content) })
        })
        .collect();
    for one in work {
        let (n, content) = one.await.unwrap();
        assert_eq!(content, format!("exit code: 0\n{n}\n"));
    }
    println!("20 commands in {:?}", start.elapsed());
}
