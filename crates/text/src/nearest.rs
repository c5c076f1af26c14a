//! Finds the known name that a misspelled one most likely means.

/// Names longer than this are not compared: the cost grows with the length, and nobody misspells sixty letters.
const LONGEST: usize = 60;

/// The number of edits (insert, delete, replace, swap neighbours) between two names. Case and punctuation do not
/// count, so that `voting-sensitivity` and `votingSensitivity` equal `voting_sensitivity`.
pub fn edit_distance(one: &str, other: &str) -> usize {
    strsim::osa_distance(&letters(one), &letters(other))
}

/// The known name nearest to `given`, if it is near enough to be a misspelling: at most a third of the letters differ.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (name, distance) = closest(given, known)?;
    let allowed = (letters(given).chars().count() / 3).max(1);
    (distance <= allowed).then_some(name)
}

/// The known word that `given` is most likely a misspelling of: nearly certain, so that ignoring the word would do
/// something else than its writer wants. At most two letters are wrong, missing, extra or swapped; in a short word, where
/// two letters make another word, at most one.
pub fn misspelled<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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

/// The known name with the fewest edits from `given`, and how many they are.
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

/// The nearest known name as a question, or nothing where none is near.
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
