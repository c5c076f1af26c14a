//! What a command, a CLI agent, an MCP server or a container may use of the machine: processes, memory, open files,
//! disk. Every attacker is bounded by itself, so that a limit that fails does not endanger the machine.

use super::programs::TaskFixture;
use super::support::{
    AgentFixture, HELPER, SANDBOXES, is_excluded, launcher, processes_with, run, run_as, sandbox,
    unique_seconds, wait_until,
};
use althing_protocol::{ContextAccess, ExecutionMode, ProcessLimits};
use althing_runner::{ContainerSpec, DockerClient, NetworkMode, PipedProgram, Sandbox};
use althing_testkit::docker::{IMAGE, TestDockerDaemon};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const MIB: u64 = 1 << 20;

const LIMITS: ProcessLimits =
    ProcessLimits { processes: Some(60), memory: Some(160 * MIB), open_files: 200, disk: 64 * MIB };

struct Attack {
    name: &'static str,
    /// The script, in which `MARK` is replaced by a number of seconds that identifies the processes of the test.
    script: &'static str,
    /// The last part of the config key that the message names.
    key: &'static str,
}

const ATTACKS: [Attack; 9] = [
    Attack {
        name: "many processes",
        script: "for i in $(seq 300); do sleep MARK & done; sleep 150",
        key: "processes",
    },
    Attack {
        name: "processes that fork and leave",
        script: "for i in $(seq 150); do (setsid sleep MARK & ) ; done; sleep 150",
        key: "processes",
    },
    Attack { name: "much memory", script: "perl -e '$x = \"x\" x (500 << 20); sleep 150'", key: "memory" },
    Attack {
        name: "much memory in many processes",
        script: "for i in 1 2 3 4 5 6 7 8; do perl -e '$x = \"x\" x (50 << 20); sleep 150' & done; wait",
        key: "memory",
    },
    Attack {
        name: "a file in memory without a name",
        script: "perl -e '$n = \"m\"; $d = syscall(319, $n, 0); open F, \">&=\", $d; $b = \"x\" x 1048576; \
                 syswrite F, $b for 1..400; sleep 150'",
        key: "memory",
    },
    Attack {
        name: "a large file",
        script: "dd if=/dev/zero of=big bs=1M count=300 2>/dev/null; sleep 150",
        key: "disk",
    },
    Attack {
        name: "many small files",
        script: "mkdir d; perl -e '$b = \"x\" x 65536; for (1..3000) { open F, \">\", \"d/$_\"; print F $b }'; \
                 sleep 150",
        key: "disk",
    },
    Attack {
        name: "a deleted file",
        script: "perl -e 'open F, \">\", \"gone\"; unlink \"gone\"; $b = \"x\" x 1048576; \
                 syswrite F, $b for 1..300; sleep 150'",
        key: "disk",
    },
    Attack {
        name: "the directory for temporary files",
        script: "case $TMPDIR in /tmp) dd if=/dev/zero of=big bs=1M count=300 2>/dev/null;; \
                 *) dd if=/dev/zero of=$TMPDIR/big bs=1M count=300 2>/dev/null;; esac; sleep 150",
        key: "disk",
    },
];

impl Attack {
    fn script(&self, mark: &str) -> String {
        self.script.replace("MARK", mark)
    }

    fn assert_stopped(&self, what: &str, told: &str, mark: &str) {
        let key = format!("`orchestrator.limits.{}`", self.key);
        assert!(told.contains("ended") && told.contains(&key), "{what}, {}: {told}", self.name);
        wait_until(|| processes_with(&format!("sleep {mark}")), Vec::is_empty);
    }
}

#[tokio::test]
async fn no_command_exceeds_its_limits_in_any_sandbox() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        for attack in &ATTACKS {
            let agent_files = AgentFixture::new();
            let host = agent_files.host_limited(sandbox.clone(), LIMITS);
            let mark = unique_seconds();
            let outcome = run(&host, &attack.script(&mark)).await;
            assert!(outcome.is_error, "{kind:?}, {}: {}", attack.name, outcome.content);
            attack.assert_stopped(&format!("{kind:?}"), &outcome.content, &mark);
            let next = run(&host, "rm -rf big d gone; echo still here").await;
            assert!(next.content.contains("still here"), "only that command is lost: {}", next.content);
        }
    }
}

#[test]
fn the_limits_bind_an_ordinary_user_too() {
    for kind in ["bubblewrap", "landlock"] {
        if is_excluded(kind) {
            continue;
        }
        for attack in &ATTACKS {
            let dir = tempfile::tempdir().unwrap();
            let helper = dir.path().join("helper");
            std::fs::copy(HELPER, &helper).unwrap();
            let mut command = Command::new(&helper);
            if rustix::process::geteuid().is_root() {
                chown(dir.path(), Some(65534), Some(65534)).unwrap();
                command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&helper);
            }
            let mark = unique_seconds();
            command.args(["run", kind]).arg(dir.path()).arg(attack.script(&mark));
            command.arg(serde_json::to_string(&LIMITS).unwrap());
            let output = command.output().unwrap();
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            attack.assert_stopped(&format!("{kind} as a user"), &format!("{told}{errors}"), &mark);
        }
    }
}

#[tokio::test]
async fn a_process_cannot_open_more_files_than_its_limit_and_the_limit_is_told() {
    let refused = "perl -e 'for (1..5000) { open my $f, \"<\", \"/dev/null\" or die \"stopped at $_: $!\"; push @f, $f }'";
    let silent = "perl -e 'for (1..5000) { open my $f, \"<\", \"/dev/null\" or last; push @f, $f } sleep 3; print scalar @f'";
    let raised = "perl -e '$l = pack(\"QQ\", 9000, 9000); syscall(160, 7, $l); for (1..5000) { open my $f, \"<\", \"/dev/null\" or die \"$!\"; push @f, $f } print \"CANARY raised\"'";
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let host = AgentFixture::new();
        let host = host.host_limited(sandbox, LIMITS);
        for script in [refused, silent, raised] {
            let outcome = run(&host, script).await.content;
            assert!(!outcome.contains("CANARY"), "{kind:?}: {outcome}");
            assert!(outcome.contains("200 open files"), "{kind:?}: {outcome}");
            assert!(outcome.contains("`orchestrator.limits.open_files`"), "{kind:?}: {outcome}");
        }
    }
}

#[tokio::test]
async fn a_full_workspace_can_be_emptied_but_not_filled_by_short_commands() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let host = agent_files.host_limited(sandbox, LIMITS);
        let mut told = String::new();
        for number in 0..6 {
            // Each command ends too soon for its guard to measure anything.
            told = run(&host, &format!("head -c 20000000 /dev/zero > big{number}")).await.content;
        }
        assert!(told.contains("`orchestrator.limits.disk`") && told.contains("delete"), "{kind:?}: {told}");
        run(&host, "head -c 20000000 /dev/zero > more").await;
        let stored = std::fs::metadata(agent_files.path("workspace/more")).map_or(0, |file| file.len());
        assert_eq!(stored, 0, "{kind:?}: nothing can be written");
        run(&host, "rm -f big*").await;
        let outcome = run(&host, "echo again > again; cat again").await.content;
        assert_eq!(outcome, "exit code: 0\nagain\n", "{kind:?}");
    }
}

#[tokio::test]
async fn what_is_written_to_context_paths_counts_too() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        std::fs::write(agent_files.path("project/src/old"), vec![1; 100 << 20]).unwrap();
        let host = agent_files.host_limited(sandbox, LIMITS);
        let src = agent_files.path("project/src");
        let look = format!("ls {}; sleep 2; echo quiet", src.display());
        let outcome = run_as(&host, &look, ContextAccess::Writable).await.content;
        assert!(outcome.contains("quiet"), "{kind:?}: what was there before does not count: {outcome}");
        let attack = format!("dd if=/dev/zero of={}/big bs=1M count=300; sleep 150", src.display());
        let outcome = run_as(&host, &attack, ContextAccess::Writable).await.content;
        assert!(
            outcome.contains("ended") && outcome.contains("`orchestrator.limits.disk`"),
            "{kind:?}: {outcome}"
        );
    }
}

#[tokio::test]
async fn memory_that_processes_share_counts_once_and_files_in_memory_are_bounded() {
    // Eight processes share 100 MiB: together they seem to use 800 MiB.
    let sharing = "perl -e '$x = \"x\" x (100 << 20); for (1..7) { if (fork() == 0) { sleep 3; exit } } wait for 1..7; print \"shared\"'";
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let agent_files = AgentFixture::new();
        let limits = ProcessLimits { memory: Some(300 * MIB), ..LIMITS };
        let host = agent_files.host_limited(sandbox.clone(), limits);
        let outcome = run(&host, sharing).await.content;
        assert_eq!(outcome, "exit code: 0\nshared", "{kind:?}");
        if let Sandbox::Bubblewrap(_) = sandbox {
            let outcome =
                run(&host, "df -k /tmp /dev/shm | awk 'NR > 1 { print $2 }'; echo x > /dev/own").await;
            let sizes = outcome.content.lines().filter(|line| *line == "2097152").count();
            assert_eq!(sizes, 2, "{}", outcome.content);
            assert!(outcome.content.contains("Read-only file system"), "{}", outcome.content);
        }
    }
}

#[tokio::test]
async fn no_cli_agent_exceeds_its_limits_headless_or_in_a_terminal() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        for attack in [&ATTACKS[0], &ATTACKS[2], &ATTACKS[5]] {
            for mode in [ExecutionMode::Headless, ExecutionMode::Interactive] {
                let fixture = TaskFixture::limited(sandbox.clone(), LIMITS);
                // With Landlock, files directly in the working directory can be changed but not created.
                for file in ["work/diary", "work/big"] {
                    std::fs::write(fixture.path(file), "").unwrap();
                }
                let mark = unique_seconds();
                let mut job = fixture.agent("claude", &format!("sh {}", attack.script(&mark)));
                if mode == ExecutionMode::Interactive {
                    job = fixture.command("t", &["sh", "-c", &attack.script(&mark)], "");
                    job.spec.mode = mode;
                }
                job.spec.sandbox = Some(true);
                let end = fixture.run(&job).await;
                assert!(!end.ok, "{kind:?}, {mode:?}: {end:?}");
                let told = end.error.unwrap_or_default();
                attack.assert_stopped(&format!("{kind:?}, {mode:?}"), &told, &mark);
            }
        }
    }
}

#[tokio::test]
async fn the_users_own_command_has_no_limits() {
    let fixture = TaskFixture::limited(super::programs::unconfined(), LIMITS);
    let job = fixture.command(
        "t",
        &["sh", "-c", "ulimit -n; perl -e '$x = \"x\" x (250 << 20); sleep 1'; echo done"],
        "",
    );
    let end = fixture.run(&job).await;
    assert!(end.ok && end.output.ends_with("done\n") && !end.output.starts_with("200\n"), "{end:?}");
}

#[tokio::test]
async fn no_mcp_server_exceeds_its_limits() {
    for attack in &ATTACKS[..5] {
        let mark = unique_seconds();
        let program = PipedProgram {
            program: "sh".to_owned(),
            args: vec!["-c".to_owned(), attack.script(&mark)],
            env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
            cwd: PathBuf::from("/"),
            grace: Duration::from_secs(5),
            protection: None,
        };
        let mut piped = launcher().with_limits(LIMITS).start_piped(program).await.unwrap();
        piped.process.exited().await.unwrap();
        let told = format!("ended: {}", piped.process.reached_limit().unwrap_or_default());
        attack.assert_stopped("an MCP server", &told, &mark);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_in_a_container_exceeds_its_limits() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let spec = ContainerSpec {
        image: IMAGE.to_owned(),
        network: NetworkMode::None,
        memory: None,
        limits: LIMITS,
        cpus: None,
        sandbox_paths: agent_files.sandbox_paths(),
        session: "s".to_owned(),
        run: "r".to_owned(),
        agent: "a".to_owned(),
    };
    let containers = DockerClient::connect(&daemon.socket()).await.unwrap();
    let container = containers.start(spec, ContextAccess::ReadOnly).await.unwrap();
    let host = agent_files.host_limited(Sandbox::Docker(container.clone()), LIMITS);
    // The image contains only busybox: no perl, and `tail` keeps one long line in memory.
    let attacks = [
        ("for i in $(seq 300); do sleep 150 & done; sleep 150", "processes"),
        ("head -c 500000000 /dev/zero | tail -n 1 > /dev/null; exit 9", "memory"),
        ("dd if=/dev/zero of=big bs=1M count=300; sleep 150", "disk"),
        ("dd if=/dev/zero of=/big bs=1M count=300; sleep 150", "disk"),
    ];
    for (attack, key) in attacks {
        let outcome = run(&host, attack).await;
        let told = &outcome.content;
        assert!(
            outcome.is_error && told.contains(&format!("`orchestrator.limits.{key}`")),
            "{attack}: {told}"
        );
        let next = run(&host, "rm -f big /big; ulimit -n; echo still here").await.content;
        assert!(next.contains("200\nstill here"), "only that command is lost: {next}");
    }
    container.close().await.unwrap();
}
