//! Row S1 of docs/reliability.md: no path, link, hard link or special file leads an agent out of its roots, and the
//! exclusions inside them hold.

use super::fixture::{Fixture, SECRET, context, write};
use crate::{FileHost, ReadOnlyReason, Refusal, ToolSet};
use althing_protocol::ContextAccess;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Refused,
    /// As `Refused`, but the link itself may be deleted: it belongs to the agent.
    LinkMayGo,
    /// A name without a special meaning to the system: any effect stays inside the workspace.
    Inside,
}
use Expect::{Inside, LinkMayGo, Refused};

type Prepare = fn(&Fixture);

/// `{b}` is the base directory, `{w}` the workspace, `{W}` the workspace in upper case, `{long}` a name that is too
/// long, and `{longer}` a path that is too long.
#[allow(clippy::too_many_lines, reason = "a table")]
fn patterns() -> Vec<(&'static str, Expect, Prepare)> {
    let none: Prepare = |_| {};
    vec![
        ("../other/secret.txt", Refused, none),
        ("../../../secret.txt", Refused, none),
        ("../../../../../outside/secret.txt", Refused, none),
        ("sub/../../other/secret.txt", Refused, none),
        ("./.././other/./secret.txt", Refused, none),
        ("missing/../../other/secret.txt", Refused, none),
        ("ok.txt/../../other/secret.txt", Refused, none),
        ("..", Refused, none),
        ("../", Refused, none),
        ("../..", Refused, none),
        ("/", Refused, none),
        ("", Refused, none),
        ("{w}/../other/secret.txt", Refused, none),
        ("{w}/sub/../../other/secret.txt", Refused, none),
        ("{w}-twin/secret.txt", Refused, none),
        ("{b}/project-twin/secret.txt", Refused, none),
        ("{b}/outside/secret.txt", Refused, none),
        ("//{b}/outside/secret.txt", Refused, none),
        ("{b}/project/../outside/secret.txt", Refused, none),
        ("{b}/project/src/../../outside/secret.txt", Refused, none),
        ("{b}/read-only/../outside/secret.txt", Refused, none),
        ("{b}/outside/../project/../outside/secret.txt", Refused, none),
        ("{b}/project/.althing/secret.txt", Refused, none),
        ("{b}/project/.althing/run/workspaces/other/secret.txt", Refused, none),
        ("{b}/project/.althing/run/workspaces/me/../other/secret.txt", Refused, none),
        ("{b}/project/src/../.althing/secret.txt", Refused, none),
        ("{b}/single/secret.txt", Refused, none),
        ("{b}/single/only.txt/../secret.txt", Refused, none),
        ("{b}/single", Refused, none),
        ("/proc/self/root{b}/outside/secret.txt", Refused, none),
        ("/proc/self/cwd/Cargo.toml", Refused, none),
        ("/proc/self/environ", Refused, none),
        ("/proc/self/fd/0", Refused, none),
        ("/proc/thread-self/root{b}/outside/secret.txt", Refused, none),
        ("/dev/fd/0", Refused, none),
        ("/dev/stdin", Refused, none),
        ("leak.txt", LinkMayGo, |y| y.link("leak.txt", y.base.join("outside/secret.txt"))),
        ("leak.txt", LinkMayGo, |y| y.link("leak.txt", "../../../../../outside/secret.txt")),
        ("out/secret.txt", Refused, |y| y.link("out", y.base.join("outside"))),
        ("out/new.txt", Refused, |y| y.link("out", y.base.join("outside"))),
        ("out/dir/../secret.txt", Refused, |y| y.link("out", y.base.join("outside"))),
        ("up/other/secret.txt", Refused, |y| y.link("up", "..")),
        ("sub/up/other/secret.txt", Refused, |y| y.link("sub/up", "../..")),
        ("dangling.txt", LinkMayGo, |y| y.link("dangling.txt", y.base.join("outside/created.txt"))),
        ("gone/file.txt", Refused, |y| y.link("gone", y.base.join("outside/not/there"))),
        ("one/secret.txt", Refused, |y| {
            y.link("one", "two");
            y.link("two", "sub/three");
            y.link("sub/three", "../../other");
        }),
        ("proc/outside/secret.txt", Refused, |y| {
            y.link("proc", format!("/proc/self/root{}", y.base.display()))
        }),
        ("fd/0", Refused, |y| y.link("fd", "/proc/self/fd")),
        ("cwd/Cargo.toml", Refused, |y| y.link("cwd", "/proc/self/cwd")),
        ("null", LinkMayGo, |y| y.link("null", "/dev/null")),
        ("loop", LinkMayGo, |y| y.link("loop", "loop")),
        ("ping/x", Refused, |y| {
            y.link("ping", "pong");
            y.link("pong", "ping");
        }),
        ("there/secret.txt", Refused, |y| {
            y.link("there", y.base.join("project/.althing"));
        }),
        ("{b}/project/out/secret.txt", Refused, |y| {
            symlink(y.base.join("outside"), y.base.join("project/out")).unwrap();
        }),
        ("{b}/project/mine/secret.txt", Refused, |y| {
            symlink(".althing", y.base.join("project/mine")).unwrap()
        }),
        ("{b}/project/.althing/run/views/me/agent2/out/secret.txt", Refused, |y| {
            symlink(y.base.join("outside"), y.base.join("project/.althing/run/views/me/agent2/out")).unwrap();
        }),
        ("{b}/read-only/link.txt", Refused, |y| {
            symlink(y.base.join("outside/secret.txt"), y.base.join("read-only/link.txt")).unwrap();
        }),
        ("hard.txt", Refused, |y| {
            fs::hard_link(y.base.join("outside/secret.txt"), y.workspace().join("hard.txt")).unwrap();
        }),
        ("pipe", Refused, |y| {
            mknodat(CWD, y.workspace().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        }),
        ("socket", Refused, |y| drop(UnixListener::bind(y.workspace().join("socket")).unwrap())),
        ("{W}/ok.txt", Refused, none),
        ("{b}/project/.ALTHING/../../outside/secret.txt", Refused, none),
        ("{w}/\u{ff0e}\u{ff0e}/other/secret.txt", Inside, none),
        ("%2e%2e/other/secret.txt", Inside, none),
        ("..\\other\\secret.txt", Inside, none),
        ("...//other/secret.txt", Inside, none),
        ("~/secret.txt", Inside, none),
        ("$HOME/secret.txt", Inside, none),
        ("file:{b}/outside/secret.txt", Inside, none),
        ("ok.txt\0/../../other/secret.txt", Refused, none),
        ("\0", Refused, none),
        ("{long}", Refused, none),
        ("{longer}", Refused, none),
    ]
}

fn operations(path: &str) -> [(&'static str, Value); 7] {
    let moved = format!(
        "*** Begin Patch\n*** Update File: ok.txt\n*** Move to: {path}\n@@\n-fine\n+moved\n*** End Patch"
    );
    [
        ("read_file", json!({"path": path})),
        ("list_directory", json!({"path": path})),
        ("search", json!({"path": path, "pattern": "canary"})),
        ("write_file", json!({"path": path, "content": "overwritten"})),
        ("edit_file", json!({"path": path, "old": SECRET, "new": "overwritten"})),
        ("apply_patch", json!({"patch": moved})),
        ("delete_file", json!({"path": path})),
    ]
}

#[test]
fn sixty_ways_out_lead_nowhere_for_any_operation() {
    let patterns = patterns();
    assert!(patterns.len() >= 60, "{}", patterns.len());
    for (pattern, expect, prepare) in patterns {
        let fixture = Fixture::new();
        prepare(&fixture);
        let path = pattern
            .replace("{b}", fixture.base.to_str().unwrap())
            .replace("{w}", fixture.workspace().to_str().unwrap())
            .replace("{W}", &fixture.workspace().to_str().unwrap().to_uppercase())
            .replace("{longer}", &"a/".repeat(3000))
            .replace("{long}", &"a".repeat(300));
        let before = fixture.foreign();
        for (tool, arguments) in &operations(&path) {
            let outcome = fixture.call(tool, arguments);
            let output = outcome.as_ref().map_or_else(ToString::to_string, Clone::clone);
            assert!(!output.contains(SECRET), "{tool} {pattern:?} revealed the secret: {output}");
            assert_eq!(fixture.foreign(), before, "{tool} {pattern:?} changed something outside: {output}");
            let may_pass = expect == Inside || (expect == LinkMayGo && *tool == "delete_file");
            assert!(may_pass || outcome.is_err(), "{tool} {pattern:?} was not refused: {output}");
        }
    }
}

#[test]
fn links_inside_the_roots_are_followed() {
    let fixture = Fixture::new();
    fixture.link("again", "sub/../sub/deep.txt");
    fixture.link("whole", fixture.workspace().join("sub"));
    fixture.link("project", fixture.base.join("project/src"));
    assert!(fixture.read("again").unwrap().contains("deep"));
    assert!(fixture.read("whole/deep.txt").unwrap().contains("deep"));
    assert!(fixture.read("project/main.rs").unwrap().contains("fn main"));
    fixture.write("again", "changed through a link\n").unwrap();
    let deep = fs::read_to_string(fixture.workspace().join("sub/deep.txt")).unwrap();
    assert_eq!(deep, "changed through a link\n");
    fixture.call("delete_file", &json!({"path": "again"})).unwrap();
    assert!(fixture.workspace().join("sub/deep.txt").exists(), "the link was deleted, not its target");
}

fn why(outcome: Result<String, Refusal>) -> ReadOnlyReason {
    match outcome {
        Err(Refusal::ReadOnly { why, .. }) => why,
        other => panic!("not read-only: {other:?}"),
    }
}

#[test]
fn context_paths_are_writable_only_where_and_when_allowed() {
    let fixture = Fixture::new();
    let source = fixture.at("project/src/new.rs");
    let arguments = json!({"path": source, "content": "x"});
    assert_eq!(why(fixture.call_reading("write_file", &arguments)), ReadOnlyReason::NotNow);
    fixture.call("write_file", &arguments).unwrap();
    assert_eq!(why(fixture.write(&fixture.at("read-only/new.txt"), "x")), ReadOnlyReason::Context);
    assert_eq!(why(fixture.write(&fixture.at("project/locked/new.md"), "x")), ReadOnlyReason::Protected);
    assert_eq!(why(fixture.write(&fixture.at("project/locked/rules.md"), "x")), ReadOnlyReason::Protected);
    assert_eq!(
        why(fixture.write(&fixture.at("project/.althing/run/views/me/agent2/shown.txt"), "x")),
        ReadOnlyReason::View
    );
    for name in [".git/config", ".GIT/config", ".env", "node_modules/a/b.js", "deep/.venv/x"] {
        let outcome = fixture.write(&fixture.at(&format!("project/{name}")), "x");
        assert!(matches!(why(outcome), ReadOnlyReason::Excluded(_)), "{name}");
    }
    fixture.write(".git/config", "an agent's own repository is its own\n").unwrap();
    fixture.write(&fixture.at("single/only.txt"), "changed in place\n").unwrap();
    assert_eq!(
        fs::read_dir(fixture.base.join("single")).unwrap().count(),
        2,
        "no file is created next to a single file"
    );
}

#[test]
fn a_link_does_not_give_access_to_a_protected_or_excluded_path() {
    let fixture = Fixture::new();
    symlink("locked", fixture.base.join("project/open")).unwrap();
    symlink(".git", fixture.base.join("project/g")).unwrap();
    assert_eq!(why(fixture.write(&fixture.at("project/open/rules.md"), "x")), ReadOnlyReason::Protected);
    assert!(matches!(why(fixture.write(&fixture.at("project/g/config"), "x")), ReadOnlyReason::Excluded(_)));
}

#[test]
fn the_deepest_root_decides_and_single_files_take_precedence() {
    let fixture = Fixture::new();
    let mut policy = fixture.policy.clone();
    policy.context = vec![
        context(&fixture.base.join("project"), true, &[]),
        context(&fixture.base.join("project/src"), false, &[]),
        context(&fixture.base.join("project/src/main.rs"), true, &[]),
    ];
    let host = FileHost::open(&policy, ToolSet::All).unwrap();
    let write = |path: &str| {
        let arguments = json!({"path": fixture.at(path), "content": "x"}).to_string();
        host.call_blocking("write_file", &arguments, ContextAccess::Writable).is_ok()
    };
    assert!(write("project/a.txt"));
    assert!(!write("project/src/a.txt"));
    assert!(write("project/src/main.rs"));
}

#[test]
fn listings_and_searches_skip_inaccessible_paths() {
    let fixture = Fixture::new();
    let project = fixture.at("project");
    let listed = fixture.call("list_directory", &json!({"path": project})).unwrap();
    assert!(listed.contains("src/") && !listed.contains(".althing"), "{listed}");
    let found = fixture.call("search", &json!({"path": project, "pattern": SECRET})).unwrap();
    assert!(!found.contains("secret.txt"), "{found}");
    let globbed = fixture.call("glob", &json!({"path": project, "pattern": "**/secret.txt"})).unwrap();
    assert!(!globbed.contains("/secret.txt\n"), "{globbed}");
}

#[test]
fn files_with_hard_links_elsewhere_are_not_written() {
    let fixture = Fixture::new();
    let (file, twin) = (fixture.base.join("project/src/main.rs"), fixture.base.join("outside/twin.rs"));
    fs::hard_link(&file, &twin).unwrap();
    let path = fixture.at("project/src/main.rs");
    assert!(matches!(fixture.write(&path, "x"), Err(Refusal::HardLinked { links: 2, .. })));
    assert!(fixture.read(&path).is_ok(), "all files of a context path are readable");
    assert_eq!(fs::read_to_string(twin).unwrap(), "fn main() {}\n");
}

#[test]
fn a_policy_without_a_usable_workspace_is_an_error() {
    let fixture = Fixture::new();
    let mut policy = fixture.policy.clone();
    policy.workspace = fixture.base.join("not/there");
    assert!(FileHost::open(&policy, ToolSet::All).is_err());
    policy = fixture.policy.clone();
    policy.context.push(context(&fixture.base.join("missing"), true, &[]));
    let host = FileHost::open(&policy, ToolSet::All).unwrap();
    assert_eq!(host.missing(), [fixture.at("missing")]);
    let arguments = json!({"path": fixture.at("missing/x"), "content": "x"}).to_string();
    let refused = host.call_blocking("write_file", &arguments, ContextAccess::Writable);
    assert!(matches!(refused, Err(Refusal::Outside { .. })));
    write(&fixture.base.join("missing/y"), "created later: still not accessible");
    let refused = host.call_blocking("write_file", &arguments, ContextAccess::Writable);
    assert!(matches!(refused, Err(Refusal::Outside { .. })));
}
