//! Shows a message as it was typed: with `@path` and `@path:w` instead of the absolute paths that agents get.

use althing_protocol::{PathGrant, Permission};
use std::path::Path;

/// What may stand between a mention and the next space.
const PUNCTUATION: [char; 9] = [',', ';', '.', '!', '?', ')', ']', '"', '\''];

/// `text` with a mention in place of each granted path that is a word of its own; None if there is none. A path below
/// `cwd` is shown relative to it.
pub(crate) fn with_mentions(text: &str, grants: &[PathGrant], cwd: &str) -> Option<String> {
    let mention = |word: &str| {
        let after = |grant: &PathGrant| {
            let rest = word.strip_prefix(grant.path.as_str())?;
            rest.chars().all(|c| PUNCTUATION.contains(&c)).then(|| rest.to_owned())
        };
        let (grant, rest) = grants.iter().find_map(|grant| Some((grant, after(grant)?)))?;
        let path = match Path::new(&grant.path).strip_prefix(cwd).ok().and_then(Path::to_str) {
            Some("") => ".",
            Some(below) => below,
            None => &grant.path,
        };
        let suffix = if grant.permission == Permission::Write { ":w" } else { "" };
        Some(format!("@{path}{suffix}{rest}"))
    };
    let mut found = false;
    let mut shown = String::with_capacity(text.len());
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        match mention(word) {
            Some(mention) => {
                found = true;
                shown.push_str(&mention);
                shown.push_str(piece.strip_prefix(word).unwrap_or_default());
            }
            None => shown.push_str(piece),
        }
    }
    found.then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(path: &str, permission: Permission) -> PathGrant {
        PathGrant { path: path.into(), permission }
    }

    #[test]
    fn granted_paths_are_shown_as_they_were_typed() {
        let grants = [
            grant("/p/notes", Permission::Write),
            grant("/p/notes.md", Permission::Read),
            grant("/p", Permission::Read),
            grant("/else/where", Permission::Read),
        ];
        let shown = |text: &str| with_mentions(text, &grants, "/p");
        assert_eq!(
            shown("Mend /p/notes, read\n/p/notes.md. Not /p/notes2 or x/p/notes").as_deref(),
            Some("Mend @notes:w, read\n@notes.md. Not /p/notes2 or x/p/notes")
        );
        assert_eq!(shown("look at /p").as_deref(), Some("look at @."));
        assert_eq!(shown("read /else/where!").as_deref(), Some("read @/else/where!"));
        assert_eq!(shown("read /p/other"), None, "nothing of it was granted");
    }
}
