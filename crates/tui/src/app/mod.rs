//! The state of the screen, and how keys and clicks change it.
//!
//! A key produces effects, which the event loop executes; `plain` executes those that make sense without a screen.
//! Everything else that needs I/O or the clock goes through `TuiHost`.

mod answer;
pub(crate) mod approval_members;
mod chooser;
mod command;
mod conversation;
mod dialog_typing;
mod find;
mod keys;
mod mentions;
mod modal;
mod mouse;
mod noticing;
mod panel;
mod reading;
mod replying;
mod screen;
mod selection;
mod session_picker;
mod tasks;
mod trust;
mod undone;

pub use command::COMMANDS;
pub(crate) use keys::WELCOME_CHOICES;
pub use modal::{ConfirmedAction, Field, Modal, Picker};
pub(crate) use reading::{DialogReading, HiddenRows};
pub use screen::{ReaderText, RunScreen, TextReader, TuiScreen};
pub use session_picker::{PickerAction, SessionPicker};
pub(crate) use tasks::is_retryable;
pub use trust::TrustChoice;

use crate::editor::Editor;
use crate::host::{TuiExit, TuiHost, TuiOptions, Welcome};
use crate::list::{Layouts, Scroll};
use crate::modes::TuiModeState;
use crate::paint::Canvas;
use crate::theme::Theme;
use crate::view;
use althing_protocol::{
    AgentId, FeedItem, InteractionId, Member, ModeChoice, Op, PlanRef, Seq, SessionId, TaskId, Timestamp,
};
use althing_view::SessionView;
use crossterm::event::{Event as TerminalEvent, KeyCode};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use std::sync::Arc;

/// An action for the event loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Submit an op to the engine.
    Submit(Op),
    /// Copy a text to the clipboard.
    Copy(String),
    /// Edit the message in the user's editor.
    EditInput,
    /// Edit a plan in the user's editor.
    EditPlan(PlanRef),
    /// Show a text in the pager.
    Page(String),
    /// Write a starter config.
    WriteConfig,
    /// Restore the files that a task changed; None means the last task that changed files.
    Undo(Option<TaskId>),
    /// Delete a session.
    RemoveSession(SessionId),
    /// Ring the bell.
    Bell,
    /// Show a notification of the terminal.
    Notify(String),
    /// Show a message to the user.
    Say(String),
    /// Take the mouse, or leave it to the terminal.
    Mouse(bool),
    /// Suspend the process, as Ctrl+Z does.
    Suspend,
    /// Redraw the whole screen.
    Redraw,
    Leave(TuiExit),
}

/// A clickable area of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A word of the mode bar.
    Mode(ModeToggle),
    /// An agent's tab above the mode bar, which selects the agent that works alone.
    Agent(usize),
    /// A tab of the opened run.
    Tab(usize),
    /// An entry of the list.
    Item(usize),
    /// A button, by its key.
    Key(char),
    /// The presenter choice.
    Override,
    Back,
    /// The tasks badge.
    Tasks,
    Input,
    /// The button that sends the message.
    Send,
    /// The button that cancels the run of an entry of the conversation.
    CancelEntry(usize),
    /// A choice on the welcome screen, by its index.
    Welcome(usize),
}

/// A word of the mode bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeToggle {
    Plan,
    /// Single or multi.
    Agents,
    Refine,
    /// Whether there is a chat agent.
    Interactive,
}

/// Completions for the word being typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Where the completed word begins.
    pub from: usize,
    /// The candidates, each with a description.
    pub offers: Vec<(String, String)>,
    pub chosen: usize,
}

/// The state of the screen.
pub struct App {
    /// The folded session.
    pub model: SessionView,
    pub modes: TuiModeState,
    pub options: TuiOptions,
    pub theme: Theme,
    /// The stack of screens. The lowest is the conversation or the tasks of a workflow.
    pub screens: Vec<TuiScreen>,
    /// The open question, confirmation, picker or information.
    pub modal: Option<Modal>,
    /// The message being written.
    pub input: Editor,
    pub completion: Option<Completion>,
    /// The `@path` mentions in the input that name nothing.
    pub(crate) missing: mentions::MissingMentions,
    /// The scroll position of the conversation.
    pub scroll: Scroll,
    /// Whether keys move through the conversation instead of typing.
    pub browsing: bool,
    /// The text to search for in the conversation, while it is typed.
    pub(crate) finding: Option<String>,
    /// The text that was last searched for in the conversation.
    pub(crate) found: String,
    /// Whether what is open over or beside the conversation receives the keys instead of the input.
    pub(crate) panel_has_keys: bool,
    /// A message to the user, shown until the next key or click.
    pub toast: Option<String>,
    pub now: Timestamp,
    /// The size of the screen.
    pub size: Rect,
    /// What the welcome screen shows; None while there is no welcome screen.
    pub welcome: Option<Welcome>,
    /// The selected choice of the welcome screen, as an index into `WELCOME_CHOICES`.
    pub(crate) welcome_choice: usize,
    /// Cached layouts of what is in view.
    pub layouts: Layouts,
    pub(crate) host: Arc<dyn TuiHost>,
    /// The clickable areas of the last frame.
    pub(crate) targets: Vec<(Rect, Target)>,
    pub(crate) history: Vec<String>,
    pub(crate) recalled: Option<(usize, String)>,
    /// The messages that were sent with another text than the typed one: the sent text, and the typed one.
    pub(crate) sent_as: Vec<(String, String)>,
    /// The message of the conversation that is edited in the input, to be sent again in a branch.
    pub(crate) resending: Option<Seq>,
    /// Whether the last key was a Ctrl+C that did not clear the input; a second Ctrl+C leaves.
    pub(crate) leaving: bool,
    /// When a key last went to the input or another screen rather than to a dialog, or answered a dialog.
    pub(crate) last_typed: Timestamp,
    /// The key of `last_typed`.
    pub(crate) last_typed_key: Option<KeyCode>,
    /// When the newest key was pressed, and when the key before it was.
    pub(crate) last_key_at: Timestamp,
    pub(crate) previous_key_at: Timestamp,
    /// The key that is being handled; None for a click and for a letter that waited.
    pub(crate) current_key: Option<KeyCode>,
    /// The last key that would have answered a dialog, but was left over from before (see `is_left_over`).
    pub(crate) ignored_key: Option<(KeyCode, Timestamp)>,
    /// Where the mouse button was pressed; None once it was let go.
    pub(crate) pressed_at: Option<Position>,
    pub(crate) selection: Option<selection::Selection>,
    /// Whether we get what the mouse does.
    pub(crate) mouse: bool,
    /// When the mouse was last clicked.
    pub(crate) last_click: Option<Timestamp>,
    /// Whether the click that is being handled follows another click at once, or was made before the dialog was drawn.
    pub(crate) is_click_left_over: bool,
    /// A letter of which it is not yet known whether it is a shortcut of the open dialog or the start of a message.
    pub(crate) pending_letter: Option<dialog_typing::PendingLetter>,
    /// Whether the open dialog was not on the screen yet when the current keys were pressed.
    pub box_is_unseen: bool,
    /// Questions that the user dismissed or answered.
    pub(crate) dismissed: Vec<InteractionId>,
    /// The dialog that was answered last, as the user left it; a rejected answer opens the dialog again.
    pub(crate) answered: Option<Modal>,
    /// The choice of the presenter, while one of its answers is being read whole.
    pub(crate) chooser_below: Option<chooser::ChooserBelow>,
    /// The answer to `Modal::Trust`.
    pub(crate) trust_choice: Option<TrustChoice>,
    /// The runs of which the host was asked whether they were undone.
    pub(crate) undo_checked: std::collections::BTreeSet<TaskId>,
    /// The question whose countdown this screen has paused.
    pub(crate) paused: Option<InteractionId>,
    /// Number of waiting tasks at the last update; the bell rings when the number grows.
    pub(crate) waiting_at_bell: usize,
    /// Whether the terminal has the focus of the desktop, as far as it has said.
    pub(crate) has_focus: bool,
    /// The live run and the number of open questions at the last update.
    pub(crate) live_before: Option<TaskId>,
    pub(crate) asked_before: usize,
    /// The attached program's screen.
    pub(crate) attached: Option<althing_protocol::Screen>,
    /// Whether the user toggled a mode or sent a message.
    pub(crate) touched: bool,
    /// The modes that were last adopted from the log.
    adopted: ModeChoice,
    /// The scroll position of an information modal.
    pub(crate) info_scroll: usize,
    /// How much of the open dialog was shown.
    pub(crate) reading: DialogReading,
    pub(crate) effects: Vec<Effect>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("screens", &self.screens.len()).finish_non_exhaustive()
    }
}

impl App {
    /// An empty screen.
    pub fn new(options: TuiOptions, host: Arc<dyn TuiHost>) -> Self {
        let modes = TuiModeState::new(options.interactive, &options.modes);
        let mut model = SessionView::default();
        model.team.clone_from(&options.team);
        model.project.clone_from(&options.project);
        model.pending_plan.clone_from(&options.plan);
        for note in &options.notes {
            model.add_note(note);
        }
        let mut app = Self {
            modes,
            theme: options.theme,
            screens: vec![if options.workflow { TuiScreen::Tasks(0) } else { TuiScreen::Conversation }],
            modal: None,
            input: Editor::default(),
            completion: None,
            missing: mentions::MissingMentions::default(),
            scroll: Scroll::default(),
            browsing: false,
            finding: None,
            found: String::new(),
            panel_has_keys: false,
            toast: None,
            now: host.now(),
            size: Rect::default(),
            welcome: options.welcome.clone(),
            welcome_choice: 0,
            layouts: Layouts::default(),
            targets: Vec::new(),
            history: host.history(),
            recalled: None,
            sent_as: Vec::new(),
            resending: None,
            leaving: false,
            last_typed: Timestamp(0),
            last_typed_key: None,
            last_key_at: Timestamp(0),
            previous_key_at: Timestamp(0),
            current_key: None,
            pressed_at: None,
            selection: None,
            mouse: options.mouse,
            last_click: None,
            is_click_left_over: false,
            ignored_key: None,
            pending_letter: None,
            box_is_unseen: false,
            dismissed: Vec::new(),
            answered: None,
            chooser_below: None,
            paused: None,
            trust_choice: None,
            undo_checked: std::collections::BTreeSet::new(),
            waiting_at_bell: 0,
            has_focus: true,
            live_before: None,
            asked_before: 0,
            attached: None,
            info_scroll: 0,
            reading: DialogReading::default(),
            touched: false,
            adopted: ModeChoice::default(),
            effects: Vec::new(),
            host,
            model,
            options,
        };
        if !app.options.problems.is_empty() {
            app.modal = Some(Modal::Problems);
        }
        if let Some(message) = app.options.first_message.take() {
            app.welcome = None;
            app.send_message(&message);
        }
        app
    }

    /// Takes the pending effects out.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Folds one item of the feed into the session's view.
    pub fn apply(&mut self, item: &FeedItem) {
        self.model.apply(item);
    }

    /// Updates the screen after one or more items were folded.
    pub fn sync(&mut self) {
        // Modes from the log apply until the user toggles a mode or sends a message here.
        if !self.touched && self.model.choice != self.adopted {
            self.adopted = self.model.choice.clone();
            self.modes.adopt(&self.adopted);
        }
        self.modes.follow(&self.model);
        self.reopen_refused();
        self.sync_modal();
        self.sync_countdown();
        self.check_new_results();
        let waiting = self.model.waiting();
        if waiting > self.waiting_at_bell && self.options.bell {
            self.effects.push(Effect::Bell);
        }
        self.waiting_at_bell = waiting;
        self.notice_changes();
        self.forget_stopping();
        // A task that has ended has no terminal any more.
        if let Some(TuiScreen::Attached(id)) = self.screens.last()
            && self.model.task(id).is_none_or(|task| task.status.is_final())
        {
            self.toast = Some("the program has ended".into());
            self.screens.pop();
        }
    }

    /// Handles a key, click, paste or resize.
    pub fn handle(&mut self, event: &TerminalEvent, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        self.act_on_due_letter();
        match event {
            TerminalEvent::Key(key) if key.kind != crossterm::event::KeyEventKind::Release => {
                self.current_key = Some(key.code);
                self.previous_key_at = std::mem::replace(&mut self.last_key_at, now);
                self.on_key(*key);
                self.current_key = None;
            }
            TerminalEvent::Mouse(mouse) => self.on_mouse(*mouse),
            TerminalEvent::Paste(text) => self.on_paste(text),
            TerminalEvent::Resize(width, height) => self.resize(*width, *height),
            TerminalEvent::FocusGained => self.has_focus = true,
            TerminalEvent::FocusLost => self.has_focus = false,
            TerminalEvent::Key(_) => {}
        }
        self.find_missing_mentions();
        self.sync_modal();
        self.sync_countdown();
        self.take_effects()
    }

    /// Records the size of the screen, and resizes the terminal of an attached program.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = Rect::new(0, 0, width, height);
        if let Some(TuiScreen::Attached(task)) = self.screens.last() {
            let op = Op::Resize { task: task.clone(), cols: width, rows: height.saturating_sub(1) };
            self.effects.push(Effect::Submit(op));
        }
    }

    /// Performs actions that are due (see `due`).
    pub fn wake(&mut self, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        self.act_on_due_letter();
        self.sync_modal();
        self.take_effects()
    }

    /// Sets the time, for countdowns and durations.
    pub fn tick(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Whether something on the screen changes with time alone.
    pub fn is_ticking(&self) -> bool {
        self.model.live_run().is_some()
            || self.model.is_replying()
            || self.model.tasks.iter().any(althing_view::TaskView::is_running_program)
            || self.model.questions.iter().any(|question| question.interaction.countdown.is_some())
    }

    /// The task whose terminal is shown.
    pub fn attached_task(&self) -> Option<&TaskId> {
        match self.screens.last() {
            Some(TuiScreen::Attached(task)) => Some(task),
            _ => None,
        }
    }

    /// Sets the screen of the attached program.
    pub fn show_attached(&mut self, screen: Option<althing_protocol::Screen>) {
        self.attached = screen;
    }

    /// Draws everything. Returns the cursor position.
    pub fn draw(&mut self, buffer: &mut Buffer) -> Option<Position> {
        self.size = buffer.area;
        self.targets.clear();
        self.layouts.begin();
        let canvas = Canvas::new(buffer, self.theme, self.options.ascii);
        let mut canvas = canvas.with_simple_clusters(self.options.simple_clusters);
        view::draw(self, &mut canvas);
        self.draw_selection(&mut canvas);
        canvas.cursor()
    }

    /// The members that may take part in runs.
    pub fn team(&self) -> &[Member] {
        &self.model.team
    }

    pub(crate) fn team_ids(&self) -> Vec<AgentId> {
        self.model.team.iter().map(|member| member.id.clone()).collect()
    }

    pub(crate) fn submit(&mut self, op: Op) {
        if self.options.replay {
            self.toast = Some("this is a recording: it accepts no input".into());
        } else {
            self.effects.push(Effect::Submit(op));
        }
    }

    pub(crate) fn leave(&mut self, exit: TuiExit) {
        self.effects.push(Effect::Leave(exit));
    }

    /// Sets the input to a text written in an editor, or shows the error.
    pub fn edited(&mut self, result: Result<String, String>) {
        match result {
            Ok(text) => self.input.set(text.trim_end_matches('\n')),
            Err(reason) => self.toast = Some(reason),
        }
    }

    /// Shows a message until the next key or click.
    pub fn notify(&mut self, word: String) {
        self.toast = Some(word);
    }
}
