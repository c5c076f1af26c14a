//! Attacks by system calls, from a Python program inside a sandbox, as the current user and, if that is root, also as
//! an ordinary user. The targets (a process, sockets, message queues, files) belong to the same user as the attacker,
//! so that only the sandbox protects them. `system_calls.py` of the test kit contains both sides.

use super::support::{HELPER, is_excluded};
use althing_testkit::attacks::SYSTEM_CALLS;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

const ORDINARY: u32 = 65534;

/// The current user (`None`), and an ordinary one if the current one is root.
pub fn users() -> Vec<Option<u32>> {
    if rustix::process::getuid().is_root() { vec![None, Some(ORDINARY)] } else { vec![None] }
}

pub struct Setting {
    dir: TempDir,
    user: Option<u32>,
}

impl Setting {
    pub fn new(user: Option<u32>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::copy(HELPER, dir.path().join("helper")).unwrap();
        std::fs::create_dir_all(dir.path().join("data/workspace")).unwrap();
        std::fs::write(dir.path().join("data/workspace/system_calls.py"), SYSTEM_CALLS).unwrap();
        for path in ["data", "data/workspace", "data/workspace/system_calls.py"] {
            chown(dir.path().join(path), user, user).unwrap();
        }
        Self { dir, user }
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("data")
    }

    pub fn command(&self, program: &Path) -> Command {
        let mut command = match self.user {
            None => Command::new(program),
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.args([
                    format!("--reuid={user}"),
                    format!("--regid={user}"),
                    "--clear-groups".to_owned(),
                ]);
                command.arg(program);
                command
            }
        };
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.data());
        command.current_dir(self.data());
        command
    }

    pub fn run(&self, kind: &str, command: &str) -> String {
        let mut helper = self.command(&self.dir.path().join("helper"));
        let output = helper.args(["run", kind]).arg(self.data()).arg(command).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{kind}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }
}

struct Targets {
    process: Child,
    output: BufReader<ChildStdout>,
    json: String,
}

impl Targets {
    fn new(setting: &Setting) -> Self {
        let program = setting.data().join("workspace/system_calls.py");
        let mut command = setting.command(Path::new("/usr/bin/env"));
        command.arg("python3").arg(program).arg("outside").arg(setting.data());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut json = String::new();
        output.read_line(&mut json).unwrap();
        assert!(!json.is_empty(), "the targets could not be created");
        Self { process, output, json: json.trim().to_owned() }
    }

    fn evidence(mut self) -> Vec<String> {
        self.process.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        self.process.wait().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

fn attack(setting: &Setting, kind: &str) -> (String, Vec<String>) {
    let targets = Targets::new(setting);
    let output = setting.run(kind, &format!("python3 system_calls.py inside '{}'", targets.json));
    assert!(output.contains("every attack was tried"), "{kind}, {:?}: {output}", setting.user);
    (output, targets.evidence())
}

fn succeeded(output: &str) -> Vec<&str> {
    output.lines().filter_map(|line| line.strip_prefix("CANARY ")).collect()
}

fn no_attack_succeeds(sandbox: &str) {
    if is_excluded(sandbox) {
        return;
    }
    let mut failures = Vec::new();
    for user in users() {
        for kind in [sandbox.to_owned(), format!("{sandbox}+network")] {
            let (output, evidence) = attack(&Setting::new(user), &kind);
            let canaries = succeeded(&output).into_iter().map(str::to_owned);
            failures.extend(canaries.chain(evidence).map(|what| format!("{kind}, user {user:?}: {what}")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn no_system_call_in_bubblewrap_reaches_processes_sockets_or_queues_outside() {
    no_attack_succeeds("bubblewrap");
}

#[test]
fn no_system_call_in_landlock_reaches_processes_sockets_queues_or_hidden_directories() {
    no_attack_succeeds("landlock");
}

/// Without a sandbox the attacks must succeed and be noticed; otherwise the other tests prove nothing.
#[test]
fn attacks_by_system_calls_succeed_without_a_sandbox() {
    // The kernel may deny these attacks to everyone or to ordinary users, depending on its settings.
    let optional = [
        "open a socket of the family",
        "load a kernel program",
        "use io_uring",
        "handle page faults",
        "watch a read-only directory by dnotify",
        "trace a process",
        "read the memory of a process",
        "take a descriptor of a process",
        "enter a namespace of a process",
        "create a user namespace",
    ];
    for user in users() {
        let (output, evidence) = attack(&Setting::new(user), "unconfined");
        let failed = output.lines().filter_map(|line| line.strip_prefix("did not succeed: "));
        let failed: Vec<&str> =
            failed.filter(|line| !optional.iter().any(|name| line.starts_with(name))).collect();
        assert!(failed.is_empty(), "{user:?}: these prove nothing: {failed:?}");
        let changes =
            ["files", "nice", "policy", "affinity", "ioprio", "message queue", "semaphore", "shared memory"];
        for change in
            changes.iter().chain(&["POSIX", "pipe", "attributes", "hidden/stream", "context/deep/packet"])
        {
            assert!(evidence.iter().any(|text| text.contains(change)), "{user:?}: {change}: {evidence:?}");
        }
    }
}

/// A directory that may be entered but not listed could contain a socket that cannot be found and covered.
#[test]
fn a_socket_in_a_directory_that_cannot_be_listed_does_not_answer_in_bubblewrap() {
    for user in users() {
        let setting = Setting::new(user);
        let dir = setting.data().join("context/closed");
        std::fs::create_dir_all(&dir).unwrap();
        let listener = UnixListener::bind(dir.join("socket")).unwrap();
        listener.set_nonblocking(true).unwrap();
        for path in [&dir, &dir.join("socket")] {
            chown(path, user, user).unwrap();
        }
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o111)).unwrap();
        let connect = format!(
            "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{}/socket')\"; echo tried",
            dir.display()
        );
        assert!(setting.run("unconfined", &connect).contains("tried"));
        assert!(listener.accept().is_ok(), "{user:?}: without a sandbox the socket answers");
        if !is_excluded("bubblewrap") {
            assert!(setting.run("bubblewrap", &connect).contains("tried"));
            assert!(listener.accept().is_err(), "{user:?}: the socket answered");
        }
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
    }
}

#[test]
fn ordinary_tools_work_in_both_sandboxes() {
    let both = [
        (
            "threads",
            "python3 -c \"import threading; t = threading.Thread(target=print, args=('done',)); t.start(); t.join()\"",
        ),
        (
            "a child process",
            "python3 -c \"import subprocess; print(subprocess.check_output(['echo', 'done'], text=True))\"",
        ),
        ("an event loop", "python3 -c \"import asyncio; asyncio.run(asyncio.sleep(0)); print('done')\""),
        (
            "a database",
            "python3 -c \"import sqlite3; d = sqlite3.connect('x.db'); d.execute('create table t (a)'); d.execute('insert into t values (1)'); d.commit(); print('done')\"",
        ),
        (
            "limits and priorities of one's own",
            "ulimit -n 100; nice -n 3 sh -c 'prlimit --nofile >/dev/null && echo done'",
        ),
        (
            "the map of a file",
            "cp system_calls.py copy && ls -l copy >/dev/null && cat copy >/dev/null && echo done",
        ),
        (
            "node with workers and children",
            "node -e \"const { Worker } = require('worker_threads'); const { spawnSync, fork } = require('child_process'); new Worker('require(\\'worker_threads\\').parentPort.postMessage(1)', { eval: true }).on('message', () => console.log(String(spawnSync('echo', ['done']).stdout)))\"",
        ),
        (
            "files in a temporary directory",
            "f=$(mktemp) && echo x > $f && d=$(mktemp -d) && mv $f $d/y && rm -r $d && echo done",
        ),
    ];
    let only_bubblewrap = [
        (
            "git",
            "git init -q r && cd r && echo x > f && git add f && git -c user.name=a -c user.email=a@b commit -qm m && git log --oneline | grep -q m && echo done",
        ),
        (
            "a server on a socket file",
            "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.bind('s1'); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect('s1'); print('done')\"",
        ),
        (
            "processes with a server",
            "python3 -c \"import multiprocessing as m; m.set_start_method('forkserver'); p = m.Process(target=print, args=('done',)); p.start(); p.join()\"",
        ),
        (
            "a file watch",
            "python3 -c \"import ctypes; l = ctypes.CDLL(None); assert l.inotify_add_watch(l.inotify_init(), b'.', 2) > 0; print('done')\"",
        ),
        ("a compiler's output", "printf '#!/bin/sh\\necho done\\n' > x && chmod +x x && ./x"),
    ];
    for user in users() {
        for kind in ["bubblewrap", "landlock", "bubblewrap+network", "landlock+network"] {
            if is_excluded(kind.trim_end_matches("+network")) {
                continue;
            }
            let more: &[(&str, &str)] = if kind.starts_with("bubblewrap") { &only_bubblewrap } else { &[] };
            let setting = Setting::new(user);
            for (name, command) in both.iter().chain(more) {
                let output = setting.run(kind, command);
                assert!(
                    output.starts_with("exit code: 0\n") && output.contains("done"),
                    "{kind}, {user:?}, {name}: {output}"
                );
            }
        }
    }
}

const HIDDEN_PROPERTIES: &str = r#"
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
open("f", "w").close()
d = os.open("f", os.O_RDONLY)
def call(name, number, *args):
    ctypes.set_errno(0)
    if libc.syscall(number, *args) >= 0:
        print("SUCCEEDED", name)
    return ctypes.get_errno()
here, mode = -100, 0o4755
call("chmod", 90, b"f", mode)
call("fchmod", 91, d, mode)
call("fchmodat", 268, here, b"f", mode)
call("fchmodat2", 452, here, b"f", mode, 0)
call("creat", 85, b"g1", mode)
call("open", 2, b"g2", os.O_CREAT | os.O_WRONLY, mode)
call("openat", 257, here, b"g3", os.O_CREAT | os.O_WRONLY, mode)
call("O_TMPFILE", 257, here, b".", os.O_TMPFILE | os.O_WRONLY, mode)
call("openat2", 437, here, b"g4", struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, mode, 0), 24)
call("mknod", 133, b"g5", 0o100000 | mode, 0)
call("mknodat", 259, here, b"g6", 0o100000 | mode, 0)
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in [(1, 6, 2**32-1), (2, 7, 1), (4, 4, 2**32-1), (16, 7, 2**32-1), (32, 4, 2**32-1)])
for name, number, what in [("setxattr", 188, b"f"), ("lsetxattr", 189, b"f"), ("fsetxattr", 190, d)]:
    for key, value in [(b"user.a", b"x"), (b"system.posix_acl_access", acl)]:
        error = call(name, number, what, key, value, len(value), 0)
        print(name, "error", error)
call("removexattr", 197, b"f", b"user.before")
for name in sorted(os.listdir(".")):
    if os.lstat(name).st_mode & 0o4000:
        print("SUCCEEDED set-user-id", name)
print("tried")
"#;

/// A set-user-id file lends the user's rights to others, and attributes and ACLs are neither listed nor undone.
#[cfg(target_arch = "x86_64")]
#[test]
fn no_command_makes_a_set_user_id_file_or_changes_extended_attributes() {
    for user in users() {
        let unconfined = Setting::new(user);
        std::fs::write(unconfined.data().join("workspace/hidden.py"), HIDDEN_PROPERTIES).unwrap();
        let output = unconfined.run("unconfined", "python3 hidden.py");
        assert!(
            output.contains("SUCCEEDED chmod") && output.contains("tried"),
            "it proves something: {output}"
        );
        for kind in ["bubblewrap", "landlock"] {
            if is_excluded(kind) {
                continue;
            }
            let setting = Setting::new(user);
            std::fs::write(setting.data().join("workspace/hidden.py"), HIDDEN_PROPERTIES).unwrap();
            let output = setting.run(kind, "python3 hidden.py");
            assert!(output.contains("tried") && !output.contains("SUCCEEDED"), "{kind}, {user:?}: {output}");
            // Programs that copy attributes go on if a file system does not support them.
            for call in ["setxattr", "lsetxattr", "fsetxattr"] {
                assert!(output.contains(&format!("\n{call} error 95\n")), "{kind}, {user:?}: {output}");
            }
            // Copying a file with its mode and times still works.
            if kind == "bubblewrap" {
                let copied = setting.run(
                    kind,
                    "cp hidden.py mine && chmod 750 mine && cp -a mine copy && tar cf x.tar copy && rm copy && tar xf x.tar \
                     && python3 -c \"import shutil; shutil.copy2('copy', 'copy2')\" && stat -c %a copy2",
                );
                assert!(copied.starts_with("exit code: 0\n") && copied.contains("750"), "{user:?}: {copied}");
            }
        }
    }
}
