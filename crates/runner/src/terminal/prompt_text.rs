//! What the text around the cursor says about a program in a terminal that waits for input: the program asks
//! something, it is ready for the next command or text, or neither.
//!
//! A program at the primary prompt of a command language (a shell, `python3`, `psql`) asks nothing, nor do pagers,
//! editors and other programs that draw the whole screen, except for the dialogs of `whiptail` and `dialog`.

use super::emulator::CursorView;
use super::prompt_answers::answers;
use super::pty::TerminalModes;
use super::sanitize_line::sanitize_line;
use super::screen_reader::ProgramQuestion;
use crate::kernel::TerminalReader;
use althing_protocol::AskKind;
use regex::Regex;
use std::sync::LazyLock;

const LONGEST: usize = 300;
/// The maximum length of a row above a question: a command must be seen whole.
const LONGEST_ROW: usize = 8000;
const CONTEXT_LINES: usize = 8;
const LIST_LINES: usize = 25;

/// Programs that show text or let people edit it. Waiting for input is their normal state, not a question.
const VIEWERS: [&str; 21] = [
    "less",
    "more",
    "most",
    "pg",
    "man",
    "view",
    "vi",
    "vim",
    "vim.basic",
    "vim.tiny",
    "vim.nox",
    "nvim",
    "nano",
    "pico",
    "emacs",
    "micro",
    "joe",
    "ed",
    "top",
    "htop",
    "watch",
];
/// Programs that pass the keys on to another program, which may or may not wait for them.
const RELAYS: [&str; 16] = [
    "ssh",
    "mosh-client",
    "telnet",
    "docker",
    "podman",
    "nerdctl",
    "kubectl",
    "tmux",
    "tmux: client",
    "screen",
    "script",
    "socat",
    "nc",
    "minicom",
    "picocom",
    "sudo",
];
/// A short prompt that looks like that of a command language is a question nevertheless if it contains one of these
/// words.
const QUESTION_WORDS: [&str; 18] = [
    "answer",
    "choice",
    "choose",
    "continue",
    "email",
    "enter",
    "input",
    "login",
    "name",
    "now",
    "number",
    "option",
    "pick",
    "select",
    "selection",
    "value",
    "which",
    "your",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Nothing,
    /// The prompt of a command language, or nothing but a cursor: the program takes any input.
    Turn,
    Question(Prompt),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) question: ProgramQuestion,
    place: QuestionPosition,
    line: String,
    /// The rows above the line that were shown with the question; empty if its answers are not offered.
    rows: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuestionPosition {
    Cursor,
    Above,
    Anywhere,
}

impl Prompt {
    pub(crate) fn is_still_in(&self, view: &CursorView) -> bool {
        match self.place {
            QuestionPosition::Cursor => {
                plain(&view.before).starts_with(&self.line) && self.shows_rows(&view.above)
            }
            QuestionPosition::Above => {
                last_line(&view.above) == Some(&self.line)
                    && self.shows_rows(above_last(&view.above, &self.line))
            }
            QuestionPosition::Anywhere => bottom(view).iter().any(|line| plain(line) == self.line),
        }
    }

    /// Whether the rows that were shown with the question are still those above it. A person who answers has read
    /// them: they say what the answer permits.
    fn shows_rows(&self, above: &[String]) -> bool {
        let found = above.iter().rev().filter(|line| !plain(line).is_empty());
        let found: Vec<String> = found.take(self.rows.len()).map(|line| without_motion(line)).collect();
        found.iter().rev().eq(&self.rows)
    }
}

/// A row without what changes by itself while a program waits: times, percentages and spinners.
fn without_motion(line: &str) -> String {
    let still = match &*WORDS {
        Ok(words) => words.motion.replace_all(line, "0"),
        Err(_) => line.into(),
    };
    plain(&still).to_owned()
}

/// The lines above the last line with this text.
fn above_last<'a>(lines: &'a [String], text: &str) -> &'a [String] {
    let at = lines.iter().rposition(|line| plain(line) == text).unwrap_or_default();
    lines.get(..at).unwrap_or_default()
}

struct Words {
    /// Matches `Press any key`, `hit enter to continue`.
    press: Regex,
    /// Matches what a working program says about its keys: `press q to quit`.
    hint: Regex,
    pager: Regex,
    progress: Regex,
    imperative: Regex,
    pointer: Regex,
    secret: Regex,
    button: Regex,
    motion: Regex,
}

static WORDS: LazyLock<Result<Words, regex::Error>> = LazyLock::new(|| {
    let regex = |text: &str| Regex::new(text);
    Ok(Words {
        press: regex(r"(?i)\b(?:press|hit|strike|tap)\b.*\b(?:key|enter|return|space ?bar|\[enter\])")?,
        hint: regex(
            r"(?i)\b(?:press|hit|type|enter|use)\b.*\b(?:to|for) (?:quit|stop|show|restart|reload|open|help|list|cancel|abort|interrupt|re-?run|trigger|toggle|filter|detach)\b|\bctrl.?c\b",
        )?,
        pager: regex(
            r"(?i)^:$|\(END\)$|^--\s?more\s?--|^lines \d+|^manual page|\bpress h for help|^\(q\)uit|^byte \d+",
        )?,
        progress: regex(r"\d ?%|\[[=#>.\-* ]{4,}\]|[█▓▒░━]{3}|\bETA\b|\d(?:[KMG]i?)?B/s")?,
        imperative: regex(
            r"(?i)^\W*(?:please |now )?(?:enter|type|input|choose|select|pick|give|provide|press|hit|paste|confirm|specify|which|what|who|where|how)\b",
        )?,
        pointer: regex(r"^[\s│┃|]*(?:[❯›▸➤►●◉]|>)\s+\S")?,
        secret: regex(
            r"(?i)\b(?:password|passphrase|passcode|pin|secret|token|api.?key|otp|2fa|verification code)\b[^?]*:\s*$",
        )?,
        button: regex(r"(?i)<\s*(?:yes|no|ok|cancel|continue|finish|back|abort)\s*>")?,
        motion: regex(
            r"\b\d{1,2}:\d\d(?::\d\d)?\b|\b\d+(?:\.\d+)? ?(?:%|ms\b|s\b|sec\b|seconds?\b|min\b)|[\u{2800}-\u{28ff}◐◓◑◒◴◷◶◵✶✻✽✢]",
        )?,
    })
});

/// What the screen shows. `reader` is `None` if it is unknown whether the program waits; then only a request for a
/// password is recognized.
pub(crate) fn shown(view: &CursorView, modes: TerminalModes, reader: Option<&TerminalReader>) -> Shown {
    let Ok(words) = &*WORDS else { return Shown::Nothing };
    let line = plain(&view.before);
    if modes.lines && !modes.echo {
        return password(view, line);
    }
    let Some(reader) = reader else { return Shown::Nothing };
    if view.is_alternate {
        return dialog(view, words);
    }
    let program = reader.program.as_str();
    if VIEWERS.contains(&program) || (RELAYS.contains(&program) && !modes.lines) || words.pager.is_match(line)
    {
        return Shown::Nothing;
    }
    if !modes.lines
        && let Some(list) = list(view, words)
    {
        return list;
    }
    if line.is_empty() {
        return without_prompt(view, reader, words);
    }
    if is_command_prompt(line) {
        return Shown::Turn;
    }
    let is_question = if reader.blocks {
        !words.progress.is_match(line)
    } else {
        let is_hint = words.hint.is_match(line) && !line.ends_with([':', '?']);
        !is_hint && !words.progress.is_match(line) && (looks_like_prompt(line) || words.press.is_match(line))
    };
    if !is_question {
        return Shown::Nothing;
    }
    let secret = !modes.echo && words.secret.is_match(line);
    let about = if secret { AskKind::Password } else { AskKind::Question };
    question(about, line, &view.above, modes, QuestionPosition::Cursor)
}

fn password(view: &CursorView, line: &str) -> Shown {
    let modes = TerminalModes { lines: true, echo: false };
    match (line, last_line(&view.above)) {
        ("", Some(above)) => question(AskKind::Password, above, &[], modes, QuestionPosition::Above),
        ("", None) => Shown::Nothing,
        _ => question(AskKind::Password, line, &view.above, modes, QuestionPosition::Cursor),
    }
}

fn without_prompt(view: &CursorView, reader: &TerminalReader, words: &Words) -> Shown {
    // A program that polls may be a server that also accepts commands.
    let Some(above) = last_line(&view.above).filter(|_| reader.blocks) else {
        return if reader.blocks { Shown::Turn } else { Shown::Nothing };
    };
    let asks = above.ends_with(['?', ':']) || words.imperative.is_match(above) || words.press.is_match(above);
    if !asks || is_command_prompt(above) {
        return Shown::Turn;
    }
    let modes = TerminalModes { lines: true, echo: true };
    question(AskKind::Question, above, above_last(&view.above, above), modes, QuestionPosition::Above)
}

fn list(view: &CursorView, words: &Words) -> Option<Shown> {
    let lines = bottom(view);
    let mut chosen = lines.iter().enumerate().filter(|(_, line)| words.pointer.is_match(line));
    let ((at, pointer), None) = (chosen.next()?, chosen.next()) else { return None };
    // The entries of a list begin at the same column, after blanks, frames and bullets.
    let is_mark = |letter: &char| letter.is_whitespace() || "│┃|❯›▸➤►●◉○◯◻☐☑◼>*-".contains(*letter);
    let begins = |line: &str| line.chars().take_while(is_mark).count();
    let column = begins(pointer);
    let is_entry = |line: &&&String| begins(line) == column && line.chars().nth(column).is_some();
    let (over, under) = lines.split_at_checked(at)?;
    let entries_over = over.iter().rev().take_while(|line| is_entry(line)).count();
    let entries_under = under.iter().skip(1).take_while(|line| is_entry(line)).count();
    let header = over.iter().rev().nth(entries_over).map(|line| plain(line))?;
    let asks = header.ends_with(['?', ':', ')', '…', '›', ']']) || header.starts_with(['?', '◆', '✔']);
    if entries_over + entries_under == 0 || header.is_empty() || !asks {
        return None;
    }
    let entries = over.iter().rev().take(entries_over).rev().chain(under.iter().take(entries_under + 1));
    let entries: Vec<String> = entries.map(|line| sanitize_line(plain(line), LONGEST)).collect();
    let text = format!("{}\n{}", sanitize_line(header, LONGEST), entries.join("\n"));
    Some(dialog_question(text, header))
}

/// Finds a dialog in a frame with buttons, as drawn by `whiptail` and `dialog`.
fn dialog(view: &CursorView, words: &Words) -> Shown {
    let lines = bottom(view);
    let Some(buttons) = lines.iter().position(|line| words.button.is_match(line)) else {
        return Shown::Nothing;
    };
    let is_framed = |line: &&&String| {
        let line = line.trim();
        line.len() > 2 && line.starts_with(['│', '|', 'x']) && line.ends_with(['│', '|', 'x'])
    };
    // Without line-drawing characters, the frame is made of the letter x.
    let inside =
        lines.iter().take(buttons).filter(is_framed).map(|line| plain(line.trim().trim_matches('x')));
    let text: Vec<&str> = inside.filter(|line| !line.is_empty()).take(CONTEXT_LINES).collect();
    match text.first() {
        Some(first) => {
            let shown: Vec<String> = text.iter().map(|line| sanitize_line(line, LONGEST)).collect();
            dialog_question(shown.join("\n"), first)
        }
        None => Shown::Nothing,
    }
}

/// Makes a question. If the prompt is short and offers no answers, or if there are more than three answers, the
/// nearest lines above the prompt are part of the question; if there are two or three answers, the nearest lines of the
/// paragraph above it, which says what is asked about.
fn question(
    about: AskKind,
    line: &str,
    above: &[String],
    modes: TerminalModes,
    place: QuestionPosition,
) -> Shown {
    let answers = if about == AskKind::Password { Vec::new() } else { answers(line, above, modes) };
    let is_short = !line.contains('?') && line.split_whitespace().count() <= 3;
    let needs_context = (is_short && answers.is_empty()) || answers.len() > 3;
    let mut text = vec![sanitize_line(line, LONGEST)];
    let nearest = above.iter().rev().skip_while(|line| plain(line).is_empty()).take(CONTEXT_LINES);
    let nearest: Vec<&String> = if needs_context {
        nearest.filter(|line| !plain(line).is_empty()).collect()
    } else if answers.is_empty() {
        Vec::new()
    } else {
        nearest.take_while(|line| !plain(line).is_empty()).collect()
    };
    text.extend(nearest.iter().rev().map(|line| sanitize_line(line.trim_end(), LONGEST_ROW)));
    let rows = if answers.is_empty() { Vec::new() } else { nearest };
    let rows = rows.into_iter().rev().map(|line| without_motion(line)).collect();
    let question =
        ProgramQuestion { about, text: text.join("\n"), reported: String::new(), answers, drawn: true };
    Shown::Question(Prompt { question, place, line: line.to_owned(), rows })
}

/// Makes a question about a dialog that a person answers in the terminal itself.
fn dialog_question(text: String, line: &str) -> Shown {
    let (about, answers) = (AskKind::Question, Vec::new());
    let question = ProgramQuestion { about, text, reported: String::new(), answers, drawn: true };
    let place = QuestionPosition::Anywhere;
    Shown::Question(Prompt { question, place, line: line.to_owned(), rows: Vec::new() })
}

fn is_command_prompt(line: &str) -> bool {
    let line = match line.split_once(") ") {
        Some((environment, rest)) if environment.starts_with('(') && !environment.contains(' ') => rest,
        _ => line,
    };
    let parenthesized = line.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let is_debugger =
        parenthesized.is_some_and(|name| !name.is_empty() && name.chars().all(char::is_alphanumeric));
    let is_cell = line.starts_with("In [") && line.ends_with("]:");
    let ends_so =
        line.ends_with(['>', '$', '#', '%', '❯', '›', '»', 'λ']) || matches!(line, "..." | "*" | ".");
    let mut words = line.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase);
    let is_short = line.split_whitespace().count() <= 3;
    let is_share =
        line.strip_suffix('%').is_some_and(|rest| rest.trim_end().ends_with(|c: char| c.is_ascii_digit()));
    let asks = line.contains('?') || words.any(|word| QUESTION_WORDS.contains(&word.as_str()));
    is_debugger || is_cell || (ends_so && is_short && !asks && !is_share)
}

/// Recognizes lines such as `Name:`, `Go on?`, `package name: (x)`.
fn looks_like_prompt(line: &str) -> bool {
    if line.ends_with(['?', ':', '>', '›', '»']) {
        return true;
    }
    let asks_before = |line: &str| {
        line.contains(['?', ':']) && [": ", "? ", ":[", "?[", ":(", "?("].iter().any(|end| line.contains(end))
    };
    line.ends_with([')', ']']) && asks_before(line)
}

fn plain(line: &str) -> &str {
    line.trim_matches(|letter: char| letter.is_whitespace() || matches!(letter, '│' | '┃' | '║' | '|'))
}

fn last_line(lines: &[String]) -> Option<&str> {
    lines.iter().rev().take(3).map(|line| plain(line)).find(|line| !line.is_empty())
}

fn bottom(view: &CursorView) -> Vec<&String> {
    let mut lines: Vec<&String> = view.above.iter().chain([&view.before]).chain(&view.after).collect();
    let end = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    lines.truncate(end);
    lines.split_off(end.saturating_sub(LIST_LINES))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: TerminalModes = TerminalModes { lines: true, echo: true };
    const RAW: TerminalModes = TerminalModes { lines: false, echo: false };

    fn of(before: &str, modes: TerminalModes, blocks: bool) -> Shown {
        let view = CursorView { before: before.to_owned(), ..CursorView::default() };
        let reader = TerminalReader { program: "program".to_owned(), thread: 1, sleeps: 1, blocks };
        shown(&view, modes, Some(&reader))
    }

    #[test]
    fn the_expressions_are_valid() {
        assert!(WORDS.is_ok());
    }

    #[test]
    fn the_prompt_of_a_command_language_is_no_question() {
        for prompt in [
            ">>> ",
            "... ",
            "> ",
            "$ ",
            "# ",
            "root@host:~# ",
            "[me@host my dir]$ ",
            "(venv) me@host:~$ ",
            "bash-5.2$ ",
            "sqlite> ",
            "postgres=# ",
            "MariaDB [(none)]> ",
            "irb(main):001:0> ",
            "iex(1)> ",
            "php > ",
            "(gdb) ",
            "(Pdb) ",
            "(Cmd) ",
            "In [1]: ",
            "octave:1> ",
            "127.0.0.1:6379> ",
            "  DB<1> ",
            "ftp> ",
            "│ > ",
            "❯ ",
        ] {
            for (modes, blocks) in [(LINES, true), (RAW, true), (RAW, false)] {
                assert_eq!(of(prompt, modes, blocks), Shown::Turn, "{prompt}");
            }
        }
    }

    #[test]
    fn a_line_that_asks_is_a_question_however_it_is_read() {
        for prompt in [
            "Name: ",
            "Continue? ",
            "#? ",
            "What now> ",
            "Choice> ",
            "package name: (x) ",
            "Is this OK? (yes) ",
            "Country [AU]:",
            "Press any key to continue . . .",
            "Command (m for help): ",
            "? Proceed (Y/n) ",
            "? Project name: › my-app",
            "Press Enter to exit",
        ] {
            for (modes, blocks) in [(LINES, true), (RAW, true), (RAW, false)] {
                let is_question = matches!(of(prompt, modes, blocks), Shown::Question(_));
                // A real program shows the placeholder `my-app` after the cursor, so it is not part of the prompt.
                assert!(is_question || prompt.ends_with("my-app"), "{prompt} {modes:?} {blocks}");
            }
        }
    }

    #[test]
    fn a_program_that_polls_asks_only_with_a_line_that_looks_like_it() {
        for line in [
            "Compiling althing v0.1.0",
            "45% [====>     ] 3 MB/s",
            "Listening on http://localhost:80 (press q to quit)",
            "Serving (pid 12)",
            "12:30:01 started",
            "downloading…",
            "Type h for help",
            "press h + enter to show help",
        ] {
            assert_eq!(of(line, RAW, false), Shown::Nothing, "{line}");
        }
        assert_eq!(of(":", RAW, true), Shown::Nothing, "a pager");
        assert_eq!(of("file (END)", RAW, true), Shown::Nothing, "a pager");
    }
}
