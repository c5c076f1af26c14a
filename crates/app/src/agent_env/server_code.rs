//! The code of MCP servers. Althing starts a server with more rights than an agent has, so no agent may change that
//! code. The files that a server's command names are protected from every agent of the session. A server is not started
//! in a directory where an agent may have put code, unless the config names that directory as `cwd`.

use crate::context::Notify;
use althing_protocol::{McpServerConfig, McpTransport, Secret};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Interpreters: programs that run the first existing file or directory among their arguments.
const INTERPRETERS: [&str; 20] = [
    "python", "pypy", "node", "nodejs", "deno", "bun", "tsx", "ts-node", "uv", "ruby", "perl", "php", "lua",
    "java", "sh", "bash", "dash", "zsh", "fish", "pwsh",
];
/// Programs whose arguments are names of packages: an existing file of such a name is not what the user meant.
const PACKAGE_RUNNERS: [&str; 9] = ["npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "uvx", "pipx", "docker"];
/// Options whose value is the directory of the program to run.
const DIR_OPTIONS: [&str; 5] = ["--directory", "--project", "--prefix", "--cwd", "-C"];
/// The extensions of data files, which a server is meant to change and which are therefore not protected.
const DATA: [&str; 6] = ["db", "db3", "sqlite", "sqlite3", "duckdb", "log"];
/// The environment variable that keeps Python from importing modules from the working directory or from the directory
/// of its script.
const SAFE_PATH: &str = "PYTHONSAFEPATH";

/// Code that Althing starts: the programs of MCP servers and custom adapters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeInUse {
    /// The files that are started or run.
    pub files: Vec<PathBuf>,
    /// The directories from which the programs load more code.
    pub dirs: Vec<PathBuf>,
}

impl CodeInUse {
    /// Adds more code.
    pub fn extend(&mut self, more: Self) {
        self.files.extend(more.files);
        self.dirs.extend(more.dirs);
    }
}

/// What determines where servers start.
pub struct ServerDirs<'a> {
    /// The directory that the paths of a server without `cwd` are relative to.
    pub default: PathBuf,
    /// The directory in which the session was started.
    pub cwd: &'a Path,
    /// The directories to which an agent may write.
    pub writable: Vec<PathBuf>,
    /// An empty directory to which no agent may write.
    pub empty: PathBuf,
}

/// The directory that the paths of a config's servers are relative to: that of the config file; for a config in
/// `.althing`, the directory that contains `.althing`.
pub fn server_dir(config_file: &Path) -> Option<PathBuf> {
    let dir = config_file.parent()?;
    let dir = if dir.file_name().is_some_and(|name| name == ".althing") { dir.parent()? } else { dir };
    Some(althing_disk::real_path(dir))
}

/// The existing code that a server's config names. Relative paths are resolved against `base`.
pub fn server_code(
    config: &McpServerConfig,
    base: &Path,
    workspace: &str,
    search: Option<&OsStr>,
) -> CodeInUse {
    let McpTransport::Stdio { command, args, .. } = &config.transport else { return CodeInUse::default() };
    let here = |text: &String| text.replace(althing_config::WORKSPACE_PLACEHOLDER, workspace);
    let args: Vec<String> = args.iter().map(here).collect();
    named_code(&here(command), &args, base, search)
}

/// The existing code that a command names: its executable, the files (except data files) and Python modules (`-m`) in
/// its arguments, and the directories from which these load more code. Relative paths are resolved against `base`.
/// `search` is the value of `PATH`.
pub fn named_code(command: &str, args: &[String], base: &Path, search: Option<&OsStr>) -> CodeInUse {
    let mut code = CodeInUse::default();
    let parts = |arg| str::split(arg, [' ', '\t', '\n', '=', ';', '"', '\'']);
    let words = args.iter().flat_map(|arg| parts(arg).chain([arg.as_str()]));
    let words = words.filter(|word| !word.is_empty()).map(|word| base.join(word));
    let executable = executable(command, base, search);
    for path in words.chain(executable.clone()) {
        let is_data = path.extension().is_some_and(|end| DATA.iter().any(|data| end == *data));
        if path.is_file() && !is_data {
            code.dirs.extend(packages(&path));
            code.files.push(path);
        }
    }
    code.dirs.extend(executable.as_deref().and_then(Path::parent).map(Path::to_owned));
    match program(command, args, base) {
        Some(dir) if dir.is_dir() => code.dirs.push(dir),
        Some(file) => code.dirs.extend(file.parent().map(Path::to_owned)),
        None => {}
    }
    for (option, value) in args.iter().zip(args.iter().skip(1)) {
        if option == "-m" {
            let top = value.split('.').next().unwrap_or_default();
            let (module, package) = (base.join(format!("{top}.py")), base.join(top));
            code.files.extend(Some(module).filter(|file| file.is_file()));
            code.dirs.extend(Some(package).filter(|dir| dir.is_dir()));
        } else if DIR_OPTIONS.contains(&option.as_str()) {
            code.dirs.extend(Some(base.join(value)).filter(|dir| dir.is_dir()));
        }
    }
    code
}

/// The file that a command starts.
fn executable(command: &str, base: &Path, search: Option<&OsStr>) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(base.join(command));
    }
    let dirs = std::env::split_paths(search?).map(|dir| base.join(dir).join(command));
    dirs.into_iter().find(|path| path.is_file())
}

/// The server's config with the directory in which the server starts, and with settings that keep the server from
/// loading code that an agent may have put into that directory.
pub fn placed(
    mut config: McpServerConfig,
    dirs: &ServerDirs<'_>,
    workspace: &str,
    notify: &Notify,
) -> McpServerConfig {
    let name = config.name.clone();
    let is_writable = |path: &Path| dirs.writable.iter().any(|root| path.starts_with(root));
    let McpTransport::Stdio { command, args, env, cwd } = &mut config.transport else { return config };
    let base = cwd.as_ref().map_or_else(|| dirs.default.clone(), PathBuf::from);
    let found = program(command, args, &base);
    let runs_module = args.iter().any(|arg| arg == "-m");
    if cwd.is_none() {
        let missing = |arg: &&String| is_path(command, arg, dirs.cwd) && !base.join(arg).exists();
        if let Some(arg) = args.iter().find(missing) {
            notify(&format!(
                "the MCP server {name} looks for {arg} in {}, the directory of its config; to start it in the \
                 working directory, set `cwd: .`",
                base.display()
            ));
        }
        let start = if is_writable(&base) {
            let module = args.iter().skip_while(|arg| *arg != "-m").nth(1).map(|module| base.join(module));
            if module.is_some_and(|path| path.is_dir() || path.with_extension("py").is_file()) {
                notify(&format!(
                    "the MCP server {name} cannot find its module: agents may write to {}, so the server starts \
                     in an empty directory; move the module to a directory that agents cannot write to, and set `cwd`",
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
                    *arg = absolute(command, arg, &base);
                }
            }
            &dirs.empty
        } else {
            &base
        };
        *cwd = Some(start.display().to_string());
    }
    // Python imports modules from the directory of a script or, with `-m`, from the working directory.
    let searched = match &found {
        Some(file) if !runs_module && file.is_file() => file.parent().map(Path::to_owned),
        Some(dir) if !runs_module => Some(dir.clone()),
        _ => cwd.as_ref().map(PathBuf::from),
    };
    let is_script = found.is_some() && !runs_module;
    // The directory of a script is protected, unless it is or contains a whole directory to which an agent may write.
    let is_protected = |path: &Path| {
        is_script && !path.starts_with(workspace) && !dirs.writable.iter().any(|root| root.starts_with(path))
    };
    let is_unsafe = searched
        .map(|path| althing_disk::real_path(&path))
        .is_some_and(|path| is_writable(&path) && !is_protected(&path));
    if is_unsafe && !env.iter().any(|(key, _)| key == SAFE_PATH) {
        env.push((SAFE_PATH.to_owned(), Secret::new("1")));
    }
    config
}

/// Whether a server starts in this directory.
pub fn starts_in(config: &McpServerConfig, dir: &Path) -> bool {
    matches!(&config.transport, McpTransport::Stdio { cwd: Some(cwd), .. } if Path::new(cwd) == dir)
}

/// What an interpreter runs: the first argument that names an existing file or directory, and is neither an option nor
/// the subcommand `run`. None if the command is not an interpreter.
fn program(command: &str, args: &[String], base: &Path) -> Option<PathBuf> {
    let is_interpreter = is_one_of(command, &INTERPRETERS);
    let args = args.iter().filter(|arg| is_interpreter && !arg.starts_with('-') && *arg != "run");
    let mut paths = args.map(|arg| base.join(arg));
    paths.find(|path| path.exists())
}

/// The argument with its path made absolute, if the argument is or contains the relative path of something that exists.
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

/// Whether an argument is clearly a path, relative to `base`, of something that exists. The name of a package or of
/// a subcommand does not count as a path, even if an agent creates a file with that name.
fn is_path(command: &str, arg: &str, base: &Path) -> bool {
    let is_explicit = arg == "." || arg == ".." || arg.starts_with("./") || arg.starts_with("../");
    let path = base.join(arg);
    let is_implied = !arg.starts_with(['-', '@', '/'])
        && !is_one_of(command, &PACKAGE_RUNNERS)
        && (arg.contains('/') || (path.is_file() && path.extension().is_some()));
    (is_explicit || is_implied) && path.exists()
}

/// Whether a command is one of these programs. A version at the end of the name is ignored: `python3.13`.
fn is_one_of(command: &str, programs: &[&str]) -> bool {
    let name = Path::new(command).file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(|end: char| end.is_ascii_digit() || end == '.' || end == '-');
    programs.contains(&name)
}

/// The directories of installed packages around a file: a virtual environment of Python, the outermost `node_modules`.
fn packages(file: &Path) -> Vec<PathBuf> {
    let is_package = |dir: &&Path| dir.file_name().is_some_and(|name| name == "node_modules");
    let modules = file.ancestors().filter(is_package).last();
    let venv = file.ancestors().skip(1).find(|dir| dir.join("pyvenv.cfg").is_file());
    modules.into_iter().chain(venv).map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn the_code_of_a_command_is_protected_but_not_what_it_works_on() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for file in
            ["tools/server.py", "data.db", "docs/a.md", "pkg/__init__.py", "app/index.js", "servers.json"]
        {
            std::fs::create_dir_all(base.join(file).parent().unwrap()).unwrap();
            std::fs::write(base.join(file), "").unwrap();
        }
        std::fs::create_dir_all(base.join("venv/bin")).unwrap();
        for file in ["venv/pyvenv.cfg", "venv/bin/server"] {
            std::fs::write(base.join(file), "").unwrap();
        }
        let search = base.join("venv/bin");
        for (command, args, files, dirs) in [
            (
                "python3",
                &["tools/server.py", "data.db", "docs"][..],
                &["tools/server.py"][..],
                &["tools"][..],
            ),
            ("npx", &["-y", "@scope/server-filesystem", ".", "docs"], &[], &[]),
            ("python3.13", &["-m", "pkg.server"], &[], &["pkg"]),
            ("node", &["app"], &[], &["app"]),
            ("uv", &["--directory", "app", "run", "server"], &[], &["app", "app"]),
            (
                "sh",
                &["-c", "exec tools/server.py --config=servers.json"],
                &["servers.json", "tools/server.py"],
                &[],
            ),
            ("server", &[], &["venv/bin/server"], &["venv", "venv/bin"]),
        ] {
            let mut code = named_code(command, &texts(args), &base, Some(search.as_os_str()));
            code.files.sort();
            code.files.dedup();
            let expected = |paths: &[&str]| paths.iter().map(|path| base.join(path)).collect::<Vec<_>>();
            assert_eq!(
                code,
                CodeInUse { files: expected(files), dirs: expected(dirs) },
                "{command} {args:?}"
            );
        }
    }

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
