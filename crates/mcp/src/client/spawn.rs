//! The port through which a stdio server's process is started. This crate starts no processes: `app` fills the port
//! with the guard of `runner`, so that a server and all its children end when Althing does.

use althing_protocol::BoxFuture;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};

/// The process to start.
pub struct SpawnRequest {
    /// The program, looked up in the child's `PATH`.
    pub program: String,
    pub args: Vec<String>,
    /// The complete environment of the process: nothing else may be inherited.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory; None means ours.
    pub cwd: Option<PathBuf>,
}

impl fmt::Debug for SpawnRequest {
    /// Lists the variables without their values, which may be keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&OsString> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("SpawnRequest")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &names)
            .field("cwd", &self.cwd)
            .finish()
    }
}

pub struct SpawnedProcess {
    /// The child's stdin. Dropping this value closes it.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    pub process: Box<dyn ServerProcess>,
}

/// Handle to a started process and its descendants. Dropping it kills them all.
pub trait ServerProcess: Send {
    /// Waits for the end of the process and returns how it ended, phrased to follow a name: "exited with
    /// status 3". May be called again.
    fn wait(&mut self) -> BoxFuture<'_, String>;

    /// Sends TERM to the process and its descendants.
    fn terminate(&mut self);

    /// Kills the process and its descendants. Also called after the process has ended, to kill what it left behind.
    fn kill(&mut self);
}

pub trait Spawner: Send + Sync {
    /// Starts a process. [`io::ErrorKind::NotFound`] means that there is no such program.
    fn spawn<'a>(&'a self, request: &'a SpawnRequest) -> BoxFuture<'a, io::Result<SpawnedProcess>>;
}
