//! Finds the scripts that the settings of CLI agents and editors name: if `.claude/settings.json` has the hook
//! `sh scripts/hook.sh`, then writing to that script changes code that Claude Code runs.

use crate::git_code::paths_in_command;
use crate::protected_paths::matching_row;
use crate::repositories::open_regular;
use althing_protocol::RunsCode;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

const MAX_BYTES: u64 = 1 << 20;
const COMMAND_KEYS: [&str; 6] =
    ["command", "args", "apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "otelHeadersHelper"];

pub(crate) fn settings_code<'a>(
    files: impl Iterator<Item = &'a PathBuf>,
    roots: &[PathBuf],
) -> Vec<(PathBuf, &'static RunsCode)> {
    let mut found = Vec::new();
    for file in files {
        let (Some(top), Some(row)) = (top_of(file), row_of(file)) else { continue };
        let named = commands(file).into_iter().flat_map(|command| paths_in_command(command.as_bytes(), top));
        for path in named.filter_map(|path| path.canonicalize().ok()) {
            if path.is_file() && roots.iter().any(|root| path.starts_with(root)) {
                found.push((path, row));
            }
        }
    }
    found
}

/// The directory in which the commands in a settings file run; `None` for any other file.
fn top_of(file: &Path) -> Option<&Path> {
    let (name, dir) = (file.file_name()?.to_str()?, file.parent()?);
    let is_settings = || name.strip_suffix(".json").is_some_and(|name| name.starts_with("settings"));
    let is_in = |known: &str| dir.file_name().is_some_and(|name| name == known);
    match name {
        ".mcp.json" => Some(dir),
        "tasks.json" if is_in(".vscode") => dir.parent(),
        _ if is_in(".claude") && is_settings() => dir.parent(),
        _ => None,
    }
}

fn row_of(file: &Path) -> Option<&'static RunsCode> {
    let rows = file.ancestors().filter_map(|path| matching_row(path.parent()?, path.file_name()?));
    rows.into_iter().find(|row| row.protected)
}

fn commands(file: &Path) -> Vec<String> {
    let Ok(Some(file)) = open_regular(file) else { return Vec::new() };
    let mut bytes = Vec::new();
    if file.take(MAX_BYTES).read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut found = Vec::new();
    match serde_json::from_str::<Value>(&text) {
        Ok(value) => add_commands(&value, false, &mut found),
        Err(_) => found.extend(text.lines().map(|line| line.replace(['[', ']'], " "))),
    }
    found
}

fn add_commands(value: &Value, is_command: bool, found: &mut Vec<String>) {
    match value {
        Value::String(text) if is_command => found.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| add_commands(value, is_command, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                add_commands(value, is_command || COMMAND_KEYS.contains(&key.as_str()), found);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::settings_code;

    #[test]
    fn scripts_in_commands_of_settings_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let settings = [
            (
                ".claude/settings.json",
                r#"{"hooks":{"Stop":[{"hooks":[{"command":"sh scripts/hook.sh"}]}]},
                "statusLine":{"command":"$CLAUDE_PROJECT_DIR/scripts/line.sh"},
                "permissions":{"allow":["Read(src/main.rs)"]}}"#,
            ),
            (".mcp.json", r#"{"mcpServers":{"x":{"command":"node","args":["server.js","missing.js"]}}}"#),
            (".vscode/tasks.json", "// not JSON\n{\"tasks\":[{\"command\":\"scripts/task.sh\"}]}"),
        ];
        let scripts = ["scripts/hook.sh", "scripts/line.sh", "scripts/task.sh", "server.js"];
        let files =
            settings.iter().copied().chain(scripts.map(|name| (name, ""))).chain([("src/main.rs", "")]);
        for (name, text) in files {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            let text =
                if name.ends_with("tasks.json") { [text.as_bytes(), b"\xff"].concat() } else { text.into() };
            std::fs::write(root.join(name), text).unwrap();
        }
        let paths = settings.map(|(name, _)| root.join(name));
        let mut found: Vec<_> = settings_code(paths.iter(), std::slice::from_ref(&root))
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        found.sort();
        assert_eq!(found, scripts.map(|name| root.join(name)));
    }
}
