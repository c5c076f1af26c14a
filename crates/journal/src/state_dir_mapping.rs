//! Translates paths in a log whose state directory was moved or copied: events are read with the current directory, and
//! written with the directory that the first event records, so that a log contains only one state directory.

use memchr::memmem;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub(crate) struct StateDirMapping {
    /// The recorded and the current directory, JSON-escaped. `None` if nothing is to be replaced: the log records no
    /// directory, both are the same, or one is relative, is `/` or is not UTF-8.
    moved: Option<Arc<(String, String)>>,
}

impl StateDirMapping {
    pub(crate) fn new(recorded: Option<&str>, now: &Path) -> Self {
        let is_usable = |path: &Path| path.is_absolute() && path.as_os_str().len() > 1;
        let moved = recorded.zip(now.to_str()).filter(|(recorded, now)| {
            recorded != now && is_usable(Path::new(recorded)) && is_usable(Path::new(now))
        });
        Self { moved: moved.map(|(recorded, now)| Arc::new((escaped(recorded), escaped(now)))) }
    }

    /// An event's JSON with the recorded directory in place of the current one, for the log.
    pub(crate) fn to_recorded<'a>(&self, json: &'a str) -> Cow<'a, str> {
        match self.moved.as_deref() {
            Some((recorded, now)) => replace(json, now, recorded),
            None => Cow::Borrowed(json),
        }
    }

    /// A line of the log with the current directory in place of the recorded one.
    pub(crate) fn to_current<'a>(&self, line: &'a str) -> Cow<'a, str> {
        match self.moved.as_deref() {
            Some((recorded, now)) => replace(line, recorded, now),
            None => Cow::Borrowed(line),
        }
    }
}

fn escaped(path: &str) -> String {
    let json = serde_json::Value::from(path.trim_end_matches('/')).to_string();
    json.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned()
}

/// Replaces `from` only where it begins a path: `/a` in `/a/b`, but not in `/x/a` or `/ab`.
fn replace<'a>(text: &'a str, from: &str, to: &str) -> Cow<'a, str> {
    let bytes = text.as_bytes();
    let in_name =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_') || byte >= 0x80;
    let mut made: Option<String> = None;
    let mut copied = 0;
    for at in memmem::find_iter(bytes, from.as_bytes()) {
        let end = at + from.len();
        let before = at.checked_sub(1).and_then(|index| bytes.get(index));
        let is_part = before.is_some_and(|byte| in_name(*byte) || *byte == b'/')
            || bytes.get(end).is_some_and(|byte| in_name(*byte));
        if is_part {
            continue;
        }
        let made = made.get_or_insert_default();
        made.push_str(text.get(copied..at).unwrap_or_default());
        made.push_str(to);
        copied = end;
    }
    match made {
        None => Cow::Borrowed(text),
        Some(mut made) => {
            made.push_str(text.get(copied..).unwrap_or_default());
            Cow::Owned(made)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_log_is_read_with_the_current_and_written_with_the_recorded_directory() {
        let mapping = StateDirMapping::new(Some("/home/me/.althing"), Path::new("/srv/state \"new\""));
        for (stored, read) in [
            (r#"{"a":"/home/me/.althing/plans/p1"}"#, r#"{"a":"/srv/state \"new\"/plans/p1"}"#),
            (r#"{"a":"see /home/me/.althing, then"}"#, r#"{"a":"see /srv/state \"new\", then"}"#),
            (r#"{"a":"/home/me","b":"/home/me/.althing"}"#, r#"{"a":"/home/me","b":"/srv/state \"new\""}"#),
        ] {
            assert_eq!(mapping.to_current(stored), read);
            assert_eq!(mapping.to_recorded(read), stored);
        }
    }

    #[test]
    fn other_paths_and_logs_that_were_not_moved_stay_as_they_are() {
        let mapping = StateDirMapping::new(Some("/home/me/.althing"), Path::new("/srv/state"));
        for same in [r#"{"a":"/home/me/.althing-old/x"}"#, r#"{"a":"/mnt/home/me/.althing/x"}"#, "{}"] {
            assert_eq!(mapping.to_current(same), same);
        }
        let line = r#"{"a":"/home/me/.althing/x"}"#;
        for still in [
            StateDirMapping::new(Some("/home/me/.althing"), Path::new("/home/me/.althing")),
            StateDirMapping::new(None, Path::new("/srv/state")),
            StateDirMapping::new(Some("/"), Path::new("/srv/state")),
            StateDirMapping::new(Some("state"), Path::new("/srv/state")),
        ] {
            assert_eq!((still.to_current(line), still.to_recorded(line)), (line.into(), line.into()));
        }
    }
}
