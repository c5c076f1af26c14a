//! The answers that the text of a question in a terminal offers: `[y/N]`, `[y,n,q]`, `[y]es, [n]o`, a numbered list.
//! Front ends preselect the first answer, so an answer that refuses is moved to the front.

use super::pty::TerminalModes;
use super::sanitize_line::sanitize_line;
use althing_protocol::AskOption;

/// The maximum number of answers; if a list is longer, none of its answers are offered.
const MOST: usize = 20;
const LONGEST: usize = 100;
const REFUSALS: [&str; 10] = ["no", "none", "n", "reject", "deny", "skip", "cancel", "abort", "quit", "q"];

/// The answers to a question, each with the keys to type. `above` are the lines above the question's `line`.
pub(crate) fn answers(line: &str, above: &[String], modes: TerminalModes) -> Vec<(AskOption, String)> {
    // Without line editing but with echo, a program reads a single key, so no return is typed.
    let end = if !modes.lines && modes.echo { "" } else { "\r" };
    let mut brackets = line.rmatch_indices([']', ')']);
    let bracketed = brackets.find_map(|(close, _)| choices(line.get(..close)?));
    let found = bracketed.or_else(|| yes_or_no(line)).or_else(|| spelled(line)).or_else(|| numbered(above));
    let mut found = found.filter(|found| found.len() <= MOST).unwrap_or_default();
    let refusal = REFUSALS.iter().find_map(|refusal| {
        found.iter().position(|choice| choice.label.to_lowercase() == *refusal || choice.id == *refusal)
    });
    if let Some(refusal) = refusal
        && let Some(before) = found.get_mut(..=refusal)
    {
        before.rotate_right(1);
    }
    let answer = |choice: Choice| {
        let label = sanitize_line(&choice.label, LONGEST);
        (AskOption { id: choice.id, label }, format!("{}{end}", choice.keys))
    };
    found.into_iter().map(answer).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Choice {
    id: String,
    label: String,
    keys: String,
}

fn choices(text: &str) -> Option<Vec<Choice>> {
    let inside = text.get(text.rfind(['[', '('])? + 1..)?;
    let separator = [',', '|', '/'].into_iter().find(|separator| inside.contains(*separator))?;
    let words: Vec<&str> = inside.split(separator).map(str::trim).collect();
    let are_letters = words.iter().all(|word| word.chars().count() == 1);
    let is_word = |word: &&str| (1..=12).contains(&word.len()) && word.chars().all(char::is_alphabetic);
    // Ordinary words in brackets are more often a remark than a choice, so at least one word must be a known answer.
    let are_words = words.iter().all(is_word) && words.iter().any(|word| known_word(word).is_some());
    if words.len() < 2 || !(are_letters || are_words) {
        return None;
    }
    let is_pair = words.len() == 2;
    let choice = |word: &&str| {
        let same = words.iter().filter(|other| other.eq_ignore_ascii_case(word)).count();
        // `Y` in `[Y/n]` shows only which answer is the default.
        let keys = if is_pair { word.to_lowercase() } else { (*word).to_owned() };
        match known_word(word).filter(|_| same == 1) {
            Some(known) => Choice { id: known.to_lowercase(), label: known.to_owned(), keys },
            None => Choice { id: (*word).to_owned(), label: (*word).to_owned(), keys },
        }
    };
    let choices: Vec<Choice> = words.iter().map(choice).collect();
    let are_distinct = choices
        .iter()
        .enumerate()
        .all(|(n, choice)| choices.iter().skip(n + 1).all(|other| other.id != choice.id));
    are_distinct.then_some(choices)
}

fn known_word(word: &str) -> Option<&'static str> {
    match word.to_lowercase().as_str() {
        "y" | "yes" => Some("Yes"),
        "n" | "no" => Some("No"),
        _ => None,
    }
}

fn yes_or_no(line: &str) -> Option<Vec<Choice>> {
    let line = line.to_lowercase();
    let pairs = [("yes/no", "yes", "no"), ("y/n", "y", "n")];
    let (_, yes, no) = pairs
        .into_iter()
        .find(|(pair, ..)| ["[", "("].iter().any(|open| line.contains(&format!("{open}{pair}"))))?;
    let choice = |label: &str, keys: &str| Choice {
        id: label.to_lowercase(),
        label: label.to_owned(),
        keys: keys.to_owned(),
    };
    Some(vec![choice("Yes", yes), choice("No", no)])
}

/// Finds answers whose first letter is in brackets: `[y]es, [n]o, [A]ll`.
fn spelled(line: &str) -> Option<Vec<Choice>> {
    let pieces = line.split('[').skip(1).filter_map(|piece| {
        let (letter, rest) = piece.split_once(']')?;
        let rest: String = rest.chars().take_while(|letter| letter.is_alphabetic()).collect();
        let is_key = letter.chars().count() == 1 && letter.chars().all(char::is_alphanumeric);
        let word = format!("{letter}{rest}");
        (is_key && !rest.is_empty()).then(|| Choice {
            id: word.to_lowercase(),
            label: word,
            keys: letter.to_owned(),
        })
    });
    Some(pieces.collect::<Vec<_>>()).filter(|choices| choices.len() >= 2)
}

fn numbered(above: &[String]) -> Option<Vec<Choice>> {
    let blank = above.iter().rev().take(2).take_while(|line| line.trim().is_empty()).count();
    let mut rows: Vec<Vec<Choice>> = Vec::new();
    for line in above.iter().rev().skip(blank) {
        let row = entries(line);
        if row.is_empty() {
            break;
        }
        rows.push(row);
    }
    let mut choices: Vec<Choice> = rows.into_iter().flatten().collect();
    choices.sort_by_key(|choice| choice.id.parse::<u32>().unwrap_or(u32::MAX));
    let counts_up =
        choices.iter().zip(1..).all(|(choice, number): (&Choice, u32)| choice.id == number.to_string());
    Some(choices).filter(|choices| choices.len() >= 2 && counts_up)
}

fn entries(line: &str) -> Vec<Choice> {
    let line = line.trim_start_matches([' ', '*', '>', '❯', '›', '│']);
    let Some((number, rest)) = entry(line) else { return Vec::new() };
    // Several entries on one line are at least two blanks apart.
    let next = rest
        .match_indices("  ")
        .find(|(at, _)| rest.get(*at..).is_some_and(|rest| entry(rest.trim_start()).is_some()));
    let (label, more) = match next {
        Some((at, _)) => rest.split_at_checked(at).unwrap_or((rest, "")),
        None => (rest, ""),
    };
    let choice = Choice { id: number.to_string(), label: label.trim().to_owned(), keys: number.to_string() };
    let mut found = vec![choice];
    found.extend(entries(more));
    found
}

fn entry(text: &str) -> Option<(u32, &str)> {
    let text = text.strip_prefix(['(', '[']).unwrap_or(text);
    let (number, rest) = text.split_at_checked(text.find(|letter: char| !letter.is_ascii_digit())?)?;
    let rest = rest.strip_prefix([')', '.', ':', ']'])?;
    let label = rest.strip_prefix(' ').filter(|label| !label.trim().is_empty())?;
    Some((number.parse().ok().filter(|number| (1..100).contains(number))?, label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str, above: &[&str]) -> Vec<(String, String, String)> {
        let above: Vec<String> = above.iter().map(|line| (*line).to_owned()).collect();
        let modes = TerminalModes { lines: true, echo: true };
        let answers = answers(line, &above, modes).into_iter();
        answers.map(|(option, keys)| (option.id, option.label, keys.trim_end().to_owned())).collect()
    }

    fn ids(line: &str, above: &[&str]) -> Vec<String> {
        of(line, above).into_iter().map(|(id, ..)| id).collect()
    }

    #[test]
    fn the_first_answer_refuses() {
        for (line, expected) in [
            ("Continue? [y/N]", vec!["no", "yes"]),
            ("Continue? [Y/n]:", vec!["no", "yes"]),
            ("Connect (yes/no/[fingerprint])?", vec!["no", "yes"]),
            ("Is it right? (yes/no)", vec!["no", "yes"]),
            (
                "(1/2) Stage this hunk [y,n,q,a,d,j,J,g,/,e,?]?",
                vec!["no", "yes", "q", "a", "d", "j", "J", "g", "/", "e", "?"],
            ),
            (
                "replace a.txt? [y]es, [n]o, [A]ll, [N]one, [r]ename:",
                vec!["no", "yes", "all", "none", "rename"],
            ),
            ("*** conf (Y/I/N/O/D/Z) [default=N] ?", vec!["no", "yes", "I", "O", "D", "Z"]),
        ] {
            assert_eq!(ids(line, &[]), expected, "{line}");
        }
        assert_eq!(of("Go? [Y/n]", &[])[1], ("yes".into(), "Yes".into(), "y".into()));
        assert_eq!(of("Go (yes/no)?", &[])[0], ("no".into(), "No".into(), "no".into()));
    }

    #[test]
    fn a_numbered_list_is_offered_and_its_refusal_comes_first() {
        assert_eq!(ids("#?", &["Pick:", "1) one   3) three", "2) two"]), ["1", "2", "3"]);
        assert_eq!(ids("Choice:", &["  1. Allow always", "  2. Cancel", ""]), ["2", "1"]);
        assert_eq!(of("Choice:", &["[1] red wine", "[2] tea"])[0].1, "red wine");
        for not_a_list in [vec!["1) one"], vec!["12:30 start", "12:31 end"], vec!["3. c", "4. d"]] {
            assert_eq!(ids("Choice:", &not_a_list), [""; 0], "{not_a_list:?}");
        }
    }

    #[test]
    fn remarks_in_brackets_are_no_answers() {
        for line in [
            "Name (first/last):",
            "Directory [/usr/local]:",
            "package name: (x)",
            "Country [AU]:",
            "Size (1,2):",
        ] {
            let expected: &[&str] = if line.starts_with("Size") { &["1", "2"] } else { &[] };
            assert_eq!(ids(line, &[]), expected, "{line}");
        }
    }

    #[test]
    fn a_single_key_is_typed_without_return() {
        let modes = TerminalModes { lines: false, echo: true };
        assert_eq!(answers("Go on? [y/n]", &[], modes)[1].1, "y");
    }
}
