//! `@path` mentions in the input: what completion offers for them, and which of them name nothing.

use super::App;
use crate::line;

const MOST_OFFERS: usize = 50;

const MOST_CHECKED: usize = 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MissingMentions {
    text: String,
    /// Whether the word at the cursor had completions and was therefore still unfinished.
    completing: bool,
    words: Vec<String>,
}

impl MissingMentions {
    /// The column and the width of each missing mention in a row of the input. A mention that is wrapped onto the next
    /// row is not found.
    pub(crate) fn places_in(&self, row: &str) -> Vec<(u16, u16)> {
        let mut places = Vec::new();
        for word in &self.words {
            for (at, _) in row.match_indices(word.as_str()) {
                let (before, after) = (row.get(..at).unwrap_or_default(), row.get(at + word.len()..));
                let begins = before.chars().next_back().is_none_or(char::is_whitespace);
                let ends = after.and_then(|rest| rest.chars().next()).is_none_or(char::is_whitespace);
                if begins && ends {
                    let cells = |text: &str| u16::try_from(line::width(text)).unwrap_or(u16::MAX);
                    places.push((cells(before), cells(word)));
                }
            }
        }
        places
    }
}

impl App {
    /// The completions of the word after `@`: for a path that exists, to read or to write it; and paths. Also returns
    /// the index of the offer that Tab takes.
    pub(crate) fn mention_offers(&self, mention: &str) -> (Vec<(String, String)>, usize) {
        const READ: &str = "the run may read it";
        const WRITE: &str = "the run may read and write it";
        let exists = |path: &str| self.host.path_exists(path) == Some(true);
        if let Some((path, suffix)) = mention.rsplit_once(':')
            && exists(path)
        {
            let offer = (format!("@{path}:w"), WRITE.to_owned());
            return (if suffix.is_empty() { vec![offer] } else { Vec::new() }, 0);
        }
        let mut offers = Vec::new();
        let paths = self.host.paths(mention);
        let is_dir = mention.ends_with('/') || paths.contains(&format!("{mention}/"));
        if !mention.is_empty() && exists(mention) {
            offers.push((format!("@{mention}"), READ.to_owned()));
            offers.push((format!("@{mention}:w"), WRITE.to_owned()));
        }
        let own = offers.len();
        let paths = paths.into_iter().filter(|path| path != mention);
        offers.extend(paths.take(MOST_OFFERS).map(|path| (format!("@{path}"), String::new())));
        let chosen = if is_dir && offers.len() > own { own } else { 0 };
        (offers, chosen)
    }

    pub(crate) fn find_missing_mentions(&mut self) {
        let completing = self.completion.is_some();
        if self.missing.text == self.input.text() && self.missing.completing == completing {
            return;
        }
        let before = self.input.before();
        let current =
            before.rfind(char::is_whitespace).map_or(before, |at| before.get(at..).unwrap_or_default());
        let current = current.trim_start();
        let words = self.input.text().split_whitespace().filter(|word| word.len() > 1);
        let mentions = words.filter(|word| word.starts_with('@')).take(MOST_CHECKED);
        let is_missing = |word: &&str| {
            let is_unfinished = completing && word.starts_with(current) && !current.is_empty();
            let mention = word.strip_prefix('@').unwrap_or_default();
            !is_unfinished && self.host.path_exists(mention) == Some(false)
        };
        let words = mentions.filter(is_missing).map(str::to_owned).collect();
        self.missing = MissingMentions { text: self.input.text().to_owned(), completing, words };
    }

    pub(crate) fn missing_mention(&self) -> Option<&str> {
        self.missing.words.last().map(String::as_str)
    }
}
