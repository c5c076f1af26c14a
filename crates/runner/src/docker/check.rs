//! Checks the mounts of a new Docker container before any command runs in it: when the daemon resolved their paths,
//! another agent could have replaced a path with a symlink.

use super::DockerError;
use crate::kernel::ContainerRoot;
use crate::mount_check::{ExpectedMount, was_changed};
use bollard::Docker;
use bollard::query_parameters::InspectContainerOptions;

pub(super) async fn check(
    docker: &Docker,
    id: &str,
    token: String,
    expected: Vec<ExpectedMount>,
) -> Result<(), DockerError> {
    let inspected = docker.inspect_container(id, None::<InspectContainerOptions>).await?;
    let pid = inspected.state.and_then(|state| state.pid).unwrap_or_default();
    if pid <= 0 {
        return Err(DockerError::EndedAtOnce);
    }
    let compare = move || {
        let unchecked = |error: std::io::Error| DockerError::Unchecked { why: error.to_string() };
        let root = ContainerRoot::open(pid, &token).map_err(unchecked)?;
        root.check(&expected)
            .map_err(|error| if was_changed(&error) { DockerError::Changed(error) } else { unchecked(error) })
    };
    let compared = tokio::task::spawn_blocking(compare).await;
    compared.unwrap_or_else(|error| Err(DockerError::Unchecked { why: error.to_string() }))
}
