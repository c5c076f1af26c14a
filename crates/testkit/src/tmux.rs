//! A user in tmux: the built binary in a pane of a tmux server of its own, typed keys, and what the pane shows.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::Althing;
use crate::wait;

/// A pane has the whole size and gets Esc at once. Everything else is tmux's default, also for the clipboard.
const CONFIG: &str = "set -g status off
set -g default-terminal tmux-256color
set -s escape-time 0
";

/// A shell with job control: runs the remaining arguments as a job, prints their exit code, and then runs the commands
/// that are typed, such as `fg`. (tmux itself does not always learn the exit code of a program in a pane.)
const SHELL: &str = "set -m; \"$@\"; echo \"exit code $?\"; \
                     while read -r line; do eval \"$line\"; echo \"exit code $?\"; done";

/// A person reads a dialog before answering it; a dialog ignores keys that come sooner.
const READING: Duration = Duration::from_millis(1200);

/// How long to wait for two equal captures; a spinner changes the pane several times a second.
const MAX_SETTLING: Duration = Duration::from_millis(500);

/// A binary in tmux.
pub struct Tmux {
    program: PathBuf,
    socket: PathBuf,
    variables: Vec<(OsString, OsString)>,
    /// When keys were last typed.
    last_keys: Option<Instant>,
    _root: Arc<TempDir>,
}

impl std::fmt::Debug for Tmux {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tmux\n{}", self.screen())
    }
}

impl Althing {
    /// Starts the binary in tmux, in a pane of this size. None if tmux is not installed.
    pub fn tmux(&self, cols: u16, rows: u16) -> Option<Tmux> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path).map(|dir| dir.join("tmux")).find(|file| file.is_file())?;
        let root = self.root();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let config = root.path().join("tmux.conf");
        std::fs::write(&config, CONFIG).expect("the settings of tmux");
        let mut variables = self.variables();
        variables.extend([("LANG".into(), "C.UTF-8".into()), ("TERM".into(), "xterm-256color".into())]);
        let tmux = Tmux {
            program,
            socket: root.path().join(format!("tmux{number}")),
            variables,
            last_keys: None,
            _root: Arc::clone(&root),
        };
        let (cols, rows) = (cols.to_string(), rows.to_string());
        let start = ["new-session", "-d", "-x", cols.as_str(), "-y", rows.as_str(), "-c"].map(OsString::from);
        let start = [OsString::from("-f"), config.into()].into_iter().chain(start);
        let shell = ["--", "/bin/sh", "-c", SHELL, "sh"].map(OsString::from);
        tmux.run(start.chain([self.work_dir().into()]).chain(shell).chain(self.command_line()));
        Some(tmux)
    }
}

impl Tmux {
    /// Runs a command of tmux, and returns what it prints.
    fn run<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> String {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(self.variables.iter().cloned());
        let output = command.arg("-u").arg("-S").arg(&self.socket).args(words).output().expect("tmux starts");
        assert!(output.status.success(), "tmux: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types a text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.run(["send-keys", "-l", "--", text]);
        self.last_keys = Some(Instant::now());
        self
    }

    /// Presses a key by tmux's name for it, such as `Enter`, `Down` or `C-o`. Enter, Escape and `y` are pressed after a
    /// pause, as by a person who reads the screen first.
    pub fn press(&mut self, key: &str) -> &mut Self {
        if matches!(key, "Enter" | "Escape" | "y")
            && let Some(at) = self.last_keys
        {
            std::thread::sleep(READING.saturating_sub(at.elapsed()));
        }
        self.run(["send-keys", key]);
        self.last_keys = Some(Instant::now());
        self
    }

    /// The pane as text, one line per row.
    pub fn screen(&self) -> String {
        self.run(["capture-pane", "-p"])
    }

    /// What the program copied last.
    pub fn copied(&self) -> String {
        self.run(["show-buffer"])
    }

    /// Waits until the pane satisfies a condition; panics with the pane after `limit`. A capture may show half of a
    /// frame, so the pane that is returned is the same in two captures, unless it changes all the time.
    #[track_caller]
    pub fn wait_until(&self, limit: Duration, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        let held = wait::holds_within(limit, || {
            screen = self.screen();
            holds(&screen)
        });
        assert!(held, "{what}: not within {limit:?}; the screen is:\n{screen}");
        let _ = wait::holds_within(MAX_SETTLING, || {
            let again = self.screen();
            let is_settled = again == screen;
            if holds(&again) {
                screen = again;
            }
            is_settled
        });
        screen
    }

    /// Waits until a text is on the screen.
    #[track_caller]
    pub fn wait_for(&self, text: &str, limit: Duration) -> String {
        self.wait_until(limit, &format!("`{text}` on the screen"), |screen| screen.contains(text))
    }

    /// Waits until a text is no longer on the screen.
    #[track_caller]
    pub fn wait_gone(&self, text: &str, limit: Duration) -> String {
        self.wait_until(limit, &format!("`{text}` gone from the screen"), |screen| !screen.contains(text))
    }

    /// Waits until the program has ended, and returns its exit code.
    #[track_caller]
    pub fn wait_end(&self, limit: Duration) -> i32 {
        let screen = self.wait_for("exit code ", limit);
        let code = screen.rsplit("exit code ").next().and_then(|rest| rest.split_whitespace().next());
        code.and_then(|code| code.parse().ok()).expect("an exit code")
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let mut command = Command::new(&self.program);
        let _ = command.env_clear().arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}
