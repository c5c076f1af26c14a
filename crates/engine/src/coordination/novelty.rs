//! Whether an answer differs enough from an earlier one, by the Jaccard similarity of their words.

use althing_protocol::AnswerNovelty;
use std::collections::BTreeSet;

pub(super) fn is_new(novelty: AnswerNovelty, answer: &str, earlier: &str) -> bool {
    let most = match novelty {
        AnswerNovelty::Lenient => return true,
        AnswerNovelty::Balanced => 0.7,
        AnswerNovelty::Strict => 0.5,
    };
    let words = |text: &str| -> BTreeSet<String> { text.split_whitespace().map(str::to_lowercase).collect() };
    let (new, old) = (words(answer), words(earlier));
    let all = new.union(&old).count().max(1);
    (new.intersection(&old).count() as f64 / all as f64) <= most
}
