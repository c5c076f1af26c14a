//! Compares the words of texts.

use super::Sources;
use std::collections::BTreeSet;

/// Words that say nothing about the content of an answer, because refusals and talk about answers use them, too.
const EMPTY_WORDS: [&str; 79] = [
    "that",
    "this",
    "with",
    "from",
    "your",
    "have",
    "will",
    "would",
    "could",
    "should",
    "here",
    "there",
    "which",
    "what",
    "when",
    "they",
    "them",
    "then",
    "than",
    "more",
    "some",
    "into",
    "only",
    "just",
    "like",
    "also",
    "been",
    "were",
    "about",
    "please",
    "help",
    "helping",
    "assist",
    "assistance",
    "sorry",
    "apologize",
    "unable",
    "able",
    "ready",
    "cannot",
    "provide",
    "provided",
    "code",
    "function",
    "answer",
    "answers",
    "question",
    "questions",
    "request",
    "information",
    "task",
    "original",
    "message",
    "final",
    "agent",
    "agents",
    "vote",
    "votes",
    "need",
    "want",
    "know",
    "make",
    "made",
    "give",
    "given",
    "write",
    "written",
    "using",
    "based",
    "best",
    "better",
    "good",
    "correct",
    "response",
    "user",
    "very",
    "these",
    "those",
    "does",
];

/// The minimum number of words that a text must share with the answers.
const MIN_DRAWN: usize = 3;

/// The words of a text that say what it is about: at least four letters, or with a digit.
fn words(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let has_content = |word: &&str| word.chars().count() >= 4 || word.chars().any(|c| c.is_ascii_digit());
    let words = text.split(|c| !is_part(c)).filter(has_content).map(str::to_lowercase);
    words.filter(|word| !EMPTY_WORDS.contains(&word.as_str())).collect()
}

/// Whether a text has at least a third of the words of an answer, without the words of the task. If the answer has no
/// words besides those of the task, all its words count.
pub(super) fn carries(text: &str, answer: &str, task: &str) -> bool {
    let (of_text, of_answer, of_task) = (words(text), words(answer), words(task));
    let own: BTreeSet<&String> = of_answer.difference(&of_task).collect();
    let expected = if own.is_empty() { of_answer.iter().collect() } else { own };
    let kept = expected.iter().filter(|word| of_text.contains(**word)).count();
    !expected.is_empty() && kept * 3 >= expected.len()
}

/// Whether the content of a text comes from the answers: the text carries one of them, or at least two fifths of its
/// own words, and not fewer than three, occur in them.
pub(super) fn draws_on(text: &str, sources: &Sources<'_>) -> bool {
    let answers = || std::iter::once(sources.basis).chain(sources.others.iter().copied());
    if answers().any(|answer| carries(text, answer, sources.task)) {
        return true;
    }
    let known: BTreeSet<String> = answers().flat_map(words).collect();
    let (of_text, of_task) = (words(text), words(sources.task));
    let own: Vec<&String> = of_text.difference(&of_task).collect();
    let drawn = own.iter().filter(|word| known.contains(**word)).count();
    drawn >= MIN_DRAWN && drawn * 5 >= own.len() * 2
}
