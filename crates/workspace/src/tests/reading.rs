//! The tools that only read: numbered lines, binary files, long results, invalid arguments.

use super::fixture::{Fixture, write};
use crate::{FileHost, Refusal, ToolSet};
use althing_protocol::{ContextAccess, ToolCall, ToolHost};
use serde_json::json;
use std::fs;

#[test]
fn a_file_is_read_with_line_numbers() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "one\r\ntwo\nlast without end").unwrap();
    assert_eq!(fixture.read("a.txt").unwrap(), "     1\tone\n     2\ttwo\n     3\tlast without end\n");
    let part = fixture.call("read_file", &json!({"path": "a.txt", "offset": 2, "limit": 1})).unwrap();
    assert_eq!(part, "     2\ttwo\n[lines 2 to 2 shown; continue with offset 3]\n");
    fixture.write("empty.txt", "").unwrap();
    assert!(fixture.read("empty.txt").unwrap().ends_with("is empty."));
}

#[test]
fn the_parts_of_a_long_file_join_without_gaps() {
    let fixture = Fixture::new();
    let lines: Vec<String> = (1..=9000).map(|n| format!("line {n} {}\n", "x".repeat(n % 50))).collect();
    let text = lines.concat();
    fixture.write("long.txt", &text).unwrap();
    let (mut offset, mut joined) = (1, String::new());
    loop {
        let part = fixture.call("read_file", &json!({"path": "long.txt", "offset": offset})).unwrap();
        assert!(part.len() <= 64 << 10);
        for line in part.lines().filter(|line| !line.starts_with('[')) {
            joined.push_str(line.split_once('\t').unwrap().1);
            joined.push('\n');
        }
        match part.lines().last().unwrap().strip_prefix("[lines ") {
            None => break,
            Some(note) => {
                offset = note.split("offset ").nth(1).unwrap().trim_end_matches(']').parse().unwrap()
            }
        }
    }
    assert_eq!(joined, text);
    let past = fixture.call("read_file", &json!({"path": "long.txt", "offset": 9001}));
    assert!(matches!(past, Err(Refusal::Argument { argument, .. }) if argument == "offset"));
}

#[test]
fn binary_files_are_described_and_long_lines_are_truncated() {
    let fixture = Fixture::new();
    fs::write(fixture.workspace().join("a.png"), b"\x89PNG\r\n\x1a\n\0\0").unwrap();
    fs::write(fixture.workspace().join("a.bin"), b"abc\0def").unwrap();
    fs::write(fixture.workspace().join("latin.txt"), b"caf\xe9\n").unwrap();
    fs::write(fixture.workspace().join("min.js"), "y".repeat(100_000)).unwrap();
    assert!(fixture.read("a.png").unwrap().contains("PNG image, 10 bytes"));
    assert!(fixture.read("a.bin").unwrap().contains("unknown format, 7 bytes"));
    assert!(fixture.read("latin.txt").unwrap().contains("[not UTF-8"));
    let cut = fixture.read("min.js").unwrap();
    assert!(cut.len() < 2200 && cut.contains("[line of 100000 bytes, cut]"), "{cut}");
}

#[test]
fn a_directory_is_listed_with_sizes_and_link_targets() {
    let fixture = Fixture::new();
    fixture.link("way", "sub");
    let listed = fixture.call("list_directory", &json!({})).unwrap();
    assert_eq!(listed, "ok.txt (5 bytes)\nsub/\nway -> sub\n");
    for n in 0..3000 {
        fs::write(fixture.workspace().join(format!("{n:04}-{}", "n".repeat(40))), "").unwrap();
    }
    let listed = fixture.call("list_directory", &json!({"path": "."})).unwrap();
    assert!(listed.len() <= 64 << 10);
    let more: usize = listed.lines().last().unwrap()[1..].split(' ').next().unwrap().parse().unwrap();
    assert_eq!(listed.lines().count() - 1 + more, 3003);
}

#[test]
fn the_name_of_a_file_forges_no_line_of_a_list_or_message() {
    let fixture = Fixture::new();
    let name = "x (1 bytes)\nsecret.txt (9 bytes)\n\u{202e}[2 more names]\r\u{1b}[2J";
    fs::write(fixture.workspace().join(name), "needle\n").unwrap();
    fixture.link("way", "a\nb (3 bytes)");
    let quoted = r#""x (1 bytes)\nsecret.txt (9 bytes)\n\u{202e}[2 more names]\r\u{1b}[2J""#;
    let listed = fixture.call("list_directory", &json!({})).unwrap();
    assert_eq!(listed, format!("ok.txt (5 bytes)\nsub/\nway -> \"a\\nb (3 bytes)\"\n{quoted} (7 bytes)\n"));
    let found = fixture.call("glob", &json!({"pattern": "x*"})).unwrap();
    assert_eq!(found, format!("{quoted}\n"));
    let searched = fixture.call("search", &json!({"pattern": "needle"})).unwrap();
    assert_eq!(searched.trim_end(), format!("{quoted}\n1: needle"));
    let mut said = Vec::new();
    said.push(fixture.call("write_file", &json!({"path": name, "content": "old"})).unwrap());
    said.push(fixture.call("edit_file", &json!({"path": name, "old": "old", "new": "new"})).unwrap());
    said.push(fixture.call("delete_file", &json!({"path": name})).unwrap());
    said.push(fixture.call("read_file", &json!({"path": name})).unwrap_err().to_string());
    for said in said {
        // Messages name the whole path.
        assert!(said.contains(quoted.trim_start_matches('"')) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn glob_accepts_relative_and_absolute_patterns() {
    let fixture = Fixture::new();
    for path in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/d.txt", ".git/e.rs"] {
        write(&fixture.workspace().join(path), "");
    }
    let find = |pattern: &str| fixture.call("glob", &json!({"pattern": pattern})).unwrap();
    assert_eq!(find("**/*.rs"), "a.rs\nsrc/b.rs\nsrc/deep/c.rs\n");
    assert_eq!(find("*.rs"), "a.rs\n");
    assert_eq!(find("src/*.{rs,txt}"), "src/b.rs\nsrc/d.txt\n");
    assert_eq!(find(&format!("{}/src/**/c.rs", fixture.workspace().display())), "src/deep/c.rs\n");
    assert!(find("nothing*").starts_with("Nothing below"));
    let wrong = fixture.call("glob", &json!({"pattern": "a["}));
    assert!(matches!(wrong, Err(Refusal::Argument { argument, .. }) if argument == "pattern"));
}

#[test]
fn search_returns_lines_with_context_and_respects_gitignore() {
    let fixture = Fixture::new();
    for (path, text) in [
        (".gitignore", "target/\n*.log\n!keep.log\n"),
        ("src/a.rs", "fn one() {}\nfn needle() {}\nfn three() {}\n"),
        ("src/b.txt", "Needle\n"),
        ("target/c.rs", "needle\n"),
        ("d.log", "needle\n"),
        ("keep.log", "needle\n"),
        ("src/.gitignore", "ignored.rs\n"),
        ("src/ignored.rs", "needle\n"),
    ] {
        write(&fixture.workspace().join(path), text);
    }
    fs::write(fixture.workspace().join("src/bin"), b"\0needle\n").unwrap();
    let search = |arguments: serde_json::Value| fixture.call("search", &arguments).unwrap();
    assert_eq!(search(json!({"pattern": "needle"})), "keep.log\n1: needle\nsrc/a.rs\n2: fn needle() {}\n");
    assert_eq!(
        search(json!({"pattern": "needle", "case_sensitive": false, "glob": "*.txt"})),
        "src/b.txt\n1: Needle\n"
    );
    assert_eq!(
        search(json!({"pattern": "needle", "path": "src/a.rs", "context": 1})),
        "src/a.rs\n1- fn one() {}\n2: fn needle() {}\n3- fn three() {}\n"
    );
    assert!(search(json!({"pattern": "nowhere"})).starts_with("No line in"));
    let wrong = fixture.call("search", &json!({"pattern": "("}));
    assert!(matches!(wrong, Err(Refusal::Argument { argument, .. }) if argument == "pattern"));
    write(&fixture.workspace().join("many.txt"), &"needle in a long line of hay\n".repeat(9000));
    let many = search(json!({"pattern": "hay"}));
    assert!(many.len() <= 64 << 10 && many.contains("[there are more matches"));
}

#[test]
fn errors_name_the_invalid_argument() {
    let fixture = Fixture::new();
    let output = |tool: &str, text: &str| {
        fixture.host.call_blocking(tool, text, ContextAccess::ReadOnly).unwrap_err().to_string()
    };
    assert_eq!(output("read_file", "{}"), "argument `path`: is required");
    assert_eq!(output("read_file", r#"{"path": 3}"#), "argument `path`: must be a string");
    assert_eq!(
        output("read_file", r#"{"path":"a","offset":0}"#),
        "argument `offset`: must be a whole number, at least 1"
    );
    assert_eq!(
        output("read_file", r#"{"path":"a","lines":3}"#),
        "argument `lines`: unknown; this tool takes path, offset, limit"
    );
    assert!(output("write_file", "[1]").contains("must be a JSON object"));
    assert!(output("write_file", "{").contains("not JSON"));
    let outside = output("read_file", r#"{"path":"/elsewhere"}"#);
    assert!(outside.contains("/elsewhere") && outside.contains("(your workspace)"), "{outside}");
}

#[tokio::test]
async fn the_host_offers_its_tools_and_runs_calls() {
    let fixture = Fixture::new();
    let names = |host: &FileHost| -> Vec<String> {
        host.tools(ContextAccess::ReadOnly).into_iter().map(|tool| tool.name).collect()
    };
    let all = [
        "read_file",
        "list_directory",
        "glob",
        "search",
        "write_file",
        "edit_file",
        "apply_patch",
        "delete_file",
    ];
    assert_eq!(names(&fixture.host), all);
    let planner = FileHost::open(&fixture.policy, ToolSet::ReadOnly).unwrap();
    assert_eq!(names(&planner), all[..4]);
    let arguments = json!({"path": "new.txt", "content": "x"}).to_string();
    let call = ToolCall { id: "c".into(), name: "write_file".into(), arguments };
    let refused = planner.call(&call, ContextAccess::Writable).await;
    assert!(refused.is_error && !fixture.workspace().join("new.txt").exists());
    let done = fixture.host.call(&call, ContextAccess::ReadOnly).await;
    assert!(!done.is_error && fixture.workspace().join("new.txt").exists(), "{}", done.content);
    let size: usize = fixture
        .host
        .tools(ContextAccess::ReadOnly)
        .iter()
        .map(|t| t.description.len() + t.parameters.to_string().len())
        .sum();
    assert!(size < 4000, "the tools take {size} bytes of every prompt");
}
