//! What can go wrong with containers, in words and with advice.

use crate::policy::PolicyError;
use std::path::PathBuf;

/// Why a container or a command in it did not work.
#[derive(Debug, thiserror::Error)]
pub enum DockerError {
    /// No daemon answers.
    #[error("no Docker daemon answers at {}: {why}", socket.display())]
    Unreachable {
        /// Where it was looked for.
        socket: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The image is not there, and we pull none.
    #[error("the Docker image {image} is not on this machine")]
    NoImage {
        /// Its name.
        image: String,
    },
    /// The daemon refused something.
    #[error("Docker: {0}")]
    Daemon(#[from] bollard::errors::Error),
    /// What was to be mounted cannot be.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Our own identity, by which containers are labelled, could not be read.
    #[error("this process cannot tell who it is: {0}")]
    Owner(std::io::Error),
    /// The container was closed.
    #[error("the container was removed")]
    Closed,
}

impl DockerError {
    /// What a person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unreachable { .. } => "start Docker, or check that you may use its socket".to_owned(),
            Self::NoImage { image } => {
                format!("run `docker pull {image}`, or choose another with command_line_docker_image")
            }
            Self::Daemon(_) => "see the Docker daemon's log".to_owned(),
            Self::Policy(error) => error.hint().to_owned(),
            Self::Owner(_) => "check that /proc is mounted".to_owned(),
            Self::Closed => "start a new run".to_owned(),
        }
    }

    /// Whether trying again may help.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Daemon(_))
    }
}
