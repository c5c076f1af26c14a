//! Ways in which a command could use more of the machine than its limits without being seen: memory and disk space
//! that belong to no process or to no open file, and processes that end before they are counted or killed. Every
//! attacker is bounded by itself, so that a limit that fails does not endanger the machine.

use super::support::{
    AgentFixture, HELPER, SANDBOXES, is_excluded, processes_with, run, sandbox, unique_seconds, wait_until,
};
use althing_protocol::ProcessLimits;
use althing_runner::SandboxKind;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;

const LIMITS: ProcessLimits =
    ProcessLimits { processes: Some(60), memory: Some(160 * MIB), open_files: 4096, disk: 64 * MIB };

/// A Python program that uses far more than its limit for longer than the time limit of a command.
struct Evasion {
    name: &'static str,
    program: &'static str,
    /// The last part of the config key that the message names.
    key: &'static str,
    only_bubblewrap: bool,
}

const EVASIONS: [Evasion; 8] = [
    Evasion {
        name: "memory of a process whose first thread has ended",
        program: r#"
import ctypes, threading, time
def work():
    time.sleep(0.3)
    keep = bytearray(b"x") * (400 << 20)
    time.sleep(150)
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(60, 0)
"#,
        key: "memory",
        only_bubblewrap: false,
    },
    Evasion {
        name: "a file in memory of a process whose first thread has ended",
        program: r#"
import ctypes, os, threading, time
def work():
    time.sleep(0.3)
    file = os.memfd_create("x")
    for _ in range(400): os.write(file, b"x" * (1 << 20))
    time.sleep(150)
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(60, 0)
"#,
        key: "memory",
        only_bubblewrap: false,
    },
    Evasion {
        name: "page tables",
        program: r"
import mmap, time
pages = 400 * 256
memory = mmap.mmap(-1, pages << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(pages): memory[page << 21]
time.sleep(150)
",
        key: "memory",
        only_bubblewrap: false,
    },
    Evasion {
        name: "files in memory that were sent and not received",
        program: r#"
import os, socket, time
ours, theirs = socket.socketpair()
for _ in range(8):
    file = os.memfd_create("x")
    socket.send_fds(ours, [b"x"], [file])
    for _ in range(64): os.write(file, b"x" * (1 << 20))
    os.close(file)
time.sleep(150)
"#,
        key: "memory",
        only_bubblewrap: false,
    },
    Evasion {
        name: "deleted files that were sent and not received",
        program: r#"
import os, socket, time
ours, theirs = socket.socketpair()
for number in range(30):
    file = os.open("big", os.O_CREAT | os.O_RDWR)
    os.unlink("big")
    socket.send_fds(ours, [b"x"], [file])
    for _ in range(10): os.write(file, b"x" * (1 << 20))
    os.fsync(file)
    os.close(file)
time.sleep(150)
"#,
        key: "disk",
        only_bubblewrap: false,
    },
    Evasion {
        name: "a file in memory behind the open files of other processes",
        program: r#"
import os, time
def child(work):
    if os.fork() == 0:
        work()
        time.sleep(150)
        os._exit(0)
def many():
    file = os.open("/dev/null", os.O_RDONLY)
    try:
        while True: os.dup(file)
    except OSError: pass
def big():
    time.sleep(1.5)
    file = os.memfd_create("x")
    for _ in range(400): os.write(file, b"x" * (1 << 20))
child(big)
for _ in range(14): child(many)
time.sleep(150)
"#,
        key: "memory",
        only_bubblewrap: false,
    },
    Evasion {
        name: "the private directory for temporary files",
        program: r#"
import time
with open("/tmp/big", "wb") as file:
    for _ in range(400): file.write(b"x" * (1 << 20))
time.sleep(150)
"#,
        key: "memory",
        only_bubblewrap: true,
    },
    Evasion {
        name: "many empty files in the private directory for temporary files",
        program: r#"
import os, time
for number in range(400000): os.symlink("x", "/tmp/%d" % number)
time.sleep(150)
"#,
        key: "memory",
        only_bubblewrap: true,
    },
];

#[tokio::test]
async fn no_command_hides_memory_or_disk_space_from_its_limits() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        for evasion in &EVASIONS {
            if evasion.only_bubblewrap && kind != SandboxKind::Bubblewrap {
                continue;
            }
            let agent_files = AgentFixture::new();
            std::fs::write(agent_files.path("workspace/attack.py"), evasion.program).unwrap();
            let host = agent_files.host_limited(sandbox.clone(), LIMITS);
            let told = run(&host, "/usr/bin/python3 attack.py").await.content;
            let what = format!("{kind:?}, {}: {told}", evasion.name);
            assert!(told.contains("ended"), "{what}");
            assert!(told.contains(&format!("`orchestrator.limits.{}`", evasion.key)), "{what}");
            let next = run(&host, "echo still here").await;
            assert!(next.content.contains("still here"), "only that command is lost: {}", next.content);
        }
    }
}

/// The files of the second program are far smaller than its limit, because files in memory of other programs could
/// count for a program with files in transit.
#[tokio::test]
async fn a_command_is_not_ended_for_files_that_it_sends_or_maps_within_its_limits() {
    let maps = r#"
import mmap, os, time
file = os.memfd_create("x")
for _ in range(120): os.write(file, b"x" * (1 << 20))
memory = mmap.mmap(file, 120 << 20)
for page in range(0, 120 << 20, 4096): memory[page] = 1
time.sleep(2)
print("done")
"#;
    let sends = r#"
import os, socket, time
ours, theirs = socket.socketpair()
file = os.memfd_create("x")
for _ in range(20): os.write(file, b"x" * (1 << 20))
for _ in range(20): socket.send_fds(ours, [b"x"], [file])
time.sleep(2)
print("done")
"#;
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        for (program, memory) in [(maps, 200 * MIB), (sends, 2048 * MIB)] {
            let agent_files = AgentFixture::new();
            std::fs::write(agent_files.path("workspace/honest.py"), program).unwrap();
            let limits = ProcessLimits { memory: Some(memory), ..LIMITS };
            let host = agent_files.host_limited(sandbox.clone(), limits);
            let outcome = run(&host, "/usr/bin/python3 honest.py").await.content;
            assert_eq!(outcome, "exit code: 0\ndone\n", "{kind:?}");
        }
    }
}

/// A segment of shared memory that is attached to no process is in no count of memory.
#[tokio::test]
async fn large_segments_of_shared_memory_and_sets_of_semaphores_are_refused_and_small_ones_work() {
    let Some(sandbox) = sandbox(SandboxKind::Bubblewrap).await else { return };
    let program = r"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.shmget(0, ctypes.c_size_t(64 << 20), 0o1600), libc.semget(0, 32000, 0o1600))
print(libc.shmget(0, ctypes.c_size_t(56), 0o1600) >= 0, libc.semget(0, 17, 0o1600) >= 0)
";
    let agent_files = AgentFixture::new();
    std::fs::write(agent_files.path("workspace/shared.py"), program).unwrap();
    let outcome = run(&agent_files.host_limited(sandbox, LIMITS), "/usr/bin/python3 shared.py").await.content;
    assert_eq!(outcome, "exit code: 0\n-1 -1\nTrue True\n");
}

/// Starts 40 chains of processes, in which each process forks the next one and ends at once. The chains end by
/// themselves after three minutes.
fn comets(mark: &str) -> String {
    format!(
        "perl -e '$SIG{{CHLD}} = \"IGNORE\"; $SIG{{TERM}} = \"IGNORE\"; $end = time + 180; for (1..40) {{ if (!fork) {{ \
         $0 = \"comet-\" . {mark}; while (time < $end) {{ exit if fork }} exit }} }} sleep 210'"
    )
}

#[test]
fn processes_that_fork_and_end_at_once_are_limited_and_outlive_neither_the_limit_nor_us() {
    for kind in ["bubblewrap", "landlock"] {
        if is_excluded(kind) {
            continue;
        }
        for is_limited in [true, false] {
            let (mark, dir) = (unique_seconds(), tempfile::tempdir().unwrap());
            let limits = ProcessLimits { processes: is_limited.then_some(50), ..LIMITS };
            let mut parent = Command::new(HELPER)
                .args(["run", kind])
                .arg(dir.path())
                .arg(comets(&mark))
                .arg(serde_json::to_string(&limits).unwrap())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let comets = || processes_with(&format!("comet-{mark}"));
            if !is_limited {
                wait_until(comets, |pids| !pids.is_empty());
                kill_process(Pid::from_raw(i32::try_from(parent.id()).unwrap()).unwrap(), Signal::KILL)
                    .unwrap();
            }
            let output = std::io::read_to_string(parent.stdout.take().unwrap()).unwrap();
            parent.wait().unwrap();
            assert!(!is_limited || output.contains("`orchestrator.limits.processes`"), "{kind}: {output}");
            wait_until(comets, Vec::is_empty);
        }
    }
}
