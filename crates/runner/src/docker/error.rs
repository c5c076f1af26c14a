//! Errors of containers, with hints.

use crate::policy::PolicyError;
use std::path::PathBuf;

/// Why a container, or a command in it, failed.
#[derive(Debug, thiserror::Error)]
pub enum DockerError {
    /// No Docker daemon answers.
    #[error("no Docker daemon answers at {}: {why}", socket.display())]
    Unreachable {
        /// The daemon's socket.
        socket: PathBuf,
        /// The error of the connection.
        why: String,
    },
    /// The image does not exist locally. Images are never pulled.
    #[error("the Docker image {image} is not on this machine")]
    NoImage {
        /// The image's name from the config.
        image: String,
    },
    /// The daemon reported an error.
    #[error("Docker: {0}")]
    Daemon(#[from] bollard::errors::Error),
    /// The paths to mount are not valid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The identity of this process, with which containers are labeled, could not be determined.
    #[error("could not read the identity of this process (a label of its containers) from /proc: {0}")]
    Owner(std::io::Error),
    /// A path was replaced while the container was created.
    #[error("{0}")]
    Changed(std::io::Error),
    /// Althing cannot check whether the daemon mounted the right files.
    #[error("it cannot be checked whether Docker mounted the right files in the container: {why}")]
    Unchecked {
        /// Why the check is not possible.
        why: String,
    },
    /// The container ended before Althing could check its mounts.
    #[error("the Docker container ended right after its start, so no command ran in it")]
    EndedAtOnce,
    /// Packages of the config could not be installed.
    #[error("the {kind} packages could not be installed in the Docker image {image}: {why}")]
    Packages {
        /// The kind of packages: system, Python or npm.
        kind: &'static str,
        /// The image's name from the config.
        image: String,
        /// The end of the output of the installation, or the limit that it reached.
        why: String,
    },
    /// The container was closed before the call.
    #[error("the container was removed")]
    Closed,
}

impl DockerError {
    /// What the user can do about the problem.
    pub fn hint(&self) -> String {
        match self {
            Self::Unreachable { .. } => "start Docker, or check that you may use its socket".to_owned(),
            Self::NoImage { image } => {
                format!("run `docker pull {image}`, or choose another with command_line_docker_image")
            }
            Self::Daemon(_) => "see the Docker daemon's log".to_owned(),
            Self::Policy(error) => error.hint().to_owned(),
            Self::Owner(_) => "check that /proc is mounted".to_owned(),
            Self::Changed(_) => "find out which program replaces the path, and try again".to_owned(),
            Self::Unchecked { .. } => {
                "use a daemon that runs directly on this machine as root, or run commands without Docker"
                    .to_owned()
            }
            Self::EndedAtOnce => {
                "run `docker run --rm --entrypoint /bin/sh IMAGE -c 'sleep 1'` with the image of the config: if that \
                 fails, choose another with command_line_docker_image; if it works, the container probably had too \
                 little memory, so raise command_line_docker_memory_limit"
                    .to_owned()
            }
            Self::Packages { .. } => {
                "check the names in command_line_docker_packages and the network of the \
                installation, or build an image that contains the packages"
                    .to_owned()
            }
            Self::Closed => "start a new run".to_owned(),
        }
    }

    /// Whether trying again may help.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Daemon(_) | Self::Changed(_))
    }
}
