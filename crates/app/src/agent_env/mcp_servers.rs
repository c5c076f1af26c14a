//! Starts an agent's MCP servers. They run under a guard process, so that neither a server nor its children outlive
//! Althing. Only with the bubblewrap sandbox are paths write-protected from a server; otherwise it has the user's
//! permissions.

use super::SessionEnvs;
use super::named_code::{Neighbors, SAFE_PYTHON, Script, minor_version};
use super::server_code::PlacedServer;
use crate::base_dirs::BaseDirs;
use crate::context::Notify;
use crate::failure::Failure;
use althing_disk::{real_path, refuse_replaced};
use althing_mcp::{
    ClientOptions, McpToolHost, ServerProcess, ServerSpec, ServerTransport, SpawnRequest, SpawnedProcess,
    Spawner,
};
use althing_protocol::{BoxFuture, ContextAccess, Grant, GrantRoot, McpServerConfig, McpTransport, Secret};
use althing_runner::adapter::{SearchPath, find_program, program_version};
use althing_runner::{GuardLauncher, PipedProcess, PipedProgram, Sandbox, WriteProtection, processes_ended};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time from SIGTERM to SIGKILL. The MCP client itself kills a server sooner.
const GRACE: Duration = Duration::from_secs(5);

const PYTHON_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct AgentServers {
    pub host: Arc<McpToolHost>,
    spawner: Arc<GuardedSpawner>,
    /// `None` if the write protection never changes.
    policy: Option<ProtectionPolicy>,
    /// Whether Althing starts any of the servers.
    are_started: bool,
}

impl AgentServers {
    /// Gives the servers this access to context paths. If that changes their write protection, running servers are
    /// stopped, because a process keeps the mounts that it was started with. The next tool call starts its server
    /// again.
    pub async fn set_access(&self, access: ContextAccess) -> Result<(), String> {
        let Some(policy) = &self.policy else { return Ok(()) };
        let protection = policy.protection(access).await?;
        let changed = {
            let mut current = self.spawner.protection.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = *current != protection;
            *current = protection;
            changed
        };
        if changed {
            self.host.renew().await;
        }
        Ok(())
    }

    /// Whether Althing started any of the servers without a protection of every context path.
    pub fn may_write_anywhere(&self) -> bool {
        let protection = self.spawner.protection.lock().unwrap_or_else(PoisonError::into_inner);
        let has_exceptions = self.policy.as_ref().is_some_and(|policy| policy.has_exceptions);
        self.are_started && (protection.is_none() || has_exceptions)
    }

    /// Stops the servers and waits until their processes are gone, but at most twice [`GRACE`]. The next tool call
    /// starts its server again.
    pub async fn end(&self) {
        self.host.renew().await;
        let _ = tokio::time::timeout(GRACE * 2, processes_ended(&self.spawner.owner)).await;
    }
}

/// Starts an agent's servers. If a server does not start, or has the same name as an earlier server of the agent, the
/// agent works without that server, and the user gets a notice.
pub async fn start_mcp_servers(
    configs: &[McpServerConfig],
    workspace: &str,
    (launcher, policy, protection): (GuardLauncher, Option<ProtectionPolicy>, Option<WriteProtection>),
    environment: Vec<(OsString, OsString)>,
    output_dir: PathBuf,
    notify: Notify,
) -> AgentServers {
    let owner = output_dir.join("mcp-servers");
    let launcher = launcher.owned_by(&owner);
    let spawner = Arc::new(GuardedSpawner { launcher, owner, protection: Mutex::new(protection) });
    let mut options = ClientOptions::new(environment, spawner.clone());
    options.output_dir = Some(output_dir);
    options.output_masking = Some(crate::secrets::output_masking());
    options.on_notice = Some(Arc::new(move |notice| {
        let hint = notice.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        notify(&format!("{notice}{hint}"));
    }));
    let specs = configs.iter().map(|config| spec(config, workspace)).collect();
    let are_started = configs.iter().any(McpServerConfig::is_started);
    AgentServers { host: Arc::new(McpToolHost::start(specs, options).await), spawner, policy, are_started }
}

#[derive(Clone)]
pub struct ProtectionPolicy {
    grant: Grant,
    sandbox: Sandbox,
    /// Whether some writable root is always writable for the servers.
    has_exceptions: bool,
}

impl ProtectionPolicy {
    /// MCP servers keep settings and caches in the user's home, so a root that contains the home directory stays
    /// writable for them.
    pub fn new(mut grant: Grant, sandbox: &Sandbox, home: Option<&Path>) -> Self {
        let is_exception = |root: &GrantRoot| home.is_some_and(|home| home.starts_with(&root.path));
        let has_exceptions = grant.roots.iter().any(|root| root.writable && is_exception(root));
        grant.roots.retain(|root| !is_exception(root));
        Self { grant, sandbox: sandbox.clone(), has_exceptions }
    }

    /// The write protection for this access; `None` if the sandbox is not bubblewrap.
    pub async fn protection(&self, access: ContextAccess) -> Result<Option<WriteProtection>, String> {
        let Self { grant, sandbox, .. } = self.clone();
        let looked =
            tokio::task::spawn_blocking(move || WriteProtection::new(&sandbox, &grant, access)).await;
        let looked = looked.map_err(|error| error.to_string())?;
        looked.map_err(|error| format!("{error} ({})", error.hint()))
    }
}

struct GuardedSpawner {
    launcher: GuardLauncher,
    /// Identifies the processes of this agent's servers for `processes_ended`.
    owner: PathBuf,
    protection: Mutex<Option<WriteProtection>>,
}

impl Spawner for GuardedSpawner {
    fn spawn<'a>(&'a self, launch: &'a SpawnRequest) -> BoxFuture<'a, io::Result<SpawnedProcess>> {
        Box::pin(async move {
            let here = std::env::current_dir()?;
            // An agent could have replaced the directory with a link since the config was read.
            if let Some(cwd) = &launch.cwd {
                refuse_replaced(cwd)?;
            }
            let program = PipedProgram {
                program: launch.program.clone(),
                args: launch.args.clone(),
                env: launch.env.clone(),
                cwd: launch.cwd.as_ref().map_or_else(|| here.clone(), |cwd| here.join(cwd)),
                grace: GRACE,
                protection: self.protection.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            };
            let piped = self.launcher.start_piped(program).await?;
            Ok(SpawnedProcess {
                stdin: Box::new(piped.stdin),
                stdout: Box::new(piped.stdout),
                stderr: Box::new(piped.stderr),
                process: Box::new(GuardedServer(piped.process)),
            })
        })
    }
}

struct GuardedServer(PipedProcess);

impl ServerProcess for GuardedServer {
    fn wait(&mut self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            let exited = self.0.exited().await;
            if let Some(limit) = self.0.reached_limit() {
                return format!("was ended: {limit}");
            }
            match exited {
                Ok((Some(code), _)) => format!("exited with status {code}"),
                Ok((None, Some(signal))) => format!("was ended by signal {signal}"),
                Ok((None, None)) => "ended".to_owned(),
                Err(error) => format!("ended in an unknown way ({error})"),
            }
        })
    }

    fn terminate(&mut self) {
        self.0.terminate();
    }

    fn kill(&mut self) {
        self.0.kill();
    }
}

/// Resolves the links in the `cwd`s of the servers. A server whose `cwd` leaves the working directory through a link
/// is left out, and the user gets a notice.
pub fn with_real_dirs(
    configs: Vec<McpServerConfig>,
    workspace: &str,
    from: &BaseDirs,
    notify: &Notify,
) -> Vec<McpServerConfig> {
    let resolve = |mut config: McpServerConfig| {
        if let McpTransport::Stdio { cwd: Some(cwd), .. } = &mut config.transport {
            let named = PathBuf::from(cwd.replace(althing_config::WORKSPACE_PLACEHOLDER, workspace));
            let what = format!("the `cwd` {cwd} of the MCP server {}", config.name);
            // The state directory, which contains most workspaces, may itself be a link that the user made.
            let is_workspace = named == Path::new(workspace);
            let real: Result<PathBuf, Failure> =
                if is_workspace { Ok(real_path(&named)) } else { from.real_path(&what, &named) };
            match real {
                Ok(real) => *cwd = real.display().to_string(),
                Err(failure) => {
                    let hints = failure.hints.join("; ");
                    notify(&format!(
                        "the MCP server {} is not started: {} ({hints})",
                        config.name, failure.message
                    ));
                    return None;
                }
            }
        }
        Some(config)
    };
    configs.into_iter().filter_map(resolve).collect()
}

impl SessionEnvs {
    /// Leaves out, with a notice, each server whose interpreter may load files that an agent put next to the server's
    /// script.
    pub(super) async fn without_exposed(
        &self,
        servers: Vec<PlacedServer>,
        search: &SearchPath,
    ) -> Vec<McpServerConfig> {
        let mut safe = Vec::new();
        for PlacedServer { config, exposed } in servers {
            let mut problem = None;
            for Script { path, neighbors, .. } in exposed {
                let why = match neighbors {
                    Neighbors::Ignored => continue,
                    Neighbors::Loaded(why) => why,
                    Neighbors::DependsOnVersion(python) => {
                        let launcher = &self.sandboxes.launcher;
                        let version = program_version(launcher, &python, &search.kept, PYTHON_LIMIT).await;
                        match version.as_deref().and_then(minor_version) {
                            Some(version) if version >= SAFE_PYTHON => continue,
                            Some(version) => format!("Python 3.{version} loads files next to it"),
                            None => format!("the version of {} is unknown", python.display()),
                        }
                    }
                };
                problem = Some((path, why));
            }
            let Some((path, why)) = problem else {
                safe.push(config);
                continue;
            };
            (self.notify)(&format!(
                "the MCP server {} is not started: agents may write next to its program {}, and {why} (move the \
                 program to a directory of its own; Python 3.{SAFE_PYTHON} or newer also runs it, without `-E`)",
                config.name,
                path.display()
            ));
        }
        safe
    }

    /// Removes the directories that agents may write to from the servers' `PATH`. A server whose program is only in
    /// such a directory is left out, with a notice.
    pub(super) fn restrict_search(
        &self,
        configs: &mut Vec<McpServerConfig>,
        environment: &mut [(OsString, OsString)],
        writable: &[PathBuf],
    ) {
        let mut inherited = SearchPath::default();
        let mut all = String::new();
        for (_, value) in environment.iter_mut().filter(|(name, _)| name == "PATH") {
            all = value.to_string_lossy().into_owned();
            inherited = SearchPath::without(&all, writable);
            *value = OsString::from(&inherited.kept);
        }
        configs.retain_mut(|config| {
            let McpTransport::Stdio { command, env, .. } = &mut config.transport else { return true };
            let (mut search, mut own) = (inherited.clone(), all.clone());
            for (_, value) in env.iter_mut().filter(|(name, _)| name == "PATH") {
                value.reveal().clone_into(&mut own);
                search = SearchPath::without(&own, writable);
                *value = Secret::new(search.kept.clone());
            }
            let found = if command.contains('/') { None } else { find_program(command, &own) };
            let Some(found) = found.filter(|_| find_program(command, &search.kept).is_none()) else { return true };
            (self.notify)(&format!(
                "the MCP server {} is not started: its program `{command}` is only in {}, where agents may write, so \
                 an agent could have put it there (if the program is yours, give its absolute path as `command`)",
                config.name,
                found.parent().unwrap_or(&found).display()
            ));
            false
        });
        let is_new = configs.iter().any(McpServerConfig::is_started)
            && !inherited.removed.is_empty()
            && !self.told_path.swap(true, Ordering::Relaxed);
        if is_new {
            (self.notify)(&format!(
                "MCP servers are started without {} in their PATH: agents may write there",
                inherited.removed_text()
            ));
        }
    }
}

fn spec(config: &McpServerConfig, workspace: &str) -> ServerSpec {
    let name = config.name.clone();
    // MassGen's configs use this placeholder for the agent's workspace.
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
