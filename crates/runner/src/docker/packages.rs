//! Docker images with additional packages: the packages of a config are installed once, and the result is kept as an
//! image for the agents' containers.
//!
//! Installing needs root and a network, and runs the packages' own scripts. So it happens in a separate container, in
//! which nothing of this machine is mounted and which gets no variables of the config.

use super::create::{KEEP_ALIVE, NetworkMode, limited_host};
use super::owner::{self, Owner};
use super::{DockerClient, DockerError, remove};
use crate::limits::{Bytes, MachineLimits};
use althing_protocol::ProcessLimits;
use bollard::Docker;
use bollard::errors::Error;
use bollard::exec::StartExecResults;
use bollard::models::{
    ContainerConfig, ContainerCreateBody, ContainerInspectResponse, ExecConfig, HostConfig,
};
use bollard::query_parameters::{CommitContainerOptions, CreateContainerOptions, InspectContainerOptions};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, interval, sleep_until};

const REPOSITORY: &str = "althing-packages";
/// The label of an image with packages; its value is the image to which the packages were added.
const LABEL: &str = "althing.packages";
/// Part of each tag: change it when the same packages must be installed again in another way.
const RECIPE: &str = "1";
/// The time limit for all installations of an image together. Storing the image has a time limit of its own, of the
/// same length.
const TIME_LIMIT: Duration = Duration::from_secs(30 * 60);
const MEASURE_INTERVAL: Duration = Duration::from_secs(2);
const SHOWN_OUTPUT: usize = 2000;
/// The capabilities that package managers need to set the owners and modes of files and to run steps as another user.
const CAPABILITIES: [&str; 6] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID"];

const SYSTEM: &str = r#"
export DEBIAN_FRONTEND=noninteractive
if command -v apt-get >/dev/null 2>&1; then
  # apt drops its privileges for downloads to a user that some images lack.
  apt-get -q -o APT::Sandbox::User=root update && apt-get -q -y -o APT::Sandbox::User=root install --no-install-recommends "$@" && rm -rf /var/lib/apt/lists/*
elif command -v apk >/dev/null 2>&1; then apk add --no-cache "$@"
elif command -v dnf >/dev/null 2>&1; then dnf -y install "$@" && dnf clean all
elif command -v microdnf >/dev/null 2>&1; then microdnf -y install "$@" && microdnf clean all
elif command -v zypper >/dev/null 2>&1; then zypper --non-interactive install "$@"
elif command -v pacman >/dev/null 2>&1; then pacman -Sy --noconfirm "$@"
else echo "the image contains none of apt-get, apk, dnf, microdnf, zypper and pacman"; exit 127
fi"#;

const PYTHON: &str = r#"
export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_NO_CACHE_DIR=1
if command -v python3 >/dev/null 2>&1 && python3 -m pip --version >/dev/null 2>&1; then python3 -m pip install "$@"
elif command -v pip >/dev/null 2>&1; then pip install "$@"
else echo "the image contains no pip"; exit 127
fi"#;

const NPM: &str = r#"
export npm_config_cache=/tmp/.althing-npm npm_config_fund=false npm_config_audit=false npm_config_update_notifier=false
if command -v npm >/dev/null 2>&1; then npm install -g "$@" && rm -rf /tmp/.althing-npm
else echo "the image contains no npm"; exit 127
fi"#;

/// The packages that a config wants in an agent's container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packages {
    /// Packages for the image's own package manager.
    pub system: Vec<String>,
    /// Python packages, as pip names them.
    pub python: Vec<String>,
    /// npm packages, which are installed globally.
    pub npm: Vec<String>,
    /// The network of the installation.
    pub network: NetworkMode,
}

impl Packages {
    /// Whether there is nothing to install.
    pub fn is_empty(&self) -> bool {
        self.steps().is_empty()
    }

    /// The kinds of packages in the order of installation: pip and npm may need system packages.
    fn steps(&self) -> Vec<(&'static str, &'static str, &[String])> {
        let all = [
            ("system", SYSTEM, self.system.as_slice()),
            ("Python", PYTHON, self.python.as_slice()),
            ("npm", NPM, self.npm.as_slice()),
        ];
        all.into_iter().filter(|(.., names)| !names.is_empty()).collect()
    }

    fn tag(&self, base: &str) -> String {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        add(RECIPE);
        add(base);
        for (kind, _, names) in self.steps() {
            add(kind);
            for name in names {
                add(name);
            }
        }
        let digest = althing_text::hex(&hash.finalize());
        digest.get(..32).unwrap_or(&digest).to_owned()
    }

    fn list(&self) -> String {
        let steps = self.steps().into_iter().map(|(kind, _, names)| format!("{kind}: {}", names.join(", ")));
        steps.collect::<Vec<_>>().join("; ")
    }
}

pub(super) async fn image_with(
    client: &DockerClient,
    image: &str,
    packages: &Packages,
    limits: ProcessLimits,
    notify: &(dyn Fn(&str) + Send + Sync),
) -> Result<String, DockerError> {
    if packages.is_empty() {
        return Ok(image.to_owned());
    }
    // Several agents of a run often want the same packages: the first one installs them, the others find the image.
    let _one_at_a_time = client.installing.lock().await;
    let docker = &client.docker;
    let no_image = |error| match error {
        Error::DockerResponseServerError { status_code: 404, .. } => {
            DockerError::NoImage { image: image.to_owned() }
        }
        other => DockerError::from(other),
    };
    let base = docker.inspect_image(image).await.map_err(no_image)?.id.unwrap_or_default();
    let tag = packages.tag(&base);
    let made = format!("{REPOSITORY}:{tag}");
    match docker.inspect_image(&made).await {
        Ok(_) => return Ok(made),
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => {}
        Err(error) => return Err(error.into()),
    }
    notify(&format!("packages are installed in {image}, once ({})", packages.list()));
    let container = InstallContainer::start(docker, &base, packages, MachineLimits::from(limits)).await?;
    let deadline = Instant::now() + TIME_LIMIT;
    for (kind, script, names) in packages.steps() {
        container.install(image, kind, script, names, deadline).await?;
    }
    container.store(image, &tag).await?;
    notify(&format!("the packages are installed; the image {made} is used from now on"));
    Ok(made)
}

struct InstallContainer<'a> {
    docker: &'a Docker,
    id: String,
    limits: MachineLimits,
}

impl<'a> InstallContainer<'a> {
    async fn start(
        docker: &'a Docker,
        image: &str,
        packages: &Packages,
        limits: MachineLimits,
    ) -> Result<Self, DockerError> {
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: Some(["/bin/sh", "-c", KEEP_ALIVE].map(str::to_owned).to_vec()),
            cmd: Some(Vec::new()),
            user: Some("0:0".to_owned()),
            working_dir: Some("/".to_owned()),
            labels: Some(HashMap::from([(owner::LABEL.to_owned(), Owner::this_process()?.to_label())])),
            host_config: Some(HostConfig {
                cap_add: Some(CAPABILITIES.map(str::to_owned).to_vec()),
                ..limited_host(limits, limits.memory, &packages.network)
            }),
            ..ContainerCreateBody::default()
        };
        let created = docker.create_container(None::<CreateContainerOptions>, body).await?;
        let container = Self { docker, id: created.id, limits };
        docker.start_container(&container.id, None).await?;
        Ok(container)
    }

    async fn install(
        &self,
        image: &str,
        kind: &'static str,
        script: &str,
        names: &[String],
        deadline: Instant,
    ) -> Result<(), DockerError> {
        let failed = |why: String| DockerError::Packages { kind, image: image.to_owned(), why };
        let words = ["/bin/sh", "-c", script, "install"].map(str::to_owned);
        let config = ExecConfig {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            env: Some(vec!["HOME=/root".to_owned()]),
            cmd: Some(words.into_iter().chain(names.iter().cloned()).collect()),
            user: Some("0:0".to_owned()),
            ..ExecConfig::default()
        };
        let exec = self.docker.create_exec(&self.id, config).await?.id;
        let StartExecResults::Attached { mut output, .. } = self.docker.start_exec(&exec, None).await? else {
            return Err(DockerError::Closed);
        };
        let mut text = String::new();
        let mut measure = interval(MEASURE_INTERVAL);
        loop {
            tokio::select! {
                chunk = output.next() => match chunk {
                    Some(chunk) => {
                        text.push_str(&String::from_utf8_lossy(&chunk?.into_bytes()));
                        keep_tail(&mut text);
                    }
                    None => break,
                },
                _ = measure.tick() => if self.size().await > self.limits.disk {
                    let limit = Bytes(self.limits.disk);
                    return Err(failed(format!("it wrote more than {limit} (`orchestrator.limits.disk` in the config)")));
                },
                () = sleep_until(deadline) => {
                    return Err(failed(format!("it took longer than {} minutes", TIME_LIMIT.as_secs() / 60)));
                }
            }
        }
        match self.docker.inspect_exec(&exec).await?.exit_code {
            Some(0) => Ok(()),
            _ => Err(failed(shown(&text))),
        }
    }

    async fn size(&self) -> u64 {
        let options = InspectContainerOptions { size: true };
        let size = |container: ContainerInspectResponse| container.size_rw;
        let inspected = self.docker.inspect_container(&self.id, Some(options)).await;
        inspected.ok().and_then(size).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default()
    }

    async fn store(&self, image: &str, tag: &str) -> Result<(), DockerError> {
        let options = CommitContainerOptions {
            container: Some(self.id.clone()),
            repo: Some(REPOSITORY.to_owned()),
            tag: Some(tag.to_owned()),
            pause: true,
            ..CommitContainerOptions::default()
        };
        // An image passes its labels on to its containers. Without an owner, they are not taken for ours.
        let labels = [(owner::LABEL, String::new()), (LABEL, image.to_owned())];
        let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let config = ContainerConfig { labels: Some(labels), ..ContainerConfig::default() };
        self.docker.clone().with_timeout(TIME_LIMIT).commit_container(options, config).await?;
        Ok(())
    }
}

impl Drop for InstallContainer<'_> {
    fn drop(&mut self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (docker, id) = (self.docker.clone(), std::mem::take(&mut self.id));
            runtime.spawn(async move {
                let _ = remove(&docker, &id).await;
            });
        }
    }
}

fn keep_tail(text: &mut String) {
    if text.len() > 8 * SHOWN_OUTPUT {
        let from = text.ceil_char_boundary(text.len() - SHOWN_OUTPUT);
        text.drain(..from);
    }
}

/// The end of the output, where package managers say what went wrong.
fn shown(output: &str) -> String {
    let output = output.trim();
    let from = output.ceil_char_boundary(output.len().saturating_sub(SHOWN_OUTPUT));
    output.get(from..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(names: &[&str]) -> Packages {
        Packages { python: names.iter().map(|name| (*name).to_owned()).collect(), ..Packages::default() }
    }

    #[test]
    fn an_image_is_reused_only_for_the_same_packages_in_the_same_image() {
        let tag = python(&["a", "b"]).tag("sha256:1");
        assert_eq!(python(&["a", "b"]).tag("sha256:1"), tag);
        let npm = Packages { npm: vec!["a".to_owned(), "b".to_owned()], ..Packages::default() };
        for other in [python(&["a"]), python(&["ab"]), python(&["b", "a"]), npm] {
            assert_ne!(other.tag("sha256:1"), tag, "{other:?}");
        }
        assert_ne!(python(&["a", "b"]).tag("sha256:2"), tag, "the image was replaced");
    }

    #[test]
    fn only_the_end_of_a_long_output_is_shown() {
        let mut text = "æ".repeat(20_000);
        text.push_str("the reason\n");
        keep_tail(&mut text);
        assert!(text.len() <= SHOWN_OUTPUT && text.ends_with("the reason\n"), "{}", text.len());
        assert!(shown(&text).ends_with("the reason"));
    }
}
