//! Finds the code that a command line names, so that agents cannot change the programs of MCP servers and custom
//! adapters, which run with the user's rights. A program may be named through a symlink, a wrapper (`env`, `nice`),
//! the text of `sh -c`, a shell script or a `#!` line, so every word that names a file counts, except for data.

use super::module_places::module_places;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Programs that run the first existing file or directory among their arguments.
const INTERPRETERS: [&str; 20] = [
    "python", "pypy", "node", "nodejs", "deno", "bun", "tsx", "ts-node", "uv", "ruby", "perl", "php", "lua",
    "java", "sh", "bash", "dash", "zsh", "fish", "pwsh",
];
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "fish", "pwsh"];
const PYTHONS: [&str; 2] = ["python", "pypy"];
/// Programs that run the program that their arguments name.
const WRAPPERS: [&str; 11] =
    ["env", "nice", "nohup", "setsid", "timeout", "stdbuf", "ionice", "chrt", "sudo", "doas", "time"];
/// Words that are followed by the directory of the program to run.
const DIR_OPTIONS: [&str; 8] =
    ["--directory", "--project", "--prefix", "--cwd", "--chdir", "-C", "cd", "pushd"];
/// A server is meant to change files with these extensions, so they are not protected.
const DATA: [&str; 6] = ["db", "db3", "sqlite", "sqlite3", "duckdb", "log"];
/// The extensions of files that are not code. Such a file is protected, but not the files next to it.
const TEXTS: [&str; 16] = [
    "json", "jsonl", "yaml", "yml", "toml", "ini", "conf", "cfg", "env", "md", "txt", "csv", "xml", "html",
    "pem", "pdf",
];
/// Separates the arguments from the words of the shell script that the command starts.
const END: &str = ";";
/// The maximum size of a shell script that is searched for code, in bytes.
const MAX_SCRIPT: u64 = 64 << 10;
/// The first version of Python that obeys `PYTHONSAFEPATH`.
pub const SAFE_PYTHON: u32 = 11;
/// Options of Python without a value, which can be combined in one argument.
const PYTHON_FLAGS: &str = "bBdEiIOPqRsSuvx";

/// Files and directories with code that Althing starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeInUse {
    /// Programs and the files that their command lines name.
    pub files: Vec<PathBuf>,
    /// The directories from which the programs load more code.
    pub dirs: Vec<PathBuf>,
}

impl CodeInUse {
    /// Adds the code of `more`.
    pub fn extend(&mut self, more: Self) {
        self.files.extend(more.files);
        self.dirs.extend(more.dirs);
    }

    /// Adds an existing file and the directories from which it may load code, unless the file is data.
    pub fn add_file(&mut self, path: PathBuf) {
        let extension =
            |known: &[&str]| path.extension().is_some_and(|end| known.iter().any(|one| end == *one));
        if !path.is_file() || extension(&DATA) {
            return;
        }
        for path in [path.clone(), althing_disk::real_path(&path)] {
            self.dirs.extend(packages(&path));
            self.dirs.extend(path.parent().filter(|_| !extension(&TEXTS)).map(Path::to_owned));
        }
        self.files.push(path);
    }
}

/// What the file names on a command line are resolved with.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    /// The directory that relative paths are resolved against.
    pub base: &'a Path,
    /// The value of `PATH`.
    pub search: Option<&'a OsStr>,
    /// The home directory, for `~` in texts that a shell reads.
    pub home: Option<&'a Path>,
}

/// A command line, with its texts divided into words.
pub struct CommandLine<'a> {
    lookup: Lookup<'a>,
    executable: Option<PathBuf>,
    words: Vec<String>,
    bases: Vec<PathBuf>,
}

/// A program that an interpreter runs.
pub struct Script {
    /// The file, or the directory that contains the program.
    pub path: PathBuf,
    /// The interpreter's name, on the command line or after `#!`.
    interpreter: String,
    /// Whether the interpreter loads files that are next to the script.
    pub neighbors: Neighbors,
}

/// Whether an interpreter may load files that are next to its script even if `PYTHONSAFEPATH` is set.
#[derive(Debug, PartialEq, Eq)]
pub enum Neighbors {
    /// The interpreter loads only what the script names.
    Ignored,
    /// The interpreter may load them, for this reason.
    Loaded(String),
    /// A Python that ignores them from version 3.[`SAFE_PYTHON`] on.
    DependsOnVersion(PathBuf),
}

impl<'a> CommandLine<'a> {
    /// Divides a command and its arguments into words.
    pub fn new(command: &str, args: &[String], lookup: Lookup<'a>) -> Self {
        let executable = executable(command, lookup);
        let mut words = vec![command.to_owned()];
        words.extend(args.iter().flat_map(|arg| words_of(arg)));
        if let Some(script) = executable.as_deref().and_then(shell_script) {
            let named = script.lines().filter(|line| !line.starts_with('#')).flat_map(words_of);
            words.push(END.to_owned());
            words.extend(named.filter(|word| may_name_code(word)));
        }
        let mut line = Self { lookup, executable, words, bases: vec![lookup.base.to_owned()] };
        line.bases.extend(line.named_dirs());
        line
    }

    /// The existing code that the command line names, and the directories from which that code may load more.
    pub fn code(&self) -> CodeInUse {
        let mut code = CodeInUse::default();
        for word in &self.words {
            let parts = word.split(['=', ',', ':']).filter(|part| !part.is_empty());
            for part in parts.chain([word.as_str()]) {
                for path in self.paths(part) {
                    code.add_file(path);
                }
            }
            if self.is_wrapper()
                && !word.contains('/')
                && let Some(path) = executable(word, self.lookup)
            {
                code.add_file(path);
            }
        }
        if let Some(path) = self.executable.clone() {
            code.add_file(path);
        }
        for script in self.scripts() {
            for path in [&script.path, &althing_disk::real_path(&script.path)] {
                code.dirs.extend(module_places(&script.interpreter, path));
            }
            code.dirs.extend(Some(script.path).filter(|path| path.is_dir()));
        }
        code.dirs.extend(self.named_dirs());
        for module in self.after("-m") {
            let top = module.split('.').next().unwrap_or_default();
            for base in &self.bases {
                let (module, package) = (base.join(format!("{top}.py")), base.join(top));
                code.files.extend(Some(module).filter(|file| file.is_file()));
                code.dirs.extend(Some(package).filter(|dir| dir.is_dir()));
            }
        }
        code
    }

    /// Whether Python runs a module (`-m`).
    pub fn runs_module(&self) -> bool {
        self.after("-m").next().is_some()
    }

    /// Whether the command itself is an interpreter, other than a shell, with an existing file or directory as
    /// argument.
    pub fn is_interpreted(&self) -> bool {
        self.run_by(0).is_some() && !self.is_wrapper()
    }

    /// The directories that relative paths may be relative to.
    pub fn bases(&self) -> &[PathBuf] {
        &self.bases
    }

    /// The programs that interpreters on this command line run.
    pub fn scripts(&self) -> Vec<Script> {
        let mut found: Vec<Script> = (0..self.words.len()).filter_map(|index| self.run_by(index)).collect();
        let words = self.words.iter().filter(|_| self.is_wrapper());
        let started = words.flat_map(|word| self.paths(word)).chain(self.executable.clone());
        for path in started {
            let Some(line) = first_line(&path) else { continue };
            let (interpreter, options) = shebang(&line);
            let is_run_otherwise = found.iter().any(|script| script.path == path);
            if !is_run_otherwise {
                let neighbors = self.neighbors(interpreter, &options);
                found.push(Script { path, interpreter: interpreter.to_owned(), neighbors });
            }
        }
        found
    }

    fn run_by(&self, index: usize) -> Option<Script> {
        let interpreter = self.words.get(index).filter(|word| is_one_of(word, &INTERPRETERS))?;
        let is_shell = is_one_of(interpreter, &SHELLS);
        let mut options = Vec::new();
        for word in self.words.iter().skip(index + 1).take_while(|word| *word != END) {
            if word.starts_with('-') {
                options.push(word.as_str());
                continue;
            }
            let mut paths = self.paths(word).filter(|_| word != "run");
            if let Some(path) = paths.find(|path| path.is_file() || (path.is_dir() && !is_shell)) {
                let neighbors = self.neighbors(interpreter, &options);
                return Some(Script { path, interpreter: interpreter.clone(), neighbors });
            }
        }
        None
    }

    fn neighbors(&self, interpreter: &str, options: &[&str]) -> Neighbors {
        if !is_one_of(interpreter, &INTERPRETERS) {
            return Neighbors::Loaded(format!("`{interpreter}`, which runs it, may load files next to it"));
        }
        let is_flags = |option: &&&str| option.chars().skip(1).all(|flag| PYTHON_FLAGS.contains(flag));
        let has = |flag: char| options.iter().filter(is_flags).any(|option| option.contains(flag));
        if !is_one_of(interpreter, &PYTHONS) || has('I') {
            return Neighbors::Ignored;
        }
        if has('E') && !has('P') {
            return Neighbors::Loaded("with `-E`, Python loads files next to it".to_owned());
        }
        let Some(path) = executable(interpreter, self.lookup) else { return Neighbors::Ignored };
        match python_version(&path) {
            Some(version) if version >= SAFE_PYTHON => Neighbors::Ignored,
            Some(version) => Neighbors::Loaded(format!("Python 3.{version} loads files next to it")),
            None => Neighbors::DependsOnVersion(path),
        }
    }

    fn is_wrapper(&self) -> bool {
        self.words.first().is_some_and(|word| is_one_of(word, &WRAPPERS) || is_one_of(word, &SHELLS))
    }

    fn paths<'b>(&'b self, word: &'b str) -> impl Iterator<Item = PathBuf> + 'b {
        let below_home = ["~/", "$HOME/", "${HOME}/"].iter().find_map(|home| word.strip_prefix(home));
        let home = self.lookup.home.filter(|_| below_home.is_some());
        let in_home = home.map(|home| home.join(below_home.unwrap_or_default()));
        let elsewhere = self.bases.iter().filter(move |_| home.is_none()).map(move |base| base.join(word));
        in_home.into_iter().chain(elsewhere)
    }

    /// Directories that the command changes to, or that an option names.
    fn named_dirs(&self) -> Vec<PathBuf> {
        let joined = self.words.iter().filter_map(|word| word.split_once('='));
        let joined = joined.filter(|(option, _)| DIR_OPTIONS.contains(option)).map(|(_, dir)| dir);
        let dirs = joined.chain(DIR_OPTIONS.iter().flat_map(|option| self.after(option)));
        dirs.flat_map(|dir| self.paths(dir).collect::<Vec<_>>()).filter(|dir| dir.is_dir()).collect()
    }

    fn after<'b>(&'b self, option: &'b str) -> impl Iterator<Item = &'b str> + 'b {
        let pairs = self.words.iter().zip(self.words.iter().skip(1));
        pairs.filter(move |(word, _)| *word == option).map(|(_, next)| next.as_str())
    }
}

fn words_of(arg: &str) -> Vec<String> {
    let separators = [' ', '\t', '\n', ';', '"', '\'', '&', '|', '(', ')', '`'];
    if !arg.contains([' ', '\t', '\n']) {
        return vec![arg.to_owned()];
    }
    arg.split(separators).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Other words of a shell script are not looked up, because an agent could create files with these names.
fn may_name_code(word: &str) -> bool {
    word.contains(['/', '.']) || is_one_of(word, &INTERPRETERS) || DIR_OPTIONS.contains(&word) || word == "-m"
}

fn executable(command: &str, lookup: Lookup<'_>) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(lookup.base.join(command));
    }
    let dirs = std::env::split_paths(lookup.search?).map(|dir| lookup.base.join(dir).join(command));
    dirs.into_iter().find(|path| path.is_file())
}

fn first_line(path: &Path) -> Option<String> {
    let text = read_start(path, 512)?;
    Some(text.strip_prefix("#!")?.lines().next()?.trim().to_owned())
}

fn shell_script(path: &Path) -> Option<String> {
    let line = first_line(path)?;
    is_one_of(shebang(&line).0, &SHELLS).then(|| read_start(path, MAX_SCRIPT)).flatten()
}

fn read_start(path: &Path, limit: u64) -> Option<String> {
    let bytes = althing_disk::read_start(path, limit).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn shebang(line: &str) -> (&str, Vec<&str>) {
    let mut words = line.split_whitespace().peekable();
    if words.peek().is_some_and(|word| is_one_of(word, &["env"])) {
        words.next();
        while words.peek().is_some_and(|word| word.starts_with('-') || word.contains('=')) {
            words.next();
        }
    }
    (words.next().unwrap_or_default(), words.collect())
}

fn python_version(executable: &Path) -> Option<u32> {
    let real = althing_disk::real_path(executable);
    minor_version(&real.file_name()?.to_string_lossy())
}

/// `python3.13` and `Python 3.13.1` have the minor version 13.
pub fn minor_version(text: &str) -> Option<u32> {
    let digits = text.split_once("3.")?.1;
    digits.split(|end: char| !end.is_ascii_digit()).next()?.parse().ok()
}

/// A version at the end of the command's name is ignored: `python3.13` is `python`.
pub fn is_one_of(command: &str, programs: &[&str]) -> bool {
    let name = Path::new(command).file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(|end: char| end.is_ascii_digit() || end == '.' || end == '-');
    programs.contains(&name)
}

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
        for dir in ["wrapped", "linked"] {
            std::fs::create_dir_all(base.join(dir)).unwrap();
        }
        let wrapper = format!("#!/bin/sh\nexec python3 {}\n", base.join("tools/server.py").display());
        std::fs::write(base.join("wrapped/server"), wrapper).unwrap();
        std::os::unix::fs::symlink("../tools/server.py", base.join("linked/server")).unwrap();
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
            (
                "node",
                &["app"],
                &[],
                &["app", "app/node_modules", "app/package.json", "node_modules", "package.json"],
            ),
            ("uv", &["--directory", "app", "run", "server"], &[], &["app"]),
            (
                "sh",
                &["-c", "exec tools/server.py --config=servers.json"],
                &["servers.json", "tools/server.py"],
                &["tools"],
            ),
            ("env", &["A=1", "python3", "tools/server.py", "docs"], &["tools/server.py"], &["tools"]),
            ("nice", &["-n", "5", "python3", "tools/server.py"], &["tools/server.py"], &["tools"]),
            ("sh", &["-c", "cd tools && exec python3 server.py"], &["tools/server.py"], &["tools"]),
            ("uv", &["--directory=app", "run", "index.js"], &["app/index.js"], &["app"]),
            ("wrapped/server", &["docs"], &["tools/server.py", "wrapped/server"], &["tools", "wrapped"]),
            ("linked/server", &[], &["linked/server"], &["linked", "tools"]),
            ("server", &[], &["venv/bin/server"], &["venv", "venv/bin"]),
        ] {
            let lookup = Lookup { base: &base, search: Some(search.as_os_str()), home: None };
            let mut code = CommandLine::new(command, &texts(args), lookup).code();
            code.dirs.retain(|dir| dir.starts_with(&base));
            for paths in [&mut code.files, &mut code.dirs] {
                paths.sort();
                paths.dedup();
            }
            let expected = |paths: &[&str]| paths.iter().map(|path| base.join(path)).collect::<Vec<_>>();
            assert_eq!(
                code,
                CodeInUse { files: expected(files), dirs: expected(dirs) },
                "{command} {args:?}"
            );
        }
    }

    #[test]
    fn what_an_interpreter_may_load_from_the_directory_of_its_script_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for (file, text) in [
            ("python3.10", ""),
            ("python3.13", ""),
            ("python3", ""),
            ("old", "#!/usr/bin/env python3.10\n"),
            ("new", "#!/usr/bin/env -S python3.13 -u\n"),
            ("other", "#!/opt/bin/runs-it\n"),
            ("server.py", ""),
        ] {
            std::fs::write(base.join(file), text).unwrap();
        }
        let lookup = Lookup { base: &base, search: Some(base.as_os_str()), home: None };
        for (command, args, expected) in [
            ("python3.13", &["server.py"][..], "ignored"),
            ("python3.13", &["-sE", "server.py"], "loaded"),
            ("python3.13", &["-PE", "server.py"], "ignored"),
            ("python3.10", &["server.py"], "loaded"),
            ("python3.10", &["-I", "server.py"], "ignored"),
            ("python3", &["server.py"], "depends"),
            ("env", &["A=1", "python3.10", "server.py"], "loaded"),
            ("./old", &[], "loaded"),
            ("./new", &[], "ignored"),
            ("./other", &[], "loaded"),
            ("node", &["server.py"], "ignored"),
        ] {
            let scripts = CommandLine::new(command, &texts(args), lookup).scripts();
            let neighbors = scripts.iter().map(|script| match script.neighbors {
                Neighbors::Ignored => "ignored",
                Neighbors::Loaded(_) => "loaded",
                Neighbors::DependsOnVersion(_) => "depends",
            });
            assert_eq!(neighbors.collect::<Vec<_>>(), [expected], "{command} {args:?}");
        }
    }
}
