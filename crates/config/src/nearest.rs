//! Finds what a person most likely meant: the nearest known word, or the section where a key belongs.
//!
//! It only proposes; it never changes a config. A proposal that is too far off is worse than none.

use crate::keys::{Kind, Section};

/// The known word that `given` is most likely a misspelling of: nearly certain, so that ignoring the word would do
/// something else than its writer wants. At most two letters are wrong, missing, extra or swapped; in a short word, where
/// two letters make another word, at most one.
pub(crate) fn misspelled<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let outline = Outline::of(given);
    // A file may have thousands of unknown keys; most known words are ruled out without a comparison.
    let candidates = known.into_iter().filter(|word| outline.may_be_within_two_edits_of(Outline::of(word)));
    let (word, distance) = closest(given, candidates)?;
    let allowed = if outline.length.min(Outline::of(word).length) <= SHORT { 1 } else { 2 };
    (distance <= allowed).then_some(word)
}

/// A word of at most so many letters is short.
const SHORT: usize = 4;

/// What can be compared at once: how many letters a word has, and which.
#[derive(Clone, Copy)]
struct Outline {
    length: usize,
    /// A bit for each letter and digit, and one for all that are not ASCII.
    letters: u64,
}

impl Outline {
    fn of(word: &str) -> Self {
        let mut outline = Self { length: 0, letters: 0 };
        for letter in word.chars().filter(|letter| letter.is_alphanumeric()) {
            outline.length += 1;
            outline.letters |= 1 << letter.to_digit(36).unwrap_or(36);
        }
        outline
    }

    /// One edit changes the length by at most one, and at most takes one letter away and brings one in.
    fn may_be_within_two_edits_of(self, other: Self) -> bool {
        self.length.abs_diff(other.length) <= 2 && (self.letters ^ other.letters).count_ones() <= 4
    }
}

/// The known word nearest to `given`, if one is near enough to be a slip.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (word, distance) = closest(given, known)?;
    let allowed = (plain(given).chars().count() / 3).max(1);
    (distance <= allowed).then_some(word)
}

/// The known word with the fewest edits from `given`, and how many they are.
fn closest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<(&'a str, usize)> {
    // The cost grows with the length, and no known word is this long.
    if given.len() > 60 {
        return None;
    }
    let wanted = plain(given);
    known
        .into_iter()
        .map(|word| (word, strsim::osa_distance(&wanted, &plain(word))))
        .min_by_key(|(_, distance)| *distance)
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

#[cfg(test)]
mod tests {
    use super::{inner_section, misspelled};
    use crate::keys::{Kind, ROOT, Section, Status, WORKFLOW};
    use crate::landed::Landed;

    /// Every section of a document.
    fn sections(section: &'static Section, found: &mut Vec<&'static Section>) {
        if found.iter().any(|known| std::ptr::eq(*known, section)) {
            return;
        }
        found.push(section);
        section.keys.iter().for_each(|key| below(key.kind, found));
    }

    fn below(kind: Kind, found: &mut Vec<&'static Section>) {
        match kind {
            Kind::Section(section) => sections(section, found),
            Kind::List(inner) | Kind::Map(inner) => below(*inner, found),
            Kind::Either(kinds) => kinds.iter().for_each(|kind| below(*kind, found)),
            _ => assert!(inner_section(kind).is_none()),
        }
    }

    /// A key with one letter left out, doubled, replaced, or swapped with the next.
    fn slips(key: &str) -> Vec<String> {
        let letters: Vec<char> = key.chars().collect();
        let mut slips = Vec::new();
        for at in 0..letters.len() {
            let changed = |change: &dyn Fn(&mut Vec<char>)| {
                let mut letters = letters.clone();
                change(&mut letters);
                letters.into_iter().collect::<String>()
            };
            slips.push(changed(&|letters| {
                letters.remove(at);
            }));
            slips.push(changed(&|letters| letters.insert(at, letters[at])));
            slips.push(changed(&|letters| letters[at] = 'q'));
            if at + 1 < letters.len() {
                slips.push(changed(&|letters| letters.swap(at, at + 1)));
            }
        }
        slips
    }

    #[test]
    fn a_slip_in_any_key_of_any_section_of_a_config_or_a_workflow_is_a_misspelling() {
        let mut all = Vec::new();
        sections(&ROOT, &mut all);
        sections(&WORKFLOW, &mut all);
        assert!(all.len() > 20, "{}", all.len());
        let mut tried = 0;
        for section in all {
            let names = || {
                let read = |status| !matches!(status, Status::Replaced(_));
                section.keys.iter().filter(move |key| read(key.status(Landed::NOW))).map(|key| key.name)
            };
            for key in names().filter(|key| key.len() > 2) {
                for slip in slips(key).into_iter().filter(|slip| section.key(slip).is_none()) {
                    assert!(misspelled(&slip, names()).is_some(), "`{slip}` for `{key}` in {}", section.name);
                    tried += 1;
                }
            }
        }
        assert!(tried > 5_000, "{tried}");
    }

    #[test]
    fn in_a_short_word_two_edits_make_another_word() {
        assert_eq!(misspelled("note", ["mode"]), None);
        assert_eq!(misspelled("modle", ["model"]), Some("model"));
        assert_eq!(misspelled("mdole", ["model"]), Some("model"));
        assert_eq!(misspelled("sotre", ["model"]), None);
    }
}
