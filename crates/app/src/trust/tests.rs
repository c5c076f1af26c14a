//! Tests of how trust in found configs and sessions is remembered.

use super::{Trust, contents_digest, one_line};
use crate::edit_trust::EditTrust;
use crate::environment::Environment;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[test]
fn no_name_of_a_directory_adds_a_line_or_looks_like_another_name() {
    let names: [&[u8]; 10] = [
        b"/a/b",
        b"/a\n/b",
        b"/a\\n/b",
        b"/a\r/b",
        b"/a\\r/b",
        b"/a\\/b",
        b"/a\xff/b",
        b"/a\xfe/b",
        b"/a\\xff/b",
        "/a\u{fffd}/b".as_bytes(),
    ];
    let lines: Vec<String> = names.map(|name| one_line(Path::new(OsStr::from_bytes(name)))).to_vec();
    assert!(lines.iter().all(|line| line.lines().count() == 1), "{lines:?}");
    let different: std::collections::BTreeSet<&String> = lines.iter().collect();
    assert_eq!(different.len(), names.len(), "{lines:?}");
    assert_eq!(lines[0], "/a/b", "an ordinary path is written as it is");
}

#[test]
fn any_change_below_a_directory_changes_its_digest() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("tasks")).unwrap();
    std::fs::write(dir.path().join("log"), "one").unwrap();
    let mut seen = std::collections::BTreeSet::from([contents_digest(dir.path()).unwrap()]);
    assert!(seen.contains(&contents_digest(dir.path()).unwrap()), "without a change it is the same");
    let changes: [&dyn Fn(&Path); 5] = [
        &|dir| std::fs::write(dir.join("log"), "two").unwrap(),
        &|dir| std::fs::write(dir.join("tasks/more"), "").unwrap(),
        &|dir| std::fs::rename(dir.join("tasks/more"), dir.join("more")).unwrap(),
        &|dir| {
            std::fs::create_dir_all(dir.join("tasks/r1/workspaces/a")).unwrap();
            std::os::unix::fs::symlink("/etc", dir.join("tasks/r1/workspaces/a/link")).unwrap();
        },
        &|dir| std::fs::create_dir(dir.join("empty")).unwrap(),
    ];
    for change in changes {
        change(dir.path());
        assert!(seen.insert(contents_digest(dir.path()).unwrap()));
    }
}

#[test]
fn a_link_outside_the_directories_of_agents_has_no_digest() {
    for place in [
        "events.jsonl",
        "tasks",
        "tasks/r1/preimages",
        "tasks/r1/workspaces",
        "tasks/r1/workspaces/a",
        "tasks/views/preimages/a",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join(place);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        let error = contents_digest(dir.path()).unwrap_err().to_string();
        assert!(error.contains(place), "{error}");
    }
}

#[test]
fn what_another_user_remembered_is_not_trusted_and_not_added_to() {
    if !althing_testkit::is_root() {
        return althing_testkit::skip_unless_ci("only root can give files to another user");
    }
    let home = tempfile::tempdir().unwrap();
    let mut environment = Environment::read().unwrap();
    environment.set_for_test("XDG_STATE_HOME", home.path().to_str().unwrap());
    let state = home.path().join("althing");
    let (config, digest) = (Path::new("/p/althing.yaml"), "d");
    let trust = Trust { path: config, digest };
    let edits = EditTrust::of(&environment);
    trust.give(&environment).unwrap();
    std::fs::write(state.join("edits"), "/p\n").unwrap();
    let give = |path: &Path, uid| std::os::unix::fs::chown(path, Some(uid), Some(uid)).unwrap();
    assert!(trust.is_given(&environment) && edits.is_given("/p"));
    for place in [state.join("trusted"), state.clone()] {
        give(&place, 65534);
        assert!(!trust.is_given(&environment), "{}", place.display());
        let refused = trust.give(&environment).unwrap_err().message;
        assert!(refused.contains("belongs to another user"), "{refused}");
        give(&place, 0);
        assert!(trust.is_given(&environment));
    }
    give(&state.join("edits"), 65534);
    assert!(!edits.is_given("/p"));
}
