//! Paths below the state directory, as the log stores them: relative to a root, so that a session can be moved, copied to
//! another machine, or kept elsewhere, and still finds its files.
//!
//! In the log the state directory is `${ALTHING_STATE}`; whoever reads the log sees the directory it is in now.

use memchr::memmem;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// What stands for the state directory in a log.
const ROOT: &str = "${ALTHING_STATE}";
/// What stands for that text itself, where somebody wrote it.
const LITERAL: &str = "$${ALTHING_STATE}";

/// The state directory of a log. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// As it stands inside a JSON string; None where paths are left as they are.
    escaped: Option<Arc<str>>,
}

impl Root {
    /// A state directory, which must be absolute for its paths to be recognised.
    pub(crate) fn new(state: &Path) -> Self {
        let text = state.to_str().filter(|text| state.is_absolute() && text.len() > 1);
        let json = text.map(|text| serde_json::Value::from(text).to_string());
        let escaped = json.as_deref().and_then(|json| json.strip_prefix('"')?.strip_suffix('"'));
        Self { escaped: escaped.map(|text| text.trim_end_matches('/').into()) }
    }

    /// An event's JSON with its paths relative to the root.
    pub(crate) fn relative<'a>(&self, json: &'a str) -> Cow<'a, str> {
        let Some(root) = &self.escaped else { return Cow::Borrowed(json) };
        let json = replace(json, ROOT, |_, _| Some(LITERAL));
        let replaced = replace(&json, root, |before, after| {
            // The whole name of the directory, and neither the end of a longer path nor the beginning of another name.
            let begins = before.is_none_or(|byte| !is_in_path(byte) && byte != b'$');
            let ends =
                after.is_none_or(|byte| matches!(byte, b'/' | b'"' | b' ' | b'\\' | b'`' | b')' | b','));
            (begins && ends).then_some(ROOT)
        });
        match replaced {
            Cow::Borrowed(_) => json,
            Cow::Owned(text) => Cow::Owned(text),
        }
    }

    /// The other way round: paths as they are on this machine now.
    pub(crate) fn absolute<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let Some(root) = &self.escaped else { return Cow::Borrowed(line) };
        if memmem::find(line.as_bytes(), ROOT.as_bytes()).is_none() {
            return Cow::Borrowed(line);
        }
        let mut text = String::with_capacity(line.len() + root.len());
        let mut rest = line;
        while let Some(at) = rest.find(ROOT) {
            let (before, behind) = rest.split_at(at);
            let literal = before.strip_suffix('$');
            text.push_str(literal.unwrap_or(before));
            text.push_str(if literal.is_some() { ROOT } else { root });
            rest = behind.strip_prefix(ROOT).unwrap_or_default();
        }
        text.push_str(rest);
        Cow::Owned(text)
    }
}

fn is_in_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_') || byte >= 0x80
}

/// Replaces what is found where `with`, which sees the bytes before and after it, gives something else.
fn replace<'a>(
    text: &'a str,
    find: &str,
    with: impl Fn(Option<u8>, Option<u8>) -> Option<&'static str>,
) -> Cow<'a, str> {
    let mut made: Option<String> = None;
    let mut copied = 0;
    for at in memmem::find_iter(text.as_bytes(), find.as_bytes()) {
        let end = at + find.len();
        let byte = |index: Option<usize>| index.and_then(|index| text.as_bytes().get(index)).copied();
        let Some(instead) = with(byte(at.checked_sub(1)), byte(Some(end))) else { continue };
        let made = made.get_or_insert_default();
        made.push_str(text.get(copied..at).unwrap_or_default());
        made.push_str(instead);
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

    fn there_and_back(json: &str) -> String {
        let root = Root::new(Path::new("/home/me/.althing"));
        let stored = root.relative(json).into_owned();
        assert_eq!(root.absolute(&stored), json, "stored as {stored}");
        stored
    }

    #[test]
    fn paths_below_the_state_directory_are_stored_relative_and_other_texts_as_they_are() {
        let stored = there_and_back(r#"{"log_dir":"/home/me/.althing/sessions/x","cwd":"/home/me"}"#);
        assert_eq!(stored, r#"{"log_dir":"${ALTHING_STATE}/sessions/x","cwd":"/home/me"}"#);
        let in_prose = there_and_back(r#"{"text":"read /home/me/.althing/sessions/x/a.md, then stop"}"#);
        assert_eq!(in_prose, r#"{"text":"read ${ALTHING_STATE}/sessions/x/a.md, then stop"}"#);
        for same in [r#"{"a":"/home/me/.althing-old/x"}"#, r#"{"a":"/mnt/home/me/.althing/x"}"#, "{}"] {
            assert_eq!(there_and_back(same), same);
        }
    }

    #[test]
    fn a_text_that_looks_like_the_root_comes_back_as_it_was_written() {
        for text in [
            r#"{"a":"${ALTHING_STATE}/x"}"#,
            r#"{"a":"$${ALTHING_STATE}"}"#,
            r#"{"a":"$/home/me/.althing/x"}"#,
            r#"{"a":"${ALTHING_STATE}${ALTHING_STATE}/home/me/.althing/"}"#,
            r#"{"a":"$$$${ALTHING_STATE}"}"#,
        ] {
            there_and_back(text);
        }
    }

    #[test]
    fn a_moved_log_names_the_directory_it_is_in_now() {
        let stored = there_and_back(r#"{"a":"/home/me/.althing/plans/p1"}"#);
        let elsewhere = Root::new(Path::new("/srv/state \"new\""));
        assert_eq!(elsewhere.absolute(&stored), r#"{"a":"/srv/state \"new\"/plans/p1"}"#);
        let relative = Root::new(Path::new("state"));
        assert_eq!(relative.absolute(&stored), stored);
    }
}
