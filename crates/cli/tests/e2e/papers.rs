//! The documentation matches the binary: the examples run, and so do the commands in the README and the guide.
//!
//! No network: `althing` in these commands is the binary with `--offline`, CLI agents are stand-ins, and `cargo` is a
//! script that builds nothing and starts `althing` for `cargo run --release --`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use althing_testkit::{Althing, Output};
use serde_json::Value;

use super::support::{LIMIT, SKY, althing, ensure, in_parallel, run};

/// A stand-in for every CLI agent: with `-p` it prints a result event as `claude` does. Otherwise it says hello; in a
/// terminal it also reports that it is ready, and reads its prompt.
const STAND_IN: &str = r#"case " $* " in
*" -p "*) cat > /dev/null; echo '{"type":"result","subtype":"success","is_error":false,"result":"Three changes.","session_id":"s1"}';;
*) echo "hello from a stand-in"; if [ -t 0 ]; then printf '\033]7501;state=idle\007'; read -r prompt; fi;;
esac"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The binary in a project as the documentation assumes it: a repository with sources and the examples.
fn docs_project() -> Althing {
    let althing = althing();
    let bin = althing.home_dir().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let script = |name: &str, text: &str| {
        let path = bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let binary = env!("CARGO_BIN_EXE_althing");
    let offline = format!(
        "case \" $* \" in *' --offline '*) exec {binary} \"$@\";; *) exec {binary} \"$@\" --offline;; esac"
    );
    script("althing", &offline);
    script("cargo", "case \"$*\" in 'run --release -- '*) shift 3; exec althing \"$@\";; esac");
    for program in althing_protocol::AGENT_KINDS.iter().map(|row| row.program) {
        script(program, STAND_IN);
    }
    std::fs::write(bin.join("sky.py"), SKY).unwrap();
    script("uvx", &format!("exec python3 {}", bin.join("sky.py").display()));
    std::fs::create_dir_all(althing.work_dir().join("src")).unwrap();
    althing.file("src/main.rs", "fn main() {}\n");
    althing.file("README.md", "# A project\n");
    std::os::unix::fs::symlink(root().join("examples"), althing.work_dir().join("examples")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    // The state directory is not set, so it is where the documentation says.
    let althing = althing.env("PATH", path).env("ALTHING_STATE_DIR", "");
    let git = "git init -q . && git add src && git -c user.name=n -c user.email=e@e commit -qm 'Begin'";
    shell(&althing, git).expect_code(0);
    althing
}

fn shell(althing: &Althing, commands: &str) -> Output {
    althing.program("sh").args(["-ec", commands]).spawn().wait(LIMIT)
}

/// API keys are set, and warnings count as problems.
fn problems(althing: &Althing, file: &str) -> Result<(), String> {
    let keys = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"];
    let keyed =
        keys.into_iter().fold(althing.new_command(), |althing, key| althing.env(key, "a-key-for-the-check"));
    let text = std::fs::read_to_string(althing.work_dir().join(file)).unwrap();
    let is_workflow = text.lines().any(|line| line == "stages:");
    let what = if is_workflow { "workflow" } else { "config" };
    let output = run(&keyed, &[what, "check", "--offline", "--json", file]);
    let report: Value = serde_json::from_str(&output.stdout).map_err(|_| output.stderr.clone())?;
    let clean = output.code == Some(0) && report["warnings"] == serde_json::json!([]);
    ensure(clean, || format!("{file}: {report:#}"))
}

#[test]
fn every_example_is_listed_valid_and_runs_with_the_offline_model() {
    let folder = root().join("examples");
    let list = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|kind| kind == "yaml"));
    let names: Vec<String> =
        files.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert!(names.len() >= 14, "{names:?}");
    in_parallel(4, names, |name| {
        ensure(list.contains(&format!("({name})")), || format!("{name} is not in examples/README.md"))?;
        let docs_project = docs_project();
        problems(&docs_project, &format!("examples/{name}"))?;
        let text = std::fs::read_to_string(folder.join(&name)).unwrap();
        let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("#   ")).collect();
        ensure(!commands.is_empty(), || format!("{name} does not say how it is run"))?;
        for command in commands {
            // Without a task the command starts a conversation, which needs a message.
            let has_task = command.contains('"') || command.contains("--execute-plan");
            let talks = !has_task && command.starts_with("althing --config");
            let command = match command.strip_prefix("althing ").filter(|_| talks) {
                Some(rest) => format!("echo 'Compare two parsers' | althing chat --approve always {rest}"),
                None => command.to_owned(),
            };
            let output = shell(&docs_project, &command);
            let answered = output.code == Some(0) && !output.stdout.trim().is_empty();
            ensure(answered, || format!("{name}: {command}\n{}\n{}", output.stdout, output.stderr))?;
        }
        Ok(())
    });
}

const DOCUMENTS: [&str; 12] = [
    "README.md",
    "docs/start.md",
    "docs/runs.md",
    "docs/teams.md",
    "docs/workflows.md",
    "docs/cli-agents.md",
    "docs/sessions.md",
    "docs/report.md",
    "docs/scripts.md",
    "docs/eval.md",
    "docs/mcp.md",
    "docs/troubleshooting.md",
];

struct CodeBlock<'a> {
    kind: &'a str,
    text: String,
    /// Whether the line above the block says that the block is not run, and why.
    is_skipped: bool,
}

fn blocks(document: &str) -> Vec<CodeBlock<'_>> {
    let mut found = Vec::new();
    let mut lines = document.lines();
    let mut above = "";
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let is_skipped = above.starts_with("<!-- not run: ");
            found.push(CodeBlock { kind, text: text.join("\n"), is_skipped });
        }
        if !line.is_empty() {
            above = line;
        }
    }
    found
}

fn run_document(name: &str) -> Result<(), String> {
    let document = std::fs::read_to_string(root().join(name)).unwrap();
    let docs_project = docs_project();
    for block in blocks(&document) {
        let CodeBlock { kind, text, is_skipped } = block;
        match kind {
            "yaml" => {
                let file = text.lines().next().and_then(|line| line.strip_prefix("# "));
                let is_name = |file: &&str| Path::new(file).extension().is_some_and(|kind| kind == "yaml");
                let file = file.filter(is_name).filter(|file| !file.contains(' '));
                let file = file.ok_or_else(|| format!("{name}: a config has no name:\n{text}"))?;
                docs_project.file(file, &text);
                problems(&docs_project, file).map_err(|why| format!("{name}: {why}"))?;
            }
            "json" => {
                let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
                let wrong = { values }.find_map(Result::err);
                ensure(wrong.is_none(), || format!("{name}: {wrong:?} in\n{text}"))?;
            }
            "sh" if !is_skipped => {
                let output = shell(&docs_project, &text);
                let (stdout, stderr) = (&output.stdout, &output.stderr);
                ensure(output.code == Some(0), || format!("{name}: {text}\n{stdout}\n{stderr}"))?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn the_commands_and_configs_of_the_readme_and_the_guide_work() {
    in_parallel(4, DOCUMENTS, run_document);
}

#[test]
fn every_option_and_command_is_in_the_reference_table() {
    let table = std::fs::read_to_string(root().join("docs/scripts.md")).unwrap();
    let help = run(&althing(), &["--help"]).expect_code(0).stdout;
    let (commands, options) = help.split_once("Arguments:").unwrap();
    // Descriptions are indented further than the names of options and commands.
    let options = options.lines().filter_map(|line| line.strip_prefix("      "));
    let options = options.filter(|line| line.starts_with("--"));
    let options = options.filter_map(|line| line.split([' ', '[', '=']).next());
    let commands = commands.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands =
        commands.filter_map(|line| line.strip_prefix("  ")?.split_once("  ").map(|(name, _)| name));
    let commands = commands.filter(|name| !name.is_empty());
    let said: Vec<&str> =
        options.chain(commands).filter(|word| !["--help", "--version", "help"].contains(word)).collect();
    assert!(said.len() > 33, "{said:?}");
    for word in said {
        let named = [format!("`{word}"), format!(" {word}"), format!("`althing {word}")];
        assert!(
            named.iter().any(|name| table.contains(name.as_str())),
            "docs/scripts.md does not name {word}"
        );
    }
}
