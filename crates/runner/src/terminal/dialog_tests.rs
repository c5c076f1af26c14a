//! Tests that a permission question of a CLI agent has answers only if everything that it permits is shown. What a
//! program asks about is chosen by its model, so any text may be in a dialog, also text that looks like its frame.

use super::model::TerminalModel;
use super::screen_reader::{ProgramQuestion, ScreenReader, ScreenState};
use super::tests::{RECORDED, WAITING, drawn, pieces, programs, reader, recordings, samples};
use althing_protocol::AskKind;
use std::rc::Rc;

/// A recorded screen with a permission question that can be answered: the rows of the dialog are `first..options`.
struct Dialog {
    program: &'static str,
    reader: Rc<ScreenReader>,
    rows: Vec<String>,
    first: usize,
    options: usize,
}

const BUTTONS: &str = "Allow once   Allow always   Reject";

fn ask(reader: &ScreenReader, rows: &[String]) -> Option<ProgramQuestion> {
    let highlighted = " Allow once ";
    let screen = rows.join("\n").replace(BUTTONS, &BUTTONS.replacen("Allow once", "\u{1}", 1));
    let screen = screen.replace(" \u{1} ", &format!("\x1b[48;5;215m{highlighted}\x1b[m"));
    match reader.read(&drawn(&screen)) {
        ScreenState::Asks(question) if question.about == AskKind::Permission => Some(question),
        _ => None,
    }
}

impl Dialog {
    fn new(program: &'static str, reader: &Rc<ScreenReader>, screen: &str) -> Option<Self> {
        let rows: Vec<String> = screen.trim_end().lines().map(str::to_owned).collect();
        let last = |find: &dyn Fn(&str) -> bool| rows.iter().rposition(|row| find(row));
        let (first, options) = match program {
            "claude" => (last(&|row| row.starts_with("────"))? + 1, last(&|row| row.contains(" 1. Yes"))?),
            "codex" => {
                let edit = last(&|row| row.starts_with("• Added") || row.starts_with("• Edited"));
                let is_edit = last(&|row| row.contains("make the following edits")).is_some();
                let question = last(&|row| row.contains("Would you like"));
                (edit.filter(|_| is_edit).or(question)?, last(&|row| row.contains(" 1. Yes"))?)
            }
            "gemini" => (last(&|row| row.starts_with('╭'))? + 1, last(&|row| row.contains(" 1. Allow"))?),
            _ => (last(&|row| row.contains('△'))?, last(&|row| row.contains(BUTTONS))?),
        };
        let found = Self { program, reader: Rc::clone(reader), rows, first, options };
        ask(reader, &found.rows).filter(|question| !question.answers.is_empty())?;
        Some(found)
    }

    /// The ways in which the program could draw a line of a command, a reason or a diff.
    fn framed(&self, text: &str) -> Vec<String> {
        let short: String = text.trim_end().chars().take(90).collect();
        let indented = |by: &[usize]| by.iter().map(|n| " ".repeat(*n) + &short).collect();
        match self.program {
            "claude" => indented(&[1, 3, 5]),
            "codex" => indented(&[2, 4, 5]),
            "gemini" => vec![format!("│ {short:<96} │"), format!("│ │ {short:<92} │ │")],
            _ => [1, 2, 4].map(|n| format!("  ┃{}{short}", " ".repeat(n))).to_vec(),
        }
    }

    fn with(&self, at: usize, lines: &[String]) -> Vec<String> {
        let (over, under) = self.rows.split_at(at);
        [over, lines, under].concat()
    }
}

/// The dialogs with answers of all recordings: commands and edits.
fn dialogs() -> Vec<Dialog> {
    let mut found: Vec<Dialog> = Vec::new();
    for (file, ..) in WAITING {
        let (program, name) = file.split_once('/').unwrap();
        let program = programs().find(|known| *known == program).unwrap();
        let screen = std::fs::read_to_string(recordings(program).join(name)).unwrap();
        found.extend(Dialog::new(program, &Rc::new(reader(program)), &screen));
    }
    for program in programs() {
        let reader = Rc::new(reader(program));
        for file in samples(program, "raw").into_iter().chain(samples(program, "cast")) {
            let mut model = TerminalModel::new(RECORDED);
            for piece in pieces(&file) {
                model.feed(&piece);
                let Some(dialog) = Dialog::new(program, &reader, &model.text()) else { continue };
                let rows = |dialog: &Dialog| dialog.rows[dialog.first..dialog.options].to_vec();
                if found.iter().all(|known| rows(known) != rows(&dialog)) {
                    found.push(dialog);
                }
            }
        }
    }
    found
}

/// A row without its frame, as in the text of a question.
fn plain(row: &str) -> String {
    let is_frame = |letter: char| matches!(letter, '\u{2500}'..='\u{259f}') || letter.is_whitespace();
    row.trim_matches(is_frame).to_owned()
}

#[test]
fn short_commands_of_every_program_can_be_answered_and_so_can_edits_whose_end_is_certain() {
    let found = dialogs();
    for (program, count, allow) in
        [("claude", 2, "1"), ("codex", 2, "y"), ("gemini", 2, "1"), ("opencode", 1, "\r")]
    {
        let of_program: Vec<&Dialog> = found.iter().filter(|dialog| dialog.program == program).collect();
        assert!(of_program.len() >= count, "{program}: {}", of_program.len());
        for dialog in of_program {
            let question = ask(&dialog.reader, &dialog.rows).unwrap();
            let keys: Vec<_> = question.answers.iter().map(|(option, keys)| (&*option.id, &**keys)).collect();
            assert_eq!(keys, [("allow", allow), ("reject", "\x1b")], "{question:?}");
        }
    }
}

#[test]
fn a_question_with_answers_shows_every_row_of_its_dialog_whatever_a_model_writes_into_it() {
    let found = dialogs();
    let rows =
        found.iter().flat_map(|dialog| &dialog.rows[dialog.first.saturating_sub(1)..]).map(|row| plain(row));
    let mut texts: Vec<Vec<String>> = rows.map(|row| vec![row]).collect();
    let questions = [
        "Would you like to run the following command?",
        "Would you like to make the following edits?",
        "Do you want to create the notes?",
        "1. notes",
        "› 1. notes",
        "❯ 1. Yes",
        "● 1. Allow once",
        "• Added notes.txt (+1 -0)",
        "───────────────────────",
        "╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌",
        "╭────────────────╮",
        "╰────────────────╯",
        "┃  △ Permission required",
        "Allow once   Allow always   Reject   ok",
    ];
    texts.extend(questions.map(|text| vec![text.to_owned()]));
    // A whole dialog, its end from the question on, and its options.
    for dialog in &found {
        let starts = [dialog.first, dialog.options - 1, dialog.options];
        texts.extend(starts.map(|from| dialog.rows[from..].to_vec()));
    }
    texts.sort();
    texts.dedup();
    let mut shown = 0;
    for dialog in &found {
        for at in [dialog.first + 1, dialog.first.midpoint(dialog.options) + 1, dialog.options] {
            for lines in &texts {
                let framed: Vec<Vec<String>> = lines.iter().map(|line| dialog.framed(line)).collect();
                for indent in 0..framed[0].len() {
                    let lines: Vec<String> = framed.iter().map(|ways| ways[indent].clone()).collect();
                    let screen = dialog.with(at, &lines);
                    let question = ask(&dialog.reader, &screen);
                    let Some(question) = question.filter(|question| !question.answers.is_empty()) else {
                        continue;
                    };
                    shown += 1;
                    let rows =
                        screen[dialog.first..dialog.options + lines.len()].iter().map(|row| plain(row));
                    let missing: Vec<String> = rows
                        .filter(|row| {
                            !row.is_empty()
                                && !question
                                    .text
                                    .lines()
                                    .any(|line| line == row || row.strip_prefix("△ ") == Some(line))
                        })
                        .collect();
                    assert_eq!(missing, [""; 0], "{}\n{}\n{question:?}", dialog.program, screen.join("\n"));
                }
            }
        }
    }
    assert!(shown > 1_000, "{shown}");
}

#[test]
fn a_dialog_that_says_that_it_is_shown_in_part_has_no_answers() {
    let marks = [
        "... first 58 lines hidden (Ctrl+O to show) ...",
        "... last 1 line hidden (Ctrl+O to show) ...",
        "... 58 hidden (Ctrl+O) ...",
        "[… 99 lines] ^a view all",
        "[… 1 line] ^t view all",
        "… +12 lines (ctrl+r to expand)",
        "… (+3 more lines)",
        "… (3 more lines not shown)",
        "…[+3 more lines]",
        "(5 more lines)",
        "├─── ✂ ─── 14 lines hidden ──────┤",
        "… +12 lines",
        "+12 lines",
        "ctrl+o to expand",
        "(truncated)",
        "echo one two thr…",
        "…",
    ];
    for dialog in dialogs() {
        for mark in marks {
            for at in [dialog.first + 1, dialog.options] {
                for line in dialog.framed(mark) {
                    let screen = dialog.with(at, &[line]);
                    let answers = ask(&dialog.reader, &screen).map(|question| question.answers);
                    assert!(answers.is_none_or(|answers| answers.is_empty()), "{}", screen.join("\n"));
                }
            }
        }
    }
}

#[test]
fn a_dialog_with_characters_that_nobody_sees_has_no_answers() {
    for dialog in dialogs() {
        let answered = |text: &str| {
            let lines = dialog.framed(text);
            let places =
                (dialog.first + 1..dialog.options).flat_map(|at| lines.iter().map(move |line| (at, line)));
            let questions = places
                .filter_map(|(at, line)| ask(&dialog.reader, &dialog.with(at, std::slice::from_ref(line))));
            questions.filter(|question| !question.answers.is_empty()).count()
        };
        assert!(answered(": \u{e9}t\u{e9}") > 0, "{}", dialog.program);
        for hidden in ["\u{200b}", "\u{200d}", "\u{2060}", "\u{feff}", "\u{fe0f}", "\u{202e}"] {
            assert_eq!(answered(&format!(": a{hidden}b")), 0, "{} {hidden:?}", dialog.program);
        }
    }
}

#[test]
fn a_dialog_that_is_longer_than_what_is_shown_of_it_has_no_answers() {
    for dialog in dialogs().into_iter().filter(|dialog| dialog.program != "opencode") {
        let line = dialog.framed(&"x".repeat(80)).remove(0);
        for (count, may_be_answered) in [(20, true), (120, false)] {
            let screen = dialog.with(dialog.first + 1, &vec![line.clone(); count]);
            let answers = ask(&dialog.reader, &screen).map(|question| question.answers.len());
            // Lines that are not numbered are not part of the changes that Codex shows above its question.
            let is_edit = dialog.program == "codex" && dialog.rows[dialog.first].starts_with('•');
            if !is_edit {
                assert_eq!(answers, Some(if may_be_answered { 2 } else { 0 }), "{}", screen.join("\n"));
            }
        }
    }
}

/// opencode draws seven rows of a command and leaves out the others without a mark. For an edit it always draws seven
/// rows.
#[test]
fn a_full_box_of_opencode_has_no_answers() {
    let file = recordings("opencode").join("screen-05-approval-bash.txt");
    let dialog =
        Dialog::new("opencode", &Rc::new(reader("opencode")), &std::fs::read_to_string(file).unwrap())
            .unwrap();
    let command = dialog.rows.iter().rposition(|row| row.contains("$ touch")).unwrap();
    for (more, answers) in [(5, 2), (6, 0), (7, 0)] {
        for line in ["  ┃  : another line", "  ┃"] {
            let screen = dialog.with(command + 1, &vec![line.to_owned(); more]);
            let question = ask(&dialog.reader, &screen).unwrap();
            assert_eq!(question.answers.len(), answers, "{}", screen.join("\n"));
        }
    }
}

#[test]
fn the_return_key_is_typed_only_while_it_means_the_chosen_button() {
    let file = recordings("opencode").join("screen-05-approval-bash.txt");
    let screen = std::fs::read_to_string(file).unwrap();
    let highlighted = |label: &str| {
        let (before, after) = screen.rsplit_once(label).unwrap();
        format!("{before}\x1b[48;5;215m{label}\x1b[m{after}")
    };
    for (screen, ids) in [
        (highlighted("Allow once"), vec!["allow", "reject"]),
        (highlighted("Allow always"), vec!["reject"]),
        (highlighted("Reject"), vec!["reject"]),
        (screen.clone(), vec!["reject"]),
    ] {
        let ScreenState::Asks(question) = reader("opencode").read(&drawn(&screen)) else {
            panic!("{screen}")
        };
        let known: Vec<&str> = question.answers.iter().map(|(option, _)| &*option.id).collect();
        assert_eq!(known, ids, "{screen}");
    }
}

#[test]
fn codex_shows_a_command_whose_line_looks_like_an_option() {
    let file = recordings("codex").join("screen-11-approval-exec.txt");
    let screen = std::fs::read_to_string(file).unwrap();
    let screen = screen.replace("  $ touch esc.txt", "  $ ls -la\n  : '\n  1. notes\n  '\n  touch esc.txt");
    let ScreenState::Asks(question) = reader("codex").read(&drawn(&screen)) else { panic!("{screen}") };
    assert!(question.text.ends_with("$ ls -la\n: '\n1. notes\n'\ntouch esc.txt"), "{question:?}");
    assert_eq!(question.answers.len(), 2);
}

#[test]
fn what_gemini_cli_says_between_a_question_and_its_options_is_shown() {
    let file = recordings("gemini").join("screen-05-approval-shell.txt");
    let screen = std::fs::read_to_string(file).unwrap();
    let dialog = Dialog::new("gemini", &Rc::new(reader("gemini")), &screen).unwrap();
    let said = "Redirection detected. To auto-accept, press Shift+Tab";
    let screen = dialog.with(dialog.options - 1, &dialog.framed(said)[..1]);
    let question = ask(&dialog.reader, &screen).unwrap();
    assert!(question.text.ends_with(&format!("Allow execution of [Shell]?\n{said}")), "{question:?}");
    assert_eq!(question.answers.len(), 2);
}
