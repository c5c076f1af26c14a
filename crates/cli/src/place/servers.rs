//! An agent's MCP servers, from its config.

use super::Tell;
use althing_mcp::{McpServers, Options, ServerSpec, ServerTransport};
use althing_protocol::{McpServerConfig, McpTransport, Secret};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Starts an agent's servers. One that does not start is left out, and said.
pub async fn start(
    configs: &[McpServerConfig],
    workspace: &str,
    environment: Vec<(OsString, OsString)>,
    output_dir: PathBuf,
    tell: Tell,
) -> Arc<McpServers> {
    let mut options = Options::new(environment);
    options.output_dir = Some(output_dir);
    options.on_notice = Some(Arc::new(move |notice| {
        let hint = notice.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        tell(&format!("{notice}{hint}"));
    }));
    Arc::new(McpServers::start(configs.iter().map(|config| spec(config, workspace)).collect(), options).await)
}

fn spec(config: &McpServerConfig, workspace: &str) -> ServerSpec {
    let name = config.name.clone();
    // MassGen's configs name the agent's workspace so.
    let here = |text: &String| text.replace(althing_config::WORKSPACE_PLACEHOLDER, workspace);
    let mut spec = match &config.transport {
        McpTransport::Stdio { command, args, env, cwd } => {
            let (command, args): (String, Vec<String>) = (here(command), args.iter().map(here).collect());
            let mut spec = ServerSpec::stdio(name, command.clone(), args.clone());
            let set = |(key, value): &(String, Secret)| {
                (key.clone(), Secret::new(here(&value.reveal().to_owned())))
            };
            let cwd = cwd.as_ref().map(|dir| PathBuf::from(here(dir)));
            spec.transport =
                ServerTransport::Stdio { command, args, env: env.iter().map(set).collect(), cwd };
            spec
        }
        McpTransport::Http { url, headers } => {
            let mut spec = ServerSpec::http(name, url.clone());
            spec.transport = ServerTransport::Http { url: url.clone(), headers: headers.clone() };
            spec
        }
    };
    spec.allowed_tools.clone_from(&config.allowed_tools);
    spec.exclude_tools.clone_from(&config.exclude_tools);
    if let Some(limit) = config.call_timeout {
        spec.call_timeout = limit.duration();
    }
    spec
}
