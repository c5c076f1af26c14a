//! Tests screen reading against recordings of the real CLI agents, and against prose that resembles their dialogs.
//! `tests/samples/README.md` describes the recordings.

use super::model::TerminalModel;
use super::pty::TerminalSize;
use super::screen_reader::{ProgramQuestion, ScreenReader, ScreenState};
use crate::adapter::Adapters;
use althing_protocol::{AGENT_KINDS, AskKind};
use std::path::{Path, PathBuf};

pub(super) const RECORDED: TerminalSize = TerminalSize { cols: 100, rows: 30 };

pub(super) fn programs() -> impl Iterator<Item = &'static str> {
    for known in ["claude", "codex", "gemini", "opencode"] {
        assert!(recordings(known).is_dir(), "no recording of {known}");
    }
    AGENT_KINDS.iter().map(|row| row.adapter).filter(|program| recordings(program).is_dir())
}

pub(super) fn recordings(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(program).join("pty")
}

pub(super) fn samples(program: &str, extension: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(recordings(program)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    files
}

fn name(file: &Path) -> String {
    let parts: Vec<_> = file.iter().rev().take(3).collect();
    format!("{}/{}", parts[2].to_str().unwrap(), parts[0].to_str().unwrap())
}

pub(super) fn reader(program: &str) -> ScreenReader {
    ScreenReader::new(&Adapters::default().get(program).unwrap().terminal()).unwrap()
}

pub(super) fn drawn(screen: &str) -> TerminalModel {
    let mut model = TerminalModel::new(TerminalSize {
        rows: RECORDED.rows.max(screen.lines().count() as u16 + 1),
        ..RECORDED
    });
    model.feed(screen.replace('\n', "\r\n").as_bytes());
    model
}

pub(super) fn pieces(file: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).unwrap();
    if file.extension().unwrap() == "raw" {
        let piece = if bytes.len() < 50_000 { 64 } else { 512 };
        return bytes.chunks(piece).map(<[u8]>::to_vec).collect();
    }
    let text = String::from_utf8(bytes).unwrap();
    let events = text.lines().skip(1).map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let output = events.filter(|event| event[1] == "o");
    output.map(|event| event[2].as_str().unwrap().as_bytes().to_vec()).collect()
}

fn questions(program: &str, file: &Path) -> Vec<(AskKind, String)> {
    let (reader, mut model) = (reader(program), TerminalModel::new(RECORDED));
    let mut seen: Vec<ProgramQuestion> = Vec::new();
    for piece in pieces(file) {
        model.feed(&piece);
        if let ScreenState::Asks(question) = reader.read(&model) {
            // A status may be reported before its dialog is drawn, and between two pieces only the end of a dialog may be
            // on the screen.
            let is_seen = |before: &ProgramQuestion| {
                question.is_same(before)
                    || question.text.contains(&before.text)
                    || before.text.ends_with(&question.text)
            };
            if !seen.iter().any(is_seen) {
                seen.push(question);
            }
        }
    }
    seen.into_iter().map(|question| (question.about, question.text)).collect()
}

use AskKind::{Auth, Permission, Question as Asked};

const CLAUDE_TIP: &str =
    "Tip: auto mode handles these prompts for you — choose \"switch to auto mode\" below";

/// Every recorded screen on which a program waits for a person; on the other recorded screens no program does.
pub(super) const WAITING: [(&str, AskKind, &str); 13] = [
    ("claude/screen-01-trust-dialog.txt", Permission, "Accessing workspace:"),
    ("claude/screen-02-after-trust.txt", Auth, "Do you want to use this API key?"),
    (
        "claude/screen-10-permission-bash.txt",
        Permission,
        "Bash command\nTIP\nRun a test command\ntouch perm.txt\nDo you want to proceed?",
    ),
    ("claude/screen-12-ask-question.txt", Asked, "Which colour should I use?"),
    ("claude/screen-20-bypass.txt", Permission, "WARNING: Claude Code running in Bypass Permissions mode"),
    ("codex/screen-01-firstrun.txt", Asked, "Meet GPT-6 Sol"),
    (
        "codex/screen-11-approval-exec.txt",
        Permission,
        "Would you like to run the following command?\nEnvironment: local\nReason: Do you want to allow this test \
         command?\n$ touch esc.txt",
    ),
    ("gemini/screen-00-noauth.txt", Auth, "How would you like to authenticate for this project?"),
    ("gemini/screen-01-firstrun.txt", Permission, "Do you trust the files in this folder?"),
    (
        "gemini/screen-05-approval-shell.txt",
        Permission,
        "? Shell  touch gperm.txt\ntouch gperm.txt\nAllow execution of [Shell]?",
    ),
    ("gemini/screen-07-ask.txt", Asked, "Which colour should I use?"),
    (
        "opencode/screen-05-approval-bash.txt",
        Permission,
        "Permission required\n# Shell command\n$ touch ocperm.txt",
    ),
    ("opencode/screen-07-question.txt", Asked, "Which colour should I use?"),
];

#[test]
fn exactly_the_recorded_screens_that_wait_are_recognized() {
    let mut waiting = 0;
    for program in programs() {
        for file in samples(program, "txt") {
            let screen = std::fs::read_to_string(&file).unwrap();
            let state = reader(program).read(&drawn(&screen));
            let asked = match &state {
                ScreenState::Asks(question) => {
                    Some((question.about, question.text.replace(CLAUDE_TIP, "TIP")))
                }
                _ => None,
            };
            let expected = WAITING.iter().find(|(known, ..)| *known == name(&file));
            assert_eq!(
                asked,
                expected.map(|(_, about, text)| (*about, (*text).to_owned())),
                "{}",
                name(&file)
            );
            waiting += usize::from(asked.is_some());
        }
    }
    assert_eq!(waiting, WAITING.len(), "every entry has a sample");
}

/// A model chooses how long a command is, and so what of the dialog is still on the screen.
#[test]
fn a_dialog_whose_beginning_has_scrolled_off_is_never_answered_with_what_is_left_of_it() {
    for (file, about, _) in WAITING.into_iter().filter(|(_, about, _)| *about == Permission) {
        let (program, file_name) = file.split_once('/').unwrap();
        let screen = std::fs::read_to_string(recordings(program).join(file_name)).unwrap();
        let asked = |screen: &str| match reader(program).read(&drawn(screen)) {
            ScreenState::Asks(question) => Some(question),
            _ => None,
        };
        let whole = asked(&screen).unwrap();
        for (at, _) in screen.match_indices('\n') {
            let Some(rest) = asked(&screen[at + 1..]) else { continue };
            assert_eq!(rest.about, about, "{file}");
            assert!(rest.answers.is_empty() || rest.text == whole.text, "{file}: {at}: {rest:?}");
            assert!(rest.text == whole.text || !rest.is_same(&whole), "{file}: {at}: {rest:?}");
        }
    }
}

fn asked_in_recordings() -> Vec<(&'static str, Vec<(AskKind, &'static str)>)> {
    let meet = (Asked, "Meet GPT-6 Sol");
    let titled = (Permission, "The program is asking for permission.");
    let color = (Asked, "Which colour should I use?");
    vec![
        ("claude/ask-question.raw", vec![color]),
        ("claude/bypass.raw", vec![(Permission, "WARNING: Claude Code running in Bypass Permissions mode")]),
        (
            "claude/firstrun.raw",
            vec![(Permission, "Accessing workspace:"), (Auth, "Do you want to use this API key?")],
        ),
        (
            "claude/osc7501-session.cast",
            vec![
                (Permission, "approve Bash: touch p7501.txt"),
                (Asked, "answer: Which colour should I use? (Red · Blue)"),
            ],
        ),
        (
            "claude/permission.raw",
            vec![(Permission, "Do you want to proceed?"), (Permission, "Do you want to create hello.txt?")],
        ),
        (
            "codex/approval.raw",
            vec![
                titled,
                (Permission, "Would you like to run the following command?"),
                (Permission, "Would you like to make the following edits?"),
            ],
        ),
        ("codex/bare-answer.cast", vec![meet]),
        ("codex/bare-noanswer.cast", vec![meet]),
        ("codex/firstrun.raw", vec![meet]),
        ("codex/noauth.cast", vec![(Auth, "Choose how you want to use Codex.")]),
        ("codex/untrusted-gitrepo.cast", vec![(Permission, "Trust this folder?")]),
        ("gemini/bare-session.cast", vec![(Permission, "Apply this change?"), titled]),
        ("gemini/firstrun-noauth.raw", vec![(Auth, "How would you like to authenticate for this project?")]),
        ("gemini/firstrun.raw", vec![titled, color]),
        (
            "opencode/approval.raw",
            vec![(Permission, "$ touch ocperm.txt"), (Permission, "Edit hello.txt\n1 + hi"), color],
        ),
    ]
}

#[test]
fn exactly_the_questions_of_a_recording_are_reported() {
    let expected = asked_in_recordings();
    for program in programs() {
        for file in samples(program, "raw").into_iter().chain(samples(program, "cast")) {
            let seen = questions(program, &file);
            let known = expected.iter().find(|(known, _)| *known == name(&file));
            let known = known.map(|(_, asked)| asked.clone()).unwrap_or_default();
            let is_known = |((about, text), known): (&(AskKind, String), &(AskKind, &str))| {
                *about == known.0 && text.contains(known.1)
            };
            let all = seen.len() == known.len() && seen.iter().zip(&known).all(is_known);
            assert!(all, "{}: {seen:#?}\n{known:#?}", name(&file));
        }
    }
}

fn states(program: &str, file: &Path) -> Vec<ScreenState> {
    let (reader, mut model) = (reader(program), TerminalModel::new(RECORDED));
    let mut states = Vec::new();
    for piece in pieces(file) {
        model.feed(&piece);
        states.push(reader.read(&model));
    }
    states.dedup();
    states
}

#[test]
fn every_recorded_program_becomes_ready_unless_it_only_asks() {
    // These recordings show no ready program: they end in first-start dialogs.
    let never = ["codex/bare-answer.cast", "codex/bare-noanswer.cast", "codex/noauth.cast"];
    for program in programs() {
        for file in samples(program, "cast") {
            let ready = states(program, &file).contains(&ScreenState::Ready);
            let expected = !never.contains(&&*name(&file)) && name(&file) != "codex/untrusted-gitrepo.cast";
            assert_eq!(ready, expected, "{}", name(&file));
        }
    }
}

#[test]
fn no_program_counts_as_ready_before_its_first_start_dialogs() {
    for (program, recording) in [
        ("claude", "firstrun.raw"),
        ("codex", "firstrun.raw"),
        ("codex", "bare-answer.cast"),
        ("codex", "noauth.cast"),
        ("codex", "untrusted-gitrepo.cast"),
        ("gemini", "firstrun-noauth.raw"),
    ] {
        let extension = recording.rsplit('.').next().unwrap();
        let file = samples(program, extension).into_iter().find(|file| file.ends_with(recording)).unwrap();
        let mut states = states(program, &file).into_iter();
        let first = states.find(|state| *state != ScreenState::Unknown);
        assert!(matches!(first, Some(ScreenState::Asks(_))), "{program}/{recording}: {first:?}");
    }
}

#[test]
fn the_conversation_id_is_read_from_the_final_output() {
    for (program, file, id) in [
        ("claude", "screen-06-after-exit.txt", "91a2d306-d170-4581-a4db-680ec903e2c8"),
        ("codex", "screen-06-after-exit.txt", "01a1de2a-9d01-7a71-bbd7-ab2c42c19879"),
        ("gemini", "screen-08-after-exit.txt", "6e6a3c8b-cbb5-4931-be5b-9503892a1ad0"),
        ("opencode", "screen-04-after-exit.txt", "ses_e21cdcfccffezZ7HvjhBjkndua"),
    ] {
        let file = samples(program, "txt").into_iter().find(|found| found.ends_with(file)).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        assert_eq!(reader(program).conversation(&text).as_deref(), Some(id), "{program}");
    }
}

struct Dice(u64);

impl Dice {
    fn roll<T: Copy>(&mut self, of: &[T]) -> T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        of[(self.0 >> 33) as usize % of.len()]
    }
}

/// Text that an agent may write about dialogs, quote from them, or format like them.
const PROSE: [&str; 32] = [
    "Do you want to proceed?",
    "Do you want to create hello.txt? I can do it now.",
    " Do you want to proceed?",
    "1. Yes",
    "2. No, and tell Claude what to do differently",
    "> 1. Yes",
    "- Would you like to run the following command?",
    "Would you like to make the following edits?",
    "Press enter to confirm or esc to cancel.",
    "The dialog says \"Esc to cancel · Tab to amend\" at the bottom.",
    "Enter to select · ↑/↓ to navigate · Esc to cancel, as the manual puts it",
    "Allow execution of [Shell]? is what gemini asks.",
    "Apply this change?",
    "Action Required: please review the pull request.",
    "△ Permission required",
    "  Allow once   Allow always   Reject",
    "Do you trust the files in this folder?",
    "The quick brown fox jumps over the lazy dog, and nobody is asked for permission.",
    "Answer Questions",
    "(y/n)",
    "Continue? [Y/n]",
    "❯ 1. Yes",
    "› 1. Yes, proceed (y)",
    "● 1. Allow once",
    "┃  quoted text in a box",
    "│ a table row │ with columns │",
    "────────────────────────────",
    "Enter to confirm · Esc to cancel was the last line of the screen.",
    "enter/esc confirm · ^c quit",
    "I will wait for your answer before I go on.",
    "↑↓ select  enter submit  esc dismiss",
    "",
];

#[test]
fn prose_that_looks_like_dialogs_is_never_a_question() {
    let mut dice = Dice(7);
    let readers: Vec<ScreenReader> = programs().map(reader).collect();
    let endings =
        ["", "\n\n❯ ", "\n\n› Ask Codex to do anything", "\n\n >   Type your message or @path/to/file"];
    for screen in 0..1_000 {
        let lines = dice.roll(&[3, 8, 15, 25, 29]);
        let mut text = (0..lines).map(|_| dice.roll(&PROSE)).collect::<Vec<_>>().join("\n");
        text += dice.roll(&endings);
        let model = drawn(&text);
        for (program, reader) in programs().zip(&readers) {
            let state = reader.read(&model);
            assert!(
                !matches!(state, ScreenState::Asks(_)),
                "screen {screen} as {program}: {state:?}\n{text}"
            );
        }
    }
}

#[test]
fn a_dialog_that_an_agent_quotes_above_its_input_is_not_a_question() {
    let below = [
        ("claude", "\n────────────────────\n❯ \n────────────────────\n  ⏵⏵ auto mode on"),
        ("codex", "\n\n› Ask Codex to do anything\n\n  GPT-5.5 default · /repo"),
        ("gemini", "\n\n >   Type your message or @path/to/file\n\n /repo   no sandbox"),
        ("opencode", "\n\n  ┃\n  ┃  Build · Fake One\n  ╹▀▀▀▀▀▀▀▀▀▀▀\n   tab agents"),
    ];
    for (file, ..) in WAITING {
        let (program, file) = file.split_once('/').unwrap();
        let path = samples(program, "txt").into_iter().find(|path| path.ends_with(file)).unwrap();
        let input = below.iter().find(|(name, _)| *name == program).unwrap().1;
        let screen = std::fs::read_to_string(path).unwrap().trim_end().to_owned() + input;
        let state = reader(program).read(&drawn(&screen));
        assert!(!matches!(state, ScreenState::Asks(_)), "{program}/{file}: {state:?}");
    }
}

#[test]
fn arbitrary_bytes_leave_a_readable_screen() {
    let rounds =
        if std::env::var("ALTHING_TEST_SCALE").is_ok_and(|scale| scale == "nightly") { 20_000 } else { 40 };
    let mut dice = Dice(11);
    let bits: Vec<&[u8]> = vec![
        b"\x1b[",
        b"\x1b]",
        b"\x1bP",
        b"\x1b_",
        b"\x1b",
        b"\x9b",
        b"0;",
        b"7501;",
        b"?",
        b"999999999",
        b";",
        b":",
        b"H",
        b"A",
        b"J",
        b"K",
        b"L",
        b"M",
        b"P",
        b"@",
        b"X",
        b"S",
        b"T",
        b"r",
        b"h",
        b"l",
        b"m",
        b"c",
        b"n",
        b"u",
        b"\x07",
        b"\x1b\\",
        b"\r\n",
        b"\t",
        b"\x08",
        "界".as_bytes(),
        "e\u{301}".as_bytes(),
        "\u{202e}".as_bytes(),
        b"\xff",
        b"\xe7\x95",
        b"text",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x1b[2;5r",
        b"\x1b7",
        b"\x1b8",
        b"\x1bc",
        b"\x1b[5b",
    ];
    for _ in 0..rounds {
        let size =
            dice.roll(&[TerminalSize { cols: 2, rows: 1 }, TerminalSize { cols: 7, rows: 3 }, RECORDED]);
        let mut model = TerminalModel::new(size);
        for _ in 0..200 {
            let answered = model.feed(dice.roll(&bits)).answers;
            assert!(answered.len() < 200);
            if dice.roll(&[false, false, false, false, false, false, true]) {
                model.resize(TerminalSize::clamped(
                    dice.roll(&[0, 1, 5, 80, 500]),
                    dice.roll(&[0, 1, 4, 24, 200]),
                ));
            }
        }
        let screen = model.emulator.snapshot();
        let cells = screen.rows.iter().flatten();
        assert!(cells.flat_map(|cell| cell.text.chars()).all(|c| !c.is_control() && c != '\u{202e}'));
        assert_eq!(screen.rows.len(), usize::from(model.emulator.size().rows));
        model.transcript.at_end(&model.emulator);
    }
}
