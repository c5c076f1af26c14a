//! Checks of the whole tree, such as: allowed dependencies between crates, licenses, module headers, file sizes, where
//! processes are started, the tests that documents name, and links in the documents.
#![expect(clippy::disallowed_methods, reason = "it reads the source tree and runs cargo metadata")]
#![allow(clippy::unwrap_used, reason = "tests and their helpers fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The maximum length of a file in lines; files in directories named `tests` are exempt.
const MAX_LINES: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The Althing crates that each crate may depend on: in the product, and additionally in its tests.
fn allowed() -> BTreeMap<&'static str, (&'static [&'static str], &'static [&'static str])> {
    let leaf: &[&str] = &["althing-protocol", "althing-text", "althing-plan"];
    let front: &[&str] = &["althing-protocol", "althing-text", "althing-plan", "althing-view"];
    let on_disk: &[&str] = &["althing-protocol", "althing-text", "althing-plan", "althing-disk"];
    let kit: &[&str] = &["althing-testkit"];
    let below_app: &[&str] = &[
        "althing-protocol",
        "althing-text",
        "althing-plan",
        "althing-view",
        "althing-engine",
        "althing-llm",
        "althing-journal",
        "althing-workspace",
        "althing-config",
        "althing-runner",
        "althing-mcp",
        "althing-telemetry",
    ];
    let app = &[below_app, &["althing-disk"]].concat().leak()[..];
    let front_end = &[below_app, &["althing-app", "althing-tui"]].concat().leak()[..];
    BTreeMap::from([
        ("althing-protocol", (&[] as &[&str], &[] as &[&str])),
        ("althing-text", (&[], &[])),
        ("althing-plan", (&["althing-protocol"], &[])),
        ("althing-testkit", (leaf, &[])),
        ("althing-engine", (leaf, kit)),
        ("althing-llm", (leaf, kit)),
        ("althing-disk", (leaf, kit)),
        ("althing-journal", (on_disk, kit)),
        ("althing-workspace", (on_disk, kit)),
        ("althing-config", (leaf, kit)),
        ("althing-runner", (on_disk, kit)),
        ("althing-mcp", (leaf, kit)),
        ("althing-telemetry", (leaf, kit)),
        ("althing-tui", (front, &[])),
        ("althing-view", (leaf, kit)),
        ("althing-app", (app, kit)),
        ("althing", (front_end, kit)),
        (
            "althing-fuzzing",
            (
                &[
                    "althing-protocol",
                    "althing-llm",
                    "althing-disk",
                    "althing-journal",
                    "althing-workspace",
                    "althing-config",
                    "althing-runner",
                    "althing-mcp",
                    "althing-tui",
                ],
                &[],
            ),
        ),
        (
            "althing-bench",
            (
                &[
                    "althing-testkit",
                    "althing-engine",
                    "althing-journal",
                    "althing-workspace",
                    "althing-runner",
                    "althing-protocol",
                    "althing-text",
                ],
                &[],
            ),
        ),
    ])
}

#[test]
fn no_crate_depends_on_a_sibling() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let allowed = allowed();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() >= 7, "the whole workspace is checked");
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let (product, tests) = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} is missing in the table of allowed dependencies"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            let ours = other.starts_with("althing");
            let in_tests = dependency["kind"] == "dev";
            let fine = product.contains(&other) || (in_tests && tests.contains(&other));
            assert!(!ours || fine, "{name} must not depend on {other}");
        }
    }
}

/// Evaluates an SPDX license expression; `OR` has the lowest precedence.
fn any_of<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>, allowed: &[&str]) -> bool {
    let mut fine = all_of(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        fine |= all_of(words, allowed);
    }
    fine
}

fn all_of<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>, allowed: &[&str]) -> bool {
    let mut fine = true;
    loop {
        fine &= if words.next_if_eq(&"(").is_some() {
            let inside = any_of(&mut *words, allowed);
            words.next_if_eq(&")").is_some() && inside
        } else {
            words.next().is_some_and(|license| allowed.contains(&license))
        };
        // A license exception (`WITH …`) only grants additional permissions.
        if words.next_if_eq(&"WITH").is_some() {
            words.next();
        }
        if words.next_if_eq(&"AND").is_none() {
            return fine;
        }
    }
}

/// The part of `cargo deny check` that needs neither the network nor another program.
#[test]
fn everything_we_depend_on_is_licensed_and_comes_from_where_deny_toml_says() {
    let rules = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let list = rules.split("\nallow = [").nth(1).unwrap().split(']').next().unwrap();
    let allowed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    let banned: Vec<&str> =
        rules.split("{ name = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(allowed.contains(&"MIT") && banned.contains(&"openssl"), "{allowed:?} {banned:?}");
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "all dependencies are checked");
    for package in packages {
        let name = package["name"].as_str().unwrap();
        assert!(!banned.contains(&name), "{name} is banned");
        let Some(source) = package["source"].as_str() else { continue };
        assert_eq!(source, "registry+https://github.com/rust-lang/crates.io-index", "{name}");
        let license = package["license"].as_str().unwrap_or_default();
        let spaced = license.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let mut words = spaced.split_whitespace().peekable();
        assert!(any_of(&mut words, &allowed) && words.next().is_none(), "{name}: {license}");
    }
}

fn sources(dir: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path);
        }
    }
}

#[test]
fn every_file_says_what_it_is_for_and_does_one_job() {
    let mut files = BTreeSet::new();
    sources(&root().join("crates"), &mut files);
    assert!(files.len() > 50, "the whole tree is checked");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//!"), "{} does not begin with a `//!` comment", file.display());
        let lines = text.lines().count();
        let is_test = file.components().any(|part| part.as_os_str() == "tests");
        let most = if is_test { 800 } else { MAX_LINES };
        assert!(lines <= most, "{} has {lines} lines", file.display());
    }
}

/// A test that asserts a speed fails on a busy machine. A test should wait with a deadline that only a defect reaches,
/// or show that nothing else could have ended the wait. `bench/` measures speed.
#[test]
fn no_test_asserts_how_fast_something_is() {
    let mut files = BTreeSet::new();
    sources(&root().join("crates"), &mut files);
    for file in files.iter().filter(|file| !file.ends_with("house.rs")) {
        for (number, line) in (1..).zip(std::fs::read_to_string(file).unwrap().lines()) {
            let asserts = line.contains("assert!(") || line.contains("ensure(");
            let is_time = ["elapsed", "took"].iter().any(|word| line.contains(word));
            let hasty = asserts && is_time && line.contains("< Duration::from_");
            assert!(!hasty, "{}:{number} asserts how fast something is: {line}", file.display());
        }
    }
}

fn product() -> BTreeMap<String, String> {
    let crates = root().join("crates");
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(&crates).unwrap().flatten() {
        if !["testkit", "fuzzing"].map(std::ffi::OsStr::new).contains(&entry.file_name().as_os_str()) {
            sources(&entry.path().join("src"), &mut files);
        }
    }
    assert!(files.len() > 50, "the whole tree is checked");
    let name = |file: &Path| file.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
    let is_product = |name: &String| !name.ends_with("tests.rs") && !name.contains("/tests/");
    let text = |file: &Path| {
        let text = std::fs::read_to_string(file).unwrap();
        text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned()
    };
    let all = files.iter().map(|file| (name(file), text(file)));
    all.filter(|(name, _)| is_product(name)).collect()
}

/// The only files of the product that may start a process, and why. All other code starts programs through the guard,
/// so that no child process outlives Althing.
const MAY_START_PROCESSES: [(&str, &str); 5] = [
    ("runner/src/guarded.rs", "starts the guard"),
    ("runner/src/sandbox_exec.rs", "is the guard, which starts the program"),
    ("runner/src/mount_check.rs", "becomes the program inside the sandbox, which the guard has started"),
    ("runner/src/kernel/other.rs", "is the guard, which asks `ps` for processes where there is no /proc"),
    (
        "cli/src/host.rs",
        "starts the user's own editor and pager, which take the terminal over, and the user's own program for notifications",
    ),
];

#[test]
fn processes_are_started_only_through_the_guard() {
    let starts = ["Command::new(", "process::Command", "CommandBuilder", "posix_spawn", "::fork("];
    for (name, text) in product() {
        let starts_one = starts.iter().any(|start| text.contains(start));
        let may = MAY_START_PROCESSES.iter().any(|(file, _)| *file == name);
        assert!(!starts_one || may, "{name} starts a process without the guard");
        assert!(starts_one || !may, "{name} starts no process any more: take it off the list");
    }
}

/// The only files of the product that may name stdout or stderr, and why. All other code prints through `cli/src/show`,
/// which masks secrets and sanitizes text.
const MAY_USE_THE_TERMINAL: [(&str, &str); 11] = [
    ("app/src/environment.rs", "asks whether they are terminals"),
    ("app/src/secrets.rs", "is the panic hook, which masks and sanitizes"),
    ("cli/src/show/live.rs", "draws progress in place"),
    ("cli/src/show/mod.rs", "prints messages on stderr"),
    ("cli/src/show/stdout.rs", "prints output on stdout"),
    ("config/src/most_used.rs", "is compiled only for tests"),
    ("runner/src/bubblewrap.rs", "names the device among those that are read-only in a sandbox"),
    ("runner/src/sandbox_exec.rs", "hands them on to the program that it becomes"),
    ("tui/src/event_loop.rs", "draws the screen"),
    ("tui/src/plain.rs", "prints the screen as lines"),
    ("tui/src/terminal.rs", "sets the terminal up and restores it"),
];

#[test]
fn text_reaches_the_terminal_only_through_the_modules_that_sanitize_it() {
    let writes = ["io::stdout", "io::stderr", "println!", "print!(", ".print()", "/dev/tty"];
    for (name, text) in product() {
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let prints = writes.iter().any(|write| code.contains(write));
        let may = MAY_USE_THE_TERMINAL.iter().any(|(file, _)| *file == name);
        assert!(!prints || may, "{name} writes to the terminal without `cli/src/show`");
        assert!(prints || !may, "{name} does not use the terminal any more: take it off the list");
    }
}

/// Outside of `disk`, the only files of the product that may open other files than those below /proc and /sys with the
/// standard library, and why. It follows links and waits for ever at a FIFO, which another program may have put in the
/// place of a file.
const MAY_OPEN_FILES: [(&str, &str); 4] = [
    ("app/src/session_token.rs", "reads random bytes from the kernel's device"),
    ("config/src/most_used.rs", "is compiled only for tests"),
    ("runner/src/kernel/", "reads files below /proc whose paths are computed"),
    ("runner/src/sandbox_exec.rs", "opens Althing's own executable"),
];

#[test]
fn files_are_opened_only_where_a_link_or_a_fifo_in_their_place_does_no_harm() {
    let opens = ["File::open(", "fs::read(", "fs::read_to_string(", " read_to_string(", "(read_to_string("];
    let kernels = ["\"/proc", "\"/sys"];
    let mut used = BTreeSet::new();
    for (name, text) in product().into_iter().filter(|(name, _)| !name.starts_with("disk/")) {
        let may = MAY_OPEN_FILES.iter().find(|(place, _)| name.starts_with(place));
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in lines.filter(|line| opens.iter().any(|open| line.contains(open))) {
            if kernels.iter().any(|place| line.contains(place)) {
                continue;
            }
            assert!(may.is_some(), "{name} opens a file without `disk`: {}", line.trim());
            used.extend(may.map(|(place, _)| *place));
        }
    }
    let listed = MAY_OPEN_FILES.map(|(place, _)| place);
    assert_eq!(used, BTreeSet::from(listed), "take what opens no file any more off the list");
}

/// Calls whose errors must not be discarded: a serialization failure must not become an empty value, and a failure to
/// build the search for secrets must not disable masking.
const NEVER_SILENT: [&str; 3] = ["serde_json::to_", "AhoCorasick::new", "AhoCorasick::builder"];

#[test]
fn a_value_that_cannot_be_serialised_or_a_search_that_cannot_be_built_is_an_error() {
    for (name, text) in product() {
        for call in NEVER_SILENT {
            for rest in text.split(call).skip(1) {
                let statement = rest.split(';').next().unwrap_or_default();
                let silent = ["unwrap_or_default()", ".ok()"].iter().any(|word| statement.contains(word));
                assert!(!silent, "{name} hides a failure: {call}{statement}");
            }
        }
    }
}

/// The domain words of the specification. Each must be the name of exactly one type, so that readers of the
/// specification find it.
const DOMAIN_WORDS: [&str; 10] = [
    "AgentAdapter",
    "AgentRunner",
    "InteractiveSession",
    "Orchestrator",
    "ProjectWorkspace",
    "RunResult",
    "SessionManager",
    "TuiModeState",
    "WorkflowExecutor",
    "WorkflowSession",
];

#[test]
fn every_domain_word_of_the_specification_is_the_name_of_a_type() {
    let read = |name: &String| std::fs::read_to_string(root().join("crates").join(name)).unwrap();
    let product: Vec<String> = product().keys().map(read).collect();
    for word in DOMAIN_WORDS {
        let defines = |line: &str| {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.any(|word| ["struct", "enum", "trait"].contains(&word)) && words.next() == Some(word)
        };
        let found = product.iter().filter(|text| text.lines().any(defines)).count();
        assert_eq!(found, 1, "{word} must be defined once");
    }
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The names of tests in a text: everything between backquotes that is longer than 20 characters and consists of
/// letters, digits and underscores.
fn tests_in(text: &str) -> Vec<&str> {
    let is_test =
        |word: &&str| word.len() > 20 && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    quoted(text).filter(is_test).collect()
}

fn code() -> String {
    let mut files = BTreeSet::new();
    sources(&root().join("crates"), &mut files);
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

fn all_exist(page: &str, tests: &[&str], code: &str) {
    for test in tests {
        assert!(code.contains(&format!("fn {test}(")), "{page} names `{test}`, which does not exist");
    }
}

#[test]
fn every_promise_names_tests_that_exist() {
    let (page, code) = ("docs/promises.md", code());
    let promises = std::fs::read_to_string(root().join(page)).unwrap();
    for promise in promises.split("\n**").skip(1) {
        let tests = tests_in(promise);
        assert!(!tests.is_empty(), "no test is named for this promise: {promise}");
        all_exist(page, &tests, &code);
    }
}

#[test]
fn every_danger_has_its_row_and_names_tests_that_exist() {
    let (page, code) = ("docs/reliability.md", code());
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let is_id = |cell: &str| {
        cell.strip_prefix(['D', 'A', 'S']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut ids = BTreeSet::new();
    for row in text.lines() {
        let Some(danger) = row.split('|').nth(1).map(str::trim).filter(|cell| is_id(cell)) else { continue };
        assert!(ids.insert(danger), "{page} has two rows for {danger}");
        assert_eq!(row.split('|').count(), 7, "{danger}: wrong number of columns");
        let tests = tests_in(row);
        // D9 (long uptime) is tested by a script.
        assert!(!tests.is_empty() || danger == "D9", "no test is named for {danger}");
        all_exist(page, &tests, &code);
    }
    let numbers = [('D', 13), ('A', 12), ('S', 25)].into_iter();
    for danger in numbers.flat_map(|(kind, last)| (1..=last).map(move |n| format!("{kind}{n}"))) {
        assert!(ids.contains(danger.as_str()), "{page} has no row for {danger}");
    }
}

#[test]
fn the_table_of_cli_agents_has_passed_names_tests_that_exist_and_the_tested_versions() {
    let (page, code) = ("docs/cli-agents.md", code());
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let (_, section) = text.split_once("\n## What is tested with each CLI agent").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows: Vec<&str> =
        section.lines().filter(|line| line.starts_with("| ") && line.contains('`')).collect();
    assert!(rows.len() > 10, "{page}: the table has only {} rows", rows.len());
    for row in rows {
        assert!(
            row.contains('✓') && !row.contains('✗'),
            "{page}: `scripts/cli-checks` reported a failure: {row}"
        );
        assert_eq!(row.split('|').count(), 8, "{page}: wrong number of columns: {row}");
        all_exist(page, &tests_in(row), &code);
        assert!(!tests_in(row).is_empty(), "{page}: no test is named: {row}");
    }
    let setup = std::fs::read_to_string(root().join("crates/cli/tests/setup.sh")).unwrap();
    let packages = setup.lines().find_map(|line| line.strip_prefix("packages=")).unwrap().trim_matches('"');
    for (_, version) in packages.split(' ').filter_map(|package| package.rsplit_once('@')) {
        assert!(text.contains(version), "{page} does not name the tested version {version}");
    }
}

/// The tests that name a scenario of the specification with `// spec: ID`, as pairs of scenario and test.
fn tagged_tests() -> BTreeSet<(String, String)> {
    let mut files = BTreeSet::new();
    sources(&root().join("crates"), &mut files);
    let mut tagged = BTreeSet::new();
    for file in files {
        let mut waiting: Vec<String> = Vec::new();
        for line in std::fs::read_to_string(&file).unwrap().lines().map(str::trim_start) {
            if let Some(id) = line.strip_prefix("// spec: ") {
                waiting.push(id.trim().to_owned());
            } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| !line.starts_with("//")) {
                let name = rest.split(['(', '<']).next().unwrap_or_default();
                tagged.extend(waiting.drain(..).map(|id| (id, name.to_owned())));
            }
        }
        assert!(waiting.is_empty(), "{}: no test follows the tags {waiting:?}", file.display());
    }
    tagged
}

#[test]
fn the_table_of_the_specification_lists_every_tagged_test_and_what_it_asserts() {
    let page = "docs/spec.md";
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut listed = BTreeSet::new();
    let mut scenario = String::new();
    for row in text.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let &[id, test, clause] = &cells[..] else { panic!("{page}: a row needs three cells: {row}") };
        // An empty first cell means: another test of the scenario of the rows above.
        if !id.is_empty() {
            scenario = id.trim_matches('`').to_owned();
        }
        assert!(clause.len() > 15, "{page} does not say what `{test}` asserts");
        let is_new = listed.insert((scenario.clone(), test.trim_matches('`').to_owned()));
        assert!(is_new, "{page} lists {test} twice for {scenario}");
    }
    let tagged = tagged_tests();
    let missing: Vec<_> = tagged.difference(&listed).collect();
    let untagged: Vec<_> = listed.difference(&tagged).collect();
    assert!(missing.is_empty(), "{page} does not list these tagged tests: {missing:#?}");
    assert!(untagged.is_empty(), "{page} lists tests without that tag: {untagged:#?}");
}

/// All Markdown files below a directory, without `target` and directories whose names begin with a dot.
fn documents(dir: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            documents(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "md") {
            found.insert(path);
        }
    }
}

/// The anchors that GitHub generates for the headings of a document.
fn anchors(document: &str) -> BTreeSet<String> {
    let headings = document.lines().filter(|line| line.starts_with('#'));
    let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
    let anchor = |line: &str| line.trim_start_matches('#').trim().chars().filter(kept).collect::<String>();
    headings.map(|line| anchor(line).to_lowercase().replace(' ', "-")).collect()
}

#[test]
fn links_between_our_documents_lead_somewhere() {
    let mut found = BTreeSet::new();
    documents(&root(), &mut found);
    assert!(found.len() > 20, "the whole tree is checked");
    for document in found {
        let text = std::fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path =
                if target.is_empty() { document.clone() } else { document.parent().unwrap().join(target) };
            assert!(path.exists(), "{} links to {target}, which is not there", document.display());
            if !anchor.is_empty() {
                let there = anchors(&std::fs::read_to_string(&path).unwrap());
                assert!(there.contains(anchor), "{}: {link} names no heading", document.display());
            }
        }
    }
}

#[test]
fn every_page_is_in_the_index() {
    let index = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    for entry in std::fs::read_dir(root().join("docs")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_page = entry.path().extension().is_some_and(|kind| kind == "md") && name != "README.md";
        assert!(!is_page || index.contains(&format!("({name})")), "docs/README.md does not name {name}");
    }
}
