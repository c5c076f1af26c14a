//! The files that a command may name. A shell can build names in any way, so the command is not
//! parsed: a file counts as named if every component of its path occurs somewhere in the command.

use super::directories::{RunDirectories, RunDirectory, run_directories};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A command of more bytes is not examined.
const MAX_BYTES: usize = 16 << 10;
const MAX_NAMES: usize = 5_000;
const MAX_PIECES: usize = 10;

/// Programs that also find a file without its extension, or a file of a certain name in a directory.
const INTERPRETERS: [&str; 22] = [
    "bun", "bunx", "deno", "dotnet", "go", "java", "lua", "luajit", "node", "nodejs", "npm", "npx", "perl",
    "php", "pnpm", "pypy", "pypy3", "ruby", "ts-node", "tsx", "yarn", "uv",
];
/// Words before the name of a program.
pub(super) const PREFIXES: [&str; 16] = [
    "!", "command", "do", "doas", "else", "env", "exec", "if", "nice", "nohup", "setsid", "sudo", "then",
    "time", "until", "while",
];
/// Programs whose arguments begin with the name of another program.
const WRAPPERS: [&str; 24] = [
    "npx", "bunx", "pnpx", "pnpm", "yarn", "npm", "bun", "uv", "uvx", "poetry", "pipenv", "pdm", "hatch",
    "rye", "bundle", "coverage", "timeout", "xargs", "sh", "bash", "zsh", "dash", "ksh", "fish",
];
/// The number of a wrapper's arguments that may be the name of the program.
const MAX_WRAPPED: usize = 3;
/// Modules that Python imports when it starts, if they are in a directory of `PYTHONPATH`.
const START_MODULES: [&str; 2] = ["sitecustomize", "usercustomize"];
pub(super) const EXTENSIONS: [&str; 16] = [
    ".js", ".mjs", ".cjs", ".json", ".node", ".ts", ".mts", ".py", ".pyc", ".rb", ".pl", ".pm", ".php",
    ".lua", ".jar", ".class",
];
/// The files that an [interpreter](INTERPRETERS) runs if it is given their directory.
pub(super) const ENTRY_FILES: [&str; 9] = [
    "index.js",
    "index.mjs",
    "index.cjs",
    "index.ts",
    "package.json",
    "__main__.py",
    "__init__.py",
    "main.go",
    "go.mod",
];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Mentions {
    pub(super) words: Vec<Word>,
    /// Everything that may be the name of a file or directory, in lower case.
    pub(super) names: BTreeSet<Vec<u8>>,
    pub(super) searched_dirs: BTreeSet<Vec<u8>>,
    pub(super) patterns: BTreeSet<Pattern>,
    /// The directories of which any file may run.
    pub(super) run_directories: Vec<RunDirectory>,
    /// The names of the programs that the command starts: the first word of each line and of each part of a line.
    pub(super) programs: BTreeSet<Vec<u8>>,
    pub(super) has_interpreter: bool,
}

/// A pattern for names of files, such as `*.sh`, in lower case: the texts before the first and after the last special
/// character. A pattern without such texts (`*`) is left out.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern {
    start: Vec<u8>,
    end: Vec<u8>,
}

impl Pattern {
    fn of(name: &[u8]) -> Option<Self> {
        let is_special = |byte: &u8| b"*?[]".contains(byte);
        let (first, last) = (name.iter().position(is_special)?, name.iter().rposition(is_special)?);
        Self::between(name.get(..first)?, name.get(last + 1..)?)
    }

    pub(super) fn between(start: &[u8], end: &[u8]) -> Option<Self> {
        let (start, end) = (start.to_ascii_lowercase(), end.to_ascii_lowercase());
        (!start.is_empty() || !end.is_empty()).then_some(Self { start, end })
    }

    pub(super) fn matches(&self, name: &[u8]) -> bool {
        name.len() >= self.start.len() + self.end.len()
            && name.starts_with(&self.start)
            && name.ends_with(&self.end)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: Vec<u8>,
    pub(super) prefix: Prefix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    None,
    Home,
    /// Anything else, usually the top directory of the repository.
    Unknown,
}

impl Mentions {
    pub(super) fn of(command: &[u8]) -> Option<Self> {
        if command.len() > MAX_BYTES {
            return None;
        }
        // A shell removes quotes and backslashes.
        let mut text: Vec<u8> = command.iter().copied().filter(|byte| !b"\\'\"".contains(byte)).collect();
        // It also joins lines that end with a backslash; for other programs, the backslash may mean nothing.
        if let Some(joined) = joined_lines(command) {
            text.push(b'\n');
            text.extend(joined.into_iter().filter(|byte| !b"\\'\"".contains(byte)));
        }
        let mut names = names(&text);
        if names.iter().any(|name| name.starts_with(b"python")) {
            names.extend(START_MODULES.iter().map(|name| name.as_bytes().to_vec()));
        }
        let has_interpreter = INTERPRETERS.iter().any(|name| names.contains(name.as_bytes()))
            || names.iter().any(|name| name.starts_with(b"python"));
        let words = words(&text);
        let last_name = |word: &Word| Pattern::of(word.text.rsplit(|byte| *byte == b'/').next()?);
        let mut patterns: BTreeSet<Pattern> = words.iter().filter_map(last_name).collect();
        let (searched_dirs, programs) = (searched_dirs(&text), programs(&text));
        let RunDirectories { dirs: run_directories, patterns: more } = run_directories(&text);
        patterns.extend(more);
        let mentions =
            Self { words, names, searched_dirs, patterns, run_directories, programs, has_interpreter };
        (mentions.names.len() <= MAX_NAMES).then_some(mentions)
    }
}

/// The command without the line ends that follow a backslash; `None` if there are none.
fn joined_lines(command: &[u8]) -> Option<Vec<u8>> {
    let mut rest = command;
    let mut joined = Vec::new();
    while let Some(at) = rest.windows(2).position(|two| two == b"\\\n") {
        joined.extend(rest.get(..at)?);
        rest = rest.get(at + 2..)?;
    }
    (rest.len() < command.len()).then(|| [joined.as_slice(), rest].concat())
}

impl Word {
    pub(super) fn path(&self, top: &Path, home: Option<&Path>) -> Option<PathBuf> {
        if !self.text.contains(&b'/') && self.text != b".." {
            return None;
        }
        Some(self.place(top, home))
    }

    /// The path, also if the word does not look like one.
    pub(super) fn place(&self, top: &Path, home: Option<&Path>) -> PathBuf {
        let text = Path::new(OsStr::from_bytes(&self.text));
        match (self.prefix, home) {
            (Prefix::Home, Some(home)) => home.join(without_root(text)),
            (Prefix::Unknown | Prefix::Home, _) => top.join(without_root(text)),
            (Prefix::None, _) => top.join(super::config::expanded(&self.text, home)),
        }
    }
}

fn without_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Splits a command at white space and at punctuation that can be next to a path, such as `;`, `$` and `=`.
fn words(text: &[u8]) -> Vec<Word> {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b";&|<>(){}`$=,:!".contains(byte);
    let (mut words, mut start, mut before, mut last) = (Vec::new(), 0, 0, Vec::new());
    for (at, byte) in text.iter().copied().chain([b' ']).enumerate() {
        if !is_end(&byte) {
            continue;
        }
        let word = text.get(start..at).unwrap_or_default();
        let (mut word, mut prefix) = (word.to_vec(), Prefix::None);
        if before == b'$' {
            // `$HOME/x`: the variable ends at the slash.
            let slash = word.iter().position(|byte| *byte == b'/').unwrap_or(word.len());
            let path = word.split_off(slash);
            prefix = if word == b"HOME" { Prefix::Home } else { Prefix::Unknown };
            last = std::mem::replace(&mut word, path);
        } else if b")}`".contains(&before) && word.starts_with(b"/") {
            prefix = if before == b'}' && last == b"HOME" { Prefix::Home } else { Prefix::Unknown };
        }
        if !word.is_empty() {
            last.clone_from(&word);
            words.push(Word { text: word, prefix });
        }
        (start, before) = (at + 1, byte);
    }
    words
}

/// Everything that may be a name: each run of letters, digits and certain other characters, and each sequence of up
/// to [`MAX_PIECES`] such runs with the characters between them.
fn names(text: &[u8]) -> BTreeSet<Vec<u8>> {
    let is_piece = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80 || b"_-+@%~".contains(byte);
    let mut names = BTreeSet::new();
    for part in text.split(|byte| b"/\n;&|<>`$".contains(byte)) {
        let mut pieces: Vec<(usize, usize)> = Vec::new();
        for (at, byte) in part.iter().enumerate() {
            match pieces.last_mut() {
                Some((_, end)) if is_piece(byte) && *end == at => *end = at + 1,
                _ if is_piece(byte) => pieces.push((at, at + 1)),
                _ => {}
            }
        }
        for (first, (start, _)) in pieces.iter().enumerate() {
            let is_hidden = start.checked_sub(1).and_then(|before| part.get(before)) == Some(&b'.');
            // The value of an option may follow its letter: `-xtools/c.sh`.
            let option = part.get(*start) == Some(&b'-');
            let starts = [Some(*start), is_hidden.then(|| start - 1), option.then_some(start + 2)];
            for (_, end) in pieces.iter().skip(first).take(MAX_PIECES) {
                for start in starts.into_iter().flatten() {
                    let name = part.get(start..*end).filter(|name| !name.is_empty() && name.len() <= 255);
                    names.extend(name.map(<[u8]>::to_ascii_lowercase));
                }
                // Also a name that ends with a space or another character, as the quoted name `"a "`.
                let longer = part.get(*start..end + 1).filter(|name| name.len() <= 255);
                names.extend(longer.map(<[u8]>::to_ascii_lowercase));
            }
            if names.len() > MAX_NAMES {
                return names;
            }
        }
    }
    names
}

fn programs(text: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    for part in text.split(|byte| b";&|(){}`\n".contains(byte)) {
        let mut wrapped = 0;
        for word in part.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
            let name = word.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let is = |names: &[&str]| names.iter().any(|known| known.as_bytes() == name);
            let is_prefix = name.contains(&b'=') || is(&PREFIXES) || (wrapped > 0 && word.starts_with(b"-"));
            if is(&WRAPPERS) {
                wrapped = MAX_WRAPPED + 1;
            }
            found.insert(name.to_vec());
            if !is_prefix && wrapped <= 1 {
                break;
            }
            wrapped -= usize::from(!is_prefix);
        }
    }
    found
}

fn searched_dirs(text: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    for word in text.split(|byte| byte.is_ascii_whitespace() || b";&|<>(){}`$=,:!".contains(byte)) {
        let parts: Vec<&[u8]> = word.split(|byte| *byte == b'/').collect();
        for pair in parts.windows(2) {
            if let [dir, pattern] = pair
                && pattern.iter().any(|byte| b"*?[".contains(byte))
            {
                found.insert(dir.to_ascii_lowercase());
            }
        }
    }
    found.remove(b"".as_slice());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str) -> Mentions {
        Mentions::of(command.as_bytes()).unwrap()
    }

    #[test]
    fn everything_that_may_be_a_name_is_found() {
        for (command, expected) in [
            ("$PWD/tools/a.sh", &["tools", "a.sh"] as &[&str]),
            ("sh fsm", &["fsm"]),
            ("cd tools && ./e.sh", &["tools", "e.sh"]),
            ("'my tools/x y' -w", &["my tools", "x y"]),
            ("my\\ tools/to\"\"ols.sh", &["my tools", "tools.sh"]),
            ("PATH=bin:$PATH run", &["bin", "run"]),
            ("rebase -x ./tools/c.sh HEAD~1", &["tools", "c.sh"]),
            ("-xtools/c.sh", &["tools", "c.sh"]),
            ("-c core.fsmonitor=tools/d.sh status", &["tools", "d.sh"]),
            ("python3 -m tools.fsm", &["tools", "fsm"]),
            (".ci/.run", &[".ci", ".run"]),
            ("sh to\\\nols/\\\\\nx.sh", &["tools", "x.sh"]),
            ("C:\\\nx.sh", &["x.sh"]),
            ("sh -c '. ./Lib.SH; f'", &["lib.sh"]),
        ] {
            let found = of(command).names;
            for name in expected {
                assert!(found.contains(name.as_bytes()), "{command}: {name} in {found:?}");
            }
        }
        assert!(!of("tools/aa.sh").names.contains(b"a.sh".as_slice()));
        assert!(of("node tools/drv").has_interpreter && of("python3.12 x").has_interpreter);
        assert!(!of("sh node_modules/x").has_interpreter);
        assert!(of("sh tools/*.sh").searched_dirs.contains(b"tools".as_slice()));
        assert_eq!(Mentions::of(&vec![b'x'; MAX_BYTES + 1]), None);
        assert_eq!(Mentions::of(&b"a b ".repeat(2_000)).map(|found| found.names.len() < 100), Some(true));
    }

    #[test]
    fn words_that_are_written_as_paths_start_where_a_shell_lets_them_start() {
        let (top, home) = (Path::new("/top"), Path::new("/home/u"));
        for (command, expected) in [
            ("./x -a", &["/top/./x"] as &[&str]),
            ("/usr/bin/x ~/y", &["/usr/bin/x", "/home/u/y"]),
            ("$PWD/tools/x", &["/top/tools/x"]),
            ("$HOME/tools/x ${HOME}/y", &["/home/u/tools/x", "/home/u/y"]),
            ("$(git rev-parse --show-toplevel)/tools/x", &["/top/tools/x"]),
            ("${X:-y}/z `a`/b", &["/top/z", "/top/b"]),
            ("x=tools/a;b", &["/top/tools/a"]),
        ] {
            let found: Vec<PathBuf> =
                of(command).words.iter().filter_map(|word| word.path(top, Some(home))).collect();
            assert_eq!(found, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{command}");
        }
    }
}
