//! The files that a command in a git config may name. A shell can build names in any way, so the command is not
//! parsed: a file counts as named if every component of its path occurs somewhere in the command.

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
    pub(super) has_interpreter: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: Vec<u8>,
    prefix: Prefix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
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
        let text: Vec<u8> = command.iter().copied().filter(|byte| !b"\\'\"".contains(byte)).collect();
        let names = names(&text);
        let has_interpreter = INTERPRETERS.iter().any(|name| names.contains(name.as_bytes()))
            || names.iter().any(|name| name.starts_with(b"python"));
        let mentions =
            Self { words: words(&text), searched_dirs: searched_dirs(&text), has_interpreter, names };
        (mentions.names.len() <= MAX_NAMES).then_some(mentions)
    }
}

impl Word {
    pub(super) fn path(&self, top: &Path, home: Option<&Path>) -> Option<PathBuf> {
        if !self.text.contains(&b'/') {
            return None;
        }
        let text = Path::new(OsStr::from_bytes(&self.text));
        match (self.prefix, home) {
            (Prefix::Home, Some(home)) => Some(home.join(without_root(text))),
            (Prefix::Unknown | Prefix::Home, _) => Some(top.join(without_root(text))),
            (Prefix::None, _) => Some(top.join(super::config::expanded(&self.text, home))),
        }
    }
}

fn without_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// The paths that the words of a command may name if it is run in `top`; none if the command is too long or contains
/// too many names.
pub(crate) fn paths_in_command(command: &[u8], top: &Path) -> Vec<PathBuf> {
    let words = Mentions::of(command).map(|mentions| mentions.words).unwrap_or_default();
    let path = |word: &Word| word.path(top, None).unwrap_or_else(|| top.join(OsStr::from_bytes(&word.text)));
    words.iter().map(path).collect()
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
