//! Containers on a real Docker daemon; each test starts its own daemon and stops it.

use super::support::{AgentFixture, HELPER, LONG_BEFORE_THE_SLEEP_ENDS, call, run, run_as, unique_seconds};
use althing_protocol::{ContextAccess, ProcessLimits, ToolHost};
use althing_runner::{
    CommandHost, Container, ContainerSpec, ContextMount, DockerClient, NetworkMode, Sandbox,
};
use althing_testkit::docker::{IMAGE, TestDockerDaemon, is_excluded};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn agent(
    daemon: &TestDockerDaemon,
    agent_files: &AgentFixture,
    access: ContextAccess,
) -> (Arc<Container>, CommandHost) {
    let containers = DockerClient::connect(&daemon.socket()).await.unwrap();
    let container = containers.start(spec(agent_files), access).await.unwrap();
    (Arc::clone(&container), agent_files.host(Sandbox::Docker(container)))
}

fn spec(agent_files: &AgentFixture) -> ContainerSpec {
    ContainerSpec {
        image: IMAGE.to_owned(),
        network: NetworkMode::None,
        memory: Some(256 * 1024 * 1024),
        limits: ProcessLimits::default(),
        cpus: Some(0.5),
        sandbox_paths: agent_files.sandbox_paths(),
        session: "session-1".to_owned(),
        run: "run-2".to_owned(),
        agent: "agent_a".to_owned(),
    }
}

// spec: modes/docker-container-recreation-for-write-access/recreate-container-before-final-presentation
#[tokio::test(flavor = "multi_thread")]
async fn a_shell_command_can_write_to_a_context_path_only_after_the_container_was_recreated() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let (container, host) = agent(&daemon, &agent_files, ContextAccess::ReadOnly).await;
    let write = format!("echo written > {}", agent_files.path("project/result.txt").display());

    let before = run(&host, &write).await;
    assert!(before.content.contains("Read-only file system"), "{}", before.content);
    assert!(!agent_files.path("project/result.txt").exists());
    let old = container.id().await.unwrap();

    container.recreate(ContextAccess::Writable).await.unwrap();

    let new = container.id().await.unwrap();
    assert_ne!(new, old);
    assert_eq!(daemon.containers(), std::slice::from_ref(&new), "the old container is removed");
    let after = run_as(&host, &write, ContextAccess::Writable).await;
    assert_eq!(after.content, "exit code: 0\n(no output)");
    assert_eq!(agent_files.read("project/result.txt"), "written\n");
    assert_eq!(container.id().await, Some(new), "the container was not recreated again");

    let protected = ["project/.git/config", "project/vendor/locked/file", "reference/book.txt"];
    for path in protected {
        let outcome =
            run_as(&host, &format!("echo x > {}", agent_files.path(path).display()), ContextAccess::Writable)
                .await;
        assert!(outcome.content.contains("Read-only file system"), "{path}: {}", outcome.content);
    }
    container.close().await.unwrap();
    assert!(daemon.containers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_in_a_context_path_does_not_answer_in_a_container() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let _live =
        ["project/live", "reference/live"].map(|path| UnixListener::bind(agent_files.path(path)).unwrap());
    drop(UnixListener::bind(agent_files.path("reference/dead")).unwrap());
    let (container, host) = agent(&daemon, &agent_files, ContextAccess::ReadOnly).await;
    for (path, is_socket) in [("project/live", false), ("reference/live", false), ("reference/dead", true)] {
        let test = format!("test -S {} && echo a socket", agent_files.path(path).display());
        let outcome = run(&host, &test).await;
        assert_eq!(outcome.content.contains("a socket"), is_socket, "{path}: {}", outcome.content);
    }
    container.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_has_its_limits_labels_user_and_mounts() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    std::fs::create_dir_all(agent_files.path("fresh/src")).unwrap();
    let mut spec = spec(&agent_files);
    spec.sandbox_paths.context.push(ContextMount {
        path: agent_files.path("fresh"),
        writable: true,
        protected: Vec::new(),
    });
    let containers = DockerClient::connect(&daemon.socket()).await.unwrap();
    assert!(!containers.version().is_empty());
    let container = containers.start(spec, ContextAccess::Writable).await.unwrap();
    let host = agent_files.host(Sandbox::Docker(Arc::clone(&container)));
    let id = container.id().await.unwrap();

    let format = "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.NanoCpus}} {{.HostConfig.NetworkMode}} \
                  {{.Config.User}} {{index .Config.Labels \"althing.session\"}} {{index .Config.Labels \"althing.run\"}} \
                  {{index .Config.Labels \"althing.agent\"}}";
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let expected = format!("268435456 268435456 500000000 none {uid}:{gid} session-1 run-2 agent_a");
    assert_eq!(daemon.docker_stdout(&["inspect", "-f", format, &id]), expected);

    let outcome =
        run_as(&host, "pwd; echo $HOME; cat own.txt; ls /sys/class/net", ContextAccess::Writable).await;
    let workspace = agent_files.path("workspace").display().to_string();
    assert_eq!(outcome.content, format!("exit code: 0\n{workspace}\n{workspace}\nownlo\n"));

    let state = agent_files.path("project/.althing").display().to_string();
    let git = agent_files.path("fresh/.git").display().to_string();
    let command = format!(
        "cat {state}/log; echo x > {state}/log; echo x > {git}/config; cat {}/id",
        agent_files.path("home/.ssh").display()
    );
    let outcome = run_as(&host, &command, ContextAccess::Writable).await;
    assert!(!outcome.content.contains("CANARY"), "{}", outcome.content);
    assert_eq!(agent_files.read("project/.althing/log"), "CANARY-state");
    assert_eq!(agent_files.read("fresh/.git/config"), "");

    drop(host);
    container.close().await.unwrap();
    assert!(!agent_files.path("fresh/.git").exists(), "the placeholder is gone with the container");
    let closed = container.recreate(ContextAccess::ReadOnly).await.unwrap_err();
    assert!(closed.to_string().contains("removed"), "{closed}");

    let missing = ContainerSpec { image: "no-such-image:1".to_owned(), ..self::spec(&agent_files) };
    let error = containers.start(missing, ContextAccess::ReadOnly).await.unwrap_err();
    assert!(error.hint().contains("docker pull no-such-image:1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_in_a_container_end_like_commands_outside() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let (container, host) = agent(&daemon, &agent_files, ContextAccess::ReadOnly).await;
    let inside = || daemon.docker_stdout(&["top", &daemon.containers()[0], "-eo", "pid,args"]);

    let start = Instant::now();
    let outcome = run(&host, "echo one; cat; exit 3").await;
    println!("a command takes {:?}", start.elapsed());
    assert_eq!(outcome.content, "exit code: 3\none\n");

    let outcome = run(&host, "seq 1 100000").await;
    assert!(
        outcome.content.ends_with("99999\n100000\n")
            && outcome.content.contains("the complete output is in ")
    );

    let mark = unique_seconds();
    let start = Instant::now();
    let outcome =
        run(&host, &format!("setsid sleep {mark} & (env -i setsid sleep {mark} &) ; echo done")).await;
    assert_eq!(outcome.content, "exit code: 0\ndone\n");
    println!("with a held pipe {:?}", start.elapsed());
    assert!(start.elapsed() < LONG_BEFORE_THE_SLEEP_ENDS, "{:?}", start.elapsed());
    assert!(!inside().contains(&mark), "{}", inside());

    let mark = unique_seconds();
    let start = Instant::now();
    let command = format!("trap '' TERM; echo begun; setsid sleep {mark} & while :; do sleep 0.1; done");
    let arguments = serde_json::json!({ "command": command, "timeout_seconds": 1 });
    let outcome = host.call(&call(&arguments), ContextAccess::ReadOnly).await;
    assert_eq!(outcome.content, "ended: the time limit of 1 s was reached\nbegun\n");
    assert!(start.elapsed() < LONG_BEFORE_THE_SLEEP_ENDS, "{:?}", start.elapsed());
    assert!(!inside().contains(&mark), "{}", inside());

    let mark = unique_seconds();
    let command = format!("setsid sleep {mark} & sleep {mark}");
    {
        let work = run(&host, &command);
        let begun = async {
            while inside().matches(&mark).count() < 2 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            outcome = work => panic!("ended by itself: {}", outcome.content),
            () = begun => {}
        }
    }
    let start = Instant::now();
    while inside().contains(&mark) {
        assert!(start.elapsed() < LONG_BEFORE_THE_SLEEP_ENDS, "{}", inside());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("all ended {:?} after the drop", start.elapsed());

    // The container was removed from outside: the next command gets a new container.
    daemon.docker(&["rm", "-f", &container.id().await.unwrap()]);
    assert_eq!(run(&host, "echo back").await.content, "exit code: 0\nback\n");

    drop((container, host));
    let start = Instant::now();
    while !daemon.containers().is_empty() {
        assert!(start.elapsed() < LONG_BEFORE_THE_SLEEP_ENDS);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_removes_what_a_killed_owner_left_and_nothing_else() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let (living, _host) = agent(&daemon, &agent_files, ContextAccess::ReadOnly).await;
    let foreign = daemon.docker_stdout(&["run", "-d", "--network", "none", IMAGE, "/bin/sleep", "3600"]);

    let dir = tempfile::tempdir().unwrap();
    let mut owner = Command::new(HELPER)
        .arg("container")
        .args([daemon.socket().as_path(), IMAGE.as_ref(), dir.path()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut left = String::new();
    BufReader::new(owner.stdout.as_mut().unwrap()).read_line(&mut left).unwrap();
    let left = left.trim().to_owned();
    let containers = DockerClient::connect(&daemon.socket()).await.unwrap();
    assert_eq!(containers.sweep().await.unwrap(), Vec::<String>::new(), "the owner is alive");

    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(daemon.containers().contains(&left));
    assert_eq!(containers.sweep().await.unwrap(), [left]);

    let mut expected = vec![foreign, living.id().await.unwrap()];
    let mut now = daemon.containers();
    expected.sort();
    now.sort();
    assert_eq!(now, expected);
    living.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fills_the_containers_own_disk_is_told_so_and_its_files_are_deleted() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let containers = DockerClient::connect(&daemon.socket()).await.unwrap();
    let limits = ProcessLimits { disk: 32 << 20, ..ProcessLimits::default() };
    let container = containers
        .start(ContainerSpec { limits, ..spec(&agent_files) }, ContextAccess::ReadOnly)
        .await
        .unwrap();
    let host = agent_files.host(Sandbox::Docker(Arc::clone(&container)));
    // The command ends before its limits are checked for the first time.
    let full = run(&host, "head -c 60000000 /dev/zero > /tmp/big; echo written").await;
    assert!(full.is_error && full.content.contains("disk limit"), "{}", full.content);
    let after = run(&host, "ls /tmp; echo small > /tmp/small; cat /tmp/small").await;
    assert_eq!(after.content, "exit code: 0\nsmall\n");
    let again = run(&host, "cat /tmp/small").await;
    assert_eq!(again.content, "exit code: 0\nsmall\n", "a container below its limit is kept");
    container.close().await.unwrap();
    assert!(daemon.containers().is_empty());
}

/// Docker keeps the output of a container's first process, and mounts files into each container, on the disk of the
/// host, where no size of the container counts them.
#[tokio::test(flavor = "multi_thread")]
async fn no_file_that_docker_stores_for_a_container_can_be_filled_from_inside() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let (container, host) = agent(&daemon, &agent_files, ContextAccess::ReadOnly).await;
    let id = container.id().await.unwrap();
    let fill = "for file in /proc/1/fd/1 /proc/1/fd/2 /etc/hosts /etc/hostname /etc/resolv.conf; do \
                yes | head -c 3000000 2>/dev/null > $file; done; cat /etc/hosts; cat /proc/self/mountinfo";
    let output = run(&host, fill).await.content;
    assert!(output.contains("localhost"), "the file is still there: {output}");
    let files = std::fs::read_dir(daemon.files_of(&id)).unwrap();
    let files = files.map(|file| file.unwrap()).filter(|file| file.file_type().unwrap().is_file());
    let large: Vec<_> = files.filter(|file| file.metadata().unwrap().len() > 1_000_000).collect();
    assert!(large.is_empty(), "{large:?}: {output}");
    // Everything else that is writable is in memory, in the container's own layer, or granted.
    let in_memory = ["proc", "tmpfs", "devpts", "mqueue", "sysfs", "cgroup", "cgroup2"];
    let workspace = agent_files.path("workspace").display().to_string();
    // Of several mounts at one path, the last one is on top.
    let mut on_top = BTreeMap::new();
    for line in output.lines() {
        let Some((mount, file_system)) = line.split_once(" - ") else { continue };
        let fields: Vec<&str> = mount.split(' ').collect();
        let [_, _, _, _, path, options, ..] = fields.as_slice() else { continue };
        let kind = file_system.split(' ').next().unwrap();
        on_top.insert((*path).to_owned(), (options.to_string(), kind, line));
    }
    for (path, (options, kind, line)) in on_top {
        let is_read_only = options.split(',').any(|option| option == "ro");
        let is_known = path == "/" || path == workspace || in_memory.contains(&kind);
        assert!(is_read_only || is_known, "{line}");
    }
    container.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_disk_limit_of_a_container_covers_context_paths_and_volumes_of_the_image() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let made = daemon.docker(&["create", "--name", "base", IMAGE, "/bin/true"]);
    assert!(made.status.success(), "{made:?}");
    let made = daemon.docker(&["commit", "--change", "VOLUME /data", "base", "with-volume:1"]);
    assert!(made.status.success(), "{made:?}");
    assert!(daemon.docker(&["rm", "base"]).status.success());
    let agent_files = AgentFixture::new();
    let containers = DockerClient::connect(&daemon.socket()).await.unwrap();
    let limits = ProcessLimits { disk: 32 << 20, ..ProcessLimits::default() };
    let image = "with-volume:1".to_owned();
    let container = containers
        .start(ContainerSpec { limits, image, ..spec(&agent_files) }, ContextAccess::Writable)
        .await
        .unwrap();
    let host = agent_files.host(Sandbox::Docker(Arc::clone(&container)));
    let big = agent_files.path("project/big");
    let fill = format!("head -c 60000000 /dev/zero > {}; sleep 60; echo finished", big.display());
    let full = run_as(&host, &fill, ContextAccess::Writable).await;
    assert!(full.is_error && full.content.contains("disk limit"), "{}", full.content);
    let fill = "head -c 60000000 /dev/zero > /data/big; wc -c < /data/big; echo x > /data/small";
    let full = run_as(&host, fill, ContextAccess::Writable).await;
    assert!(full.content.contains("No space left on device"), "{}", full.content);
    container.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_workspace_of_a_container_can_be_emptied_but_not_filled() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let containers = DockerClient::connect(&daemon.socket()).await.unwrap();
    let limits = ProcessLimits { disk: 32 << 20, ..ProcessLimits::default() };
    let container = containers
        .start(ContainerSpec { limits, ..spec(&agent_files) }, ContextAccess::ReadOnly)
        .await
        .unwrap();
    let host = agent_files.host_limited(Sandbox::Docker(Arc::clone(&container)), limits);
    let mut told = String::new();
    for number in 0..3 {
        told = run(&host, &format!("head -c 20000000 /dev/zero > big{number}")).await.content;
    }
    assert!(told.contains("`orchestrator.limits.disk`") && told.contains("delete"), "{told}");
    run(&host, "echo x > more").await;
    let stored = std::fs::metadata(agent_files.path("workspace/more")).map_or(0, |file| file.len());
    assert_eq!(stored, 0, "nothing can be written");
    run(&host, "rm -f big*").await;
    assert_eq!(run(&host, "echo again > again; cat again").await.content, "exit code: 0\nagain\n");
    container.close().await.unwrap();
}

/// A chain of processes, each of which starts the next one and ends at once, is in no list of processes.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_processes_in_a_container_does_not_outlive_its_command() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let agent_files = AgentFixture::new();
    let containers = DockerClient::connect(&daemon.socket()).await.unwrap();
    // If the container had only a part of a CPU, the chain would often pause, and its processes could be listed.
    let whole_cpu = ContainerSpec { cpus: None, ..spec(&agent_files) };
    let container = containers.start(whole_cpu, ContextAccess::ReadOnly).await.unwrap();
    let host = agent_files.host(Sandbox::Docker(Arc::clone(&container)));
    // The chain writes until it is killed, and lacks the variable by which the command's processes are found.
    let chain =
        "n=0; f() { n=$((n+1)); echo x >> chain.txt; [ $n -gt 300 ] && exec /bin/sh chain.sh; f & exit; }; f";
    let command = format!(
        "echo '{chain}' > chain.sh; env -i setsid /bin/sh chain.sh > /dev/null 2>&1 & \
         while [ ! -s chain.txt ]; do sleep 0.1; done; echo begun"
    );
    let outcome = run(&host, &command).await;
    assert_eq!(outcome.content, "exit code: 0\nbegun\n");
    let written = || std::fs::metadata(agent_files.path("workspace/chain.txt")).unwrap().len();
    let after = written();
    assert!(after > 0);
    assert!(run(&host, "sleep 1; echo later").await.content.contains("later"));
    assert_eq!(written(), after, "it was still writing");
    container.close().await.unwrap();
}
