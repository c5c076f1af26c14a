//! Compares the words of texts.

use super::Sources;
use std::collections::BTreeSet;

/// Refusals and talk about answers use these words, too, so they say nothing about content.
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

const MIN_DRAWN: usize = 3;

/// Words with at least four characters or with a digit, except `EMPTY_WORDS`, in lower case.
fn words(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let has_content = |word: &&str| word.chars().count() >= 4 || word.chars().any(|c| c.is_ascii_digit());
    let words = text.split(|c| !is_part(c)).filter(has_content).map(str::to_lowercase);
    words.filter(|word| !EMPTY_WORDS.contains(&word.as_str())).collect()
}

/// Whether the text contains at least a third of the answer's words. Words of the task are ignored, unless the answer
/// has no others.
pub(super) fn carries(text: &str, answer: &str, task: &str) -> bool {
    let (of_text, of_answer, of_task) = (words(text), words(answer), words(task));
    let own: BTreeSet<&String> = of_answer.difference(&of_task).collect();
    let expected = if own.is_empty() { of_answer.iter().collect() } else { own };
    let kept = expected.iter().filter(|word| of_text.contains(**word)).count();
    !expected.is_empty() && kept * 3 >= expected.len()
}

/// Whether the text carries one of the answers, or draws on all of them: of its words that the task does not contain,
/// at least two fifths, and at least `MIN_DRAWN`, occur in some answer.
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
