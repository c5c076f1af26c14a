//! Hidden writes in the table of attacks: an agent changes files in writable context paths in every way it can. Every
//! change that is found on disk afterwards must be listed in the result, and `undo` must restore everything.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::attack_agents::{Act, Kind, World};
use super::support::{ensure, paths_below};

const BEFORE: [&str; 4] =
    ["project/sub/old.txt", "fresh/src/old.txt", "fresh/deep/er/old.txt", "fresh/.env.sample"];

const TARGETS: [&str; 14] = [
    "project/src/new.txt",
    "project/sub/old.txt",
    "project/sub/.git/hooks/pre-commit",
    "project/.env",
    "project/node_modules/.bin/tool",
    "fresh/src/old.txt",
    "fresh/.env",
    "fresh/.envrc",
    "fresh/node_modules/lib/index.js",
    "fresh/.venv/bin/activate",
    "fresh/src/__pycache__/x.pyc",
    "fresh/.althing/config.yaml",
    "fresh/deep/.git/hooks/pre-commit",
    "fresh/.vscode/tasks.json",
];

/// The mode, and the content or the link target, of every file and link below the writable context paths, except for
/// the state directory.
fn tree(world: &World) -> BTreeMap<PathBuf, String> {
    let state = world.state_dir();
    let mut tree = BTreeMap::new();
    for path in ["project", "fresh"].into_iter().flat_map(|dir| paths_below(&world.places.base.join(dir))) {
        let data = path.symlink_metadata().unwrap();
        // Directories are not compared, because an empty one harms nobody.
        if path.starts_with(&state) || data.is_dir() {
            continue;
        }
        let content = match path.read_link() {
            Ok(target) => format!("-> {}", target.display()),
            Err(_) => String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned(),
        };
        tree.insert(path, format!("{:o} {content}", data.permissions().mode()));
    }
    tree
}

fn acts(world: &World) -> Vec<Act> {
    let path = |inside: &str| world.places.base.join(inside).display().to_string();
    if world.cell.kind == Kind::FileTools {
        let write =
            |target: &str| Act::Tool("write_file", json!({"path": path(target), "content": "planted"}));
        let mut acts: Vec<Act> = TARGETS.map(write).into();
        acts.push(Act::Tool("delete_file", json!({ "path": path("fresh/deep/er/old.txt") })));
        return acts;
    }
    let write = |target: &str| {
        let file = path(target);
        Act::Shell(format!("mkdir -p \"$(dirname '{file}')\"; echo planted > '{file}'"))
    };
    let mut acts: Vec<Act> = TARGETS.map(write).into();
    let (fresh, linked) = (path("fresh"), path("project/notes.txt"));
    for line in [
        format!("rm '{fresh}/deep/er/old.txt'"),
        format!("mv '{fresh}/.env.sample' '{fresh}/src/moved'"),
        format!("chmod 755 '{fresh}/src/main.rs'"),
        format!("ln -s /etc/passwd '{fresh}/src/link'"),
        format!("ln '{linked}' '{fresh}/src/hard'; echo planted >> '{fresh}/src/hard'"),
    ] {
        acts.push(Act::Shell(line));
    }
    acts
}

pub fn write_unnoticed(world: &World) -> Result<(), String> {
    for file in BEFORE {
        let file = world.places.base.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "before\n").unwrap();
    }
    let before = tree(world);
    let (output, _) = world.act(&["--json"], &acts(world), |_, _| ());
    let result: Value = serde_json::from_str(&output.stdout)
        .map_err(|error| format!("{:?}: {error}: {} {}", world.cell, output.stdout, output.stderr))?;
    let after = tree(world);
    let changed: Vec<&PathBuf> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    ensure(!changed.is_empty(), || format!("{:?}: it changed nothing: {}", world.cell, output.stderr))?;
    let listed: Vec<&str> = result["context_path_writes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|write| write["path"].as_str())
        .collect();
    let missed: Vec<&&PathBuf> =
        changed.iter().filter(|path| !listed.contains(&&*path.to_string_lossy())).collect();
    ensure(missed.is_empty(), || format!("{:?}: not listed: {missed:?}", world.cell))?;
    let sessions = std::fs::read_dir(world.state_dir().join("sessions")).unwrap();
    let session = sessions.map(|entry| entry.unwrap().file_name()).max().unwrap();
    let undone = world.command().arg("undo").arg(session).spawn().wait(super::support::LIMIT);
    let left = tree(world);
    let wrong: Vec<String> = before
        .keys()
        .chain(left.keys())
        .filter(|path| before.get(*path) != left.get(*path))
        .map(|path| format!("{}: {:?}, was {:?}", path.display(), left.get(path), before.get(path)))
        .collect();
    ensure(undone.code == Some(0) && wrong.is_empty(), || {
        format!("{:?}: not undone: {wrong:#?}: {} {}", world.cell, undone.stdout, undone.stderr)
    })
}
