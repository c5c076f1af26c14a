//! Docker containers for agents' commands: one per agent, marked with our label, and removed after use. Never starts
//! a daemon, pulls an image, or touches a container without our label.

mod check;
mod container;
mod create;
mod error;
mod exec;
mod limits;
mod owner;
mod packages;

pub use container::Container;
pub use create::{ContainerSpec, NetworkMode};
pub use error::DockerError;
pub(crate) use exec::Exec;
pub use packages::Packages;

use althing_protocol::{BoxFuture, ContextAccess, ProcessLimits};
use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::TryFutureExt;
use owner::Owner;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The time limit of a single request in seconds. It does not apply to commands, which are streams.
const REQUEST_SECONDS: u64 = 60;

/// A connection to a Docker daemon.
#[derive(Clone, Debug)]
pub struct DockerClient {
    docker: Docker,
    socket: PathBuf,
    version: String,
    installing: Arc<tokio::sync::Mutex<()>>,
}

impl DockerClient {
    /// Connects to the daemon at this socket and checks that it answers.
    ///
    /// The futures of this client are boxed, so that the generic code of hyper and bollard is compiled only in this
    /// crate.
    pub fn connect(socket: &Path) -> BoxFuture<'_, Result<Self, DockerError>> {
        Box::pin(Self::negotiate(socket))
    }

    async fn negotiate(socket: &Path) -> Result<Self, DockerError> {
        let unreachable = |error: bollard::errors::Error| DockerError::Unreachable {
            socket: socket.to_owned(),
            why: error.to_string(),
        };
        let path = socket.to_string_lossy();
        let docker =
            Docker::connect_with_unix(&path, REQUEST_SECONDS, API_DEFAULT_VERSION).map_err(unreachable)?;
        let docker = docker.negotiate_version().await.map_err(unreachable)?;
        let version = docker.version().await.map_err(unreachable)?.version.unwrap_or_default();
        Ok(Self { docker, socket: socket.to_owned(), version, installing: Arc::default() })
    }

    /// The daemon's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The name of an image that consists of this one and these packages, or the image itself if there are none. If
    /// there is no such image yet, the packages are installed, and `notify` says so.
    pub fn image_with<'a>(
        &'a self,
        image: &'a str,
        packages: &'a Packages,
        limits: ProcessLimits,
        notify: &'a (dyn Fn(&str) + Send + Sync),
    ) -> BoxFuture<'a, Result<String, DockerError>> {
        Box::pin(packages::image_with(self, image, packages, limits, notify))
    }

    /// Starts an agent's container with this access to its context paths.
    pub fn start(
        &self,
        spec: ContainerSpec,
        access: ContextAccess,
    ) -> BoxFuture<'_, Result<Arc<Container>, DockerError>> {
        let started = Container::start(self.docker.clone(), self.socket.clone(), spec, access);
        Box::pin(started.map_ok(Arc::new))
    }

    /// Removes containers whose owner (the process that created them) is certainly gone, and returns their ids.
    /// Containers that cannot be removed are left for the next time.
    pub fn sweep(&self) -> BoxFuture<'_, Result<Vec<String>, DockerError>> {
        Box::pin(self.remove_abandoned())
    }

    async fn remove_abandoned(&self) -> Result<Vec<String>, DockerError> {
        let label = HashMap::from([("label".to_owned(), vec![owner::LABEL.to_owned()])]);
        let options = ListContainersOptions { all: true, filters: Some(label), ..Default::default() };
        let ours = Owner::this_process()?;
        let mut swept = Vec::new();
        for container in self.docker.list_containers(Some(options)).await? {
            let owner = container.labels.as_ref().and_then(|labels| labels.get(owner::LABEL));
            let gone = owner.and_then(|text| Owner::parse(text)).is_some_and(|owner| owner.is_gone(&ours));
            if let Some(id) = container.id.filter(|_| gone)
                && remove(&self.docker, &id).await.is_ok()
            {
                swept.push(id);
            }
        }
        Ok(swept)
    }
}

async fn remove(docker: &Docker, id: &str) -> Result<(), DockerError> {
    let options = RemoveContainerOptions { force: true, v: true, link: false };
    match docker.remove_container(id, Some(options)).await {
        Ok(()) | Err(bollard::errors::Error::DockerResponseServerError { status_code: 404 | 409, .. }) => {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
