//! The code of MCP servers. Althing starts a server with more rights than an agent has, so no agent may change that
//! code, and a server does not start in a directory where an agent may have put code, unless the config names that
//! directory as `cwd`.

use super::module_places::code_in_variable;
use super::named_code::{CodeInUse, CommandLine, Lookup, Script, is_one_of};
use crate::context::Notify;
use althing_config::WORKSPACE_PLACEHOLDER;
use althing_disk::real_path;
use althing_protocol::{McpServerConfig, McpTransport, Secret};
use althing_runner::adapter::SearchPath;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The arguments of these programs are names of packages, which are not files even if a file has that name.
const PACKAGE_RUNNERS: [&str; 9] = ["npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "uvx", "pipx", "docker"];
/// Keeps Python from importing modules from the working directory and from the directory of its script.
const SAFE_PATH: &str = "PYTHONSAFEPATH";

pub struct ServerDirs<'a> {
    /// The directory that the paths of a server without `cwd` are relative to.
    pub default: PathBuf,
    pub cwd: &'a Path,
    pub writable: Vec<PathBuf>,
    pub empty: PathBuf,
    pub search: SearchPath,
    pub home: Option<&'a Path>,
    /// The agent's private directory, in which nothing is protected.
    pub workspace: Option<PathBuf>,
}

/// The directory that the paths of a config's servers are relative to: the directory of the config file or, for a
/// config in `.althing`, the directory that contains `.althing`.
pub fn server_dir(config_file: &Path) -> Option<PathBuf> {
    let dir = config_file.parent()?;
    let dir = if dir.file_name().is_some_and(|name| name == ".althing") { dir.parent()? } else { dir };
    Some(real_path(dir))
}

/// The code of a server. `lookup.base` must be the directory in which the server starts.
pub fn server_code(config: &McpServerConfig, workspace: &str, lookup: Lookup<'_>) -> CodeInUse {
    let McpTransport::Stdio { command, args, env, .. } = &config.transport else {
        return CodeInUse::default();
    };
    let here = |text: &str| text.replace(WORKSPACE_PLACEHOLDER, workspace);
    let args: Vec<String> = args.iter().map(|arg| here(arg)).collect();
    let mut code = CommandLine::new(&here(command), &args, lookup).code();
    for (name, value) in env {
        let value = here(value.reveal());
        for path in code_in_variable(name, &value).map(|path| lookup.base.join(path)) {
            code.dirs.extend(Some(path.clone()).filter(|path| path.is_dir()));
            code.add_file(path);
        }
    }
    code
}

pub struct PlacedServer {
    pub config: McpServerConfig,
    /// Scripts in directories that cannot be protected from agents.
    pub exposed: Vec<Script>,
}

/// Sets the directory in which the server starts, and `PYTHONSAFEPATH` if an agent may have put Python modules there
/// or next to the server's script.
pub fn placed(
    mut config: McpServerConfig,
    dirs: &ServerDirs<'_>,
    workspace: &str,
    notify: &Notify,
) -> PlacedServer {
    let name = config.name.clone();
    let McpTransport::Stdio { command, args, env, cwd } = &mut config.transport else {
        return PlacedServer { config, exposed: Vec::new() };
    };
    let base = cwd.as_ref().map_or_else(|| dirs.default.clone(), PathBuf::from);
    let here = |text: &String| text.replace(WORKSPACE_PLACEHOLDER, workspace);
    let named: Vec<String> = args.iter().map(here).collect();
    let lookup = Lookup { base: &base, search: Some(OsStr::new(&dirs.search.kept)), home: dirs.home };
    let line = CommandLine::new(&here(command), &named, lookup);
    if cwd.is_none() {
        let missing = |arg: &&String| is_path(command, arg, dirs.cwd) && !base.join(arg).exists();
        if let Some(arg) = args.iter().find(missing) {
            notify(&format!(
                "the MCP server {name} looks for {arg} in {}, the directory of its config; to start it in the \
                 working directory, set `cwd: .`",
                base.display()
            ));
        }
        let start = if dirs.is_writable(&base) {
            make_absolute(&name, command, args, &base, notify);
            &dirs.empty
        } else {
            &base
        };
        *cwd = Some(start.display().to_string());
    }
    // Python imports modules from the directory of a script or, with `-m`, from the working directory.
    let scripts = line.scripts();
    let start = cwd.as_ref().map(|cwd| real_path(Path::new(cwd)));
    let in_start = line.runs_module() || !line.is_interpreted();
    let is_start_unsafe = start.is_some_and(|dir| dirs.is_writable(&dir))
        || line.bases().iter().skip(1).any(|dir| dirs.is_exposed(dir));
    let (exposed, _): (Vec<Script>, Vec<Script>) = scripts.into_iter().partition(|script| {
        let real = real_path(&script.path);
        [&script.path, &real].into_iter().any(|path| {
            let dir = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
            dir.is_some_and(|dir| dirs.is_exposed(dir))
        })
    });
    let is_unsafe = !exposed.is_empty() || (in_start && is_start_unsafe);
    if is_unsafe && !env.iter().any(|(key, _)| key == SAFE_PATH) {
        env.push((SAFE_PATH.to_owned(), Secret::new("1")));
    }
    PlacedServer { config, exposed }
}

/// The server will start in another directory than `base`, so its paths are made absolute.
fn make_absolute(name: &str, command: &mut String, args: &mut [String], base: &Path, notify: &Notify) {
    let module = args.iter().skip_while(|arg| *arg != "-m").nth(1).map(|module| base.join(module));
    if module.is_some_and(|path| path.is_dir() || path.with_extension("py").is_file()) {
        notify(&format!(
            "the MCP server {name} cannot find its module: agents may write to {}, so the server starts in an empty \
             directory; move the module to a directory that agents cannot write to, and set `cwd`",
            base.display()
        ));
    }
    if command.contains('/') {
        *command = base.join(&*command).display().to_string();
    }
    for index in 0..args.len() {
        let follows_module =
            index.checked_sub(1).and_then(|before| args.get(before)).is_some_and(|arg| arg == "-m");
        if let Some(arg) = args.get_mut(index).filter(|_| !follows_module) {
            *arg = absolute(command, arg, base);
        }
    }
}

impl ServerDirs<'_> {
    fn is_writable(&self, path: &Path) -> bool {
        self.writable.iter().any(|root| path.starts_with(root))
    }

    /// Whether agents may add files to a directory although it contains code of a server: it is writable, and it cannot
    /// be protected as a whole, because it is in the agent's workspace, or is or contains a writable root.
    fn is_exposed(&self, dir: &Path) -> bool {
        let dir = real_path(dir);
        let is_private = self.workspace.as_ref().is_some_and(|workspace| dir.starts_with(workspace));
        let contains_root = self.writable.iter().any(|root| root.starts_with(&dir));
        self.is_writable(&dir) && (is_private || contains_root)
    }
}

pub fn starts_in(config: &McpServerConfig, dir: &Path) -> bool {
    matches!(&config.transport, McpTransport::Stdio { cwd: Some(cwd), .. } if Path::new(cwd) == dir)
}

fn absolute(command: &str, arg: &str, base: &Path) -> String {
    let (option, path) = match arg.split_once('=') {
        Some((option, path)) if option.starts_with('-') => (format!("{option}="), path),
        _ => (String::new(), arg),
    };
    if !is_path(command, path, base) {
        return arg.to_owned();
    }
    let path = if path == "." { base.to_owned() } else { base.join(path) };
    format!("{option}{}", path.display())
}

/// The name of a package or subcommand does not count as a path, even if an agent creates a file with that name.
fn is_path(command: &str, arg: &str, base: &Path) -> bool {
    let is_explicit = arg == "." || arg == ".." || arg.starts_with("./") || arg.starts_with("../");
    let path = base.join(arg);
    let is_implied = !arg.starts_with(['-', '@', '/'])
        && !is_one_of(command, &PACKAGE_RUNNERS)
        && (arg.contains('/') || (path.is_file() && path.extension().is_some()));
    (is_explicit || is_implied) && path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_package_is_no_path_even_if_a_file_has_that_name() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for planted in ["@scope/server", "server", "run", "docs"] {
            std::fs::create_dir_all(base.join(planted)).unwrap();
        }
        std::fs::write(base.join("docs/server.py"), "").unwrap();
        let full = |path: &str| base.join(path).display().to_string();
        for (command, arg, expected) in [
            ("npx", "@scope/server", "@scope/server".to_owned()),
            ("npx", "docs/server.py", "docs/server.py".to_owned()),
            ("uvx", "server", "server".to_owned()),
            ("uv", "run", "run".to_owned()),
            ("npx", ".", base.display().to_string()),
            ("npx", "./docs", full("./docs")),
            ("python3", "docs/server.py", full("docs/server.py")),
            ("python3", "--config=docs/server.py", format!("--config={}", full("docs/server.py"))),
            ("python3", "docs/none.py", "docs/none.py".to_owned()),
        ] {
            assert_eq!(absolute(command, arg, &base), expected, "{command} {arg}");
        }
    }
}
