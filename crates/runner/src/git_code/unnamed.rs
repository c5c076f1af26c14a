//! Programs that run files which their command lines do not name. The lists are for settings of CLI agents; git's
//! configs seldom name such programs.

use super::command::Mentions;

const RUNS_PARTS: &[u8] = b"run-parts";
/// Words with which a command begins that runs the files of a directory.
const DIRECTORY_READERS: [&str; 6] = ["run-parts", "find", "fd", "xargs", "parallel", "for"];
/// Programs that build and run a whole project, or run its tests.
const BUILDERS: [&str; 28] = [
    "cargo",
    "go",
    "dotnet",
    "gradle",
    "gradlew",
    "mvn",
    "mvnw",
    "bazel",
    "swift",
    "zig",
    "mix",
    "sbt",
    "pytest",
    "py.test",
    "tox",
    "nox",
    "nose2",
    "unittest",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "playwright",
    "rspec",
    "phpunit",
    "prove",
    "ninja",
    "cmake",
];
/// Runtimes whose command `test` runs all tests.
const TESTERS: [&str; 2] = ["bun", "deno"];
/// Arguments with which they run no code of the project.
const FORMATTERS: [&str; 3] = ["fmt", "format", "--version"];
const NODE: [&str; 7] = [
    "package.json",
    ".npmrc",
    ".yarnrc.yml",
    ".pnp.cjs",
    ".pnpmfile.cjs",
    "bunfig.toml",
    "node_modules/.bin",
];
const PYTHON: [&str; 6] = ["pyproject.toml", "uv.lock", "uv.toml", "poetry.lock", "Pipfile", ".venv/bin"];

/// Programs with the files, in the directory where they are started, that say what they run.
const PACKAGE_RUNNERS: [(&[&str], &[&str]); 8] = [
    (&["npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx"], &NODE),
    (&["uv", "uvx", "poetry", "pipenv", "pdm", "hatch", "rye"], &PYTHON),
    (&["make", "gmake"], &["Makefile", "makefile", "GNUmakefile"]),
    (&["just"], &["justfile", ".justfile", "Justfile"]),
    (&["task"], &["Taskfile.yml", "Taskfile.yaml"]),
    (&["deno"], &["deno.json", "deno.jsonc"]),
    (&["bundle", "rake"], &["Gemfile", "Gemfile.lock", "Rakefile"]),
    (&["nix", "nix-shell"], &["flake.nix", "shell.nix", "default.nix"]),
];

fn starts_any(mentions: &Mentions, names: &[&str]) -> bool {
    names.iter().any(|name| mentions.programs.contains(name.as_bytes()))
}

/// Whether a command runs the files of the directories that it names.
pub(super) fn reads_directories(mentions: &Mentions, is_thorough: bool) -> bool {
    mentions.programs.contains(RUNS_PARTS) || (is_thorough && starts_any(mentions, &DIRECTORY_READERS))
}

fn has_node(mentions: &Mentions) -> bool {
    starts_any(mentions, &["node", "nodejs"])
}

/// Whether any file may be part of what a command builds and runs.
pub(super) fn runs_everything(mentions: &Mentions) -> bool {
    let is_builder = |text: &[u8]| BUILDERS.iter().any(|builder| builder.as_bytes() == text);
    let is_harmless = |text: &[u8]| FORMATTERS.iter().any(|name| name.as_bytes() == text);
    let mut next = mentions.words.iter().skip(1).map(|word| word.text.as_slice());
    let mut words = mentions.words.iter().map(|word| word.text.as_slice());
    let runs = |word: &[u8], next: Option<&[u8]>| is_builder(word) && !next.is_some_and(is_harmless);
    let all: Vec<&[u8]> = words.clone().collect();
    let has_python =
        mentions.programs.iter().any(|name| name.starts_with(b"python") || name.starts_with(b"pypy"));
    let is_tester = |word: &[u8]| TESTERS.iter().any(|name| name.as_bytes() == word);
    let runs_all = |pair: &[&[u8]]| match pair {
        [b"-m", module] => has_python && is_builder(module),
        [program, b"test"] => is_tester(program),
        _ => false,
    };
    all.windows(2).any(runs_all)
        || (has_node(mentions) && all.contains(&b"--test".as_slice()))
        || (starts_any(mentions, &BUILDERS) && words.any(|word| runs(word, next.next())))
}

pub(super) fn files_of_package_runners(mentions: &Mentions) -> impl Iterator<Item = &'static str> {
    let used = PACKAGE_RUNNERS.iter().filter(|(programs, _)| starts_any(mentions, programs));
    used.flat_map(|(_, files)| files.iter().copied())
}
