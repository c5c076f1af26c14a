//! A small multi-line text editor: the message input and the fields of questions.

use althing_text::{count, sanitize};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The maximum length of the text, in bytes.
const MOST: usize = 4 << 20;

const MOST_EDITS: usize = 200;

/// A pasted text with at least this many lines, or more than this many characters, is folded.
const FOLDED_LINES: usize = 10;
const FOLDED_LETTERS: usize = 1000;

/// Private characters that stand for folded texts: the first for the first of `folded`, and so on. They are removed from
/// what is typed and pasted.
const FOLDS: RangeInclusive<char> = '\u{10f000}'..='\u{10fffd}';

/// The maximum total length of the texts that are kept for undo, in bytes.
const MOST_EDIT_BYTES: usize = 8 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Editor {
    text: String,
    /// A byte position on a grapheme boundary.
    cursor: usize,
    /// The text and the cursor before each edit, oldest first. Letters that were typed in a row are one edit.
    edits: Vec<(String, usize)>,
    typing: bool,
    /// The text that was last removed by a command that removes words or parts of lines.
    killed: String,
    /// Pasted texts that are shown as one mark, such as `[Pasted 300 lines]`. `text` has a character of `FOLDS` for each.
    folded: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedText {
    pub rows: Vec<String>,
    pub cursor: (usize, usize),
    starts: Vec<usize>,
}

impl Editor {
    pub fn with(text: &str) -> Self {
        let mut editor = Self::default();
        editor.insert(text);
        editor
    }

    /// The text, with one private character for each folded text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text with the folded texts.
    pub fn whole(&self) -> String {
        self.unfolded(&self.text)
    }

    fn unfolded(&self, text: &str) -> String {
        let mut whole = String::with_capacity(text.len());
        for letter in text.chars() {
            match self.folded_text(letter) {
                Some(folded) => whole.push_str(folded),
                None => whole.push(letter),
            }
        }
        whole
    }

    fn folded_text(&self, letter: char) -> Option<&String> {
        let at = FOLDS.contains(&letter).then(|| u32::from(letter) - u32::from(*FOLDS.start()))?;
        self.folded.get(at as usize)
    }

    /// What is drawn for a grapheme: for a folded text, a mark that fits into `width` columns.
    fn shown<'a>(&self, grapheme: &'a str, width: usize) -> Cow<'a, str> {
        let folded = grapheme.chars().next().and_then(|letter| self.folded_text(letter));
        let Some(folded) = folded else { return sanitize::cell(grapheme) };
        let lines = folded.lines().count();
        let size = if lines > 1 {
            count(lines as u64, "line")
        } else {
            count(folded.chars().count() as u64, "character")
        };
        let mark = format!("[Pasted {size}]");
        Cow::Owned(mark.chars().take(width).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn before(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    fn after(&self) -> &str {
        self.text.get(self.cursor..).unwrap_or_default()
    }

    /// Takes the text out, for example to send it. Undo does not bring it back.
    pub fn take(&mut self) -> String {
        let whole = self.whole();
        self.killed = self.unfolded(&self.killed);
        self.cursor = 0;
        (self.edits, self.folded, self.text) = Default::default();
        whole
    }

    pub fn clear(&mut self) {
        self.note_edit(false);
        self.cursor = 0;
        self.text.clear();
    }

    pub fn set(&mut self, text: &str) {
        self.clear();
        self.insert(text);
        self.typing = false;
    }

    fn note_edit(&mut self, joins: bool) {
        let joined = joins && self.typing;
        self.typing = joins;
        if joined || self.edits.last().is_some_and(|(text, _)| *text == self.text) {
            return;
        }
        self.edits.push((self.text.clone(), self.cursor));
        let mut bytes: usize = self.edits.iter().map(|(text, _)| text.len()).sum();
        while bytes > MOST_EDIT_BYTES || self.edits.len() > MOST_EDITS {
            bytes -= self.edits.remove(0).0.len();
        }
    }

    pub fn undo(&mut self) -> bool {
        self.typing = false;
        while let Some((text, cursor)) = self.edits.pop() {
            if text != self.text {
                (self.text, self.cursor) = (text, cursor);
                return true;
            }
        }
        false
    }

    pub fn yank(&mut self) {
        let killed = self.killed.clone();
        self.insert_kept(&killed);
    }

    /// Pastes text. A long text is folded: it is shown as one mark, which is removed like one character.
    pub fn paste(&mut self, text: &str) {
        let kept = without_controls(text);
        let is_long = kept.lines().count() >= FOLDED_LINES || kept.chars().nth(FOLDED_LETTERS).is_some();
        let letter = u32::try_from(self.folded.len())
            .ok()
            .and_then(|at| char::from_u32(u32::from(*FOLDS.start()) + at))
            .filter(|letter| FOLDS.contains(letter));
        match letter.filter(|_| is_long && self.whole().len() + kept.len() <= MOST) {
            Some(letter) => {
                self.folded.push(kept);
                self.insert_kept(letter.encode_utf8(&mut [0; 4]));
                self.typing = false;
            }
            None => self.insert(&kept),
        }
    }

    /// Types or pastes text. Line endings become newlines, tabs become spaces, other control characters are removed.
    /// Does nothing if the text would become longer than `MOST`.
    pub fn insert(&mut self, text: &str) {
        self.insert_kept(&without_controls(text));
    }

    fn insert_kept(&mut self, kept: &str) {
        if self.text.len() + kept.len() <= MOST {
            let is_letter = kept.chars().nth(1).is_none() && !kept.starts_with(char::is_whitespace);
            self.note_edit(is_letter);
            self.text.insert_str(self.cursor, kept);
            self.cursor += kept.len();
        }
    }

    pub fn complete(&mut self, from: usize, with: &str) {
        if self.text.is_char_boundary(from) && from <= self.cursor {
            self.text.replace_range(from..self.cursor, with);
            self.cursor = from + with.len();
        }
    }

    fn letter_before(&self) -> usize {
        self.before().graphemes(true).next_back().map_or(0, str::len)
    }

    fn letter_after(&self) -> usize {
        self.after().graphemes(true).next().map_or(0, str::len)
    }

    fn word_before(&self) -> usize {
        let before = self.before();
        let trimmed = before.trim_end();
        let start = trimmed.rfind(char::is_whitespace).map_or(0, |at| {
            at + trimmed.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
        });
        before.len() - start
    }

    fn word_after(&self) -> usize {
        let after = self.after();
        let trimmed = after.trim_start();
        let word = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        after.len() - trimmed.len() + word
    }

    fn line_before(&self) -> usize {
        self.before().len() - self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_after(&self) -> usize {
        self.after().find('\n').unwrap_or(self.after().len())
    }

    fn remove_before(&mut self, length: usize) -> String {
        let start = self.cursor - length;
        let removed = self.before().get(start..).unwrap_or_default().to_owned();
        self.note_edit(false);
        self.text.replace_range(start..self.cursor, "");
        self.cursor = start;
        removed
    }

    fn remove_after(&mut self, length: usize) -> String {
        let removed = self.after().get(..length).unwrap_or_default().to_owned();
        self.note_edit(false);
        self.text.replace_range(self.cursor..self.cursor + length, "");
        removed
    }

    fn keep_killed(&mut self, removed: String) {
        if !removed.is_empty() {
            self.killed = removed;
        }
    }

    pub fn key(&mut self, key: Motion) -> bool {
        let before = (self.cursor, self.text.len());
        match key {
            Motion::Left => self.cursor -= self.letter_before(),
            Motion::Right => self.cursor += self.letter_after(),
            Motion::WordLeft => self.cursor -= self.word_before(),
            Motion::WordRight => self.cursor += self.word_after(),
            Motion::LineStart => self.cursor -= self.line_before(),
            Motion::LineEnd => self.cursor += self.line_after(),
            Motion::Backspace => {
                self.remove_before(self.letter_before());
            }
            Motion::Delete => {
                self.remove_after(self.letter_after());
            }
            Motion::DeleteWord | Motion::DeleteToStart => {
                let length = if key == Motion::DeleteWord { self.word_before() } else { self.line_before() };
                let removed = self.remove_before(length);
                self.keep_killed(removed);
            }
            Motion::DeleteNextWord | Motion::DeleteToEnd => {
                let length = if key == Motion::DeleteToEnd { self.line_after() } else { self.word_after() };
                let removed = self.remove_after(length);
                self.keep_killed(removed);
            }
        }
        before != (self.cursor, self.text.len())
    }

    /// Moves the cursor by rows of the text wrapped to `width`. Returns false if there is no such row.
    pub fn vertical(&mut self, rows: isize, width: usize) -> bool {
        let wrapped = self.wrap(width);
        let (row, column) = wrapped.cursor;
        let Some(target) = row.checked_add_signed(rows).filter(|target| *target < wrapped.rows.len()) else {
            return false;
        };
        let start = wrapped.starts.get(target).copied().unwrap_or_default();
        let end = wrapped.starts.get(target + 1).copied().unwrap_or(self.text.len());
        let mut at = start;
        let mut used = 0;
        for letter in self.text.get(start..end).unwrap_or_default().graphemes(true) {
            let wide = self.shown(letter, width.max(2)).width();
            if letter == "\n" || used + wide > column {
                break;
            }
            used += wide;
            at += letter.len();
        }
        self.cursor = at;
        true
    }

    pub fn wrap(&self, width: usize) -> WrappedText {
        let width = width.max(2);
        let mut rows = vec![String::new()];
        let mut starts = vec![0];
        let mut used = 0;
        let mut cursor = (0, 0);
        for (at, letter) in self.text.grapheme_indices(true) {
            if at == self.cursor {
                cursor = (rows.len() - 1, used);
            }
            if letter == "\n" {
                rows.push(String::new());
                starts.push(at + 1);
                used = 0;
                continue;
            }
            let shown = self.shown(letter, width);
            let wide = shown.width();
            if used + wide > width {
                rows.push(String::new());
                starts.push(at);
                used = 0;
                if at == self.cursor {
                    cursor = (rows.len() - 1, 0);
                }
            }
            if let Some(row) = rows.last_mut() {
                row.push_str(&shown);
            }
            used += wide;
        }
        if self.cursor == self.text.len() {
            if used >= width {
                rows.push(String::new());
                starts.push(self.text.len());
                used = 0;
            }
            cursor = (rows.len() - 1, used);
        }
        WrappedText { rows, cursor, starts }
    }
}

pub(crate) fn without_controls(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let kept = text.chars().filter(|c| !c.is_control() && !FOLDS.contains(c) || matches!(c, '\n' | '\t'));
    kept.map(|c| if c == '\t' { ' ' } else { c }).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Backspace,
    Delete,
    DeleteWord,
    DeleteNextWord,
    DeleteToStart,
    DeleteToEnd,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_edit_by_whole_letters() {
        let mut editor = Editor::with("a日👩‍👩‍👧e\u{301}");
        for expected in ["a日👩‍👩‍👧", "a日", "a", ""] {
            editor.key(Motion::Backspace);
            assert_eq!(editor.text(), expected);
        }
        assert!(!editor.key(Motion::Backspace));
        editor.insert("one two  three");
        editor.key(Motion::DeleteWord);
        assert_eq!(editor.text(), "one two  ");
        editor.key(Motion::DeleteWord);
        assert_eq!(editor.text(), "one ");
    }

    #[test]
    fn long_lines_fold_and_the_cursor_moves_by_rows() {
        let mut editor = Editor::with("abcdef\nxy");
        let wrapped = editor.wrap(4);
        assert_eq!(wrapped.rows, ["abcd", "ef", "xy"]);
        assert_eq!(wrapped.cursor, (2, 2));
        assert!(editor.vertical(-1, 4) && editor.vertical(-1, 4));
        assert_eq!(editor.before(), "ab");
        assert!(!editor.vertical(-1, 4), "the top row is the edge");
    }

    #[test]
    fn removed_words_can_be_inserted_again_and_edits_can_be_undone() {
        let mut editor = Editor::default();
        for letter in "one two three".chars() {
            editor.insert(letter.encode_utf8(&mut [0; 4]));
        }
        editor.key(Motion::DeleteWord);
        editor.key(Motion::LineStart);
        editor.yank();
        assert_eq!(editor.text(), "threeone two ");
        editor.key(Motion::DeleteNextWord);
        assert_eq!(editor.text(), "three two ");
        for expected in
            ["threeone two ", "one two ", "one two three", "one two ", "one two", "one ", "one", ""]
        {
            assert!(editor.undo(), "{expected}");
            assert_eq!(editor.text(), expected);
        }
        assert!(!editor.undo());
    }

    #[test]
    fn a_cleared_text_comes_back_but_a_sent_one_does_not() {
        let mut editor = Editor::with("a long thought");
        editor.clear();
        assert!(editor.undo());
        assert_eq!(editor.text(), "a long thought");
        editor.take();
        assert!(!editor.undo());
    }

    #[test]
    fn a_long_paste_is_one_letter_until_it_is_sent() {
        let pasted = (1..=300).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let mut editor = Editor::with("see: ");
        editor.paste(&pasted);
        editor.insert(" ok");
        assert_eq!(editor.wrap(40).rows, ["see: [Pasted 300 lines] ok"]);
        assert_eq!(editor.wrap(8).rows, ["see: ", "[Pasted ", " ok"]);
        assert_eq!(editor.whole(), format!("see: {pasted} ok"));
        for _ in 0..4 {
            editor.key(Motion::Backspace);
        }
        assert_eq!(editor.whole(), "see: ");
        assert!(editor.undo());
        assert_eq!(editor.whole(), format!("see: {pasted}"));
        // A removed mark can be inserted again, also after the text was sent.
        editor.key(Motion::DeleteWord);
        editor.yank();
        assert_eq!(editor.whole(), format!("see: {pasted}"));
        editor.key(Motion::DeleteWord);
        assert_eq!(editor.take(), "see: ");
        editor.yank();
        assert_eq!(editor.whole(), pasted);
        // Private characters of a pasted text stand for nothing.
        let mut editor = Editor::default();
        editor.paste(&"x".repeat(1001));
        editor.insert("\u{10f000}");
        assert_eq!(editor.wrap(40).rows, ["[Pasted 1001 characters]"]);
    }

    #[test]
    fn pasted_control_characters_are_left_out() {
        let editor = Editor::with("a\x1b[31m\r\nb\x07");
        assert_eq!(editor.text(), "a[31m\nb");
    }
}
