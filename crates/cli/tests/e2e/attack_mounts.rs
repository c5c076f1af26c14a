//! Ways around the read-only paths of a sandbox: second names of files, symlinks in the place of missing directories,
//! and renamed directories above them (row S17 of docs/reliability.md). Judged by what is on the disk, and by what an
//! agent learns.

use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};

use althing_testkit::docker::is_excluded;
use althing_testkit::{User, is_root, skip_unless_ci};

use super::attack_agents::{Act, Cell, Kind, SandboxName, World, users};
use super::support::{ensure, in_parallel};
use Kind::{CliAgent, Command, McpServer};
use SandboxName::{Bubblewrap, Landlock};

/// The kinds of agents with a shell, in each sandbox that protects paths from them.
const CONFINED: [(Kind, SandboxName); 5] = [
    (Command, Bubblewrap),
    (CliAgent, Bubblewrap),
    (McpServer, Bubblewrap),
    (Command, Landlock),
    (CliAgent, Landlock),
];

fn cells(kinds: &[(Kind, SandboxName)]) -> Vec<Cell> {
    if !is_root() {
        skip_unless_ci("only root can act as another user, and hide bubblewrap");
    }
    let possible = |sandbox: SandboxName| {
        !is_excluded(&format!("{sandbox:?}").to_lowercase()) && (sandbox == Bubblewrap || is_root())
    };
    let kinds = kinds.iter().filter(|(_, sandbox)| possible(*sandbox));
    let cell =
        |(kind, sandbox): &(Kind, SandboxName), user: User| Cell { kind: *kind, sandbox: *sandbox, user };
    kinds.flat_map(|kind| users().into_iter().map(move |user| cell(kind, user))).collect()
}

/// Has an agent run these commands in one run. `after` is called after each command with its number. Returns what the
/// agent was told. Fails unless each command was run to its end.
fn shell(
    world: &World,
    commands: &[String],
    mut after: impl FnMut(usize) + Send + 'static,
) -> Result<String, String> {
    let told: Arc<Mutex<String>> = Arc::default();
    let all = Arc::clone(&told);
    let acts: Vec<Act> =
        commands.iter().map(|command| Act::Shell(format!("{command}; printf can-%s act"))).collect();
    let judge = move |n: usize, said: &str| {
        all.lock().unwrap().push_str(said);
        after(n);
    };
    world.act(&[], &acts, judge);
    let told = told.lock().unwrap().clone();
    let acted = told.matches("can-act").count();
    ensure(acted == commands.len(), || format!("{:?}: it cannot act: {told}", world.cell))?;
    Ok(told)
}

#[test]
fn no_agent_writes_a_protected_file_by_its_second_name() {
    in_parallel(2, cells(&CONFINED), |cell| {
        let world = World::new(cell, None);
        let project = world.places.base.join("project");
        let (locked, second) = (project.join("vendor/locked/file"), project.join("second-name"));
        std::fs::hard_link(&locked, &second).unwrap();
        let (written, own) = (second.display(), project.join("src/main.rs"));
        let command = format!("echo planted >> '{written}'; echo written >> '{}'", own.display());
        shell(&world, &[command], |_| ())?;
        let text = |path| std::fs::read_to_string(path).unwrap();
        ensure(text(&locked) == "locked", || format!("{cell:?}: written by its second name"))?;
        ensure(text(&own).contains("written"), || format!("{cell:?}: other files stay writable"))
    });
}

#[test]
fn no_agent_puts_a_symlink_in_the_place_of_a_missing_directory_of_a_protected_path() {
    in_parallel(2, cells(&CONFINED), |cell| {
        let world = World::new(cell, None);
        let project = world.places.base.join("project");
        std::fs::remove_dir_all(project.join("vendor")).unwrap();
        let command =
            format!("cd '{}'; mv vendor src/moved; rmdir vendor; ln -s .. vendor", project.display());
        shell(&world, &[command], |_| ())?;
        let (link, moved) = (project.join("vendor").is_symlink(), project.join("src/moved").exists());
        ensure(!link && !moved, || format!("{cell:?}: link {link}, moved {moved}"))
    });
}

#[test]
fn a_symlink_that_appears_above_a_protected_path_shows_no_command_what_lies_behind_it() {
    in_parallel(2, cells(&[(Command, Bubblewrap), (Command, Landlock)]), |cell| {
        let world = World::new(cell, None);
        let base = world.places.base.clone();
        let file = base.join("project/vendor/locked/file");
        std::fs::remove_dir_all(base.join("project/vendor")).unwrap();
        std::fs::create_dir(base.join("locked")).unwrap();
        std::fs::write(base.join("locked/file"), "CANARY-outside").unwrap();
        // Between the two commands, somebody else links `vendor` to the directory above the project: `vendor/locked` is
        // then outside the project.
        let after = move |n| {
            if n == 0 {
                symlink("..", base.join("project/vendor")).unwrap();
            }
        };
        let told = shell(&world, &["true".to_owned(), format!("cat '{}'", file.display())], after)?;
        ensure(!told.contains("CANARY"), || format!("{cell:?}: {told}"))
    });
}

#[test]
fn no_mcp_server_renames_a_directory_above_a_read_only_path() {
    in_parallel(2, cells(&[(McpServer, Bubblewrap)]), |cell| {
        let world = World::new(cell, None);
        let base = world.places.base.clone();
        let dir = base.join("calls");
        let at = dir.display();
        let command = format!(
            "mv '{at}' '{at}-moved' && mkdir -p '{at}/context' && echo planted > '{at}/context/planted'; \
             echo written > '{at}/new'"
        );
        shell(&world, &[command], |_| ())?;
        let moved = base.join("calls-moved").exists() || dir.join("context/planted").exists();
        ensure(!moved && dir.join("context/system_calls.py").exists(), || format!("{cell:?}: renamed"))?;
        ensure(dir.join("new").exists(), || format!("{cell:?}: the directory above stays writable"))
    });
}
