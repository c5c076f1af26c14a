//! Attempts to escape a sandbox. Every attempt runs in each sandbox and is judged only by its effects outside.
//!
//! An attempt succeeds if a file outside changes or appears, a canary (a secret, or the word that an attempt prints
//! on success) is printed, a process outside ends, or a socket outside gets a connection or a packet.

use super::support::{AgentFixture, SANDBOXES, exists, processes_with, run_as, sandbox, unique_seconds};
use althing_protocol::ContextAccess;
use althing_runner::{ContextMount, SandboxKind};
use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The attempts by name. `{…}` is replaced by paths, ports, ids and names of the targets; see [`Outside::fill`].
const ATTEMPTS: [(&str, &str); 60] = [
    ("write into the user's home", "echo x > {HOME}/.ssh/authorized_keys"),
    ("read the user's key", "cat {HOME}/.ssh/id"),
    ("copy the user's home", "cp -r {HOME} stolen; cat stolen/.ssh/id"),
    ("write beside the workspace", "echo x > ../escaped"),
    ("write to a prefix twin of the workspace", "mkdir {WORKSPACE}-evil; echo x > {WORKSPACE}-evil/x"),
    ("write by a dotted path", "echo x > {WORKSPACE}/../home/../escaped"),
    ("follow a link to a directory", "ln -s {HOME} l1; cat l1/.ssh/id; echo x > l1/new"),
    ("follow a link to a file", "ln -s {HOME}/.ssh/id l2; cat l2; echo x >> l2"),
    ("hard-link a key", "ln {HOME}/.ssh/id h1; cat h1; echo x >> h1"),
    ("hard-link a protected file", "ln {PROJECT}/.git/config {PROJECT}/src/h2; echo x >> {PROJECT}/src/h2"),
    ("hard-link a read-only file", "ln {REFERENCE}/book.txt h3; echo x >> h3"),
    (
        "install a git hook",
        "echo x > {PROJECT}/.git/hooks/pre-commit; chmod +x {PROJECT}/.git/hooks/pre-commit",
    ),
    (
        "change git's configuration",
        "echo x >> {PROJECT}/.git/config; git -C {PROJECT} config core.fsmonitor evil",
    ),
    ("move .git away and change it", "mv {PROJECT}/.git {PROJECT}/src/g; echo x >> {PROJECT}/src/g/config"),
    ("delete .git", "rm -rf {PROJECT}/.git"),
    (
        "exchange the whole project",
        "mv {PROJECT} {PROJECT}2; mkdir -p {PROJECT}/.git; echo x > {PROJECT}/.git/config",
    ),
    (
        "make a .git where there is none",
        "mkdir -p {FRESH}/.git/hooks; echo x > {FRESH}/.git/hooks/pre-commit",
    ),
    ("make .git a link", "ln -s {WORKSPACE} {FRESH}/.git; echo 'gitdir: x' > {FRESH}/.git"),
    ("write a protected file", "echo x > {PROJECT}/vendor/locked/file; rm -rf {PROJECT}/vendor/locked"),
    (
        "move a protected path by its parent",
        "mv {PROJECT}/vendor {PROJECT}/v2; echo x > {PROJECT}/v2/locked/file",
    ),
    ("truncate a protected file", "truncate -s 0 {PROJECT}/vendor/locked/file"),
    (
        "change modes and times outside",
        "chmod 777 {HOME}/.ssh/id; touch {HOME}/.ssh/id {PROJECT}/.git/config",
    ),
    (
        "write the state directory",
        "echo x > {PROJECT}/.althing/log; rm -rf {PROJECT}/.althing; mkdir {PROJECT}/.althing/y",
    ),
    ("read the state directory", "cat {PROJECT}/.althing/log; cp -r {PROJECT}/.althing st; cat st/log"),
    (
        "plant a link where outputs are kept",
        "ln -s {HOME}/.ssh/id {OUTPUTS}/planted; rm -rf {OUTPUTS}; echo x > {OUTPUTS}/x",
    ),
    ("write a read-only context path", "echo x > {REFERENCE}/new; echo x >> {REFERENCE}/book.txt"),
    (
        "swap a link in a race",
        "(while :; do ln -sfn {HOME} sw; ln -sfn {WORKSPACE} sw; done) & for i in $(seq 300); do echo x > sw/raced; cat sw/.ssh/id; done 2>&1",
    ),
    ("mount the home into the workspace", "mkdir m1; mount --bind {HOME} m1; cat m1/.ssh/id"),
    (
        "remount read-only paths",
        "mount -o remount,rw,bind {PROJECT}/.git; mount -o remount,rw /; echo x > {PROJECT}/.git/hooks/p",
    ),
    (
        "unmount the mount over a path",
        "umount {PROJECT}/.git; umount -l {PROJECT}/.althing; umount -l /tmp; cat {PROJECT}/.althing/log {HOME}/.ssh/id",
    ),
    (
        "take a user namespace",
        "unshare -Urm sh -c 'umount -l {PROJECT}/.althing; mount -o remount,rw,bind {PROJECT}/.git; echo x > {PROJECT}/.git/hooks/p; cat {PROJECT}/.althing/log {HOME}/.ssh/id'",
    ),
    (
        "take a user and a process namespace",
        "unshare -Urpf --mount-proc sh -c 'kill -9 {VICTIM}; cat /proc/1/root{HOME}/.ssh/id'",
    ),
    ("go through init's root", "cat /proc/1/root{HOME}/.ssh/id; echo x > /proc/1/root{HOME}/p"),
    (
        "go through anyone's root and directory",
        "for p in /proc/[0-9]*; do cat $p/root{HOME}/.ssh/id $p/cwd/.ssh/id; done 2>/dev/null",
    ),
    ("go through one's own root", "cat /proc/self/root{HOME}/.ssh/id; echo x > /proc/self/root{HOME}/p"),
    (
        "go through anyone's open files",
        "for f in /proc/[0-9]*/fd/*; do head -c 64 $f/.ssh/id; done 2>/dev/null",
    ),
    (
        "enter another's namespaces",
        "nsenter -t {VICTIM} -a cat {HOME}/.ssh/id; nsenter -t 1 -m cat {HOME}/.ssh/id",
    ),
    (
        "change the root",
        "perl -e 'chroot \"/proc/1/root\"; chroot \"../../../..\"; exec \"cat {HOME}/.ssh/id\"'",
    ),
    ("read another's environment", "cat /proc/{VICTIM}/environ /proc/*/environ | tr '\\0' '\\n'"),
    ("read another's memory", "perl -e 'open M, \"</proc/{VICTIM}/mem\" or exit; print \"CANARY opened\"'"),
    ("write another's memory", "perl -e 'open M, \"+</proc/{VICTIM}/mem\" or exit; print \"CANARY opened\"'"),
    (
        "trace another",
        "perl -e 'print \"CANARY traced\" if syscall(101, 16, {VICTIM}, 0, 0) == 0'; gdb -batch -p {VICTIM} -ex 'x/s *environ' 2>/dev/null | grep -a SECRET",
    ),
    (
        "read another's memory by call",
        "perl -e '$b = \"\\0\" x 64; print \"CANARY read\" if syscall(310, {VICTIM}, pack(\"PQ\", $b, 64), 1, pack(\"QQ\", 4194304, 64), 1, 0) > 0'",
    ),
    ("kill another", "kill -9 {VICTIM}; perl -e 'kill 9, {VICTIM}; kill -9, {VICTIM}'"),
    ("kill the guard", "kill -9 $PPID; pkill -9 -f {MARK}"),
    ("connect by TCP", "echo x > /dev/tcp/127.0.0.1/{TCP}"),
    ("send by UDP", "echo x > /dev/udp/127.0.0.1/{UDP}"),
    (
        "connect to an agent's socket",
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"{SOCKET}\")'",
    ),
    (
        "connect to a socket by a link",
        "ln -s {SOCKET} s1; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"s1\")'",
    ),
    (
        "connect to Docker",
        "for s in {HOME}/docker.sock /var/run/docker.sock /run/docker.sock; do perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => $ARGV[0]) and print \"CANARY connected\"' $s; done",
    ),
    (
        "connect to an abstract socket",
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack(\"Sa*\", 1, \"\\0{ABSTRACT}\"))'",
    ),
    (
        "send to a datagram socket",
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_DGRAM, 0); send(S, \"x\", 0, pack_sockaddr_un(\"{DATAGRAM}\"))'",
    ),
    (
        "run a set-uid shell",
        "cp /bin/bash su; chmod 6755 su; ./su -p -c 'cat {HOME}/.ssh/id; mount --bind {HOME} m1 && echo CANARY'; su -c 'cat {HOME}/.ssh/id' </dev/null; sudo -n cat {HOME}/.ssh/id",
    ),
    (
        "make and read devices",
        "for d in '8 0' '252 0' '253 0' '254 0' '259 0'; do mknod disk b $d && head -c 1 disk >/dev/null && echo CANARY; rm -f disk; done; mknod mem c 1 1 && head -c 1 mem >/dev/null && echo CANARY; for d in /dev/vda /dev/sda /dev/mem /dev/kmsg; do head -c 1 $d >/dev/null 2>&1 && echo CANARY $d; done",
    ),
    (
        "change the kernel's settings",
        "for f in core_pattern hostname modprobe; do cat /proc/sys/kernel/$f > was && cat was > /proc/sys/kernel/$f && echo CANARY $f; done; echo h > /proc/sysrq-trigger && echo CANARY; mount -t cgroup -o memory c m1 && echo CANARY",
    ),
    (
        "use system calls that bypass the sandbox",
        "perl -e 'for (250, 248, 249, 304, 321, 298, 425) { $! = 0; my $r = syscall($_, 0, -3, 1, 0, 0); print \"CANARY call $_\" if $r != -1 or $! != 1 }'",
    ),
    ("attach another's shared memory", "perl -e 'shmread({SHM}, $b, 0, 16) and print $b'"),
    (
        "open the terminal or an inherited file",
        "perl -e 'open T, \"+</dev/tty\" and print \"CANARY tty\"'; for n in $(seq 3 20); do [ -e /proc/$$/fd/$n ] && echo CANARY $n; done",
    ),
    (
        "write to the machine",
        "for d in /tmp /var/tmp /dev/shm /run /etc /etc/cron.d /usr/local/bin /usr/lib /root /var/spool/cron /opt /; do echo x > $d/{MARK}; done",
    ),
    (
        "stay behind and try later",
        "(setsid nohup sh -c 'sleep 0.3; echo x > {HOME}/late; exec sleep {MARK}' &) >/dev/null 2>&1; sleep 0.1",
    ),
];

/// The targets of the attempts.
struct Outside {
    agent_files: AgentFixture,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    sockets: Vec<UnixListener>,
    datagram: UnixDatagram,
    shm: String,
    mark: String,
}

impl Outside {
    fn new() -> Self {
        let agent_files = AgentFixture::new();
        std::fs::create_dir_all(agent_files.path("fresh/src")).unwrap();
        let mark = unique_seconds();
        let victim = Command::new("sleep").arg("86399").env("SECRET", "CANARY-memory").spawn().unwrap();
        let abstract_name = SocketAddr::from_abstract_name(format!("althing-{mark}")).unwrap();
        let sockets = vec![
            UnixListener::bind(agent_files.path("home/agent.sock")).unwrap(),
            UnixListener::bind(agent_files.path("home/docker.sock")).unwrap(),
            UnixListener::bind_addr(&abstract_name).unwrap(),
        ];
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let datagram = UnixDatagram::bind(agent_files.path("home/datagram.sock")).unwrap();
        for socket in &sockets {
            socket.set_nonblocking(true).unwrap();
        }
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        datagram.set_nonblocking(true).unwrap();
        let make = "$id = shmget(0, 64, 01600); shmwrite($id, 'CANARY-shared', 0, 13); print $id";
        let shm = Command::new("perl").args(["-e", make]).output().unwrap();
        let shm = String::from_utf8(shm.stdout).unwrap();
        assert!(!shm.is_empty(), "perl made no shared memory");
        Self { agent_files, victim, tcp, udp, sockets, datagram, shm, mark }
    }

    fn fill(&self, command: &str) -> String {
        let path = |inside: &str| self.agent_files.path(inside).display().to_string();
        let values = [
            ("{HOME}", path("home")),
            ("{WORKSPACE}", path("workspace")),
            ("{PROJECT}", path("project")),
            ("{REFERENCE}", path("reference")),
            ("{FRESH}", path("fresh")),
            ("{OUTPUTS}", path("project/.althing/outputs")),
            ("{SOCKET}", path("home/agent.sock")),
            ("{DATAGRAM}", path("home/datagram.sock")),
            ("{ABSTRACT}", format!("althing-{}", self.mark)),
            ("{VICTIM}", self.victim.id().to_string()),
            ("{TCP}", self.tcp.local_addr().unwrap().port().to_string()),
            ("{UDP}", self.udp.local_addr().unwrap().port().to_string()),
            ("{SHM}", self.shm.clone()),
            ("{MARK}", self.mark.clone()),
        ];
        values.iter().fold(command.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Everything in the fixture's directory that no command may change.
    fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        let allowed = [
            self.agent_files.path("workspace"),
            self.agent_files.path("project/src"),
            self.agent_files.path("fresh/src"),
        ];
        look(self.agent_files.dir.path(), &allowed, &mut seen);
        seen
    }

    /// Signs that an attempt succeeded.
    fn evidence(&mut self) -> Vec<String> {
        let mut evidence = Vec::new();
        if self.victim.try_wait().unwrap().is_some() {
            evidence.push("the process outside ended".to_owned());
        }
        if self.tcp.accept().is_ok() {
            evidence.push("a TCP connection came".to_owned());
        }
        if self.udp.recv(&mut [0; 16]).is_ok() {
            evidence.push("a UDP packet came".to_owned());
        }
        if self.datagram.recv(&mut [0; 16]).is_ok() {
            evidence.push("a datagram came".to_owned());
        }
        evidence.extend(
            self.sockets
                .iter()
                .filter(|socket| socket.accept().is_ok())
                .map(|s| format!("{s:?} was reached")),
        );
        for dir in [
            "/tmp",
            "/var/tmp",
            "/dev/shm",
            "/run",
            "/etc",
            "/etc/cron.d",
            "/usr/local/bin",
            "/usr/lib",
            "/root",
            "/",
        ] {
            if exists(&Path::new(dir).join(&self.mark)) {
                evidence.push(format!("a file in {dir}"));
            }
        }
        evidence
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let _ = Command::new("ipcrm").args(["-m", &self.shm]).stderr(Stdio::null()).status();
    }
}

/// Records type, mode, number of links, modification time and content of everything below `dir`, except for the
/// `allowed` directories.
fn look(dir: &Path, allowed: &[PathBuf], seen: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if allowed.contains(&path.canonicalize().unwrap_or_default()) {
            continue;
        }
        let data = entry.metadata().unwrap();
        let text =
            if data.is_file() { std::fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
        // A directory's time changes when a placeholder or an output file is created in it.
        let time = if data.is_dir() { 0 } else { data.mtime_nsec() };
        seen.insert(path.clone(), format!("{:o} {} {time} {text}", data.mode(), data.nlink()));
        if data.is_dir() {
            look(&path, allowed, seen);
        }
    }
}

async fn no_attempt_succeeds(kind: SandboxKind) {
    let Some(sandbox) = sandbox(kind).await else { return };
    let mut outside = Outside::new();
    let host = outside.agent_files.host_with(sandbox, |policy| {
        let fresh =
            ContextMount { path: outside.agent_files.path("fresh"), writable: true, protected: Vec::new() };
        policy.sandbox_paths.context.push(fresh);
    });
    let before = outside.snapshot();
    let mut failures = Vec::new();
    for (name, command) in ATTEMPTS {
        let outcome = run_as(&host, &outside.fill(command), ContextAccess::Writable).await;
        if name.starts_with("stay behind") {
            tokio::time::sleep(std::time::Duration::from_millis(600)).await;
            assert!(processes_with(&outside.mark).is_empty(), "{kind:?}: {name}");
        }
        // If the sandbox did not start, no attempt would have an effect, and the test would prove nothing.
        assert!(
            !outcome.content.contains("could not be run") && !outcome.content.contains("bwrap:"),
            "{}",
            outcome.content
        );
        let mut evidence = outside.evidence();
        if outcome.content.contains("CANARY") {
            evidence.push(outcome.content);
        }
        let after = outside.snapshot();
        evidence.extend(
            before.iter().filter(|(path, was)| after.get(*path) != Some(*was)).map(|it| format!("{it:?}")),
        );
        evidence.extend(
            after
                .keys()
                .filter(|path| !before.contains_key(*path))
                .map(|path| format!("new: {}", path.display())),
        );
        failures.extend(evidence.into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(failures.is_empty(), "{kind:?}:\n{}", failures.join("\n"));
    println!("{kind:?}: {} attempts, 0 succeeded", ATTEMPTS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_to_get_out_of_bubblewrap_succeeds() {
    no_attempt_succeeds(SANDBOXES[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_to_get_out_of_landlock_succeeds() {
    no_attempt_succeeds(SANDBOXES[1]).await;
}

/// Verifies that the harmless attempts can be detected: without a sandbox they succeed, and the test notices it.
#[tokio::test(flavor = "multi_thread")]
async fn harmless_attempts_succeed_without_a_sandbox() {
    let sandbox = sandbox(SandboxKind::Unconfined).await.unwrap();
    let harmless = [
        "write into the user's home",
        "read the user's key",
        "follow a link to a directory",
        "hard-link a key",
        "install a git hook",
        "make a .git where there is none",
        "write a protected file",
        "read the state directory",
        "write a read-only context path",
        "read another's environment",
        "trace another",
        "connect by TCP",
        "send by UDP",
        "connect to an agent's socket",
        "connect to an abstract socket",
        "send to a datagram socket",
        "attach another's shared memory",
    ];
    for (name, command) in ATTEMPTS.iter().filter(|(name, _)| harmless.contains(name)) {
        let mut outside = Outside::new();
        let host = outside.agent_files.host(sandbox.clone());
        let before = outside.snapshot();
        let outcome = run_as(&host, &outside.fill(command), ContextAccess::Writable).await;
        let seen = outcome.content.contains("CANARY")
            || !outside.evidence().is_empty()
            || outside.snapshot() != before;
        assert!(seen, "{name} proves nothing: {}", outcome.content);
    }
}
