//! Context paths: the team's and the agents', merged into one list.

use althing_config::{LoadPurpose, Source, load_config};
use althing_protocol::ContextPath;

use super::support::{backend, checked, env, loaded, messages, with};

fn path(path: &str, writable: bool, protected: &[&str]) -> ContextPath {
    let protected = protected.iter().map(|path| (*path).to_owned()).collect();
    ContextPath { path: path.to_owned(), writable, protected }
}

fn team(list: &str) -> Vec<ContextPath> {
    loaded(&with(&format!("orchestrator: {{context_paths: {list}}}\n"))).config.context_paths
}

#[test]
fn a_context_path_is_read_only_by_default() {
    assert_eq!(
        team(
            "[docs, {path: src, permission: write, protected_paths: [.git, keys]}, {path: /etc, permission: read}, {path: x}]"
        ),
        [
            path("docs", false, &[]),
            path("src", true, &[".git", "keys"]),
            path("/etc", false, &[]),
            path("x", false, &[])
        ]
    );
    assert_eq!(team("[]"), []);
}

#[test]
fn a_path_named_twice_is_one_entry_and_writable_wins() {
    assert_eq!(
        team(
            "[docs, {path: ./docs/, permission: write, protected_paths: [a]}, {path: docs, protected_paths: [a, b]}, Docs]"
        ),
        [path("docs", true, &["a", "b"]), path("Docs", false, &[])]
    );
}

#[test]
fn an_agents_context_paths_join_the_teams_with_a_warning() {
    let one = backend("{type: offline, context_paths: [{path: b, permission: write}]}");
    let one = format!("{one}    context_paths: [c]\norchestrator: {{context_paths: [a, c]}}\n");
    let config = loaded(&one).config;
    assert_eq!(config.context_paths, [path("a", false, &[]), path("c", false, &[]), path("b", true, &[])]);
    let two = one.replace("orchestrator:", "  - {id: b, backend: {type: offline}}\norchestrator:");
    assert_eq!(
        messages(&checked(&two)),
        [
            "Warning 4:21 agents[0].context_paths[0] | a context path of one agent is given to the whole team | move it to `orchestrator.context_paths`, or use a separate run for that agent"
        ]
    );
}

#[test]
fn a_path_stays_as_written_but_for_its_variables() {
    let text = with("orchestrator: {context_paths: ['${ROOT}/a b/', '~/x']}\n");
    let lookup = env(&[("ROOT", "/srv")]);
    let report = load_config(Source { name: "team.yaml", text: &text }, &lookup, LoadPurpose::Run);
    let paths = report.config.expect("settings").config.context_paths;
    assert_eq!(paths, [path("/srv/a b/", false, &[]), path("~/x", false, &[])]);
}

#[test]
fn a_wrong_context_path_is_an_error_with_its_position() {
    for (entry, location, message) in [
        ("''", "[0]", "a context path is blank"),
        ("{path: ' '}", "[0]", "a context path is blank"),
        ("{path: a, protected_paths: ['']}", "[0].protected_paths[0]", "a protected path is blank"),
        (
            "{path: a, protected_paths: [b, '*.lock']}",
            "[0].protected_paths[1]",
            "a protected path is a path, and this looks like a pattern",
        ),
        ("{permission: read}", "[0].path", "orchestrator.context_paths[0] needs `path`"),
        ("{path: a, permission: wrte}", "[0].permission", "`permission` cannot be the text \"wrte\""),
        ("7", "[0]", "`context_paths[0]` must be a section with keys or a text, not the number 7"),
    ] {
        let report = checked(&with(&format!("orchestrator: {{context_paths: [{entry}]}}\n")));
        let found: Vec<_> =
            report.errors.iter().map(|one| (one.location.as_str(), one.message.as_str())).collect();
        let location = format!("orchestrator.context_paths{location}");
        assert_eq!(found, [(location.as_str(), message)], "{entry}");
        assert!(report.errors[0].suggestion.is_some());
    }
}
