//! A screen without a terminal: events and keys go in, text and ops come out.

use crate::script::{START, Script, team};
use althing_protocol::{FeedItem, InteractionId, Op, PathGrant, Permission, TaskId, Timestamp};
use althing_tui::{App, Effect, PreviewMessage, ProjectEntry, SessionEntry, TuiHost, TuiOptions};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use ratatui::style::{Modifier, Style};
use std::sync::Arc;

pub struct FakeHost;

impl TuiHost for FakeHost {
    fn now(&self) -> Timestamp {
        Timestamp(START.0 + 200_000)
    }

    fn sessions(&self) -> Result<Vec<SessionEntry>, String> {
        let message = |by_user: bool, text: &str| PreviewMessage { by_user, text: text.into(), omitted: 0 };
        let entry = |id: &str, title: &str, state: &str, minutes: u64| SessionEntry {
            id: id.into(),
            title: title.into(),
            directory: "~/work/my-app".into(),
            state: state.into(),
            preview: vec![message(true, title), message(false, "Here is a first draft.")],
            updated: Timestamp(self.now().0 - minutes * 60_000),
        };
        Ok(vec![
            entry("s2", "Draft the release notes", "running", 3),
            entry("s1", "Replace JWT", "done", 1500),
        ])
    }

    fn projects(&self) -> Result<Vec<ProjectEntry>, String> {
        let entry = |name: &str, about: &str| ProjectEntry {
            name: name.into(),
            path: format!("/home/me/.althing/projects/{name}"),
            about: about.into(),
        };
        Ok(vec![entry("my-app", "The web service"), entry("site", "The documentation")])
    }

    fn last_changed(&self) -> Result<TaskId, String> {
        Ok("r1".into())
    }

    fn paths(&self, prefix: &str) -> Vec<String> {
        let all = ["Cargo.toml", "src/", "src/lib.rs", "src/main.rs"];
        all.into_iter().filter(|path| path.starts_with(prefix)).map(str::to_owned).collect()
    }
}

/// A host on which `/tmp` and `/data/notes` exist.
pub struct HostWithPaths;

impl TuiHost for HostWithPaths {
    fn now(&self) -> Timestamp {
        FakeHost.now()
    }

    fn path_exists(&self, mention: &str) -> Option<bool> {
        Some(["/tmp", "/data/notes"].contains(&mention))
    }

    fn mentions(&self, text: &str) -> (String, Vec<PathGrant>) {
        let granted = |word: &&str| word.starts_with("@/data/notes");
        let permission = |word: &str| if word.ends_with(":w") { Permission::Write } else { Permission::Read };
        let grant = |word: &str| PathGrant { path: "/data/notes".into(), permission: permission(word) };
        let grants = text.split_whitespace().filter(granted).map(grant).collect();
        let expanded = |word: &str| match word.strip_prefix("@/data/notes") {
            Some(rest) => format!("/data/notes{}", rest.strip_prefix(":w").unwrap_or(rest)),
            None => word.to_owned(),
        };
        (text.split_inclusive(char::is_whitespace).map(expanded).collect(), grants)
    }
}

pub struct TestScreen {
    pub app: App,
    terminal: Terminal<TestBackend>,
    pub ops: Vec<Op>,
    pub effects: Vec<Effect>,
    pub now: Timestamp,
}

pub fn options() -> TuiOptions {
    TuiOptions { interactive: true, team: team(), bell: true, ..TuiOptions::default() }
}

impl TestScreen {
    pub fn new(width: u16, height: u16) -> Self {
        Self::with(options(), width, height)
    }

    pub fn with(options: TuiOptions, width: u16, height: u16) -> Self {
        Self::with_host(options, Arc::new(FakeHost), width, height)
    }

    pub fn with_host(options: TuiOptions, host: Arc<dyn TuiHost>, width: u16, height: u16) -> Self {
        let terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let app = App::new(options, host);
        let mut screen =
            Self { app, terminal, ops: Vec::new(), effects: Vec::new(), now: Timestamp(START.0 + 200_000) };
        let first = screen.app.take_effects();
        screen.take(first);
        screen.draw();
        screen
    }

    pub fn showing(script: &Script, width: u16, height: u16) -> Self {
        let mut screen = Self::new(width, height);
        screen.feed(&script.items);
        screen
    }

    fn question(&self) -> Option<InteractionId> {
        let in_dialog = self.app.modal.as_ref().and_then(|modal| modal.question());
        let vote = self.app.model.override_question().map(|question| &question.interaction.id);
        in_dialog.or(vote).cloned()
    }

    /// If a question appears, time passes until it counts as read.
    pub fn feed(&mut self, items: &[FeedItem]) {
        let before = self.question();
        self.feed_at_once(items);
        if self.question() != before {
            self.now.0 += 400;
        }
    }

    pub fn feed_at_once(&mut self, items: &[FeedItem]) {
        for item in items {
            self.app.apply(item);
        }
        self.app.sync();
        let effects = self.app.take_effects();
        self.take(effects);
        self.draw();
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Submit(op) = &effect {
                self.ops.push(op.clone());
            }
            self.effects.push(effect);
        }
    }

    pub fn draw(&mut self) {
        self.app.tick(self.now);
        let app = &mut self.app;
        self.terminal
            .draw(|frame| {
                if let Some(position) = app.draw(frame.buffer_mut()) {
                    frame.set_cursor_position(position);
                }
            })
            .unwrap();
    }

    pub fn send(&mut self, event: Event) {
        let effects = self.app.handle(&event, self.now);
        self.take(effects);
        self.draw();
    }

    pub fn press(&mut self, code: KeyCode) {
        self.send(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }

    pub fn wait(&mut self, millis: u64) {
        self.now = Timestamp(self.now.0 + millis);
        let effects = self.app.wake(self.now);
        self.take(effects);
        self.draw();
    }

    /// Presses a letter and then nothing for a while, as a shortcut of a dialog.
    pub fn press_alone(&mut self, letter: char) {
        self.press(KeyCode::Char(letter));
        self.wait(1000);
    }

    /// Presses a letter or digit after a pause, and then nothing for a while, like someone who has read a dialog.
    pub fn press_after_reading(&mut self, letter: char) {
        self.wait(500);
        self.press_alone(letter);
    }

    pub fn enter_run(&mut self) {
        self.control('r');
        self.press(KeyCode::Tab);
    }

    pub fn control(&mut self, letter: char) {
        self.send(Event::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)));
    }

    pub fn alt(&mut self, letter: char) {
        self.send(Event::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::ALT)));
    }

    pub fn write(&mut self, text: &str) {
        for letter in text.chars() {
            self.press(KeyCode::Char(letter));
        }
    }

    pub fn send_line(&mut self, text: &str) {
        self.write(text);
        self.press(KeyCode::Enter);
    }

    pub fn buffer(&self) -> &Buffer {
        self.terminal.backend().buffer()
    }

    pub fn rows(&self) -> Vec<String> {
        let buffer = self.buffer();
        let area = buffer.area;
        let row = |y: u16| {
            let mut text = String::new();
            let mut skip = 0;
            for x in 0..area.width {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                let symbol = buffer[(x, y)].symbol();
                skip = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
                text.push_str(symbol);
            }
            text.trim_end().to_owned()
        };
        (0..area.height).map(row).collect()
    }

    pub fn text(&self) -> String {
        self.rows().join("\n")
    }

    pub fn shows(&self, text: &str) -> bool {
        self.rows().iter().any(|row| row.contains(text))
    }

    pub fn find(&self, text: &str) -> (u16, u16) {
        for (y, row) in self.rows().iter().enumerate() {
            if let Some(at) = row.find(text) {
                let column = unicode_width::UnicodeWidthStr::width(&row[..at]);
                return (u16::try_from(column).unwrap(), u16::try_from(y).unwrap());
            }
        }
        panic!("{text:?} is not on the screen:\n{}", self.text());
    }

    pub fn style_of(&self, text: &str) -> Style {
        let (x, y) = self.find(text);
        self.buffer()[(x, y)].style()
    }

    pub fn is_dim(&self, text: &str) -> bool {
        self.style_of(text).add_modifier.contains(Modifier::DIM)
    }

    pub fn is_bold(&self, text: &str) -> bool {
        self.style_of(text).add_modifier.contains(Modifier::BOLD)
    }

    pub fn click(&mut self, text: &str) {
        let (column, row) = self.find(text);
        for kind in [MouseEventKind::Down(MouseButton::Left), MouseEventKind::Up(MouseButton::Left)] {
            self.mouse(kind, column, row);
        }
    }

    pub fn mouse(&mut self, kind: MouseEventKind, column: u16, row: u16) {
        self.send(Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
    }

    pub fn resize(&mut self, width: u16, height: u16) {
        self.terminal.backend_mut().resize(width, height);
        self.send(Event::Resize(width, height));
    }

    pub fn cursor(&mut self) -> Position {
        self.terminal.get_cursor_position().unwrap()
    }
}
