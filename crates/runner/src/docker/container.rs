//! One agent's Docker container: started, recreated when the access to context paths changes (mounts cannot be
//! changed after creation), and removed.

use super::check::check;
use super::create::{ContainerSpec, NetworkMode};
use super::exec::{self, Exec};
use super::limits::{self, Counters};
use super::owner::Owner;
use super::{DockerError, remove};
use crate::guard_protocol::WrittenPaths;
use crate::guarded::CommandEnd;
use crate::mount_check::expected_mounts;
use crate::mount_table::MountTable;
use crate::output::OutputCollector;
use crate::placeholders::PlaceholderUse;
use crate::policy::PolicyError;
use crate::protected_paths::find_protected;
use crate::socket_files::{MAX_ENTRIES_OF_A_CONTAINER, find_all_live_sockets};
use althing_protocol::{BoxFuture, ContextAccess};
use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::CreateContainerOptions;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::RwLock;

/// An agent's container.
#[derive(Debug)]
pub struct Container {
    pub(super) docker: Docker,
    /// The daemon's socket, used to remove the container when no async runtime is left.
    socket: PathBuf,
    pub(super) spec: ContainerSpec,
    counters: Mutex<(String, Counters)>,
    /// Locked for reading while a command runs, and for writing while the container is replaced, closed or freed of
    /// leftover processes.
    pub(super) state: RwLock<ContainerState>,
}

#[derive(Debug)]
pub(super) struct ContainerState {
    pub(super) id: Option<String>,
    access: ContextAccess,
    written: WrittenPaths,
    placeholders: PlaceholderUse,
}

impl Container {
    pub(super) async fn start(
        docker: Docker,
        socket: PathBuf,
        mut spec: ContainerSpec,
        access: ContextAccess,
    ) -> Result<Self, DockerError> {
        spec.sandbox_paths = spec.sandbox_paths.checked()?;
        let state = create(&docker, &spec, access).await?;
        Ok(Self { docker, socket, spec, counters: Mutex::default(), state: RwLock::new(state) })
    }

    /// The container's id; `None` once the container was closed.
    pub async fn id(&self) -> Option<String> {
        self.state.read().await.id.clone()
    }

    pub(super) fn counted(&self, id: &str, now: Counters) -> Counters {
        let mut stored = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *stored, (id.to_owned(), now));
        if before.0 == id { before.1 } else { Counters::default() }
    }

    /// Whether commands in the container have a network.
    pub fn has_network(&self) -> bool {
        self.spec.network != NetworkMode::None
    }

    /// Replaces the container by one whose context paths are mounted for this access. Waits for running commands.
    pub fn recreate(&self, access: ContextAccess) -> BoxFuture<'_, Result<(), DockerError>> {
        Box::pin(async move {
            let mut state = self.state.write().await;
            self.recreate_locked(&mut state, access).await
        })
    }

    pub(super) async fn replace(&self, state: &mut ContainerState) -> Result<(), DockerError> {
        let access = state.access;
        self.recreate_locked(state, access).await
    }

    async fn recreate_locked(
        &self,
        state: &mut ContainerState,
        access: ContextAccess,
    ) -> Result<(), DockerError> {
        let id = state.id.as_ref().ok_or(DockerError::Closed)?;
        self.spec.sandbox_paths.refuse_replaced().map_err(PolicyError::from)?;
        remove(&self.docker, id).await?;
        state.placeholders = PlaceholderUse::default();
        *state = create(&self.docker, &self.spec, access).await?;
        Ok(())
    }

    /// Removes the container once no command is running in it. Later commands fail with [`DockerError::Closed`].
    pub fn close(&self) -> BoxFuture<'_, Result<(), DockerError>> {
        Box::pin(async move {
            let mut state = self.state.write().await;
            if let Some(id) = &state.id {
                remove(&self.docker, id).await?;
                state.id = None;
                state.placeholders = PlaceholderUse::default();
            }
            Ok(())
        })
    }

    /// Recreates the container first if it was created for another access, or once if it was stopped or removed from
    /// outside.
    pub(crate) async fn run(
        self: &Arc<Self>,
        command: Exec<'_>,
        access: ContextAccess,
        output: &mut OutputCollector,
    ) -> Result<CommandEnd, DockerError> {
        let mut renewed = false;
        loop {
            let state = self.state.read().await;
            let id = state.id.clone().ok_or(DockerError::Closed)?;
            if state.access != access {
                drop(state);
                self.recreate_if_stale(access, &id).await?;
                continue;
            }
            match exec::run(self, &id, &state.written, &command, output).await {
                // The container was stopped or removed from outside before the command started.
                Err(DockerError::Daemon(Error::DockerResponseServerError {
                    status_code: 404 | 409, ..
                })) if !renewed => {
                    renewed = true;
                    drop(state);
                    let mut state = self.state.write().await;
                    if state.id.as_ref() == Some(&id) {
                        self.recreate_locked(&mut state, access).await?;
                    }
                }
                result => {
                    // A short command may fill the disk and end before the disk is measured.
                    let full = limits::disk_limit(self, &id).await;
                    drop(state);
                    if full.is_some() {
                        // What was written outside the mounts is deleted with the container.
                        let mut state = self.state.write().await;
                        if state.id.as_ref() == Some(&id) {
                            self.recreate_locked(&mut state, access).await?;
                        }
                    } else {
                        exec::kill_leftovers(self).await;
                    }
                    return result.map(|end| CommandEnd { limit: end.limit.or(full), ..end });
                }
            }
        }
    }

    /// If the id is no longer `seen`, another call has already recreated or closed the container.
    async fn recreate_if_stale(&self, access: ContextAccess, seen: &str) -> Result<(), DockerError> {
        let mut state = self.state.write().await;
        if state.id.as_deref() == Some(seen) && state.access != access {
            self.recreate_locked(&mut state, access).await?;
        }
        Ok(())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let Some(id) = state.id.take() else { return };
        let placeholders = std::mem::take(&mut state.placeholders);
        let docker = self.docker.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = remove(&docker, &id).await;
                drop(placeholders);
            });
        } else {
            // If this fails, [`DockerClient::sweep`] removes the container in a later session that uses Docker.
            let _ = remove_without_runtime(&self.socket, &id);
            drop(placeholders);
        }
    }
}

async fn create(
    docker: &Docker,
    spec: &ContainerSpec,
    access: ContextAccess,
) -> Result<ContainerState, DockerError> {
    match try_create(docker, spec, access).await {
        Err(DockerError::Changed(_)) => try_create(docker, spec, access).await,
        created => created,
    }
}

async fn try_create(
    docker: &Docker,
    spec: &ContainerSpec,
    access: ContextAccess,
) -> Result<ContainerState, DockerError> {
    let protected =
        if access == ContextAccess::Writable { find_protected(&spec.sandbox_paths)? } else { Vec::new() };
    let mounts = MountTable::new(&spec.sandbox_paths, access, &protected);
    let searched = mounts.clone();
    let sockets = tokio::task::spawn_blocking(move || find_all_live_sockets(&searched)).await;
    let sockets = sockets.ok().flatten().ok_or_else(|| PolicyError::TooLarge {
        path: spec.sandbox_paths.workspace.clone(),
        limit: MAX_ENTRIES_OF_A_CONTAINER,
    })?;
    let mounts = mounts.with_text_paths();
    let expected =
        expected_mounts(mounts.rules(), mounts.missing(), &sockets).map_err(DockerError::Changed)?;
    let placeholders = PlaceholderUse::new(mounts.missing());
    let token = format!("{:032x}", fastrand::u128(..));
    let no_image = |error| match error {
        Error::DockerResponseServerError { status_code: 404, .. } => {
            DockerError::NoImage { image: spec.image.clone() }
        }
        other => DockerError::from(other),
    };
    let image = docker.inspect_image(&spec.image).await.map_err(no_image)?;
    let volumes = image.config.and_then(|config| config.volumes).unwrap_or_default();
    let body = spec.body(&mounts, &sockets, &volumes, &Owner::this_process()?, &token);
    let created = docker.create_container(None::<CreateContainerOptions>, body).await.map_err(no_image)?;
    let started = docker.start_container(&created.id, None).await.map_err(DockerError::from);
    let started = match started {
        Ok(()) => check(docker, &created.id, token, expected).await,
        failed => failed,
    };
    if let Err(error) = started {
        let _ = remove(docker, &created.id).await;
        return Err(error);
    }
    let written = WrittenPaths::of_mounts(&mounts, &spec.sandbox_paths.workspace, None);
    Ok(ContainerState { id: Some(created.id), access, written, placeholders })
}

fn remove_without_runtime(socket: &Path, id: &str) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    let request = format!("DELETE /containers/{id}?force=1&v=1 HTTP/1.0\r\nHost: docker\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.read_exact(&mut [0])
}
