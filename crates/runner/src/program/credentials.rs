//! Writes the tokens that a CLI agent in a sandbox has refreshed back to the user's credentials file.
//!
//! Services replace refresh tokens, so a new one must not be lost. But the program could write anything to its copy,
//! so the copy is written back only if nothing but tokens and their times differs from the user's file: no account,
//! no server address, no new key.

use rustix::fs::{CWD, Mode, OFlags};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

const MAX_BYTES: u64 = 1 << 20;
const INTERVAL: Duration = Duration::from_secs(1);
const TOKEN_WORDS: [&str; 4] = ["token", "access", "refresh", "expir"];

#[derive(Debug)]
pub(super) struct CopiedCredentials {
    real: PathBuf,
    /// The directory of the copy stays open, because the program could put a link in its place.
    dir: OwnedFd,
    name: OsString,
    bytes: Vec<u8>,
}

impl CopiedCredentials {
    /// `None` if the user's file is too large, unreadable or not a regular file with a single name, or if the
    /// directory of the copy cannot be opened.
    pub(super) fn read(real: &Path, copy: &Path) -> Option<Self> {
        let bytes = read_plain(CWD, real.as_os_str())?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let dir = rustix::fs::open(copy.parent()?, flags, Mode::empty()).ok()?;
        Some(Self { real: real.to_owned(), dir, name: copy.file_name()?.to_owned(), bytes })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes new tokens back, unless anything but tokens differs, or the user's file was changed in the meantime.
    fn write_back(&mut self) {
        let read = read_plain(self.dir.as_fd(), &self.name);
        let Some(new) = read.filter(|new| *new != self.bytes) else { return };
        let parsed = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
        let (Some(before), Some(after)) = (parsed(&self.bytes), parsed(&new)) else { return };
        if !(before.is_object() && only_tokens_differ(&before, &after, false))
            || read_plain(CWD, self.real.as_os_str()).as_ref() != Some(&self.bytes)
        {
            return;
        }
        match replace(&self.real, &new) {
            Ok(()) => self.bytes = new,
            Err(error) => {
                tracing::warn!(path = %self.real.display(), %error, "new tokens could not be written back");
            }
        }
    }
}

fn only_tokens_differ(before: &Value, after: &Value, is_token: bool) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.len() == after.len()
                && before.iter().all(|(key, value)| {
                    let name = key.to_lowercase();
                    let is_token = TOKEN_WORDS.iter().any(|word| name.contains(word));
                    after.get(key).is_some_and(|after| only_tokens_differ(value, after, is_token))
                })
        }
        // The name of an address can contain a word for a token; an address never changes.
        (Value::String(before), Value::String(after)) if is_token => {
            let is_address = |text: &str| text.contains("://");
            before == after || !(is_address(before) || is_address(after))
        }
        (Value::Number(_), Value::Number(_)) if is_token => true,
        (before, after) => before == after,
    }
}

/// Reads only a small regular file with a single name. Symlinks are not followed.
fn read_plain(dir: BorrowedFd<'_>, path: &OsStr) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(dir, path, flags, Mode::empty()).ok()?);
    let data = file.metadata().ok()?;
    if !data.is_file() || data.nlink() != 1 || data.len() > MAX_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_BYTES).then_some(bytes)
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".althing-{:016x}", fastrand::u64(..)));
    let new = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written =
        file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written
}

/// Writes new tokens back while it lives, and once more when it is dropped.
#[derive(Debug)]
pub(super) struct CredentialsWatch {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl CredentialsWatch {
    pub(super) fn start(mut copied: Vec<CopiedCredentials>) -> Option<Self> {
        if copied.is_empty() {
            return None;
        }
        let (stop, stopped) = mpsc::channel();
        let watch = move || {
            loop {
                let goes_on = stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout);
                copied.iter_mut().for_each(CopiedCredentials::write_back);
                if !goes_on {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("credentials".to_owned()).spawn(watch);
        let thread =
            thread.inspect_err(|error| tracing::warn!(%error, "new tokens are not written back")).ok();
        Some(Self { stop: Some(stop), thread })
    }
}

impl Drop for CredentialsWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CopiedCredentials, CredentialsWatch};
    use serde_json::{Value, json};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn user_file() -> Value {
        json!({
            "claudeAiOauth": {"accessToken": "a1", "refreshToken": "r1", "expiresAt": 1, "scopes": ["x"]},
            "mcpOAuth": {"s|1": {"serverUrl": "https://good", "tokenUri": "https://good/token", "accessToken": "m1"}},
        })
    }

    fn after(plant: impl Fn(&std::path::Path, &std::path::Path)) -> Value {
        let dir = tempfile::tempdir().unwrap();
        let (real, copy) = (dir.path().join("real.json"), dir.path().join("copies/copy.json"));
        fs::create_dir(dir.path().join("copies")).unwrap();
        fs::write(&real, user_file().to_string()).unwrap();
        let copied = CopiedCredentials::read(&real, &copy).unwrap();
        fs::write(&copy, copied.bytes()).unwrap();
        let watch = CredentialsWatch::start(vec![copied]);
        plant(&copy, &real);
        drop(watch);
        assert_eq!(
            fs::read_dir(dir.path())
                .unwrap()
                .filter(|entry| { entry.as_ref().unwrap().file_name().to_string_lossy().contains("althing") })
                .count(),
            0
        );
        serde_json::from_slice(&fs::read(&real).unwrap()).unwrap()
    }

    fn changed(pointer: &str, value: Value) -> Value {
        let mut file = user_file();
        *file.pointer_mut(pointer).unwrap() = value;
        file
    }

    #[test]
    fn new_tokens_are_written_back_and_only_the_user_can_read_them() {
        let mut new = changed("/claudeAiOauth/accessToken", json!("a2"));
        new["claudeAiOauth"]["refreshToken"] = json!("r2");
        new["claudeAiOauth"]["expiresAt"] = json!(2);
        let text = new.to_string();
        let found = after(|copy, _| {
            fs::write(copy.with_extension("new"), &text).unwrap();
            fs::rename(copy.with_extension("new"), copy).unwrap();
        });
        assert_eq!(found, new);
        let mode = after(|copy, real| {
            fs::set_permissions(real, fs::Permissions::from_mode(0o644)).unwrap();
            fs::write(copy, &text).unwrap();
        });
        assert_eq!(mode, new);
    }

    #[test]
    fn nothing_but_tokens_is_written_back() {
        let mut more = user_file();
        more["apiKeyHelper"] = json!("touch x");
        let mut inner = user_file();
        inner["claudeAiOauth"]["helperToken"] = json!("x");
        let refused = [
            json!({}),
            json!([]),
            more,
            inner,
            changed("/mcpOAuth/s|1/serverUrl", json!("https://bad")),
            changed("/mcpOAuth/s|1/tokenUri", json!("https://bad")),
            changed("/mcpOAuth/s|1/tokenUri", json!("bad")),
            changed("/claudeAiOauth/scopes", json!(["y"])),
            changed("/claudeAiOauth/accessToken", json!({"a": 1})),
            changed("/claudeAiOauth/accessToken", Value::Null),
            changed("/claudeAiOauth/accessToken", json!("https://bad")),
        ];
        for planted in refused {
            assert_eq!(
                after(|copy, _| fs::write(copy, planted.to_string()).unwrap()),
                user_file(),
                "{planted}"
            );
        }
        assert_eq!(after(|copy, _| fs::write(copy, "no json").unwrap()), user_file());
        assert_eq!(after(|copy, _| fs::remove_file(copy).unwrap()), user_file());
    }

    #[test]
    fn a_link_in_the_place_of_the_copys_directory_is_not_followed() {
        let new = changed("/claudeAiOauth/accessToken", json!("of another account")).to_string();
        let replaced = after(|copy, real| {
            let other = real.with_file_name("other");
            fs::create_dir(&other).unwrap();
            fs::write(other.join("copy.json"), &new).unwrap();
            let copies = copy.parent().unwrap();
            fs::rename(copies, real.with_file_name("moved")).unwrap();
            symlink(&other, copies).unwrap();
        });
        assert_eq!(replaced, user_file());
    }

    #[test]
    fn a_link_a_pipe_or_a_huge_file_is_not_read() {
        let new = changed("/claudeAiOauth/accessToken", json!("a2")).to_string();
        let linked = after(|copy, _| {
            fs::write(copy.with_extension("other"), &new).unwrap();
            fs::remove_file(copy).unwrap();
            symlink(copy.with_extension("other"), copy).unwrap();
        });
        assert_eq!(linked, user_file());
        let hard = after(|copy, _| {
            fs::write(copy, &new).unwrap();
            fs::hard_link(copy, copy.with_extension("other")).unwrap();
        });
        assert_eq!(hard, user_file());
        let huge =
            after(|copy, _| fs::File::options().write(true).open(copy).unwrap().set_len(1 << 40).unwrap());
        assert_eq!(huge, user_file());
        let pipe = after(|copy, _| {
            fs::remove_file(copy).unwrap();
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, copy, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        });
        assert_eq!(pipe, user_file());
    }

    #[test]
    fn a_file_that_the_user_changed_meanwhile_is_left_alone() {
        let theirs = changed("/claudeAiOauth/accessToken", json!("the user's"));
        let found = after(|copy, real| {
            fs::write(real, theirs.to_string()).unwrap();
            fs::write(copy, changed("/claudeAiOauth/accessToken", json!("a2")).to_string()).unwrap();
        });
        assert_eq!(found, theirs);
    }
}
