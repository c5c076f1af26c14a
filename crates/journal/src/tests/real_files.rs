//! Tests on the real disk: modes, links, names, locks, and errors with hints for the user.

use super::{batches, id, session, write};
use crate::{CheckpointFold, Owners, SessionError, open_existing_state, open_state, rebuild_checkpoint};
use althing_disk::DiskError;
use althing_protocol::{Journal, JournalErrorKind, Seq, SessionId, SessionStore};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn modes_below(dir: &Path, out: &mut Vec<(String, u32)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        out.push((entry.path().display().to_string(), meta.permissions().mode() & 0o777));
        if meta.is_dir() {
            modes_below(&entry.path(), out);
        }
    }
}

#[test]
fn files_are_private_and_ignored_by_git() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("deep/er/.althing");
    let sessions = open_state(&state, Owners::Me).unwrap();
    let events = session(30);
    let mut writer = sessions.create(&id()).unwrap();
    let mut fold = CheckpointFold::default();
    for batch in batches(&events) {
        write(&mut writer, &mut fold, batch);
    }
    writer.write_file(&"r1".into(), "answers/agent1.1.md", "# An answer").unwrap();
    writer.write_file(&"r1".into(), "final.md", "old").unwrap();
    writer.write_file(&"r1".into(), "final.md", "the end").unwrap();
    assert_eq!(fs::read_to_string(writer.task_dir(&"r1".into()).join("final.md")).unwrap(), "the end");
    let dir = writer.dir().to_owned();
    writer.close().unwrap();
    // Tear the end of the log, so that there is a file with damaged bytes as well.
    let log = dir.join("events.jsonl");
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..bytes.len() - 5]).unwrap();
    drop(sessions.open(&id()).unwrap());

    assert_eq!(fs::read_to_string(state.join(".gitignore")).unwrap(), "*\n");
    let mut modes = Vec::new();
    modes_below(&home.path().join("deep"), &mut modes);
    assert!(modes.iter().any(|(path, _)| path.ends_with("events.jsonl.damaged-1")), "{modes:?}");
    assert!(modes.len() >= 12, "{modes:?}");
    for (path, mode) in modes {
        let expected = if Path::new(&path).is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{path}");
    }
}

#[test]
fn a_session_and_its_background_checkpoint_are_stored_and_read_back() {
    let home = tempfile::tempdir().unwrap();
    let sessions = open_state(home.path(), Owners::Me).unwrap();
    let events = session(500);
    let mut writer = sessions.create(&id()).unwrap();
    let mut fold = CheckpointFold::default();
    for batch in batches(&events) {
        write(&mut writer, &mut fold, batch);
    }
    drop(writer);
    assert_eq!(sessions.checkpoint(&id()), rebuild_checkpoint(&events));
    assert_eq!(sessions.open(&id()).unwrap().events, events);
    assert!(matches!(sessions.create(&id()), Err(SessionError::Exists { .. })));
    sessions.remove(&id()).unwrap();
    assert_eq!(sessions.list().unwrap(), []);
    assert_eq!(fs::read_dir(home.path().join("sessions")).unwrap().count(), 0);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let sessions = open_state(home.path(), Owners::Me).unwrap();
    for bad in ["", ".", "..", "../x", "a/b", "/etc", "a\0b", ".hidden", "a b", "a\nb"] {
        assert!(matches!(sessions.open(&bad.into()), Err(SessionError::InvalidId { .. })), "{bad:?}");
        assert!(sessions.create(&bad.into()).is_err(), "{bad:?}");
        assert!(sessions.remove(&bad.into()).is_err(), "{bad:?}");
    }
    let mut writer = sessions.create(&id()).unwrap();
    for bad in ["", "..", "../x", "/etc/passwd", "a/../b", "a/b/c", "a/", "/a", "a\0b", "a//b", ".x", "a/.x"]
    {
        let error = writer.write_file(&"r1".into(), bad, "text").unwrap_err();
        assert!(!error.is_retryable(), "{bad:?}");
    }
    assert!(writer.write_file(&"../r1".into(), "x", "text").is_err());
}

#[test]
fn links_in_a_session_are_not_followed_when_writing_or_deleting() {
    let home = tempfile::tempdir().unwrap();
    let precious = home.path().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("file"), "keep me").unwrap();
    let sessions = open_state(&home.path().join("state"), Owners::Me).unwrap();
    let dir = sessions.session_dir(&id());
    fs::create_dir(&dir).unwrap();
    symlink(precious.join("file"), dir.join("events.jsonl")).unwrap();
    symlink(&precious, dir.join("tasks")).unwrap();
    assert!(sessions.create(&id()).is_err());
    sessions.remove(&id()).unwrap();
    assert_eq!(fs::read_to_string(precious.join("file")).unwrap(), "keep me");
}

#[test]
fn what_is_in_the_place_of_a_directory_is_called_what_it_is() {
    let home = tempfile::tempdir().unwrap();
    let (socket, link) = (home.path().join("socket/sessions"), home.path().join("link/sessions"));
    for path in [&socket, &link] {
        fs::create_dir(path.parent().unwrap()).unwrap();
    }
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    symlink("/tmp", &link).unwrap();
    for (path, what) in [(&socket, "is a socket"), (&link, "is a symbolic link, which is not followed")] {
        let error = open_existing_state(path.parent().unwrap(), Owners::Me).err().unwrap();
        assert_eq!(error.to_string(), format!("{} {what}", path.display()));
        assert!(error.hint().unwrap().contains("replace"), "{:?}", error.hint());
    }
}

#[test]
fn files_with_a_second_name_are_neither_locked_nor_written() {
    let home = tempfile::tempdir().unwrap();
    let sessions = open_state(&home.path().join("state"), Owners::Me).unwrap();
    let mut writer = sessions.create(&id()).unwrap();
    let mut fold = CheckpointFold::default();
    write(&mut writer, &mut fold, &session(3));
    drop(writer);
    let dir = sessions.session_dir(&id());
    let torn = format!("{}torn", fs::read_to_string(dir.join("events.jsonl")).unwrap());
    for (name, text) in [("lock", "export PATH\n"), ("events.jsonl", &torn)] {
        let victim = home.path().join("victim");
        fs::write(&victim, text).unwrap();
        fs::remove_file(dir.join(name)).unwrap();
        fs::hard_link(&victim, dir.join(name)).unwrap();
        assert!(sessions.open(&id()).is_err() && sessions.repair(&id()).is_err(), "{name}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), text, "{name}");
        fs::remove_file(&victim).unwrap();
        sessions.open(&id()).unwrap();
    }
}

#[test]
fn a_state_directory_that_cannot_be_used_says_why_and_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = open_state(&path, Owners::Me).err().unwrap();
        assert!(
            matches!(&error, SessionError::Disk(DiskError::NotADirectory { path }) if *path == file),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("--state-dir"));
    }
    let error = open_state(Path::new("/proc/althing"), Owners::Me).err().unwrap();
    assert!(error.to_string().contains("/proc/althing"), "{error}");
    assert!(open_existing_state(&home.path().join("nowhere"), Owners::Me).unwrap().is_none());
    assert!(open_existing_state(home.path(), Owners::Me).unwrap().unwrap().list().unwrap().is_empty());
    assert!(open_existing_state(&file, Owners::Me).is_err());
}

#[test]
fn a_locked_session_names_its_owner() {
    let home = tempfile::tempdir().unwrap();
    let sessions = open_state(home.path(), Owners::Me).unwrap();
    let mut writer = sessions.create(&id()).unwrap();
    writer.append(&session(1)).unwrap();
    let error = sessions.open(&id()).err().unwrap();
    let pid = std::process::id();
    assert!(matches!(error, SessionError::Locked { pid: Some(p), .. } if p == pid), "{error}");
    assert!(
        error.kind() == JournalErrorKind::OwnedElsewhere && error.hint().unwrap().contains(&pid.to_string())
    );
    assert_eq!(sessions.read(&id()).unwrap().events.len(), 1, "reading needs no lock");
    assert!(sessions.list().unwrap()[0].is_owned);
    drop(writer);
    assert!(!sessions.list().unwrap()[0].is_owned);
    assert!(sessions.open(&id()).is_ok());
    let missing = SessionId::from("20200101-000000-0000");
    assert!(matches!(sessions.open(&missing), Err(SessionError::NotFound { .. })));
}

#[test]
fn a_session_that_was_just_created_reads_as_empty() {
    let home = tempfile::tempdir().unwrap();
    let sessions = open_state(home.path(), Owners::Me).unwrap();
    let store: &dyn SessionStore = &sessions;
    let writer = sessions.create(&id()).unwrap();
    let new = store.read(&id(), Seq(0)).unwrap();
    assert!(new.is_owned && new.events.is_empty() && new.damage.is_none(), "{new:?}");
    drop(writer);
    let error = store.read(&id(), Seq(0)).unwrap_err();
    assert_eq!(error.kind, JournalErrorKind::Blank, "no process will write its first event: {error:?}");
}

#[test]
fn a_gitignore_that_does_not_exclude_everything_is_replaced() {
    let home = tempfile::tempdir().unwrap();
    let ignore = home.path().join(".gitignore");
    let replaced = ["", "!*\n", "*\n!sessions\n", "# *\n", "*.log\n", "\\*\n", "*\n !x\n!y"];
    let large = format!("*\n{}", "#\n".repeat(40_000));
    for text in replaced.into_iter().chain([large.as_str()]) {
        fs::write(&ignore, text).unwrap();
        open_state(home.path(), Owners::Me).unwrap();
        assert_eq!(fs::read_to_string(&ignore).unwrap(), "*\n", "{text:.20}");
    }
    for text in ["*\n", "*", "# mine\n\n*\n", "*\r\n", "other\n*  \n", "/*\n", "**\n"] {
        fs::write(&ignore, text).unwrap();
        open_state(home.path(), Owners::Me).unwrap();
        assert_eq!(fs::read_to_string(&ignore).unwrap(), text);
    }
    fs::remove_file(&ignore).unwrap();
    symlink(home.path().join("elsewhere"), &ignore).unwrap();
    fs::write(home.path().join("elsewhere"), "!*\n").unwrap();
    open_state(home.path(), Owners::Me).unwrap();
    assert!(!ignore.is_symlink());
    assert_eq!(fs::read_to_string(&ignore).unwrap(), "*\n");
    assert_eq!(fs::read_to_string(home.path().join("elsewhere")).unwrap(), "!*\n");
}

#[test]
fn a_session_is_created_in_the_directory_that_was_opened_even_if_another_takes_its_place() {
    let home = tempfile::tempdir().unwrap();
    let (state, moved) = (home.path().join("state"), home.path().join("moved"));
    let sessions = open_state(&state, Owners::Me).unwrap();
    fs::rename(&state, &moved).unwrap();
    fs::create_dir_all(state.join("sessions")).unwrap();
    let mut writer = sessions.create(&id()).unwrap();
    writer.append(&session(1)).unwrap();
    writer.write_file(&"r1".into(), "final.md", "secret").unwrap();
    writer.close().unwrap();
    assert_eq!(sessions.read(&id()).unwrap().events.len(), 1);
    assert_eq!(fs::read_dir(state.join("sessions")).unwrap().count(), 0, "nothing is written elsewhere");
    let session = moved.join("sessions").join(id().as_str());
    assert!(session.join("events.jsonl").exists() && session.join("tasks/r1/final.md").exists());
}

#[test]
fn a_session_is_not_created_in_a_directory_that_is_not_empty() {
    let home = tempfile::tempdir().unwrap();
    let sessions = open_state(home.path(), Owners::Me).unwrap();
    let dir = sessions.session_dir(&id());
    for planted in ["memory", "token", "session.json", "tasks"] {
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(planted), "").unwrap();
        assert!(matches!(sessions.create(&id()), Err(SessionError::Exists { .. })), "{planted}");
        fs::remove_dir_all(&dir).unwrap();
    }
    // What an earlier attempt left behind.
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["lock", "events.jsonl"] {
        fs::write(dir.join(name), "").unwrap();
    }
    sessions.create(&id()).unwrap();
}

#[test]
fn a_file_of_another_user_is_neither_read_nor_written_nor_locked() {
    if !althing_testkit::is_root() {
        return althing_testkit::skip_unless_ci("only root can give files to another user");
    }
    let give = |path: &Path, uid| std::os::unix::fs::chown(path, Some(uid), Some(uid)).unwrap();
    let home = tempfile::tempdir().unwrap();
    let sessions = open_state(home.path(), Owners::Me).unwrap();
    let mut writer = sessions.create(&id()).unwrap();
    writer.append(&session(3)).unwrap();
    writer.close().unwrap();
    let dir = sessions.session_dir(&id());
    let refused = |error: Option<SessionError>, place: &str| {
        let error = error.unwrap();
        assert!(error.to_string().contains("belongs to another user"), "{place}: {error}");
        assert_eq!(error.kind(), JournalErrorKind::Failed, "{place}: a retry does not help");
    };
    for (name, is_read) in [("events.jsonl", true), ("lock", false), ("", true)] {
        let path = if name.is_empty() { dir.clone() } else { dir.join(name) };
        give(&path, 65534);
        refused(sessions.open(&id()).err(), name);
        assert_eq!(sessions.read(&id()).is_err(), is_read, "{name}");
        let listed = sessions.list().unwrap();
        let damage = listed[0].damage.clone().unwrap_or_default();
        assert_eq!(damage.contains("belongs to another user"), is_read, "{name}: {damage}");
        let named = open_state(home.path(), Owners::Anybody).unwrap();
        drop(named.open(&id()).unwrap());
        give(&path, 0);
        drop(sessions.open(&id()).unwrap());
    }
    give(&dir, 65534);
    refused(sessions.create(&id()).err(), "a new session");
    refused(sessions.rename(&id(), "title").err(), "a title");
    sessions.remove(&id()).unwrap();
    give(home.path(), 65534);
    let error = open_state(home.path(), Owners::Me).err().unwrap();
    assert!(error.hint().unwrap().contains("--state-dir"), "{:?}", error.hint());
    refused(Some(error), "the state directory");
    refused(open_existing_state(home.path(), Owners::Me).err(), "the state directory");
}

#[test]
fn many_who_open_a_new_state_directory_at_once_all_get_it() {
    for round in 0..200 {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    let opened = open_state(&state, Owners::Me);
                    assert!(opened.is_ok(), "round {round}: {:?}", opened.err());
                });
            }
        });
        assert_eq!(fs::read_to_string(state.join(".gitignore")).unwrap(), "*\n");
    }
}
