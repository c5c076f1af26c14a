//! Finds what a person most likely meant: the nearest known word, or the section where a key belongs.
//!
//! It only proposes; it never changes a config. A proposal that is too far off is worse than none.

use crate::keys::{Kind, Section};

/// The known word nearest to `given`, if one is near enough to be a slip.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The cost grows with the length; nobody mistypes sixty letters.
    if given.len() > 60 {
        return None;
    }
    let wanted = plain(given);
    let best = known
        .into_iter()
        .map(|word| (strsim::osa_distance(&wanted, &plain(word)), word))
        .min_by_key(|(distance, _)| *distance)?;
    let allowed = (wanted.chars().count() / 3).max(1);
    (best.0 <= allowed).then_some(best.1)
}

/// Letters and digits only, so that `voting-sensitivity` and `votingSensitivity` are no distance from the key.
fn plain(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The first section, as a dotted path, in which a key of this name has its place.
pub(crate) fn home(root: &'static Section, name: &str) -> Option<String> {
    search(root, name, &mut Vec::new())
}

fn search(section: &'static Section, name: &str, open: &mut Vec<&'static str>) -> Option<String> {
    // A section may contain itself, through another one.
    if open.contains(&section.name) {
        return None;
    }
    if section.key(name).is_some() {
        return Some(String::new());
    }
    open.push(section.name);
    let found = section.keys.iter().find_map(|key| {
        let (inner, is_list) = inner_section(key.kind)?;
        let rest = search(inner, name, open)?;
        let dot = if rest.is_empty() { "" } else { "." };
        let item = if is_list { "[]" } else { "" };
        Some(format!("{}{item}{dot}{rest}", key.name))
    });
    open.pop();
    found
}

fn inner_section(kind: Kind) -> Option<(&'static Section, bool)> {
    match kind {
        Kind::Section(section) => Some((section, false)),
        Kind::List(Kind::Section(section)) => Some((section, true)),
        _ => None,
    }
}
