//! Decides what is shown of a question that a pattern found on the screen, and whether it may be answered without
//! looking at the terminal.
//!
//! What a program asks about may be chosen by its model. So a question with answers shows every row of the dialog,
//! not what a pattern captures, and it loses its answers if the program may have left out a part of the dialog, or if
//! it is not certain that the typed key means the answer.

use super::model::TerminalModel;
use super::sanitize_line::sanitize_dialog;
use crate::adapter::AskPattern;
use althing_protocol::{AskOption, ScreenCell};
use regex::Regex;
use std::sync::LazyLock;

/// The maximum length of a question, in characters; the text of a screen of the default size fits. A longer question
/// is truncated, and has no answers.
const LONGEST: usize = 8000;

/// Texts with which programs say that they show something only in part, such as `... first 58 lines hidden (Ctrl+O to
/// show) ...`, `[… 99 lines] ^a view all`, `… +3 lines (ctrl+r to expand)` and `(5 more lines)`. Other text may match,
/// too: then a person must look at the terminal, which is safe.
static SHORTENED: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
    const THING: &str =
        r"(?:\w+ ){0,2}?(?:lines?|rows?|char(?:acter)?s?|bytes?|files?|hunks?|changes?|items?)";
    let alternatives = [
        r"(?:…|⋯|\.\.\.)\s*[\[(]?\s*(?:\+\s*)?\d".to_owned(),
        format!(r"\+ ?\d+ {THING}\b"),
        format!(r"\d (?:{THING} )?(?:more|hidden|omitted|truncated|collapsed|cut|not shown|remaining|left out)\b"),
        r"\b(?:first|last) \d+ ".to_owned(),
        r"[\[(…](?:\w+ )?(?:truncated|omitted|shortened|hidden)\b".to_owned(),
        r"(?:\b(?:ctrl|control|alt|shift|cmd|option)[ +-]?|[\^⌃⌥⌘])\S{1,8} (?:to |for )?(?:show|expand|view|see|read|open|the rest|more|full|all)\b"
            .to_owned(),
        r"\b(?:to expand|view all|show all|show more|see all|see more|view more|for the rest|scroll (?:down|for|to))\b"
            .to_owned(),
        "✂".to_owned(),
        // A row that the program cut at the right edge, or a row in place of others.
        r"[…⋯]\s*$".to_owned(),
    ];
    Regex::new(&format!("(?im){}", alternatives.join("|")))
});

#[derive(Debug)]
pub(super) struct DialogReader {
    regex: Regex,
    options: Option<Regex>,
    most_rows: Option<usize>,
    answers: Vec<(AskOption, String)>,
}

#[derive(Debug)]
pub(super) struct FoundDialog {
    pub(super) text: String,
    pub(super) answers: Vec<(AskOption, String)>,
}

impl DialogReader {
    pub(super) fn new(ask: &AskPattern) -> Result<Self, String> {
        let options = ask.options.as_ref().map(|options| compile(&format!(r"\A(?:{options})\z")));
        Ok(Self {
            regex: compile(&ask.pattern.regex)?,
            options: options.transpose()?,
            most_rows: ask.most_rows,
            answers: ask.answers.clone(),
        })
    }

    pub(super) fn find(&self, screen: &str, model: &TerminalModel) -> Option<FoundDialog> {
        let above_options = match &self.options {
            Some(options) => screen.get(..options_start(options, screen)?)?,
            None => screen,
        };
        let found = self.regex.captures(above_options)?;
        let captured = found.name("text").or_else(|| found.get(1)).or_else(|| found.get(0))?;
        if self.answers.is_empty() {
            return Some(FoundDialog { text: shown(captured.as_str()).0, answers: Vec::new() });
        }
        let dialog = above_options.get(captured.start()..)?;
        let (text, is_complete) = shown(dialog);
        let may_be_cut = self.most_rows.is_some_and(|most| dialog.lines().count() >= most);
        // Programs disagree about the width of characters that nobody sees, and may leave out a part of such a line.
        let first_row = above_options.get(..captured.start())?.matches('\n').count();
        let has_hidden = model.emulator.has_hidden_characters(first_row);
        let is_whole = is_complete && !may_be_cut && !has_hidden && !is_shortened(dialog);
        let answers = self.answers.iter().filter(|(option, keys)| {
            is_whole && (!keys.starts_with(['\r', '\n']) || is_highlighted(&option.label, model))
        });
        Some(FoundDialog { text, answers: answers.cloned().collect() })
    }

    /// The words that the expression's group captures in a terminal's title, or `default` if it has no group; `None` if
    /// the expression does not match.
    pub(super) fn words(&self, title: &str, default: &str) -> Option<String> {
        let found = self.regex.captures(title)?;
        let words = found.name("text").or_else(|| found.get(1));
        Some(words.map_or_else(|| default.to_owned(), |words| shown(words.as_str()).0))
    }
}

pub(super) fn compile(regex: &str) -> Result<Regex, String> {
    Regex::new(regex).map_err(|error| format!("invalid pattern {regex:?}: {error}"))
}

/// The text as a person sees it, and whether it is complete.
fn shown(text: &str) -> (String, bool) {
    let whole = sanitize_dialog(text, usize::MAX);
    let text: String = whole.chars().take(LONGEST).collect();
    let is_complete = text.len() == whole.len();
    (text, is_complete)
}

/// Where the list of options begins with which the screen ends: at the lowest row from which on everything is options.
/// Rows above it are text, even if they look like options.
fn options_start(options: &Regex, screen: &str) -> Option<usize> {
    let starts = screen.match_indices('\n').map(|(end, _)| end + 1);
    let starts: Vec<usize> = std::iter::once(0).chain(starts).collect();
    starts.into_iter().rev().find(|start| options.is_match(screen.get(*start..).unwrap_or_default()))
}

fn is_shortened(dialog: &str) -> bool {
    // A frame or a scroll bar may be drawn to the right of a mark.
    let is_frame = |letter: char| matches!(letter, '\u{2500}'..='\u{259f}') || letter.is_whitespace();
    let rows: Vec<&str> = dialog.lines().map(|row| row.trim_matches(is_frame)).collect();
    SHORTENED.as_ref().map_or(true, |shortened| shortened.is_match(&rows.join("\n")))
}

/// Whether the return key would choose this option: the option alone has its colors, or a pointer stands before it.
fn is_highlighted(label: &str, model: &TerminalModel) -> bool {
    let screen = model.emulator.snapshot();
    let Some(row) = screen.rows.iter().rev().find(|row| position(label, row).is_some()) else { return false };
    let Some((first, end)) = position(label, row) else { return false };
    let before: String = row.iter().take(first).map(|cell| cell.text.as_str()).collect();
    let before =
        before.trim().trim_end_matches(|letter: char| letter.is_ascii_digit() || ".)".contains(letter));
    if before.trim().ends_with(['❯', '›', '▸', '➤', '►', '●', '◉', '>']) {
        return true;
    }
    let colors = |cell: &ScreenCell| (cell.bg, cell.inverse);
    let Some(own) = row.get(first).map(colors) else { return false };
    let mut letters = row.iter().enumerate().filter(|(_, cell)| !cell.text.trim().is_empty()).peekable();
    letters.peek().is_some()
        && letters.all(|(column, cell)| (colors(cell) == own) == (first..end).contains(&column))
}

fn position(label: &str, row: &[ScreenCell]) -> Option<(usize, usize)> {
    let text: String = row.iter().map(|cell| cell.text.as_str()).collect();
    let at = text.find(label)?;
    let mut length = 0;
    let first = row.iter().position(|cell| {
        length += cell.text.len();
        length > at
    })?;
    Some((first, first + label.chars().count()))
}
