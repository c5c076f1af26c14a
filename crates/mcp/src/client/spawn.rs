//! The port through which a stdio server's process is started. This crate starts no processes: the caller starts them
//! under a guard, so that a server and all its children end when Althing does.

use althing_protocol::BoxFuture;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};

pub struct SpawnRequest {
    /// The program, which is looked up in the child's `PATH`.
    pub program: String,
    pub args: Vec<String>,
    /// The complete environment: nothing else may be inherited.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory; `None` means that of this process.
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
    /// Dropping this value closes the child's stdin.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    pub process: Box<dyn ServerProcess>,
}

/// A running server. Dropping it kills the process and its descendants.
pub trait ServerProcess: Send {
    /// Returns how the process ended, phrased to follow a name: "exited with status 3". May be called again.
    fn wait(&mut self) -> BoxFuture<'_, String>;

    fn terminate(&mut self);

    /// Kills the process and its descendants. Also called after the process has ended, to kill what it left behind.
    fn kill(&mut self);
}

pub trait Spawner: Send + Sync {
    /// The error [`io::ErrorKind::NotFound`] means that there is no such program.
    fn spawn<'a>(&'a self, request: &'a SpawnRequest) -> BoxFuture<'a, io::Result<SpawnedProcess>>;
}
