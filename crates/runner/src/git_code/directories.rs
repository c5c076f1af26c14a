//! The directories of which a command may run any file: those in which a pattern or a variable stands for a file or a
//! directory, and those that the command gives to an interpreter, which runs what a `package.json` in them names.

use super::command::{EXTENSIONS, Pattern, Prefix, Word};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Stands for the value of a variable or the output of a command.
const VALUE: u8 = 0;
/// Stands for the path of the home directory.
const HOME: u8 = 1;
/// Nested substitutions beyond this level are not examined.
const MAX_LEVEL: usize = 4;

/// Programs that run a file in a directory, if they are given the directory.
const INTERPRETERS: [&str; 12] =
    ["node", "nodejs", "bun", "deno", "tsx", "ts-node", "php", "ruby", "perl", "lua", "luajit", "babel-node"];
/// Programs that run a package in a directory, if they are given a path.
const PACKAGE_RUNNERS: [&str; 11] =
    ["npx", "bunx", "pnpx", "npm", "pnpm", "yarn", "uv", "uvx", "pipx", "poetry", "pip"];
const SHELLS: [&str; 8] = ["sh", "bash", "zsh", "dash", "ksh", "fish", "source", "."];
/// Arguments before the name of a script or package.
const SUBCOMMANDS: [&str; 8] = ["run", "exec", "x", "dlx", "start", "task", "tool", "install"];
/// Options whose value is a directory or a module.
const WITH_VALUE: [&str; 26] = [
    "-W",
    "-X",
    "-r",
    "--require",
    "--import",
    "--loader",
    "--experimental-loader",
    "--preload",
    "-p",
    "--package",
    "--prefix",
    "-C",
    "--dir",
    "--cwd",
    "--from",
    "--with",
    "--with-editable",
    "--spec",
    "--project",
    "--directory",
    "-w",
    "--workspace",
    "-e",
    "--editable",
    "-t",
    "--tsconfig",
];
/// Options after which an interpreter gets code or the name of a module instead of a file.
const WITH_CODE: [&str; 7] = ["-m", "-c", "-e", "-p", "--eval", "--print", "-E"];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunDirectory {
    pub(super) dir: Word,
    /// What follows in the path: a name with patterns or variables. `None` if any file in the directory may run.
    next: Option<Next>,
}

#[derive(Debug, PartialEq, Eq)]
struct Next {
    /// `None` if it stands for any name.
    pattern: Option<Pattern>,
    is_last: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RunDirectories {
    pub(super) dirs: Vec<RunDirectory>,
    /// Patterns for files in which variables count as well.
    pub(super) patterns: BTreeSet<Pattern>,
}

impl RunDirectory {
    /// The name of the directory in lower case.
    pub(super) fn name(&self) -> Option<Vec<u8>> {
        let name = Path::new(OsStr::from_bytes(&self.dir.text)).file_name()?;
        Some(name.as_bytes().to_ascii_lowercase())
    }

    /// Whether every file of the directory may run: a pattern for the files directly in it names less.
    pub(super) fn is_whole(&self) -> bool {
        self.next.as_ref().is_none_or(|next| next.pattern.is_none() || !next.is_last)
    }

    /// Whether a file in the directory `other` may run if this directory is `path`.
    pub(super) fn leads_to(&self, path: &Path, other: &Path) -> bool {
        let Ok(below) = other.strip_prefix(path) else { return false };
        let (Some(name), Some(next)) = (below.iter().next(), &self.next) else { return true };
        let is_match = |pattern: &Pattern| pattern.matches(&name.as_bytes().to_ascii_lowercase());
        !next.is_last && next.pattern.as_ref().is_none_or(is_match)
    }
}

/// `text` is a command without quotes and backslashes.
pub(super) fn run_directories(text: &[u8]) -> RunDirectories {
    let mut found = RunDirectories::default();
    for command in commands(text, 0) {
        for word in &command {
            // A list such as that of `PATH` has colons; an address has them, too.
            let ends: &[u8] = if word.windows(3).any(|part| part == b"://") { b"=" } else { b"=:" };
            for part in word.split(|byte| ends.contains(byte)).filter(|part| part.contains(&b'/')) {
                found.add_pattern(part);
            }
        }
        // The program may follow another one: `sh -c 'node .'`.
        let mut rest = command.as_slice();
        let mut is_in_shell = false;
        while let Some((word, after)) = rest.split_first() {
            // A variable alone is the path of a file, whose name the command must get from somewhere.
            if is_in_shell && !word.contains(&b'/') && word.as_slice() != [VALUE] {
                found.add_pattern(word);
            }
            let program = file_name(word);
            is_in_shell |= is_shell(program) || is_interpreter(program);
            found.add_arguments(program, after.iter());
            rest = after;
        }
    }
    found.add_programs_on_lines(text);
    found
}

impl RunDirectories {
    /// In settings, a program and its arguments are on lines of their own. If lines are before that of the program,
    /// they may be its arguments, too.
    fn add_programs_on_lines(&mut self, text: &[u8]) {
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        for (at, line) in lines.iter().enumerate() {
            let words = words_in(line);
            let [word] = words.as_slice() else { continue };
            let Some((before, [_, after @ ..])) = lines.split_at_checked(at) else { continue };
            let program = file_name(word);
            let after: Vec<Vec<u8>> = after.iter().flat_map(|line| words_in(line)).collect();
            self.add_arguments(program, after.iter());
            if is_interpreter(program) {
                let before: Vec<Vec<u8>> = before.iter().flat_map(|line| words_in(line)).collect();
                for word in &before {
                    self.add(word);
                }
            }
        }
    }

    fn add_arguments<'a>(&mut self, program: &[u8], arguments: impl Iterator<Item = &'a Vec<u8>>) {
        let is_runner = is_one_of(program, &PACKAGE_RUNNERS);
        if !is_runner && !is_interpreter(program) {
            return;
        }
        let mut option: Option<&[u8]> = None;
        for word in arguments {
            if word.starts_with(b"-") {
                if !is_runner && is_one_of(word, &WITH_CODE) {
                    return;
                }
                let value = word.iter().position(|byte| *byte == b'=').and_then(|at| word.get(at + 1..));
                if let Some(value) = value {
                    self.add(value);
                }
                option = value.is_none().then_some(word);
                continue;
            }
            let is_value = option.is_some_and(|option| is_one_of(option, &WITH_VALUE));
            let is_path = word.first().is_some_and(|first| [b'.', b'/', b'~', VALUE, HOME].contains(first));
            if !is_runner || is_value || is_path {
                self.add(word);
            }
            let is_script = EXTENSIONS.iter().any(|extension| word.ends_with(extension.as_bytes()));
            let may_be_value = is_value || (option.is_some() && !is_script && has_unknown_options(program));
            if !may_be_value && !is_one_of(word, &SUBCOMMANDS) {
                return;
            }
            option = None;
        }
    }

    fn add(&mut self, word: &[u8]) {
        let (prefix, text) = without_prefix(word);
        if !is_special(text) {
            self.dirs.push(RunDirectory { dir: Word { text: text.to_vec(), prefix }, next: None });
        }
    }

    fn add_pattern(&mut self, word: &[u8]) {
        let (prefix, text) = without_prefix(word);
        let mut start = 0;
        for name in text.split(|byte| *byte == b'/') {
            let end = start + name.len();
            if is_special(name) {
                let rest = text.get(end..).unwrap_or_default();
                let next = Next { pattern: pattern(name), is_last: rest.iter().all(|byte| *byte == b'/') };
                if next.is_last {
                    self.patterns.extend(pattern(name));
                }
                let text = text.get(..start).unwrap_or_default().to_vec();
                self.dirs.push(RunDirectory { dir: Word { text, prefix }, next: Some(next) });
                return;
            }
            start = end + 1;
        }
    }
}

/// A leading variable is taken for the top directory.
fn without_prefix(word: &[u8]) -> (Prefix, &[u8]) {
    match word.split_first() {
        Some((&HOME, rest)) if rest.first().is_none_or(|byte| *byte == b'/') => (Prefix::Home, rest),
        Some((&VALUE, rest)) if rest.first().is_none_or(|byte| *byte == b'/') => (Prefix::Unknown, rest),
        _ => (Prefix::None, word),
    }
}

/// What follows the path of the home directory in a word.
pub(super) fn without_home(word: &[u8]) -> Option<&Path> {
    let below = word.strip_prefix(&[HOME]).and_then(|below| below.strip_prefix(b"/"));
    below.map(|below| Path::new(OsStr::from_bytes(below)))
}

/// Whether a name contains a pattern, a variable or alternatives in braces.
fn is_special(name: &[u8]) -> bool {
    special(name).is_some()
}

/// The positions of the first and last special characters in a name.
fn special(name: &[u8]) -> Option<(usize, usize)> {
    let open = name.iter().position(|byte| *byte == b'{');
    let close = name.iter().rposition(|byte| *byte == b'}');
    let braces = open.zip(close).filter(|(open, close)| {
        let inner = name.get(*open..*close).unwrap_or_default();
        // With a colon, it is more likely JSON.
        let is_list = inner.contains(&b',') || inner.windows(2).any(|two| two == b"..");
        is_list && !inner.contains(&b':')
    });
    let class = name.iter().position(|byte| *byte == b'[');
    // `[` alone is a command.
    let class =
        class.zip(name.iter().rposition(|byte| *byte == b']')).filter(|(open, close)| open + 1 < *close);
    let is_in_class = |at: usize| class.is_some_and(|(open, close)| at == open || at == close);
    let is_pattern = |(at, byte): (usize, &u8)| [b'*', b'?', VALUE, HOME].contains(byte) || is_in_class(at);
    let first = name.iter().enumerate().position(is_pattern);
    let pattern = first.zip(name.iter().enumerate().rposition(is_pattern));
    match (braces, pattern) {
        (Some(braces), Some(pattern)) => Some((braces.0.min(pattern.0), braces.1.max(pattern.1))),
        (braces, pattern) => braces.or(pattern),
    }
}

fn pattern(name: &[u8]) -> Option<Pattern> {
    let (first, last) = special(name)?;
    Pattern::between(name.get(..first)?, name.get(last + 1..)?)
}

fn file_name(word: &[u8]) -> &[u8] {
    word.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn is_one_of(word: &[u8], known: &[&str]) -> bool {
    known.iter().any(|known| known.as_bytes() == word)
}

pub(super) fn is_shell(program: &[u8]) -> bool {
    is_one_of(program, &SHELLS)
}

pub(super) fn is_interpreter(program: &[u8]) -> bool {
    is_one_of(program, &INTERPRETERS) || is_python(program)
}

fn is_python(program: &[u8]) -> bool {
    program.starts_with(b"python") || program.starts_with(b"pypy")
}

/// Whether the word after an option that is not in [`WITH_VALUE`] may be its value.
fn has_unknown_options(program: &[u8]) -> bool {
    is_interpreter(program) && !is_python(program) && !is_one_of(program, &["bun", "deno"])
}

/// The words of a line of settings, without the punctuation between them and the names of keys.
fn words_in(line: &[u8]) -> Vec<Vec<u8>> {
    let is_word = |word: &Vec<u8>| {
        word.iter().any(|byte| !b"[],{}:".contains(byte)) && !is_one_of(word, &["args", "command"])
    };
    commands(line, 0).into_iter().flatten().filter(is_word).collect()
}

/// Splits a text into commands, and these into words. The value of a variable and the output of a command count as one
/// byte; a command inside `$(…)` or backquotes is a command of its own.
pub(super) fn commands(text: &[u8], level: usize) -> Vec<Vec<Vec<u8>>> {
    let (mut all, mut command, mut word) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let end_word = |word: &mut Vec<u8>, command: &mut Vec<Vec<u8>>| {
            if !word.is_empty() {
                command.push(std::mem::take(word));
            }
        };
        match (byte, after.first()) {
            (b'`', _) | (b'$', Some(b'(' | b'{')) => {
                let (inner, tail) = if byte == b'`' { until(after, b'`', b'`') } else { in_brackets(after) };
                rest = tail;
                word.push(if byte == b'$' && inner == b"HOME" { HOME } else { VALUE });
                if level < MAX_LEVEL && (byte == b'`' || after.first() == Some(&b'(')) {
                    all.extend(commands(inner, level + 1));
                }
            }
            (b'$', Some(first)) if first.is_ascii_alphanumeric() || b"_@*#?!-$".contains(first) => {
                let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let end = after.iter().position(|byte| !is_name(byte)).unwrap_or(after.len()).max(1);
                let (name, tail) = after.split_at_checked(end).unwrap_or((after, b""));
                rest = tail;
                word.push(if name == b"HOME" { HOME } else { VALUE });
            }
            (b';' | b'&' | b'|' | b'(' | b')' | b'\n', _) => {
                end_word(&mut word, &mut command);
                if !command.is_empty() {
                    all.push(std::mem::take(&mut command));
                }
            }
            (b'<' | b'>', _) => end_word(&mut word, &mut command),
            _ if byte.is_ascii_whitespace() => end_word(&mut word, &mut command),
            _ => word.push(byte),
        }
    }
    command.extend(Some(word).filter(|word| !word.is_empty()));
    all.extend(Some(command).filter(|command| !command.is_empty()));
    all
}

/// The text in the brackets with which `text` begins, and what follows them.
fn in_brackets(text: &[u8]) -> (&[u8], &[u8]) {
    match text.split_first() {
        Some((b'(', inner)) => until(inner, b'(', b')'),
        Some((b'{', inner)) => until(inner, b'{', b'}'),
        _ => (b"", text),
    }
}

fn until(text: &[u8], open: u8, close: u8) -> (&[u8], &[u8]) {
    let mut depth = 1;
    for (at, byte) in text.iter().enumerate() {
        if *byte == close {
            depth -= 1;
        } else if *byte == open {
            depth += 1;
        }
        if depth == 0 {
            return (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
        }
    }
    (text, b"")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directories with what follows: `*` for any file, otherwise the texts around the pattern.
    fn of(command: &str) -> Vec<String> {
        let found = run_directories(command.as_bytes());
        let shown = |dir: &RunDirectory| {
            let prefix = match dir.dir.prefix {
                Prefix::None => "",
                Prefix::Home => "~",
                Prefix::Unknown => "$",
            };
            let whole = if dir.is_whole() { "" } else { " (pattern)" };
            format!("{prefix}{}{whole}", String::from_utf8_lossy(&dir.dir.text))
        };
        found.dirs.iter().map(shown).collect()
    }

    #[test]
    fn a_directory_is_found_if_any_file_in_it_may_run() {
        for (command, expected) in [
            ("sh t*/a*", &[""] as &[&str]),
            ("sh tools/*/a.sh", &["tools/"]),
            ("sh tools/*.sh", &["tools/ (pattern)"]),
            ("for d in */hooks; do for f in $d/*; do sh $f; done; done", &["", "$/"]),
            ("sh tools/a.$E", &["tools/ (pattern)"]),
            ("sh $D/$F", &["$/"]),
            ("sh $HOME/x/$(date)/y ${HOME}/z/{a,b}/c", &["~/x/", "~/z/"]),
            ("sh *", &[""]),
            ("sh $(dirname x)ls/a.sh", &[""]),
            ("$CLAUDE_PROJECT_DIR/tools/line.sh; echo {a:b/c,d:e} ${X%/*}; sh -c [ -f x ]", &[]),
            ("node ${PWD}", &["$"]),
            ("bash -lc node . && uv run python3 lib", &[".", "lib"]),
            ("node .", &["."]),
            ("node server", &["server"]),
            ("node --require ./x.js .", &["./x.js", "."]),
            ("node server.js .", &["server.js"]),
            ("node --inspect server.js .", &["server.js"]),
            ("node\nserver\n.", &["server"]),
            ("[\n.\n]\nnode", &["."]),
            ("node -e 1 .", &[]),
            ("cd x && exec python3 lib", &["lib"]),
            ("python3 -m http.server .", &[]),
            ("npx -y ./tools/pkg .", &["./tools/pkg"]),
            ("npx\n-y\n@a/server-files\n.", &[]),
            ("npm --prefix tools run x", &["tools"]),
            ("uvx --from=./srv x", &["./srv"]),
            ("deno run -A npm:x /y; curl http://localhost:*/x/y", &["run", "npm:x", "http://"]),
        ] {
            assert_eq!(of(command), expected, "{command}");
        }
    }

    #[test]
    fn a_directory_leads_only_where_its_pattern_does() {
        let leads = |command: &str, path: &str, other: &str| {
            run_directories(command.as_bytes())
                .dirs
                .iter()
                .any(|dir| dir.leads_to(Path::new(path), Path::new(other)))
        };
        assert!(leads("sh /home/*/a.sh", "/home", "/home/u") && leads("node ..", "/home", "/home/u"));
        assert!(leads("sh /h*/u/a.sh", "/", "/home/u") && leads("sh t*/x", "/top", "/top"));
        assert!(!leads("sed /foo.*/d", "/", "/home/u") && !leads("sh /home/*", "/home", "/home/u"));
    }
}
