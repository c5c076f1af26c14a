//! The state of the screen, and what keys and clicks do to it.
//!
//! Pure: a key gives effects, and only the event loop carries them out. No I/O, no clock.

mod answer;
pub(crate) mod approval;
mod command;
mod guard;
mod keys;
mod modal;
mod mouse;
mod screen;
mod talk;
mod tasks;

pub use command::COMMANDS;
pub(crate) use keys::WELCOME_CHOICES;
pub use modal::{Deed, Field, Modal, Picker};
pub use screen::{Reader, ReaderText, RunScreen, Screen};

use crate::editor::Editor;
use crate::list::{Layouts, Scroll};
use crate::modes::TuiModeState;
use crate::outside::{TuiExit, TuiHost, TuiOptions, Welcome};
use crate::paint::Canvas;
use crate::theme::Theme;
use crate::view;
use althing_protocol::{
    AgentId, FeedItem, InteractionId, Member, ModeChoice, Op, PlanRef, TaskId, Timestamp,
};
use althing_view::SessionView;
use crossterm::event::Event as TerminalEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use std::sync::Arc;

/// What the event loop has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Ask the engine.
    Submit(Op),
    /// Put the user's own selection on the clipboard.
    Copy(String),
    /// Let the user write the message in their editor.
    EditInput,
    /// Let the user edit a plan.
    EditPlan(PlanRef),
    /// Show a text in the pager.
    Page(String),
    /// Write a starter config.
    WriteConfig,
    /// Put back what a run changed.
    Undo(Option<TaskId>),
    /// Ring.
    Bell,
    /// Stop for now, as Ctrl+Z does.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Leave.
    Leave(TuiExit),
}

/// Something on the screen that can be clicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A word of the mode bar.
    Mode(ModeWord),
    /// An agent's tab: in the conversation, or in a run.
    Tab(usize),
    /// An entry of the list that is shown.
    Item(usize),
    /// A button, by the key that does the same.
    Key(char),
    /// The choice of who presents.
    Override,
    /// The way back.
    Back,
    /// The tasks badge.
    Tasks,
    /// The input.
    Input,
    /// A choice of the first screen, by its place in the list.
    Welcome(usize),
}

/// A word of the mode bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeWord {
    /// Plan first.
    Plan,
    /// One agent or several.
    Agents,
    /// Refine or be quick.
    Refine,
    /// Whether an agent is talked to.
    Interactive,
}

/// The completions that are offered for what is being typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Where the completed word begins.
    pub from: usize,
    /// What can be put there, each with a word about it.
    pub offers: Vec<(String, String)>,
    /// The chosen one.
    pub chosen: usize,
}

/// The whole state of the screen.
pub struct App {
    /// What is known of the session.
    pub model: SessionView,
    /// The modes.
    pub modes: TuiModeState,
    /// How it was started.
    pub options: TuiOptions,
    /// The colours.
    pub theme: Theme,
    /// What is shown, the conversation at the bottom, or the tasks of a workflow.
    pub screens: Vec<Screen>,
    /// The question or picker on top.
    pub modal: Option<Modal>,
    /// The message being written.
    pub input: Editor,
    /// Completions for it.
    pub completion: Option<Completion>,
    /// Where the conversation is scrolled to.
    pub scroll: Scroll,
    /// Whether keys move through the conversation rather than write.
    pub browsing: bool,
    /// Whether a run that stands beside the conversation has the keys rather than the input.
    pub(crate) run_has_keys: bool,
    /// A word to the user, until the next key.
    pub toast: Option<String>,
    /// Now.
    pub now: Timestamp,
    /// The screen's size.
    pub size: Rect,
    /// What is shown on the first start.
    pub welcome: Option<Welcome>,
    /// The marked choice of the first start, by its place in `WELCOME_CHOICES`.
    pub(crate) welcome_choice: usize,
    /// Layouts of what is in view.
    pub layouts: Layouts,
    pub(crate) outside: Arc<dyn TuiHost>,
    /// What can be clicked, as the last frame put it.
    pub(crate) targets: Vec<(Rect, Target)>,
    pub(crate) history: Vec<String>,
    pub(crate) recalled: Option<(usize, String)>,
    /// Whether Ctrl+C was the last key: once more leaves.
    pub(crate) leaving: bool,
    /// When a key last went to the input or to another screen, and not to a box.
    pub(crate) typed: Timestamp,
    /// A letter that may be a key of the box on top, or the beginning of a message.
    pub(crate) held: Option<guard::Held>,
    /// Questions that the user set aside.
    pub(crate) dismissed: Vec<InteractionId>,
    /// The box that was answered last, as it was then: a refused answer opens it again.
    pub(crate) answered: Option<Modal>,
    /// How many tasks waited when the bell last rang.
    pub(crate) rung: usize,
    /// The attached program's screen.
    pub(crate) attached: Option<althing_protocol::Screen>,
    /// Whether the user toggled or said something.
    pub(crate) touched: bool,
    /// The modes of the log that the bar last took over.
    adopted: ModeChoice,
    /// How far a modal that only tells something is scrolled.
    pub(crate) told: usize,
    pub(crate) effects: Vec<Effect>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("screens", &self.screens.len()).finish_non_exhaustive()
    }
}

impl App {
    /// A screen that knows nothing yet.
    pub fn new(options: TuiOptions, outside: Arc<dyn TuiHost>) -> Self {
        let modes = TuiModeState::new(options.interactive, &options.modes);
        let mut model = SessionView::default();
        model.team.clone_from(&options.team);
        model.project.clone_from(&options.project);
        model.pending_plan.clone_from(&options.plan);
        for note in &options.notes {
            model.note(note);
        }
        let mut app = Self {
            modes,
            theme: options.theme,
            screens: vec![if options.workflow { Screen::Tasks(0) } else { Screen::Talk }],
            modal: None,
            input: Editor::default(),
            completion: None,
            scroll: Scroll::default(),
            browsing: false,
            run_has_keys: false,
            toast: None,
            now: outside.now(),
            size: Rect::default(),
            welcome: options.welcome.clone(),
            welcome_choice: 0,
            layouts: Layouts::default(),
            targets: Vec::new(),
            history: outside.history(),
            recalled: None,
            leaving: false,
            typed: Timestamp(0),
            held: None,
            dismissed: Vec::new(),
            answered: None,
            rung: 0,
            attached: None,
            told: 0,
            touched: false,
            adopted: ModeChoice::default(),
            effects: Vec::new(),
            outside,
            model,
            options,
        };
        if !app.options.problems.is_empty() {
            app.modal = Some(Modal::Problems);
        }
        if let Some(message) = app.options.first_message.take() {
            app.welcome = None;
            app.say(&message);
        }
        app
    }

    /// What the loop has to do before anything else happens.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Folds one item of the feed.
    pub fn apply(&mut self, item: &FeedItem) {
        self.model.apply(item);
    }

    /// Catches up with the model, after one or many items were folded.
    pub fn sync(&mut self) {
        // What was toggled before this screen began still holds, until the user toggles or says something here.
        if !self.touched && self.model.choice != self.adopted {
            self.adopted = self.model.choice.clone();
            self.modes.adopt(&self.adopted);
        }
        self.modes.follow(&self.model);
        self.reopen_refused();
        self.sync_modal();
        let waiting = self.model.waiting();
        if waiting > self.rung && self.options.bell {
            self.effects.push(Effect::Bell);
        }
        self.rung = waiting;
        // A task that ended has no terminal any more.
        if let Some(Screen::Attached(id)) = self.screens.last()
            && self.model.task(id).is_none_or(|task| task.status.is_final())
        {
            self.toast = Some("the program has ended".into());
            self.screens.pop();
        }
    }

    /// Handles a key, a click, a paste or a change of size.
    pub fn handle(&mut self, event: &TerminalEvent, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        self.settle_held();
        match event {
            TerminalEvent::Key(key) if key.kind != crossterm::event::KeyEventKind::Release => {
                self.on_key(*key)
            }
            TerminalEvent::Mouse(mouse) => self.on_mouse(*mouse),
            TerminalEvent::Paste(text) => self.on_paste(text),
            TerminalEvent::Resize(width, height) => self.resize(*width, *height),
            _ => {}
        }
        self.sync_modal();
        self.take_effects()
    }

    /// Takes note of the screen's size.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = Rect::new(0, 0, width, height);
        if let Some(Screen::Attached(task)) = self.screens.last() {
            let op = Op::Resize { task: task.clone(), cols: width, rows: height.saturating_sub(1) };
            self.effects.push(Effect::Submit(op));
        }
    }

    /// Does what was due by now (see `due`).
    pub fn wake(&mut self, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        self.settle_held();
        self.sync_modal();
        self.take_effects()
    }

    /// Time passed: countdowns and durations look different.
    pub fn tick(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Whether something on the screen changes with time alone.
    pub fn is_ticking(&self) -> bool {
        self.model.live_run().is_some()
            || self.model.tasks.iter().any(althing_view::TaskView::is_program_at_work)
            || self.model.questions.iter().any(|question| question.interaction.countdown.is_some())
    }

    /// Whether an opened run stands beside the conversation.
    pub(crate) fn is_split(&self) -> bool {
        self.size.width >= view::WIDE
            && !self.options.workflow
            && matches!(self.screens.last(), Some(Screen::Run(_)))
    }

    /// Whether the input has the keys. It is shown exactly then, so letters always go where they are seen.
    pub(crate) fn writes(&self) -> bool {
        match self.screens.last() {
            Some(Screen::Talk) | None => !self.browsing,
            Some(Screen::Run(_)) => self.is_split() && !self.run_has_keys,
            Some(Screen::Reader(_) | Screen::Tasks(_) | Screen::Task(..) | Screen::Attached(_)) => false,
        }
    }

    /// The task whose terminal is shown.
    pub fn attached_task(&self) -> Option<&TaskId> {
        match self.screens.last() {
            Some(Screen::Attached(task)) => Some(task),
            _ => None,
        }
    }

    /// Shows a program's screen as it is now.
    pub fn show_attached(&mut self, screen: Option<althing_protocol::Screen>) {
        self.attached = screen;
    }

    /// Draws everything. Gives where the cursor goes.
    pub fn draw(&mut self, buffer: &mut Buffer) -> Option<Position> {
        self.size = buffer.area;
        self.targets.clear();
        self.layouts.begin();
        let mut canvas = Canvas::new(buffer, self.theme, self.options.ascii);
        view::draw(self, &mut canvas);
        canvas.cursor()
    }

    /// Everyone who may take part in runs.
    pub fn team(&self) -> &[Member] {
        &self.model.team
    }

    pub(crate) fn team_ids(&self) -> Vec<AgentId> {
        self.model.team.iter().map(|member| member.id.clone()).collect()
    }

    pub(crate) fn submit(&mut self, op: Op) {
        if self.options.replay {
            self.toast = Some("this is a recording: nothing can be asked of it".into());
        } else {
            self.effects.push(Effect::Submit(op));
        }
    }

    pub(crate) fn leave(&mut self, exit: TuiExit) {
        self.effects.push(Effect::Leave(exit));
    }

    /// The message input takes a text that was written elsewhere.
    pub fn edited(&mut self, result: Result<String, String>) {
        match result {
            Ok(text) => self.input.set(text.trim_end_matches('\n')),
            Err(reason) => self.toast = Some(reason),
        }
    }

    /// Says a word to the user, until the next key.
    pub fn notify(&mut self, word: String) {
        self.toast = Some(word);
    }
}
