//! Extracts from the words of a task, for the offline model, what is possible without understanding them: subject,
//! options, files, and whether it asks for work.

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Task<'a> {
    /// The first 200 characters of the task on one line, without final punctuation.
    pub(super) line: String,
    /// The task without the leading instruction ("compare three ways to").
    pub(super) subject: String,
    /// The options that the task names ("A, B or C"), or as many generic ones as it asks for.
    pub(super) options: Vec<String>,
    pub(super) file: Option<&'a str>,
}

const WORK: &[&str] = &[
    "add",
    "analyse",
    "analyze",
    "build",
    "change",
    "code",
    "compare",
    "convert",
    "create",
    "debug",
    "delete",
    "design",
    "develop",
    "document",
    "draft",
    "evaluate",
    "explore",
    "fix",
    "generate",
    "implement",
    "improve",
    "investigate",
    "make",
    "migrate",
    "optimise",
    "optimize",
    "plan",
    "port",
    "prepare",
    "produce",
    "prototype",
    "refactor",
    "remove",
    "rename",
    "research",
    "review",
    "rewrite",
    "run",
    "set",
    "summarise",
    "summarize",
    "test",
    "translate",
    "update",
    "upgrade",
    "write",
];

const POLITE: &[&str] = &[
    "please", "can", "could", "would", "will", "you", "now", "then", "let's", "lets", "us", "i", "want",
    "need", "to", "just", "also", "and", "ok", "okay",
];

const NUMBERS: &[(&str, usize)] =
    &[("two", 2), ("three", 3), ("four", 4), ("five", 5), ("2", 2), ("3", 3), ("4", 4), ("5", 5)];

const COUNTED: &[&str] = &[
    "ways",
    "options",
    "approaches",
    "ideas",
    "methods",
    "alternatives",
    "designs",
    "strategies",
    "examples",
    "reasons",
    "steps",
    "tips",
];

/// The generic options, for a task that asks for options without naming them.
const UNNAMED: &[&str] = &[
    "The smallest thing that works, by hand",
    "An existing standard or tool, as it comes",
    "A shared part of one's own, built to grow",
    "A service bought from someone else",
    "Doing without it, and measuring what that costs",
];

impl<'a> Task<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        let line = one_line(text);
        let words: Vec<&str> = line.split(' ').collect();
        let counted = words.windows(2).enumerate().find_map(|(at, pair)| match pair {
            [number, thing] if COUNTED.contains(&bare(thing).as_str()) => {
                let count = NUMBERS.iter().find(|(word, _)| *word == bare(number))?.1;
                Some((at, count))
            }
            _ => None,
        });
        let skipped = counted.map_or_else(|| order(&words).map_or(0, |at| at + 1), |(at, _)| at + 2);
        let subject = words.get(skipped..).unwrap_or_default().join(" ");
        let subject = strip_any(&subject, &["to ", "of ", "for ", "a ", "an ", "the "]);
        let mut options = named_options(&subject);
        if let Some((_, count)) = counted
            && options.len() != count
        {
            options = UNNAMED.iter().take(count).map(|name| (*name).to_owned()).collect();
        }
        let subject = if subject.is_empty() { line.clone() } else { subject };
        Self { subject, options, file: text.split_whitespace().find_map(file_name), line }
    }
}

pub(super) fn is_work(text: &str) -> bool {
    let line = one_line(text);
    let words: Vec<&str> = line.split(' ').collect();
    order(&words).is_some()
}

/// The first word that is not in `POLITE`, if it is one of the first six and in `WORK`.
fn order(words: &[&str]) -> Option<usize> {
    words
        .iter()
        .take(6)
        .position(|word| !POLITE.contains(&bare(word).as_str()))
        .filter(|at| words.get(*at).is_some_and(|word| WORK.contains(&bare(word).as_str())))
}

fn bare(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).take(200).collect();
    line.trim_end_matches(['.', '!', '?', ':']).to_owned()
}

fn strip_any(text: &str, starts: &[&str]) -> String {
    starts.iter().find_map(|start| text.strip_prefix(start)).unwrap_or(text).to_owned()
}

/// "A, B and C", "A or B", "A vs B", "between A and B". Only short parts are options; a sentence is not.
fn named_options(subject: &str) -> Vec<String> {
    let versus = [" versus ", " vs. ", " vs "].iter().find(|mark| subject.contains(*mark));
    let parts: Vec<&str> = if let Some(mark) = versus {
        subject.split(mark).collect()
    } else if let Some((head, last)) = subject.rsplit_once(" or ") {
        head.split(", ").chain([last]).collect()
    } else if let Some((head, last)) = subject.rsplit_once(" and ")
        && (head.contains(", ") || head.starts_with("between "))
    {
        head.trim_start_matches("between ").split(", ").chain([last]).collect()
    } else {
        return Vec::new();
    };
    let parts: Vec<String> = parts.iter().map(|part| part.trim_matches([',', ' ']).to_owned()).collect();
    let short = |part: &String| !part.is_empty() && part.split(' ').count() <= 5;
    if parts.len() >= 2 && parts.iter().all(short) { parts } else { Vec::new() }
}

fn file_name(word: &str) -> Option<&str> {
    let word = word
        .trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '.' | '_'))
        .trim_end_matches('.');
    let (stem, extension) = word.rsplit_once('.')?;
    let named = !stem.is_empty() && stem.chars().any(char::is_alphabetic) && !word.contains("://");
    let fits = (1..=5).contains(&extension.len()) && extension.chars().all(|c| c.is_ascii_alphanumeric());
    (named && fits && extension.starts_with(|c: char| c.is_ascii_lowercase()) && stem.len() > 1)
        .then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counted_comparison_gives_its_subject_and_that_many_options() {
        let task = Task::read("Compare three ways to cache HTTP responses.");
        assert_eq!(task.subject, "cache HTTP responses");
        assert_eq!(task.options.len(), 3);
        assert_eq!(task.line, "Compare three ways to cache HTTP responses");
    }

    #[test]
    fn named_options_are_found_and_sentences_are_not_options() {
        let options = |text| Task::read(text).options;
        assert_eq!(options("Compare Redis, Memcached and Varnish"), ["Redis", "Memcached", "Varnish"]);
        assert_eq!(options("tabs vs spaces?"), ["tabs", "spaces"]);
        assert_eq!(options("Is it better to use threads or async?"), Vec::<String>::new());
        assert_eq!(options("What is 2+2?"), Vec::<String>::new());
        assert_eq!(options("Write a poem about sea and sky"), Vec::<String>::new());
    }

    #[test]
    fn requests_for_work_are_told_from_questions() {
        for work in [
            "Build a parser",
            "please refactor src/main.rs",
            "Can you compare A and B?",
            "I want to write a book",
            "Now fix it!",
        ] {
            assert!(is_work(work), "{work}");
        }
        for talk in ["hello", "What is a parser?", "How do I build this?", "thanks, that is well written", ""]
        {
            assert!(!is_work(talk), "{talk}");
        }
    }

    #[test]
    fn files_are_told_from_sentences_versions_and_addresses() {
        let file = |text| Task::read(text).file;
        assert_eq!(file("Explain src/main.rs, please."), Some("src/main.rs"));
        assert_eq!(file("Read README.md."), Some("README.md"));
        assert_eq!(file("Upgrade to 2.0, see https://example.com e.g. now."), None);
    }

    #[test]
    fn no_text_breaks_it() {
        for text in ["", " ", ".", "\u{1b}[2J", "vs", " or ", "three ways", "ß".repeat(999).as_str()] {
            Task::read(text);
        }
    }
}
