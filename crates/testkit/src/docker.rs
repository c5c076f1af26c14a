//! A real Docker daemon for one test, with one small image, stopped after the test.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Whether `ALTHING_TEST_WITHOUT` excludes tests that need this feature. With `CI=true`, an excluded feature panics.
#[track_caller]
pub fn is_excluded(what: &str) -> bool {
    let without = std::env::var("ALTHING_TEST_WITHOUT").unwrap_or_default();
    let skip = without.split(',').any(|word| word == what);
    if skip {
        crate::skip_unless_ci(&format!("{what} is excluded (ALTHING_TEST_WITHOUT)"));
    }
    skip
}

/// The image that the daemon provides. It contains only busybox.
pub const IMAGE: &str = "althing-test:1";

/// A daemon for one test. Dropping it stops the daemon.
pub struct TestDockerDaemon {
    process: Child,
    dir: TempDir,
}

impl TestDockerDaemon {
    pub fn start() -> Self {
        // The storage driver `vfs` works without overlay support in the kernel or file system.
        Self::with(&[])
            .or_else(|_| Self::with(&["--storage-driver=vfs"]))
            .unwrap_or_else(|log| panic!("dockerd:\n{log}"))
    }

    /// Waits until the daemon answers. The error is its log.
    fn with(options: &[&str]) -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let log = std::fs::File::create(path("log")).unwrap();
        let process = Command::new("dockerd")
            .args(["--iptables=false", "--bridge=none", "--ip-masq=false"])
            .args(["-H", &format!("unix://{}", path("docker.sock"))])
            .args(["--data-root", &path("data"), "--exec-root", &path("exec"), "-p", &path("pid")])
            .args(options)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("dockerd is needed: run tests/setup.sh, or set ALTHING_TEST_WITHOUT=docker");
        let mut daemon = Self { process, dir };
        let start = Instant::now();
        while !daemon.docker(&["version"]).status.success() {
            if daemon.process.try_wait().unwrap().is_some() || start.elapsed() > Duration::from_secs(60) {
                return Err(std::fs::read_to_string(daemon.dir.path().join("log")).unwrap());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        daemon.import();
        Ok(daemon)
    }

    fn import(&self) {
        let root = self.dir.path().join("root");
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::create_dir_all(root.join("tmp")).unwrap();
        let busybox =
            ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| PathBuf::from(path).exists());
        std::fs::copy(
            busybox.expect("busybox-static is needed: run tests/setup.sh"),
            root.join("bin/busybox"),
        )
        .unwrap();
        let links =
            "cd bin && for name in $(./busybox --list); do [ $name = busybox ] || ln -s busybox $name; done";
        assert!(Command::new("sh").args(["-c", links]).current_dir(&root).status().unwrap().success());
        self.import_root(IMAGE);
    }

    fn import_root(&self, image: &str) {
        let root = self.dir.path().join("root");
        let tar = self.dir.path().join("root.tar").display().to_string();
        let packed =
            Command::new("tar").args(["-C", &root.display().to_string(), "-cf", &tar, "."]).status().unwrap();
        assert!(packed.success());
        let output = self.docker(&["import", &tar, image]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn image_with(&self, name: &str, files: &[(&str, &str)]) {
        let root = self.dir.path().join("root");
        for (path, content) in files {
            let file = root.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, content).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        self.import_root(name);
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("docker.sock")
    }

    /// The directory in which the daemon stores a container's log and the files that it mounts into the container.
    pub fn files_of(&self, container: &str) -> PathBuf {
        self.dir.path().join("data/containers").join(container)
    }

    /// Lets every user use the daemon, as the members of the group `docker` may.
    pub fn open_to_all_users(&self) {
        crate::machine::open_to_all(self.dir.path());
        crate::machine::open_to_all(&self.socket());
    }

    pub fn docker(&self, args: &[&str]) -> std::process::Output {
        let host = format!("unix://{}", self.socket().display());
        Command::new("docker").args(["-H", &host]).args(args).output().unwrap()
    }

    pub fn docker_stdout(&self, args: &[&str]) -> String {
        String::from_utf8_lossy(&self.docker(args).stdout).trim().to_owned()
    }

    pub fn containers(&self) -> Vec<String> {
        self.docker_stdout(&["ps", "-aq", "--no-trunc"]).lines().map(str::to_owned).collect()
    }
}

impl Drop for TestDockerDaemon {
    fn drop(&mut self) {
        for id in self.containers() {
            self.docker(&["rm", "-f", &id]);
        }
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}
