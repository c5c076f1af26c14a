//! Checks (grades) an answer without running anything: exact texts, numbers, choices, regular expressions.

use super::tasks::Check;
use althing_engine::tally::same_form;

/// An answer to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckedAnswer<'a> {
    /// The full text.
    pub text: &'a str,
    /// The conclusion that its author gave, if any.
    pub conclusion: Option<&'a str>,
}

/// `None` if only a command can tell.
pub(super) fn is_right(check: &Check, answer: CheckedAnswer<'_>) -> Option<bool> {
    let CheckedAnswer { text, conclusion } = answer;
    Some(match check {
        Check::Exact(expected) => {
            let expected = same_form(expected);
            let last_line = text.lines().rev().find(|line| !line.trim().is_empty());
            let given = [conclusion, last_line, Some(text)];
            given.into_iter().flatten().any(|given| same_form(&without_markup(given)) == expected)
        }
        Check::Number(expected) => {
            let given = conclusion.and_then(last_number).or_else(|| last_number(text));
            given.is_some_and(|given| (given - expected).abs() <= 1e-9 * expected.abs().max(1.0))
        }
        Check::Choice(expected) => {
            let given = conclusion
                .and_then(|text| last_choice(text, expected))
                .or_else(|| last_choice(text, expected));
            given.is_some_and(|given| given.eq_ignore_ascii_case(expected.trim()))
        }
        Check::Regex(regex) => regex.is_match(text),
        Check::Command { .. } => return None,
    })
}

fn without_markup(text: &str) -> String {
    text.trim().trim_matches(['*', '`', '_', '#']).trim().to_owned()
}

pub(super) fn last_number(text: &str) -> Option<f64> {
    let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let head = text.get(..end)?;
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let start = head
        .rfind(|c| !is_part(c))
        .map_or(0, |at| at + head.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8));
    let (before, digits) = (head.get(..start)?, head.get(start..)?.trim_start_matches(','));
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let is_grouped = |whole: &str| {
        let mut groups = whole.split(',');
        groups.next().is_some_and(|first| first.len() <= 3) && groups.all(|group| group.len() == 3)
    };
    // Commas that separate no thousands separate the numbers of a list.
    let number = match digits.rsplit_once(',') {
        Some(_) if is_grouped(whole) => format!("{}.{decimals}0", whole.replace(',', "")),
        Some((_, last)) => last.to_owned(),
        None => digits.to_owned(),
    };
    let number: f64 = number.parse().ok()?;
    // In `5-3`, the hyphen is not a minus sign.
    let mut signs = before.chars().rev();
    let is_minus =
        matches!(signs.next(), Some('-' | '\u{2212}')) && !signs.next().is_some_and(char::is_alphanumeric);
    Some(if is_minus { -number } else { number })
}

/// The last choice that a text names. A single letter counts in upper case, in parentheses, or in a text of at most
/// three characters, because `a` is a word. A longer expected choice is found wherever it occurs as a word.
fn last_choice(text: &str, expected: &str) -> Option<String> {
    let expected = expected.trim();
    if expected.chars().count() == 1 && expected.chars().all(|letter| letter.is_ascii_alphabetic()) {
        let letters: Vec<char> = text.chars().collect();
        let is_word =
            |at: Option<&char>| at.is_some_and(|letter| letter.is_alphanumeric() || *letter == '\'');
        let mut named = letters.iter().enumerate().filter(|(at, letter)| {
            let before = at.checked_sub(1).and_then(|at| letters.get(at));
            let after = letters.get(at + 1);
            let in_parentheses = before == Some(&'(') && after == Some(&')');
            letter.is_ascii_alphabetic()
                && !is_word(before)
                && !is_word(after)
                && (letter.is_ascii_uppercase() || in_parentheses || letters.len() <= 3)
        });
        return named.next_back().map(|(_, letter)| letter.to_string());
    }
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').collect();
    let same = words.iter().rev().find(|word| word.eq_ignore_ascii_case(expected));
    same.map(|word| (*word).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(check: &Check, text: &str, conclusion: Option<&str>) -> bool {
        is_right(check, CheckedAnswer { text, conclusion }).unwrap()
    }

    #[test]
    fn an_exact_answer_is_the_conclusion_the_last_line_or_the_whole_text() {
        let check = Check::Exact("New York".into());
        for text in ["new  york", "The largest city is:\n\n**New York**", "It is\nNew York.\n"] {
            assert!(right(&check, text, None), "{text}");
        }
        assert!(right(&check, "a long text", Some("New York")));
        for text in ["Not New York", "New York\nor Boston", ""] {
            assert!(!right(&check, text, None), "{text}");
        }
    }

    #[test]
    fn the_last_number_counts() {
        let check = Check::Number(1234.5);
        for text in ["1,234.5", "2 + 2 is not 1234.50.", "The result is **1,234.5** dollars"] {
            assert!(right(&check, text, None), "{text}");
        }
        assert!(right(&check, "between 1 and 2000", Some("1234.5")));
        assert!(right(&check, "it is 1234.5", Some("no number here")));
        assert!(!right(&check, "1234.5, or rather 1234", None));
        assert!(!right(&check, "none", None));
        assert!(right(&Check::Number(-4.0), "x = \u{2212}4", None));
        assert!(right(&Check::Number(3.0), "the range is 5-3", None));
        assert!(right(&Check::Number(0.5), "p = .5", None));
        assert!(right(&Check::Number(3.0), "one of 1,2,3", None));
        assert!(right(&Check::Number(1_000_000.0), "€1,000,000", None));
    }

    #[test]
    fn a_regular_expression_may_match_anywhere_in_the_answer_but_not_in_the_conclusion() {
        let check = |pattern: &str| Check::Regex(Box::new(regex::Regex::new(pattern).unwrap()));
        for (pattern, text) in [
            ("(?i)git (blame|annotate)", "Use `Git Blame` for that."),
            (r"\bPUT\b", "first line\nPUT\nlast line"),
            ("(?s)select.*from", "select\n*\nfrom"),
            ("^$", ""),
        ] {
            assert!(right(&check(pattern), text, None), "{pattern}");
        }
        for (pattern, text) in [
            (r"\bPUT\b", "OUTPUT"),
            ("^yes$", "well, yes"),
            ("select.*from", "select\n*\nfrom"),
            ("yes", "Yes"),
        ] {
            assert!(!right(&check(pattern), text, None), "{pattern}");
        }
        assert!(!right(&check("yes"), "no", Some("yes")));
    }

    #[test]
    fn the_choice_that_is_named_last_counts() {
        let check = Check::Choice("B".into());
        for text in
            ["B", "b", "(b)", "The answer is B.", "Not A, so the answer is **B**", "A and C are wrong: (B)"]
        {
            assert!(right(&check, text, None), "{text}");
        }
        for text in ["A", "Either B or C", "a bee", "", "It's a trap"] {
            assert!(!right(&check, text, None), "{text}");
        }
        assert!(right(&check, "A or C", Some("B")));
        assert!(right(&Check::Choice("yes".into()), "My verdict: Yes.", None));
        assert!(!right(&Check::Choice("yes".into()), "No.", None));
    }
}
