//! Finds the code that a command line names. Althing starts the programs of MCP servers and custom adapters with the
//! user's rights, so no agent may change their code. Recognition must not depend on how a program is written down: it
//! may be behind a symlink, a wrapper (`env`, `nice`), the text of `sh -c`, a shell script or a `#!` line. So every word
//! that names a file counts, except for data.

use super::module_places::module_places;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Interpreters: programs that run the first existing file or directory among their arguments.
const INTERPRETERS: [&str; 20] = [
    "python", "pypy", "node", "nodejs", "deno", "bun", "tsx", "ts-node", "uv", "ruby", "perl", "php", "lua",
    "java", "sh", "bash", "dash", "zsh", "fish", "pwsh",
];
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "fish", "pwsh"];
const PYTHONS: [&str; 2] = ["python", "pypy"];
/// Programs that run the program that their arguments name.
const WRAPPERS: [&str; 11] =
    ["env", "nice", "nohup", "setsid", "timeout", "stdbuf", "ionice", "chrt", "sudo", "doas", "time"];
/// Words and options that are followed by the directory of the program to run.
const DIR_OPTIONS: [&str; 8] =
    ["--directory", "--project", "--prefix", "--cwd", "--chdir", "-C", "cd", "pushd"];
/// The extensions of data files, which a server is meant to change and which are therefore not protected.
const DATA: [&str; 6] = ["db", "db3", "sqlite", "sqlite3", "duckdb", "log"];
/// The extensions of files that are not code. Such a file is protected, but not the files next to it.
const TEXTS: [&str; 16] = [
    "json", "jsonl", "yaml", "yml", "toml", "ini", "conf", "cfg", "env", "md", "txt", "csv", "xml", "html",
    "pem", "pdf",
];
/// Separates the arguments from the words of a script.
const END: &str = ";";
/// The longest shell script in which names of files are searched for, in bytes.
const MAX_SCRIPT: u64 = 64 << 10;
/// The first version of Python that obeys `PYTHONSAFEPATH`.
pub const SAFE_PYTHON: u32 = 11;
/// The options of Python that can be combined in one argument.
const PYTHON_FLAGS: &str = "bBdEiIOPqRsSuvx";

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

    /// Adds a file that exists, with what it loads, unless it is data.
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

/// What decides which files the words of a command line name.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    /// The directory that relative paths are resolved against.
    pub base: &'a Path,
    /// The value of `PATH`.
    pub search: Option<&'a OsStr>,
    /// The home directory, for `~` in texts that a shell reads.
    pub home: Option<&'a Path>,
}

/// A command line, with the texts in it divided into words.
pub struct CommandLine<'a> {
    lookup: Lookup<'a>,
    /// The file that is started.
    executable: Option<PathBuf>,
    words: Vec<String>,
    /// The directories that the words may be relative to.
    bases: Vec<PathBuf>,
}

/// A program that is run by an interpreter.
pub struct Script {
    /// A file, or a directory that contains the program.
    pub path: PathBuf,
    /// What runs it, as it is named on the command line or in the first line of the script.
    interpreter: String,
    /// What the interpreter may load in addition.
    pub neighbors: Neighbors,
}

/// Whether an interpreter may load files that are next to its script, although `PYTHONSAFEPATH` is set.
#[derive(Debug, PartialEq, Eq)]
pub enum Neighbors {
    /// It loads only files that the script names.
    Ignored,
    /// It may load such files, for this reason.
    Loaded(String),
    /// This Python ignores them if its version is at least [`SAFE_PYTHON`].
    DependsOnVersion(PathBuf),
}

impl<'a> CommandLine<'a> {
    /// Divides a command and its arguments into words.
    pub fn new(command: &str, args: &[String], lookup: Lookup<'a>) -> Self {
        let executable = executable(command, lookup);
        let mut words = vec![command.to_owned()];
        words.extend(args.iter().flat_map(|arg| words_of(arg)));
        // A shell script names the program that it starts.
        if let Some(script) = executable.as_deref().and_then(shell_script) {
            let named = script.lines().filter(|line| !line.starts_with('#')).flat_map(words_of);
            words.push(END.to_owned());
            words.extend(named.filter(|word| may_name_code(word)));
        }
        let mut line = Self { lookup, executable, words, bases: vec![lookup.base.to_owned()] };
        line.bases.extend(line.named_dirs());
        line
    }

    /// The existing code that the command line names: its executable, the files (except data files) and Python modules
    /// (`-m`) in its arguments, and the directories from which these load more code.
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

    /// Whether Python is told to run a module.
    pub fn runs_module(&self) -> bool {
        self.after("-m").next().is_some()
    }

    /// Whether the command is an interpreter, other than a shell, that runs a file or directory.
    pub fn is_interpreted(&self) -> bool {
        self.run_by(0).is_some() && !self.is_wrapper()
    }

    /// The directories that the words may be relative to: that of the lookup, and those that the command changes to.
    pub fn bases(&self) -> &[PathBuf] {
        &self.bases
    }

    /// What interpreters run: after the name of an interpreter, the first argument that names an existing file or
    /// directory, and is neither an option nor the subcommand `run`. A script that is started directly is run by the
    /// interpreter that its first line names.
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

    /// What the interpreter runs whose name is the word at `index`.
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

    /// Whether the command runs another command.
    fn is_wrapper(&self) -> bool {
        self.words.first().is_some_and(|word| is_one_of(word, &WRAPPERS) || is_one_of(word, &SHELLS))
    }

    /// The places that a word may name.
    fn paths<'b>(&'b self, word: &'b str) -> impl Iterator<Item = PathBuf> + 'b {
        let below_home = ["~/", "$HOME/", "${HOME}/"].iter().find_map(|home| word.strip_prefix(home));
        let home = self.lookup.home.filter(|_| below_home.is_some());
        let in_home = home.map(|home| home.join(below_home.unwrap_or_default()));
        let elsewhere = self.bases.iter().filter(move |_| home.is_none()).map(move |base| base.join(word));
        in_home.into_iter().chain(elsewhere)
    }

    /// The directories that the command changes to, or that an option names as the directory of the program.
    fn named_dirs(&self) -> Vec<PathBuf> {
        let joined = self.words.iter().filter_map(|word| word.split_once('='));
        let joined = joined.filter(|(option, _)| DIR_OPTIONS.contains(option)).map(|(_, dir)| dir);
        let dirs = joined.chain(DIR_OPTIONS.iter().flat_map(|option| self.after(option)));
        dirs.flat_map(|dir| self.paths(dir).collect::<Vec<_>>()).filter(|dir| dir.is_dir()).collect()
    }

    /// The words that follow this word.
    fn after<'b>(&'b self, option: &'b str) -> impl Iterator<Item = &'b str> + 'b {
        let pairs = self.words.iter().zip(self.words.iter().skip(1));
        pairs.filter(move |(word, _)| *word == option).map(|(_, next)| next.as_str())
    }
}

/// The words of an argument. An argument without spaces is one word.
fn words_of(arg: &str) -> Vec<String> {
    let separators = [' ', '\t', '\n', ';', '"', '\'', '&', '|', '(', ')', '`'];
    if !arg.contains([' ', '\t', '\n']) {
        return vec![arg.to_owned()];
    }
    arg.split(separators).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Whether a word of a script may name code, or what runs code. Other words are not looked up, because an agent could
/// create files with these names.
fn may_name_code(word: &str) -> bool {
    word.contains(['/', '.']) || is_one_of(word, &INTERPRETERS) || DIR_OPTIONS.contains(&word) || word == "-m"
}

/// The file that a command starts.
fn executable(command: &str, lookup: Lookup<'_>) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(lookup.base.join(command));
    }
    let dirs = std::env::split_paths(lookup.search?).map(|dir| lookup.base.join(dir).join(command));
    dirs.into_iter().find(|path| path.is_file())
}

/// The first line of a script that names its interpreter, without `#!`.
fn first_line(path: &Path) -> Option<String> {
    let text = read_start(path, 512)?;
    Some(text.strip_prefix("#!")?.lines().next()?.trim().to_owned())
}

/// The text of a shell script.
fn shell_script(path: &Path) -> Option<String> {
    let line = first_line(path)?;
    is_one_of(shebang(&line).0, &SHELLS).then(|| read_start(path, MAX_SCRIPT)).flatten()
}

fn read_start(path: &Path, limit: u64) -> Option<String> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The interpreter that a line after `#!` names, and its options.
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

/// The minor version of a Python 3, if the name of its executable contains it.
fn python_version(executable: &Path) -> Option<u32> {
    let real = althing_disk::real_path(executable);
    minor_version(&real.file_name()?.to_string_lossy())
}

/// The minor version in `python3.13` or `Python 3.13.1`.
pub fn minor_version(text: &str) -> Option<u32> {
    let digits = text.split_once("3.")?.1;
    digits.split(|end: char| !end.is_ascii_digit()).next()?.parse().ok()
}

/// Whether a command is one of these programs. A version at the end of the name is ignored: `python3.13`.
pub fn is_one_of(command: &str, programs: &[&str]) -> bool {
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
