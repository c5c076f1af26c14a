//! While another program has the terminal: the user's editor or pager, or the shell.

use super::{EventLoop, KeyReader};
use crate::host::TuiHost;
use rustix::process::{Signal, getpid, kill_process};
use std::io;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

impl EventLoop {
    /// Runs `work`, which starts a program that has the terminal until it ends. The keys that interrupt or suspend are
    /// that program's: they send signals to Althing too, which ignores them. If the program is suspended, `work` calls the
    /// function that it is given, which suspends Althing and returns when Althing continues.
    pub(super) async fn with_terminal_released<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&dyn TuiHost, &dyn Fn()) -> T + Send + 'static,
    ) -> io::Result<T> {
        self.keys.stop().await;
        self.guard.release();
        let (suspend, mut suspended) = mpsc::channel::<oneshot::Sender<()>>(1);
        let host = Arc::clone(&self.host);
        let mut work = tokio::task::spawn_blocking(move || {
            work(&*host, &|| {
                let (continued, wait) = oneshot::channel();
                if suspend.blocking_send(continued).is_ok() {
                    let _ = wait.blocking_recv();
                }
            })
        });
        let done = loop {
            tokio::select! {
                Some(continued) = suspended.recv() => {
                    stop_process()?;
                    let _ = continued.send(());
                }
                () = self.signals.ignore_keys() => {}
                done = &mut work => break done.map_err(io::Error::other),
            }
        };
        self.signals.end_ignoring_keys();
        self.guard.reacquire()?;
        self.keys = KeyReader::listen();
        self.clear_and_redraw()?;
        done
    }

    /// Suspends the process as Ctrl+Z does. The code after the signal runs when the process continues.
    pub(super) async fn suspend(&mut self) -> io::Result<()> {
        self.keys.stop().await;
        self.guard.release();
        stop_process()?;
        self.guard.reacquire()?;
        self.keys = KeyReader::listen();
        self.clear_and_redraw()
    }
}

/// Must be called on the process's first thread, to which the kernel delivers the signal. On another thread, the call
/// could return before the process has stopped.
fn stop_process() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}
