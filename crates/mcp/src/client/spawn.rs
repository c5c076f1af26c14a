//! The port through which a stdio server's process is started. This crate starts no process itself: `cli` fills the port
//! with the guard of `runner`, so that a server and everything that it started end when we do.

use althing_protocol::BoxFuture;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};

/// What to start.
pub struct SpawnRequest {
    /// The program, to be looked up in the child's `PATH`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment: nothing else may be inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs; None means where we do.
    pub cwd: Option<PathBuf>,
}

impl fmt::Debug for SpawnRequest {
    /// Names the variables without their values, which may be keys.
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

/// A started process with its three streams.
pub struct SpawnedProcess {
    /// Its stdin; dropping it closes it.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its stdout.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its stderr.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// The hold on it.
    pub process: Box<dyn ServerProcess>,
}

/// The hold on a started process and everything it started. Dropping it kills them all.
pub trait ServerProcess: Send {
    /// Waits for its end and says how it ended, to follow a name: "exited with status 3". May be asked again.
    fn wait(&mut self) -> BoxFuture<'_, String>;

    /// Asks it and all it started to end.
    fn terminate(&mut self);

    /// Ends it and all it started. Harmless after its end.
    fn kill(&mut self);
}

/// Starts processes.
pub trait Spawner: Send + Sync {
    /// Starts one. [`io::ErrorKind::NotFound`] means that there is no such program.
    fn spawn<'a>(&'a self, launch: &'a SpawnRequest) -> BoxFuture<'a, io::Result<SpawnedProcess>>;
}
