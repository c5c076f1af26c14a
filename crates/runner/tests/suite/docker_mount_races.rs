//! A path that another agent replaces in the moment in which the real Docker daemon mounts it. A proxy between
//! Althing and the daemon replaces the path while the daemon starts the container, and puts it back afterwards.

use super::support::{AgentFixture, run_as};
use althing_protocol::{ContextAccess, ProcessLimits};
use althing_runner::{ContainerSpec, DockerClient, DockerError, NetworkMode, Sandbox};
use althing_testkit::docker::{IMAGE, TestDockerDaemon, is_excluded};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

#[derive(Debug)]
struct Race {
    path: PathBuf,
    /// The target of the symlink that replaces the path; if `None`, an empty directory replaces it.
    instead: Option<PathBuf>,
    times: usize,
    started: AtomicUsize,
    is_replaced: Mutex<bool>,
}

impl Race {
    fn aside(&self) -> PathBuf {
        self.path.with_file_name("moved-aside")
    }

    fn begin(&self) {
        let mut is_replaced = self.is_replaced.lock().unwrap();
        if self.started.fetch_add(1, Ordering::SeqCst) < self.times {
            std::fs::rename(&self.path, self.aside()).unwrap();
            match &self.instead {
                Some(instead) => symlink(instead, &self.path).unwrap(),
                None => std::fs::create_dir(&self.path).unwrap(),
            }
            *is_replaced = true;
        }
    }

    fn end(&self) {
        let mut is_replaced = self.is_replaced.lock().unwrap();
        if std::mem::take(&mut *is_replaced) {
            if self.instead.is_some() {
                std::fs::remove_file(&self.path).unwrap();
            } else {
                std::fs::rename(&self.path, self.path.with_file_name("wrong-one")).unwrap();
            }
            std::fs::rename(self.aside(), &self.path).unwrap();
        }
    }
}

fn proxy(socket: &Path, daemon: PathBuf, race: Arc<Race>) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = UnixStream::connect(&daemon).unwrap();
            let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (to, from) = (Arc::clone(&race), Arc::clone(&race));
            let starts = |chunk: &[u8]| {
                let text = String::from_utf8_lossy(chunk);
                text.starts_with("POST ")
                    && text.lines().next().is_some_and(|line| line.contains("/start"))
                    && text.contains("/containers/")
            };
            std::thread::spawn(move || {
                copy(client, server, |chunk| {
                    if starts(chunk) {
                        to.begin()
                    }
                });
            });
            std::thread::spawn(move || copy(ends.1, ends.0, |_| from.end()));
        }
    });
}

fn copy(mut from: UnixStream, mut to: UnixStream, mut before: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 256 * 1024];
    while let Ok(1..) = from.read(&mut buffer).map(|length| {
        let chunk = &buffer[..length];
        if length > 0 {
            before(chunk);
        }
        if to.write_all(chunk).is_ok() { length } else { 0 }
    }) {}
    let _ = to.shutdown(Shutdown::Write);
}

fn spec(agent_files: &AgentFixture) -> ContainerSpec {
    ContainerSpec {
        image: IMAGE.to_owned(),
        network: NetworkMode::None,
        memory: None,
        limits: ProcessLimits::default(),
        cpus: None,
        sandbox_paths: agent_files.sandbox_paths(),
        session: "s".to_owned(),
        run: "r".to_owned(),
        agent: "a".to_owned(),
    }
}

async fn start(
    daemon: &TestDockerDaemon,
    agent_files: &AgentFixture,
    path: &str,
    instead: Option<&Path>,
    times: usize,
) -> Result<(TempDir, Sandbox), DockerError> {
    let dir = tempfile::tempdir().unwrap();
    let race = Race {
        path: agent_files.path(path),
        instead: instead.map(Path::to_owned),
        times,
        started: AtomicUsize::new(0),
        is_replaced: Mutex::new(false),
    };
    let race = Arc::new(race);
    let socket = dir.path().join("proxy.sock");
    proxy(&socket, daemon.socket(), Arc::clone(&race));
    let containers = DockerClient::connect(&socket).await.unwrap();
    let started = containers.start(spec(agent_files), ContextAccess::Writable).await;
    assert!(race.started.load(Ordering::SeqCst) > 0, "no container was started");
    race.end();
    started.map(|container| (dir, Sandbox::Docker(container)))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_runs_in_a_container_in_which_docker_mounted_anything_else() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let victim = tempfile::tempdir().unwrap();
    std::fs::write(victim.path().join("id"), "PRIVATE-KEY").unwrap();
    let instead = victim.path().canonicalize().unwrap();
    for (path, instead) in [
        ("project", Some(&instead)),
        ("project/vendor", Some(&instead)),
        ("project/vendor/locked", Some(&instead)),
        ("project/vendor/locked", None),
        ("project/.git", Some(&instead)),
        ("reference", Some(&instead)),
        ("reference", None),
        ("workspace", Some(&instead)),
    ] {
        let agent_files = AgentFixture::new();
        let started = start(&daemon, &agent_files, path, instead.map(PathBuf::as_path), 9).await;
        if let Ok((_proxy, sandbox)) = &started {
            let host = agent_files.host(sandbox.clone());
            let at = agent_files.path(path);
            let command = format!("cat {0}/id; touch {0}/planted", at.display());
            let outcome = run_as(&host, &command, ContextAccess::Writable).await;
            panic!("{path} {instead:?}: a command ran: {}", outcome.content);
        }
        // Docker itself may notice, too.
        let error = started.unwrap_err();
        let is_told = error.to_string().contains("was replaced while the sandbox was set up");
        assert!(is_told || matches!(error, DockerError::Daemon(_)), "{path} {instead:?}: {error}");
        assert_eq!(daemon.containers(), [""; 0], "{path}: the container is removed");
        assert!(!victim.path().join("planted").exists(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_created_again_if_a_path_was_replaced_only_once() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let (agent_files, victim) = (AgentFixture::new(), tempfile::tempdir().unwrap());
    let (_proxy, sandbox) = start(&daemon, &agent_files, "reference", Some(victim.path()), 1).await.unwrap();
    assert_eq!(daemon.containers().len(), 1);
    let read = format!("cat {}", agent_files.path("reference/book.txt").display());
    let outcome = run_as(&agent_files.host(sandbox), &read, ContextAccess::Writable).await;
    assert!(outcome.content.starts_with("exit code: 0\n"), "{}", outcome.content);
}

/// Older versions of Docker leave a file system inside a read-only directory writable.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_below_a_read_only_mount_of_a_container_is_writable() {
    if is_excluded("docker") {
        return;
    }
    if !althing_testkit::is_root() {
        return althing_testkit::skip_unless_ci("only root can mount a file system");
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let inner = agent_files.path("reference/inner");
    std::fs::create_dir(&inner).unwrap();
    let mount = |program: &str, args: &[&str]| {
        assert!(Command::new(program).args(args).arg(&inner).status().unwrap().success());
    };
    mount("mount", &["-t", "tmpfs", "none"]);
    let containers = DockerClient::connect(&daemon.socket()).await.unwrap();
    let started = containers.start(spec(&agent_files), ContextAccess::Writable).await;
    if let Ok(container) = &started {
        let host = agent_files.host(Sandbox::Docker(Arc::clone(container)));
        let write = format!("touch {}/planted", inner.display());
        run_as(&host, &write, ContextAccess::Writable).await;
        container.close().await.unwrap();
    }
    let is_written = inner.join("planted").exists();
    mount("umount", &["-l"]);
    assert!(!is_written, "{started:?}");
}

/// The daemon reports a wrong id for the container's first process, as a daemon in another pid namespace does.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_whose_mounts_cannot_be_looked_at_is_refused_and_removed() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("proxy.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let real = daemon.socket();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = UnixStream::connect(&real).unwrap();
            let (to_client, from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || copy(client, server, |_| ()));
            std::thread::spawn(move || replace_pid(from_server, to_client));
        }
    });
    let containers = DockerClient::connect(&socket).await.unwrap();
    let error = containers.start(spec(&agent_files), ContextAccess::Writable).await.unwrap_err();
    assert!(error.to_string().contains("cannot be checked"), "{error}");
    assert!(error.hint().contains("on this machine"), "{}", error.hint());
    assert_eq!(daemon.containers(), [""; 0], "the container is removed");
}

fn replace_pid(mut from: UnixStream, mut to: UnixStream) {
    let mut buffer = vec![0; 256 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let chunk = &mut buffer[..length];
        let name = b"\"Pid\":";
        if let Some(at) = chunk.windows(name.len()).position(|part| part == name) {
            chunk[at + name.len()..].iter_mut().take_while(|byte| byte.is_ascii_digit()).for_each(|digit| {
                // No process has a number of nines.
                *digit = b'9';
            });
        }
        if to.write_all(chunk).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
