//! A user at a terminal: the built binary in a pseudo-terminal, typed keys, and the resulting screen.

use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use tempfile::TempDir;

use crate::process::Althing;

struct TerminalState {
    parser: vt100::Parser,
    raw: Vec<u8>,
    /// Whether a synchronized update is in progress. A terminal shows it only once it is complete.
    drawing: bool,
    ended: bool,
}

/// The escape sequences that begin and end a synchronized update.
const FRAME: [&[u8]; 2] = [b"\x1b[?2026h", b"\x1b[?2026l"];

impl TerminalState {
    fn take(&mut self, bytes: &[u8]) {
        self.parser.process(bytes);
        // The search starts a few bytes before the new ones, because a sequence may be split between two reads.
        let from = self.raw.len().saturating_sub(FRAME[0].len() - 1);
        self.raw.extend_from_slice(bytes);
        let new = &self.raw[from..];
        let last = |sequence: &[u8]| new.windows(sequence.len()).rposition(|piece| piece == sequence);
        match (last(FRAME[0]), last(FRAME[1])) {
            (None, None) => {}
            (begun, whole) => self.drawing = begun > whole,
        }
    }
}

pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    seen: Arc<(Mutex<TerminalState>, Condvar)>,
    last_keys: Option<Instant>,
    _root: Arc<TempDir>,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Terminal\n{}", self.screen())
    }
}

impl Althing {
    pub fn terminal(&self, cols: u16, rows: u16) -> Terminal {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let words = self.command_line();
        let mut command = CommandBuilder::new(&words[0]);
        command.env_clear();
        command.args(&words[1..]);
        command.cwd(self.work_dir());
        for (name, value) in self.variables() {
            command.env(name, value);
        }
        if !self.variables().iter().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        let child = pair.slave.spawn_command(command).expect("the binary starts");
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().expect("a reader");
        let writer = pair.master.take_writer().expect("a writer");
        let seen = TerminalState {
            parser: vt100::Parser::new(nonzero(rows), nonzero(cols), 0),
            raw: Vec::new(),
            drawing: false,
            ended: false,
        };
        let seen = Arc::new((Mutex::new(seen), Condvar::new()));
        let theirs = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            loop {
                let read = reader.read(&mut buffer).unwrap_or(0);
                let (seen, changed) = &*theirs;
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if read == 0 {
                    seen.ended = true;
                } else {
                    seen.take(&buffer[..read]);
                }
                changed.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Terminal { child, master: pair.master, writer, seen, last_keys: None, _root: self.root() }
    }
}

impl Terminal {
    /// Types text or control sequences, as a keyboard would send them.
    ///
    /// Enter, Tab, Esc, Ctrl+D, `y` or a digit alone, as the first key or less than ten seconds after other keys, is
    /// pressed after a pause of 1.2 seconds. Without the pause, a dialog takes it for a key that is still held down, or
    /// that was typed without reading the dialog.
    pub fn keys(&mut self, keys: &str) -> &mut Self {
        if matches!(keys.as_bytes(), [b'\r' | b'\t' | 0x04 | 0x1b | b'y' | b'1'..=b'9'])
            && self.last_keys.is_none_or(|at| at.elapsed().as_secs() < 10)
        {
            std::thread::sleep(Duration::from_millis(1200));
        }
        self.last_keys = Some(Instant::now());
        self.keys_at_once(keys)
    }

    pub fn keys_at_once(&mut self, keys: &str) -> &mut Self {
        self.writer
            .write_all(keys.as_bytes())
            .and_then(|()| self.writer.flush())
            .expect("the terminal takes keys");
        self
    }

    /// Clicks at a column and row counted from 0 (SGR mouse mode).
    pub fn click(&mut self, col: u16, row: u16) -> &mut Self {
        let (col, row) = (col + 1, row + 1);
        self.keys(&format!("\x1b[<0;{col};{row}M\x1b[<0;{col};{row}m"))
    }

    pub fn resize(&mut self, cols: u16, rows: u16) -> &mut Self {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        self.seen
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .parser
            .set_size(nonzero(rows), nonzero(cols));
        // The emulator was resized first, so that it is ready when the program redraws.
        self.master.resize(size).expect("the size changes");
        self
    }

    pub fn screen(&self) -> String {
        let seen = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.parser.screen().contents()
    }

    pub fn with_screen<T>(&self, with_screen: impl FnOnce(&vt100::Screen) -> T) -> T {
        let seen = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        with_screen(seen.parser.screen())
    }

    pub fn raw(&self) -> Vec<u8> {
        self.seen.0.lock().unwrap_or_else(PoisonError::into_inner).raw.clone()
    }

    pub fn find(&self, text: &str) -> Option<(u16, u16)> {
        let screen = self.screen();
        screen.lines().zip(0..).find_map(|(line, row)| {
            let before = line.split_once(text)?.0;
            Some((u16::try_from(before.chars().count()).ok()?, row))
        })
    }

    /// Waits until the screen satisfies a condition. Panics with the screen after `limit`, or if the program ends
    /// first.
    #[track_caller]
    pub fn wait_until(&self, limit: Duration, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + limit;
        let (seen, changed) = &*self.seen;
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let screen = seen.parser.screen().contents();
            if !seen.drawing && holds(&screen) {
                return screen;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what}: not within {limit:?}; the screen is:\n{screen}");
            assert!(!seen.ended, "{what}: the program ended; the screen was:\n{screen}");
            seen = changed.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    #[track_caller]
    pub fn wait_for(&self, text: &str, limit: Duration) -> String {
        self.wait_until(limit, &format!("`{text}` on the screen"), |screen| screen.contains(text))
    }

    #[track_caller]
    pub fn wait_gone(&self, text: &str, limit: Duration) -> String {
        self.wait_until(limit, &format!("`{text}` gone from the screen"), |screen| !screen.contains(text))
    }

    /// Whether the terminal is in cooked mode (line input with echo), as before and after a program runs.
    pub fn is_cooked(&self) -> bool {
        use rustix::termios::LocalModes;
        let name = self.master.tty_name().expect("the terminal has a name");
        // With NOCTTY, the device does not become our controlling terminal.
        let not_ours = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).expect("a flag");
        let file = std::fs::OpenOptions::new().read(true).custom_flags(not_ours).open(name);
        let modes = rustix::termios::tcgetattr(file.expect("the terminal can be opened")).expect("its modes");
        modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    #[track_caller]
    pub fn wait_stopped(&self, limit: Duration) {
        let id = self.child.process_id().expect("the program runs");
        crate::wait::until(limit, || {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
        });
    }

    pub fn id(&self) -> u32 {
        self.child.process_id().expect("the program was started")
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = self.child.process_id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id.and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process(id, signal).expect("the program can be signalled");
        }
    }

    /// Waits for the program's exit and returns its exit code. The screen then shows its last output.
    #[track_caller]
    pub fn wait(&mut self, limit: Duration) -> u32 {
        let status =
            crate::wait::until_some(limit, || self.child.try_wait().expect("the child can be waited for"));
        let (seen, changed) = &*self.seen;
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let drained = changed.wait_timeout_while(seen, limit, |seen| !seen.ended);
        let (seen, _) = drained.unwrap_or_else(PoisonError::into_inner);
        assert!(seen.ended, "the program ended, and something still holds its terminal");
        status.exit_code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A screen has at least one row and one column.
fn nonzero(count: u16) -> std::num::NonZeroU16 {
    std::num::NonZeroU16::new(count).unwrap_or(std::num::NonZeroU16::MIN)
}
