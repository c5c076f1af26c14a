//! Suggests the known name for a misspelled one.

/// The maximum length of a name that is compared, in bytes, because the cost grows with the length.
const LONGEST: usize = 60;

/// The number of edits (insert, delete, replace, swap neighbors) between two names. Case and punctuation are ignored.
pub fn edit_distance(one: &str, other: &str) -> usize {
    strsim::osa_distance(&letters(one), &letters(other))
}

/// The known name closest to `given`, if at most a third of the letters of `given` (but at least one) need an edit.
/// `None` if `given` is longer than 60 bytes.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (name, distance) = closest(given, known)?;
    let allowed = (letters(given).chars().count() / 3).max(1);
    (distance <= allowed).then_some(name)
}

/// The known word of which `given` is almost certainly a misspelling: at most two edits, or one if either word is
/// short. `None` if `given` is longer than 60 bytes.
pub fn misspelled<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let outline = Outline::of(given);
    // A file may have thousands of unknown keys; the outline rules out most known words cheaply.
    let candidates = known.into_iter().filter(|word| outline.may_be_within_two_edits_of(Outline::of(word)));
    let (word, distance) = closest(given, candidates)?;
    let allowed = if outline.length.min(Outline::of(word).length) <= SHORT { 1 } else { 2 };
    (distance <= allowed).then_some(word)
}

/// A word of up to this many letters and digits is short: two edits could make another word of it.
const SHORT: usize = 4;

#[derive(Clone, Copy)]
struct Outline {
    length: usize,
    /// One bit for each ASCII letter and digit, and one for all other characters.
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

    /// One edit changes the length by at most one, removes at most one letter from the set and adds at most one.
    fn may_be_within_two_edits_of(self, other: Self) -> bool {
        self.length.abs_diff(other.length) <= 2 && (self.letters ^ other.letters).count_ones() <= 4
    }
}

/// The known name with the fewest edits from `given`, and the number of edits.
fn closest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<(&'a str, usize)> {
    if given.len() > LONGEST {
        return None;
    }
    let wanted = letters(given);
    known
        .into_iter()
        .map(|name| (name, strsim::osa_distance(&wanted, &letters(name))))
        .min_by_key(|(_, distance)| *distance)
}

/// A question that suggests the nearest known name, if any name is near enough.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(given, known).map(|name| format!("did you mean `{name}`?"))
}

fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_is_found_and_another_word_is_not() {
        let known = ["model", "temperature", "voting_sensitivity"];
        assert_eq!(nearest("modle", known), Some("model"));
        assert_eq!(nearest("temprature", known), Some("temperature"));
        assert_eq!(nearest("votingSensitivity", known), Some("voting_sensitivity"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest(&"model".repeat(20), known), None);
        assert_eq!(did_you_mean("Modle", known).as_deref(), Some("did you mean `model`?"));
    }

    #[test]
    fn swapped_neighbors_are_one_edit() {
        assert_eq!(edit_distance("modle", "model"), 1);
        assert_eq!(edit_distance("base-url", "base_url"), 0);
        assert_eq!(misspelled("modle", ["model"]), Some("model"));
        assert_eq!(misspelled("mdl", ["model"]), None, "two edits make another word of a short one");
    }
}
