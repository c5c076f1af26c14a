//! State directories that other users of the machine made, or may write to: they are not used unless the user names
//! them, whoever the user is, and what the user owns is made private (row S13b of docs/reliability.md).

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use althing_testkit::process::newest_session;
use althing_testkit::{Althing, ORDINARY_ID, Output, is_root, reachable, skip_unless_ci};

use super::support::{LIMIT, althing, paths_below};

fn found(althing: &Althing, args: &[&str]) -> Output {
    althing.new_command().env("ALTHING_STATE_DIR", "").args(args).spawn().wait(LIMIT)
}

/// Runs Althing as an ordinary user, to whom the home directory is given. The working directory keeps its owner.
fn as_ordinary_user(althing: &Althing, args: &[&str]) -> Output {
    for path in paths_below(&althing.home_dir()).into_iter().chain([althing.home_dir()]) {
        chown(path, Some(ORDINARY_ID), Some(ORDINARY_ID)).unwrap();
    }
    for dir in [althing.home_dir(), althing.work_dir(), althing.work_dir().join("..")] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let binary = reachable(Path::new(env!("CARGO_BIN_EXE_althing")));
    let ids = [format!("--reuid={ORDINARY_ID}"), format!("--regid={ORDINARY_ID}"), "--clear-groups".into()];
    let command = althing.program("/usr/bin/setpriv").args(ids).arg(binary).args(args.iter().copied());
    command.env("ALTHING_STATE_DIR", "").env("PATH", "/usr/bin:/bin").spawn().wait(LIMIT)
}

fn give_away(path: &Path, owner: u32) {
    chown(path, Some(owner), Some(owner)).unwrap();
    if path.is_dir() {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    }
}

const COMMANDS: [&[&str]; 7] = [
    &["--offline", "--automation", "task"],
    &["--offline", "--automation", "--continue", "task"],
    &["sessions"],
    &["sessions", "cost"],
    &["resume"],
    &["undo", "20260101-000000-0000.r1"],
    &["--offline", "--automation", "--execute-plan", "latest"],
];

fn assert_refused(output: &Output, path: &Path, owner: u32) {
    assert_eq!(output.code, Some(1), "{output:?}");
    let path = path.file_name().unwrap().to_str().unwrap();
    let who = format!("{path} belongs to another user (");
    assert!(output.stderr.contains(&who), "{output:?}");
    assert!(output.stderr.contains(&format!("user id {owner})")), "{output:?}");
    assert!(output.stderr.contains("--state-dir"), "{output:?}");
}

#[test]
fn a_state_directory_of_another_user_is_used_only_if_it_is_named() {
    if !is_root() {
        return skip_unless_ci("only root can give files to another user");
    }
    let places = ["", "sessions", "plans", ".gitignore", "agents"];
    for place in places {
        let althing = althing();
        let state = althing.work_dir().join(".althing");
        for dir in ["sessions", "plans", "agents"] {
            std::fs::create_dir_all(state.join(dir)).unwrap();
        }
        std::fs::write(state.join(".gitignore"), "*\n").unwrap();
        let foreign = if place.is_empty() { state.clone() } else { state.join(place) };
        give_away(&foreign, ORDINARY_ID);
        let before = paths_below(&state);
        for args in COMMANDS {
            assert_refused(&found(&althing, args), &foreign, ORDINARY_ID);
        }
        assert_eq!(paths_below(&state), before, "{place}: nothing is written");
        let named = ["--offline", "--automation", "--state-dir", ".althing", "task"];
        found(&althing, &named).expect_code(0);
        let absolute = althing.new_command().env("ALTHING_STATE_DIR", &state);
        absolute.args(["sessions"]).spawn().wait(LIMIT).expect_code(0);
    }
}

#[test]
fn an_ordinary_user_uses_no_state_directory_of_root() {
    if !is_root() {
        return skip_unless_ci("only root can act as another user");
    }
    let althing = althing();
    let state = althing.work_dir().join(".althing");
    std::fs::create_dir_all(state.join("sessions")).unwrap();
    std::fs::set_permissions(&state, PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::set_permissions(state.join("sessions"), PermissionsExt::from_mode(0o777)).unwrap();
    let before = paths_below(&state);
    for args in COMMANDS {
        assert_refused(&as_ordinary_user(&althing, args), &state, 0);
    }
    assert_eq!(paths_below(&state), before, "nothing is written");
}

/// As in a container, where the checkout often belongs to another user.
#[test]
fn only_the_owner_of_the_state_directory_counts_and_not_that_of_the_working_directory() {
    if !is_root() {
        return skip_unless_ci("only root can give files to another user");
    }
    let althing = althing();
    give_away(&althing.work_dir(), ORDINARY_ID);
    let output = found(&althing, &["--offline", "--automation", "task"]).expect_code(0);
    let state = althing.work_dir().join(".althing");
    assert_eq!(state.metadata().unwrap().uid(), 0, "{output:?}");
    found(&althing, &["sessions"]).expect_code(0);

    // A session of another user between the user's own is not read, and the others are.
    let session = newest_session(&state).unwrap();
    let planted = state.join("sessions/20990101-000000-0000");
    std::fs::create_dir(&planted).unwrap();
    for name in ["events.jsonl", "session.json"] {
        std::fs::copy(session.join(name), planted.join(name)).unwrap();
    }
    give_away(&planted, ORDINARY_ID);
    let listed = found(&althing, &["sessions", "--json"]).expect_code(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let of = |id: &str| listed.as_array().unwrap().iter().find(|at| at["id"] == id).cloned().unwrap();
    let own = of(session.file_name().unwrap().to_str().unwrap());
    assert!(own["damage"].is_null() && own["status"] != "unreadable", "{listed}");
    let planted = of("20990101-000000-0000");
    assert_eq!(planted["status"], "unreadable", "{listed}");
    assert!(planted["damage"].as_str().unwrap().contains("belongs to another user"), "{listed}");
    for args in [&["sessions", "show", "20990101-000000-0000"] as &[_], &["resume", "20990101-000000-0000"]] {
        let refused = found(&althing, args);
        assert!(refused.stderr.contains("belongs to another user"), "{refused:?}");
    }
    found(&althing, &["sessions", "remove", "20990101-000000-0000"]).expect_code(0);
}

#[test]
fn a_state_directory_that_others_may_write_to_is_made_private_with_a_notice() {
    let althing = althing();
    let state = althing.work_dir().join(".althing");
    std::fs::create_dir_all(state.join("sessions")).unwrap();
    std::fs::create_dir_all(state.join("plans")).unwrap();
    for (dir, mode) in [("", 0o775), ("sessions", 0o777), ("plans", 0o2770)] {
        std::fs::set_permissions(state.join(dir), PermissionsExt::from_mode(mode)).unwrap();
    }
    let output = found(&althing, &["--offline", "--automation", "task"]).expect_code(0);
    for dir in ["", "sessions", "plans"] {
        let mode = state.join(dir).metadata().unwrap().mode() & 0o777;
        assert_eq!(mode, 0o700, "{dir}");
    }
    assert!(output.stderr.contains("other users could write to"), "{output:?}");
    let output = found(&althing, &["sessions"]).expect_code(0);
    assert!(!output.stderr.contains("other users"), "{output:?}");
    let session = newest_session(&state).unwrap();
    for (name, mode) in [("", 0o700), ("events.jsonl", 0o600), ("token", 0o600), ("lock", 0o600)] {
        assert_eq!(session.join(name).metadata().unwrap().mode() & 0o777, mode, "{name}");
    }
    // A state directory that the user names is used as it is, even if a group may write to it.
    let named = althing.work_dir().join("shared");
    std::fs::create_dir(&named).unwrap();
    std::fs::set_permissions(&named, PermissionsExt::from_mode(0o770)).unwrap();
    found(&althing, &["--state-dir", "shared", "--offline", "--automation", "task"]).expect_code(0);
    assert_eq!(named.metadata().unwrap().mode() & 0o777, 0o770);
}
