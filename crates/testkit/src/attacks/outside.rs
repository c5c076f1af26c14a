//! The targets of attempts to escape from a sandbox, and the signs that an attempt succeeded: a file outside changes or
//! appears, a canary (a secret, or the word that an attempt prints on success) is printed, a process outside ends, or a
//! socket outside gets a connection or a packet.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The files of the targets, below a directory that also contains the agent's workspace:
///
/// ```text
/// project/                   context path, writable
///   .git/                    with config and hooks/
///   notes.txt  src/main.rs
///   vendor/locked/           protected path
///   .althing/                Althing's state directory, with outputs/
/// reference/book.txt         context path, read-only
/// fresh/src                  context path, writable, without a repository
/// home/.ssh/id               not accessible to the agent
/// ```
pub const FILES: [(&str, &str); 9] = [
    ("project/notes.txt", "notes"),
    ("project/src/main.rs", "fn main() {}"),
    ("project/.git/config", "[core]"),
    ("project/.git/hooks/sample", "#"),
    ("project/vendor/locked/file", "locked"),
    ("project/.althing/log", "CANARY-state"),
    ("reference/book.txt", "book"),
    ("fresh/src/main.rs", ""),
    ("home/.ssh/id", "CANARY-key"),
];

/// Directories of the machine in which no attempt may leave a file.
const MACHINE: [&str; 12] = [
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/run",
    "/etc",
    "/etc/cron.d",
    "/usr/local/bin",
    "/usr/lib",
    "/root",
    "/var/spool/cron",
    "/opt",
    "/",
];

/// Files of the machine that sandboxes use. Every change of their mode or times changes their ctime, even a change to
/// the same value. (`/dev/tty` is left out, because writing to it changes its ctime, too.)
const SHARED_FILES: [&str; 6] =
    ["/usr/bin/bwrap", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

#[derive(Debug, Clone)]
pub struct Places {
    pub base: PathBuf,
    /// The agent's workspace as a shell expression, such as `$PWD`.
    pub workspace: String,
    /// Paths below `base` that may change.
    pub changing: Vec<PathBuf>,
    /// The user who owns the attacked process and shared memory, if it is not the current one.
    pub uid: Option<u32>,
}

impl Places {
    fn path(&self, inside: &str) -> PathBuf {
        self.base.join(inside)
    }

    pub fn plant(&self) {
        for (path, text) in FILES {
            let path = self.path(path);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
    }
}

#[derive(Debug)]
pub struct Outside {
    places: Places,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    sockets: Vec<UnixListener>,
    datagram: UnixDatagram,
    shm: String,
    mark: String,
    before: BTreeMap<PathBuf, String>,
}

impl Outside {
    pub fn new(places: Places) -> Self {
        let mark = unique_seconds();
        let as_user = |mut command: Command| {
            if let Some(id) = places.uid {
                command.uid(id).gid(id);
            }
            command
        };
        let mut victim = as_user(Command::new("sleep"));
        let victim = victim.arg("86399").env("SECRET", "CANARY-memory").spawn().expect("a process");
        let abstract_name = SocketAddr::from_abstract_name(format!("althing-{mark}")).expect("a name");
        let sockets = vec![
            UnixListener::bind(places.path("home/agent.sock")).expect("a socket"),
            UnixListener::bind(places.path("home/docker.sock")).expect("a socket"),
            UnixListener::bind_addr(&abstract_name).expect("a socket"),
        ];
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let datagram = UnixDatagram::bind(places.path("home/datagram.sock")).expect("a socket");
        for socket in &sockets {
            socket.set_nonblocking(true).expect("a socket that does not block");
        }
        tcp.set_nonblocking(true).expect("a socket that does not block");
        udp.set_nonblocking(true).expect("a socket that does not block");
        datagram.set_nonblocking(true).expect("a socket that does not block");
        let make = "$id = shmget(0, 64, 01600); shmwrite($id, 'CANARY-shared', 0, 13); print $id";
        let shm = as_user(Command::new("perl")).args(["-e", make]).output().expect("perl");
        let shm = String::from_utf8(shm.stdout).expect("a number");
        assert!(!shm.is_empty(), "perl made no shared memory");
        let mut outside =
            Self { places, victim, tcp, udp, sockets, datagram, shm, mark, before: BTreeMap::new() };
        outside.remember();
        outside
    }

    /// A unique number. Attempts sleep this many seconds and use the number as a file name, so that their processes and
    /// files can be found.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Replaces placeholders such as `{HOME}` and `{TCP}` with the real paths, ports and ids.
    pub fn fill(&self, command: &str) -> String {
        let path = |inside: &str| self.places.path(inside).display().to_string();
        let values = [
            ("{HOME}", path("home")),
            ("{WORKSPACE}", self.places.workspace.clone()),
            ("{PROJECT}", path("project")),
            ("{REFERENCE}", path("reference")),
            ("{FRESH}", path("fresh")),
            ("{OUTPUTS}", path("project/.althing/outputs")),
            ("{SOCKET}", path("home/agent.sock")),
            ("{DATAGRAM}", path("home/datagram.sock")),
            ("{ABSTRACT}", format!("althing-{}", self.mark)),
            ("{VICTIM}", self.victim.id().to_string()),
            ("{TCP}", self.tcp.local_addr().expect("an address").port().to_string()),
            ("{UDP}", self.udp.local_addr().expect("an address").port().to_string()),
            ("{SHM}", self.shm.clone()),
            ("{MARK}", self.mark.clone()),
        ];
        values.iter().fold(command.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Records the files as they are now. No later attempt may change them.
    pub fn remember(&mut self) {
        self.before = self.snapshot();
    }

    fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        look(&self.places.base, &self.places.changing, &mut seen);
        // The state directory may change, but not this file in it.
        let log = self.places.path("project/.althing/log");
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        seen.insert(log, text);
        for path in SHARED_FILES {
            let Ok(data) = Path::new(path).metadata() else { continue };
            let text = format!("{:o} {} {}", data.mode(), data.ctime(), data.ctime_nsec());
            seen.insert(PathBuf::from(path), text);
        }
        seen
    }

    /// The signs that something succeeded since the last call.
    pub fn evidence(&mut self, printed: &str) -> Vec<String> {
        let mut evidence = Vec::new();
        if printed.contains("CANARY") {
            evidence.push(format!("a canary was printed: {printed}"));
        }
        if self.victim.try_wait().expect("a child").is_some() {
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
        let reached = self.sockets.iter().filter(|socket| socket.accept().is_ok());
        evidence.extend(reached.map(|socket| format!("{socket:?} was reached")));
        let left = MACHINE.iter().filter(|dir| Path::new(dir).join(&self.mark).symlink_metadata().is_ok());
        evidence.extend(left.map(|dir| format!("a file in {dir}")));
        let after = self.snapshot();
        for (path, was) in &self.before {
            if after.get(path) != Some(was) {
                let is = after.get(path).map_or("gone", String::as_str);
                evidence.push(format!("changed: {}: {was:?}, now {is:?}", path.display()));
            }
        }
        let new = after.keys().filter(|path| !self.before.contains_key(*path));
        evidence.extend(new.map(|path| format!("new: {}", path.display())));
        self.before = after;
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

/// Records mode, number of links, modification time (not of directories) and content of everything below `dir`, except
/// what may change.
fn look(dir: &Path, changing: &[PathBuf], seen: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(data) = entry.metadata() else { continue };
        if changing.contains(&path) {
            continue;
        }
        let text =
            if data.is_file() { std::fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
        // The time of a directory is not compared, because a placeholder or an output file that is created in it
        // changes that time.
        let time = if data.is_dir() { 0 } else { data.mtime_nsec() };
        seen.insert(path.clone(), format!("{:o} {} {time} {text}", data.mode(), data.nlink()));
        if data.is_dir() {
            look(&path, changing, seen);
        }
    }
}

pub fn processes_with(needle: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if pid != std::process::id() && line.contains(needle) {
            found.push(pid);
        }
    }
    found
}

/// A number of seconds for `sleep` that identifies the processes of one test.
pub fn unique_seconds() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("3{:07}{next:03}", std::process::id())
}
