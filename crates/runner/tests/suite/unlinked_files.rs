//! Deleted files that stay open: in a container, and in a process that forbids its own user to look at it. Root may
//! look at everything.

use super::support::{AgentFixture, HELPER, is_excluded, run};
use althing_protocol::{ContextAccess, ProcessLimits};
use althing_runner::{ContainerSpec, DockerClient, NetworkMode, Sandbox};
use althing_testkit::docker::{IMAGE, TestDockerDaemon};
use std::os::unix::fs::chown;
use std::process::Command;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// A program that forbids its own user to look at its process, and writes far more than the limit to a deleted file.
const HIDDEN: &str = r#"
import ctypes, os, time
ctypes.CDLL(None).prctl(4, 0)
file = os.open("big", os.O_CREAT | os.O_RDWR)
os.unlink("big")
for _ in range(300): os.write(file, b"x" * (1 << 20))
os.fsync(file)
time.sleep(100)
"#;

/// A program that forbids its own user to look at its process, and writes less than the limit to a deleted file.
const HONEST: &str = r#"
import ctypes, os, time
ctypes.CDLL(None).prctl(4, 0)
file = os.open("small", os.O_CREAT | os.O_RDWR)
os.unlink("small")
os.write(file, b"x" * (1 << 20))
os.fsync(file)
time.sleep(2)
print("done")
"#;

fn run_as_user(kind: &str, program: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let helper = dir.path().join("helper");
    std::fs::copy(HELPER, &helper).unwrap();
    let mut command = Command::new(&helper);
    if rustix::process::geteuid().is_root() {
        chown(dir.path(), Some(65534), Some(65534)).unwrap();
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&helper);
    }
    let limits = ProcessLimits { disk: 64 * MIB, ..ProcessLimits::default() };
    command.args(["run", kind]).arg(dir.path());
    command.arg(format!("/usr/bin/python3 -c '{program}'")).arg(serde_json::to_string(&limits).unwrap());
    let output = command.output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_deleted_file_of_a_process_that_cannot_be_looked_at_counts_as_disk_space() {
    for kind in ["bubblewrap", "landlock"] {
        if !is_excluded(kind) {
            let told = run_as_user(kind, HIDDEN);
            assert!(told.contains("`orchestrator.limits.disk`"), "{kind}: {told}");
        }
    }
}

#[test]
fn a_process_that_cannot_be_looked_at_is_not_ended_within_its_limits() {
    for kind in ["bubblewrap", "landlock"] {
        if !is_excluded(kind) {
            let told = run_as_user(kind, HONEST);
            assert!(told.contains("done") && !told.contains("orchestrator.limits"), "{kind}: {told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_file_counts_as_disk_space_in_a_container() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let limits = ProcessLimits { disk: 64 * MIB, ..ProcessLimits::default() };
    let spec = ContainerSpec {
        image: IMAGE.to_owned(),
        network: NetworkMode::None,
        memory: None,
        limits,
        cpus: None,
        sandbox_paths: agent_files.sandbox_paths(),
        session: "s".to_owned(),
        run: "r".to_owned(),
        agent: "a".to_owned(),
    };
    let containers = DockerClient::connect(&daemon.socket()).await.unwrap();
    let container = containers.start(spec, ContextAccess::ReadOnly).await.unwrap();
    let host = agent_files.host_limited(Sandbox::Docker(Arc::clone(&container)), limits);
    for path in ["big", "/tmp/big"] {
        let command = format!("exec 3> {path}; rm {path}; head -c 300000000 /dev/zero >&3; sleep 100");
        let outcome = run(&host, &command).await;
        assert!(outcome.content.contains("`orchestrator.limits.disk`"), "{path}: {}", outcome.content);
    }
    let next = run(&host, "echo still here").await;
    assert!(next.content.contains("still here"), "{}", next.content);
    container.close().await.unwrap();
}
