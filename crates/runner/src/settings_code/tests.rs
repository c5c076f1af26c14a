//! Tests of the code to which settings of CLI agents and editors lead: which changed files a watch finds.

use super::{concerns, unnamed_rows};
use crate::code_watch::{CodeWatch, WrittenCode};
use althing_protocol::{AGENT_KINDS, Grant, RUNS_CODE};
use std::path::{Path, PathBuf};

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

struct Project {
    dir: tempfile::TempDir,
    home: PathBuf,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        std::fs::create_dir(home.join("proj")).unwrap();
        for (path, text) in files {
            put(&home, path, text);
        }
        Self { dir, home }
    }

    /// The paths that a program in the directory `at` is found to have written after it wrote to `paths`.
    async fn written(&self, at: &str, paths: &[&str]) -> (Vec<String>, Option<WrittenCode>) {
        for path in paths {
            put(self.dir.path(), path, "before");
        }
        let watch = CodeWatch::start(&Grant::project(self.home.join(at))).await;
        for path in paths {
            put(self.dir.path(), path, "changed by the program");
        }
        let written = watch.written().await;
        let files = written.iter().flat_map(|written| &written.files);
        let name = |(path, _): &(PathBuf, _)| path.strip_prefix(&self.home).unwrap().display().to_string();
        (files.map(name).collect(), written)
    }
}

const ORDINARY: [&str; 4] = ["proj/src/main.rs", "proj/README.md", "proj/tests/a.py", "proj/index.js"];

/// Each row: a settings file, its content, and the file that the program changes.
const CASES: [(&str, &str, &str); 44] = [
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"sh tools/ho\\\nok.sh"}]}]}}"#,
        "tools/hook.sh",
    ),
    (
        ".mcp.json",
        r#"{"mcpServers":{"x":{"command":"node","args":["tools/server.js","."]}}}"#,
        "tools/server.js",
    ),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"node","args":["server"]}}}"#, "server/src/go.js"),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"npx","args":["-y","./tools/pkg"]}}}"#, "tools/pkg/b.js"),
    (
        ".mcp.json",
        r#"{"mcpServers":{"x":{"command":"python3","args":["-c","pass"],"env":{"PYTHONPATH":"."}}}}"#,
        "sitecustomize.py",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"E=sh; sh tools/a.$E"}]}]}}"#,
        "tools/a.sh",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"sh tools/*/run"}]}]}}"#,
        "tools/a/run",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"sh \"$CLAUDE_PROJECT_DIR\"/tools/{a,b}/run"}]}]}}"#,
        "tools/a/run",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"matcher":"*","hooks":[{"command":"sh $CLAUDE_PROJECT_DIR/a-$X.sh"}]}]}}"#,
        "a-1.sh",
    ),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"node","args":["tools/server.js"]}}}"#, "tools/server.js"),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"node","args":["tools/server"]}}}"#, "tools/server.js"),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"node","args":["tools"]}}}"#, "tools/index.js"),
    (
        ".mcp.json",
        r#"{"mcpServers":{"x":{"command":"python3","args":["-m","tools.server"]}}}"#,
        "tools/server.py",
    ),
    (
        ".mcp.json",
        r#"{"mcpServers":{"x":{"command":"sh","args":["-c","cd tools && exec node server.js"]}}}"#,
        "tools/server.js",
    ),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"node","args":["s.js"],"cwd":"./tools"}}}"#, "tools/s.js"),
    (
        ".mcp.json",
        r#"{"mcpServers":{"x":{"command":"npx","args":["x"],"env":{"NODE_OPTIONS":"--require ./tools/a.js"}}}}"#,
        "tools/a.js",
    ),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"npm","args":["run","mcp"]}}}"#, "package.json"),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"uv","args":["run","server"]}}}"#, "pyproject.toml"),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"cargo","args":["run"]}}}"#, "lib/server.rs"),
    (".mcp.json", "{\"mcpServers\": tools/server.js", "tools/server.js"),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"cd tools && ./hook.sh"}]}]}}"#,
        "tools/hook.sh",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"sh tools/hook.sh"}]}]}}"#,
        "tools/hook.sh",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"python3 -m tools.x"}]}]}}"#,
        "tools/x.py",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"run-parts tools/h.d"}]}]}}"#,
        "tools/h.d/a",
    ),
    (
        ".claude/settings.local.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"cd \"$CLAUDE_PROJECT_DIR\"/tools; sh hook.sh"}]}]}}"#,
        "tools/hook.sh",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"for f in tools/*.sh; do sh $f; done"}]}]}}"#,
        "tools/hook.sh",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"cd tools; for f in *; do sh $f; done"}]}]}}"#,
        "tools/hook.sh",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"for f in *.hook; do sh $f; done"}]}]}}"#,
        "a.hook",
    ),
    (
        ".claude/settings.json",
        r#"{"statusLine":{"command":"$CLAUDE_PROJECT_DIR/tools/line.sh"}}"#,
        "tools/line.sh",
    ),
    (".claude/settings.json", r#"{"apiKeyHelper":"tools/key.sh"}"#, "tools/key.sh"),
    (".claude/settings.json", r#"{"aNewSetting":{"runs":["tools/new.sh"]}}"#, "tools/new.sh"),
    (
        ".claude/agents/a.md",
        "---\nhooks:\n  Stop:\n    - command: tools/hook.sh\n---\nSee src/main.rs\n",
        "tools/hook.sh",
    ),
    (
        ".gemini/settings.json",
        r#"{"mcpServers":{"x":{"command":"node","args":["tools/server.js"]}}}"#,
        "tools/server.js",
    ),
    (
        ".gemini/settings.json",
        r#"{"tools":{"discoveryCommand":"sh tools/hook.sh","core":["src"]}}"#,
        "tools/hook.sh",
    ),
    (
        ".gemini/settings.json",
        r#"{"hooks":{"S":[{"hooks":[{"command":"sh tools/hook.sh"}]}]}}"#,
        "tools/hook.sh",
    ),
    (
        ".gemini/extensions/e/gemini-extension.json",
        r#"{"mcpServers":{"x":{"command":"node","args":["tools/server.js"]}}}"#,
        "tools/server.js",
    ),
    (
        "opencode.json",
        r#"{"mcp":{"x":{"type":"local","command":["node","tools/server.js"]}}}"#,
        "tools/server.js",
    ),
    (
        "opencode.json",
        r#"{"plugin":["./tools/server.js"],"permission":{"edit":{"src/**":"allow"}}}"#,
        "tools/server.js",
    ),
    ("opencode.json", r#"{"formatter":{"x":{"command":["tools/fmt","$FILE"]}}}"#, "tools/fmt"),
    (
        "opencode.jsonc",
        "{ // ours: not src/*.rs\n \"permission\": {\"edit\": {\"src/**\": \"allow\"}}, /* */\n \"lsp\": {\"x\": {\"command\": [\"tools/lsp\"],},},\n}",
        "tools/lsp",
    ),
    (".opencode/opencode.json", r#"{"plugin":["../tools/server.js"]}"#, "tools/server.js"),
    (
        ".codex/config.toml",
        "[mcp_servers.x]\ncommand=\"node\"\nargs=[\n  \"tools/server.js\",\n]\n",
        "tools/server.js",
    ),
    (
        ".codex/config.toml",
        "notify = ['python3', 'tools/notify.py']\n[projects.\"/x/src/main.rs\"]\n",
        "tools/notify.py",
    ),
    (
        ".codex/hooks.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"sh tools/hook.sh"}]}]}}"#,
        "tools/hook.sh",
    ),
];

#[tokio::test]
async fn a_changed_file_that_settings_of_a_cli_agent_run_is_found_however_they_name_it() {
    let mut missed = Vec::new();
    for (settings, text, script) in CASES {
        let project = Project::new(&[(&format!("proj/{settings}"), text)]);
        let script = format!("proj/{script}");
        let paths: Vec<&str> = ORDINARY.into_iter().chain([script.as_str()]).collect();
        let (found, written) = project.written("proj", &paths).await;
        let is_protected = written.is_some_and(|written| written.files.iter().all(|(_, row)| row.protected));
        let is_all =
            text.contains("cargo") && ORDINARY.iter().all(|path| found.contains(&(*path).to_owned()));
        if !(found == [script.as_str()] || (is_all && found.contains(&script))) || !is_protected {
            missed.push(format!("{settings} {text}: {found:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Each row: a settings file, its content, and the file that the program changes.
const UNKNOWN: [(&str, &str, &str); 13] = [
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"node","args":["."]}}}"#, "lib/start.js"),
    (".mcp.json", r#"{"mcpServers":{"x":{"args":["--no-warnings","./"],"command":"node"}}}"#, "lib/start.js"),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"npx","args":["-y","."]}}}"#, "lib/start.js"),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"python3","args":["-m","unittest"]}}}"#, "test_a.py"),
    (".mcp.json", r#"{"mcpServers":{"x":{"command":"bun","args":["test"]}}}"#, "a.test.ts"),
    (".codex/config.toml", "[mcp_servers.x]\nargs=[\".\"]\ncommand=\"node\"\n", "lib/start.js"),
    (".claude/settings.json", r#"{"hooks":{"Stop":[{"hooks":[{"command":"sh t*/a*"}]}]}}"#, "tools/a1"),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"sh */*.hook"}]}]}}"#,
        "tools/x.hook",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"for d in */hooks; do for f in $d/*; do sh $f; done; done"}]}]}}"#,
        "mod/hooks/q",
    ),
    (".claude/settings.json", r#"{"hooks":{"Stop":[{"hooks":[{"command":"sh \"$D/$F\""}]}]}}"#, "tools/a.sh"),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"sh -c 'node .' || true"}]}]}}"#,
        "lib/start.js",
    ),
    (
        ".claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"command":"uv run pytest"}]}]}}"#,
        "tests/b.py",
    ),
    (".claude/settings.json", r#"{"hooks":{"Stop":[{"hooks":[{"command":"sh *"}]}]}}"#, "a"),
];

#[tokio::test]
async fn where_a_command_may_run_any_file_every_changed_file_counts() {
    let mut missed = Vec::new();
    for (settings, text, script) in UNKNOWN {
        let project = Project::new(&[(&format!("proj/{settings}"), text)]);
        let script = format!("proj/{script}");
        let paths: Vec<&str> = ORDINARY.into_iter().chain([script.as_str()]).collect();
        let (found, written) = project.written("proj", &paths).await;
        let is_protected = written.is_some_and(|written| written.files.iter().all(|(_, row)| row.protected));
        if !paths.iter().all(|path| found.contains(&(*path).to_owned())) || !is_protected {
            missed.push(format!("{settings} {text}: {found:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[tokio::test]
async fn ordinary_files_stay_ordinary() {
    for (settings, text) in [
        (".claude/settings.json", r#"{"permissions":{"allow":["Edit(src/**)"]},"model":"opus","hooks":{}}"#),
        (".claude/settings.json", r#"{"hooks":{"Stop":[{"hooks":[{"command":"cargo fmt"}]}]}}"#),
        (
            ".claude/settings.json",
            r#"{"hooks":{"Stop":[{"matcher":"*","hooks":[{"command":"date; echo hi"}]}]}}"#,
        ),
        (".mcp.json", r#"{"mcpServers":{"x":{"command":"npx","args":["-y","@a/server-files","."]}}}"#),
        (
            ".claude/settings.json",
            r#"{"hooks":{"Stop":[{"hooks":[{"command":"bash -c '[[ -f src/x ]] && sed /^a.*/d < x'"}]}]}}"#,
        ),
        (".mcp.json", r#"{"mcpServers":{"x":{"command":"deno","args":["run","-A","npm:x","."]}}}"#),
        (".mcp.json", r#"{"mcpServers":{"x":{"url":"https://*.example.org/*/mcp"}}}"#),
        (".gemini/settings.json", r#"{"context":{"includeDirectories":["src"]},"tools":{"core":["src/*"]}}"#),
        (
            "opencode.json",
            r#"{"instructions":["*.md"],"watcher":{"ignore":["src/**"]},"agent":{"x":{"prompt":"go to src/main.rs"}}}"#,
        ),
        (".codex/config.toml", "model = 'x'\n[projects.\"/p/src\"]\ntrust_level = 'trusted'\n"),
    ] {
        let project = Project::new(&[(&format!("proj/{settings}"), text)]);
        let (found, _) = project.written("proj", &ORDINARY).await;
        assert!(found.is_empty(), "{settings} {text}: {found:?}");
    }
}

#[test]
fn code_that_settings_do_not_name_concerns_only_their_cli_agent() {
    let rows: Vec<_> = unnamed_rows().collect();
    assert_eq!(rows.len(), AGENT_KINDS.len() + 1, "the CLI agents and git");
    let of_claude = rows.into_iter().find(|row| row.when.contains("Claude Code")).unwrap();
    for (adapter, expected) in [("claude", true), ("gemini", false), ("command", false), ("my-own", true)] {
        assert_eq!(concerns(of_claude, adapter), expected, "{adapter}");
        assert!(concerns(&RUNS_CODE[0], adapter), "{adapter}");
    }
}

#[tokio::test]
async fn settings_above_the_directory_of_a_program_and_in_the_home_directory_name_code_in_it() {
    let server = r#"{"mcpServers":{"x":{"command":"node","args":["sub/server.js"]}}}"#;
    let project = Project::new(&[("proj/.gemini/settings.json", server)]);
    assert_eq!(
        project.written("proj/sub", &["proj/sub/server.js", "proj/sub/x.js"]).await.0,
        ["proj/sub/server.js"]
    );
    let server = r#"{"mcpServers":{"x":{"command":"node","args":["server.js"]}}}"#;
    for settings in [".claude.json", ".gemini/settings.json"] {
        let project = Project::new(&[(settings, server)]);
        assert_eq!(project.written("proj", &["proj/server.js", "proj/x.js"]).await.0, ["proj/server.js"]);
    }
    let project = Project::new(&[("proj/a/b/.gemini/settings.json", server)]);
    assert_eq!(project.written("proj", &["proj/a/b/server.js", "proj/x.js"]).await.0, ["proj/a/b/server.js"]);
}

#[tokio::test]
async fn where_settings_cannot_be_understood_every_changed_file_counts() {
    let long = format!(r#"{{"hooks":{{"Stop":[{{"hooks":[{{"command":"{}"}}]}}]}}}}"#, "x ".repeat(20_000));
    let project = Project::new(&[("proj/.gemini/settings.json", &long)]);
    let (found, _) = project.written("proj", &["proj/a.txt", "proj/.althing/log", "proj/sub/b"]).await;
    assert_eq!(found, ["proj/a.txt", "proj/sub/b"], "a long command");
    let project = Project::new(&[("proj/.gemini/settings.json", "{}")]);
    let settings = std::fs::File::create(project.home.join("proj/.gemini/settings.json")).unwrap();
    settings.set_len(65 << 20).unwrap();
    assert_eq!(project.written("proj", &["proj/a.txt"]).await.0, ["proj/a.txt"], "a file that is too large");
    let project = Project::new(&[("proj/.gemini/settings.json", "{}")]);
    assert_eq!(project.written("proj", &["proj/a.txt"]).await.0, [""; 0]);
}
