//! The credentials that the config gives to commands in containers: environment variables, and variables in a file. The
//! config's author decides what an agent's commands may read; a config that was found needs the user's trust first.

use crate::base_dirs::BaseDirs;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::secrets;
use althing_protocol::{DockerConfig, Secret};
use std::path::Path;

const MAX_FILE_BYTES: u64 = 1_000_000;

/// The variables for an agent's container. Fails if the config names a variable that is not set, or a file that
/// cannot be read.
pub fn container_variables(
    config: &DockerConfig,
    environment: &Environment,
) -> Result<Vec<(String, Secret)>, Failure> {
    let mut variables = Vec::new();
    for name in &config.env_vars {
        let value = environment.secret(name).ok_or_else(|| {
            Failure::usage(format!("`command_line_docker_credentials` names {name}, which is not set"))
                .hint(format!("set {name} in the environment, or remove it from `env_vars`"))
        })?;
        variables.push((name.clone(), Secret::new(value)));
    }
    if let Some(file) = &config.env_file {
        let what = format!("the `env_file` {file} of `command_line_docker_credentials`");
        let path = BaseDirs::of(environment).real_path(&what, Path::new(file))?;
        let unreadable = |why: &dyn std::fmt::Display| {
            Failure::usage(format!("{what} cannot be read: {why}"))
                .hint("name a readable file with one NAME=value per line, or remove `env_file`")
        };
        let bytes = althing_disk::read_regular(&path, MAX_FILE_BYTES).map_err(|error| unreadable(&error))?;
        let text = String::from_utf8(bytes).map_err(|error| unreadable(&error))?;
        let found = althing_config::parse_dotenv(&text);
        let wanted = config.env_vars_from_file.as_ref();
        for name in wanted.into_iter().flatten() {
            if !found.iter().any(|(known, _)| known == name) {
                return Err(Failure::usage(format!("{what} does not set {name}"))
                    .hint("add it to the file, or remove it from `env_vars_from_file`"));
            }
        }
        let is_wanted = |name: &String| wanted.is_none_or(|wanted| wanted.contains(name));
        let found = found.into_iter().filter(|(name, _)| is_wanted(name));
        variables.extend(found.map(|(name, value)| (name, Secret::new(value))));
    }
    secrets::register_secrets(variables.iter().map(|(_, value)| value.clone()).collect());
    Ok(variables)
}
