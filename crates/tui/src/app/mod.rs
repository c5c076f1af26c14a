//! The state of the screen, and how keys and clicks change it. Handling a key produces effects, which the event loop
//! executes; other I/O and the clock are accessed through `TuiHost`.

mod answer;
pub(crate) mod approval_members;
mod chooser;
mod command;
mod conversation;
mod dialog_typing;
mod find;
mod keys;
mod letters;
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

pub use command::{COMMANDS, SlashCommand};
pub(crate) use keys::WELCOME_CHOICES;
pub use modal::{ConfirmedAction, Field, Modal, Picker};
pub(crate) use reading::{DialogReading, HiddenRows};
pub use screen::{ReaderText, RunScreen, TextReader, TuiScreen};
pub use session_picker::{PickerAction, SessionPicker};
pub(crate) use tasks::is_retryable;
pub use trust::TrustChoice;
pub(crate) use undone::has_changes;

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
use crossterm::event::{Event as TerminalEvent, KeyCode, KeyEvent};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Submit(Op),
    Copy(String),
    EditInput,
    EditPlan(PlanRef),
    Page(String),
    WriteConfig,
    /// Restores the files that a task changed.
    Undo(TaskId),
    /// Delete a session.
    RemoveSession(SessionId),
    /// Ring the bell.
    Bell,
    /// Notify the user, in the terminal and as the user's own config says.
    Notify(String),
    /// Notify the user only as the user's own config says.
    NotifyUser(String),
    Say(String),
    /// Whether the screen receives mouse events. If not, the terminal handles the mouse.
    Mouse(bool),
    Suspend,
    Redraw,
    Leave(TuiExit),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Mode(ModeToggle),
    Agent(usize),
    Tab(usize),
    Item(usize),
    Key(char),
    Override,
    Back,
    Tasks,
    Input,
    Send,
    CancelEntry(usize),
    Welcome(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeToggle {
    Plan,
    Agents,
    Refine,
    Interactive,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The byte position where the completed word begins.
    pub from: usize,
    pub offers: Vec<(String, String)>,
    pub chosen: usize,
    /// Whether the user moved in the list, so that `chosen` is the user's choice.
    pub moved: bool,
}

pub struct App {
    pub model: SessionView,
    pub modes: TuiModeState,
    pub options: TuiOptions,
    pub theme: Theme,
    /// The stack of screens. The lowest is the conversation or, for a workflow, the tasks panel.
    pub screens: Vec<TuiScreen>,
    pub modal: Option<Modal>,
    pub input: Editor,
    pub completion: Option<Completion>,
    pub(crate) missing: mentions::MissingMentions,
    pub scroll: Scroll,
    pub browsing: bool,
    pub(crate) finding: Option<String>,
    pub(crate) found: String,
    /// Whether the opened run, text or task panel receives the keys instead of the input.
    pub(crate) panel_has_keys: bool,
    /// A message to the user, shown until the next key or click.
    pub toast: Option<String>,
    pub now: Timestamp,
    pub size: Rect,
    pub welcome: Option<Welcome>,
    pub(crate) welcome_choice: usize,
    pub layouts: Layouts,
    pub(crate) host: Arc<dyn TuiHost>,
    pub(crate) targets: Vec<(Rect, Target)>,
    pub(crate) history: Vec<String>,
    pub(crate) recalled: Option<(usize, String)>,
    /// The message of the conversation that is edited in the input, to be sent again in a branch.
    pub(crate) resending: Option<Seq>,
    /// The queued message that Enter edits and Del removes.
    pub(crate) selected_queued: Option<Seq>,
    /// Whether the last key was a Ctrl+C that did not clear the input; a second Ctrl+C leaves.
    pub(crate) leaving: bool,
    /// When a key last went somewhere else than to a dialog, or answered a dialog.
    pub(crate) last_typed: Timestamp,
    pub(crate) last_typed_key: Option<KeyCode>,
    pub(crate) last_key: Option<KeyEvent>,
    pub(crate) last_key_at: Timestamp,
    pub(crate) previous_key: Option<KeyEvent>,
    pub(crate) previous_key_at: Timestamp,
    /// The key that is being handled. `None` for a click and for a pending letter.
    pub(crate) current_key: Option<KeyCode>,
    pub(crate) ignored_key: Option<(KeyCode, Timestamp)>,
    pub(crate) drawn_question: Option<dialog_typing::DrawnQuestion>,
    /// The last character that meant nothing where it was typed.
    pub(crate) stray_key: Option<(KeyCode, Timestamp)>,
    pub(crate) pressed_at: Option<Position>,
    pub(crate) selection: Option<selection::Selection>,
    pub(crate) mouse: bool,
    pub(crate) last_click: Option<Timestamp>,
    /// Whether the click that is being handled follows another click at once, or was made before the dialog was drawn.
    pub(crate) is_click_left_over: bool,
    pub(crate) pending_letter: Option<letters::PendingLetter>,
    /// Whether the open dialog was not drawn yet when the current key was pressed.
    pub box_is_unseen: bool,
    /// Questions that the user dismissed or answered: they do not open by themselves again.
    pub(crate) dismissed: Vec<InteractionId>,
    /// The dialog that was answered last, as the user left it. If the answer is rejected, the dialog opens again.
    pub(crate) answered: Option<Modal>,
    pub(crate) chooser_below: Option<chooser::ChooserBelow>,
    pub(crate) trust_choice: Option<TrustChoice>,
    /// The runs that `check_new_results` has already asked the host about.
    pub(crate) undo_checked: std::collections::BTreeSet<TaskId>,
    /// The number of entries when `check_new_results` last asked the host about the chat agent's changes.
    pub(crate) entries_checked: usize,
    pub(crate) paused: Option<InteractionId>,
    pub(crate) noticed: noticing::Noticed,
    pub(crate) attached: Option<althing_protocol::Screen>,
    /// Whether the user toggled a mode or sent a message in this process.
    pub(crate) touched: bool,
    /// The modes that were last adopted from the log.
    adopted: ModeChoice,
    pub(crate) info_scroll: usize,
    pub(crate) reading: DialogReading,
    pub(crate) effects: Vec<Effect>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("screens", &self.screens.len()).finish_non_exhaustive()
    }
}

impl App {
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
            resending: None,
            selected_queued: None,
            leaving: false,
            last_typed: Timestamp(0),
            last_typed_key: None,
            last_key: None,
            last_key_at: Timestamp(0),
            previous_key: None,
            previous_key_at: Timestamp(0),
            current_key: None,
            pressed_at: None,
            selection: None,
            mouse: options.mouse,
            last_click: None,
            is_click_left_over: false,
            ignored_key: None,
            drawn_question: None,
            stray_key: None,
            pending_letter: None,
            box_is_unseen: false,
            dismissed: Vec::new(),
            answered: None,
            chooser_below: None,
            paused: None,
            trust_choice: None,
            undo_checked: std::collections::BTreeSet::new(),
            entries_checked: 0,
            noticed: noticing::Noticed::default(),
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

    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub fn apply(&mut self, item: &FeedItem) {
        self.model.apply(item);
    }

    pub fn sync(&mut self) {
        // Modes from the log apply until the user toggles a mode or sends a message in this process.
        if !self.touched && self.model.choice != self.adopted {
            self.adopted = self.model.choice.clone();
            self.modes.adopt(&self.adopted);
        }
        self.modes.follow(&self.model);
        self.reopen_refused();
        self.sync_modal();
        self.sync_countdown();
        self.check_new_results();
        self.notice_changes();
        self.forget_stopping();
        // A task that has ended has no terminal any more.
        if let Some(TuiScreen::Attached(id)) = self.screens.last()
            && self.model.task(id).is_none_or(|task| task.status.is_final())
        {
            self.toast = Some("the program has ended".into());
            self.screens.pop();
            // What is still typed for the program does not act on the panel below.
            self.stray_key = Some((KeyCode::Null, self.last_typed));
        }
    }

    pub fn handle(&mut self, event: &TerminalEvent, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        self.act_on_due_letter();
        self.note_presence();
        match event {
            TerminalEvent::Key(key) if key.kind != crossterm::event::KeyEventKind::Release => {
                self.current_key = Some(key.code);
                self.previous_key = self.last_key.replace(*key);
                self.previous_key_at = std::mem::replace(&mut self.last_key_at, now);
                self.on_key(*key);
                self.current_key = None;
            }
            TerminalEvent::Mouse(mouse) => self.on_mouse(*mouse),
            TerminalEvent::Paste(text) => self.on_paste(text),
            TerminalEvent::Resize(width, height) => self.resize(*width, *height),
            TerminalEvent::FocusGained => self.set_focus(true),
            TerminalEvent::FocusLost => self.set_focus(false),
            TerminalEvent::Key(_) => {}
        }
        self.find_missing_mentions();
        self.sync_modal();
        self.sync_countdown();
        self.take_effects()
    }

    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = Rect::new(0, 0, width, height);
        if let Some(TuiScreen::Attached(task)) = self.screens.last() {
            let op = Op::Resize { task: task.clone(), cols: width, rows: height.saturating_sub(1) };
            self.effects.push(Effect::Submit(op));
        }
    }

    pub fn wake(&mut self, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        self.act_on_due_letter();
        self.report_due();
        self.sync_modal();
        self.take_effects()
    }

    pub fn tick(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Whether something on the screen changes with time alone, such as a duration.
    pub fn is_ticking(&self) -> bool {
        self.model.live_run().is_some()
            || self.model.is_replying()
            || self.model.tasks.iter().any(althing_view::TaskView::is_running_program)
            || self.model.questions.iter().any(|question| question.interaction.countdown.is_some())
    }

    pub fn attached_task(&self) -> Option<&TaskId> {
        match self.screens.last() {
            Some(TuiScreen::Attached(task)) => Some(task),
            _ => None,
        }
    }

    pub fn show_attached(&mut self, screen: Option<althing_protocol::Screen>) {
        self.attached = screen;
    }

    pub fn draw(&mut self, buffer: &mut Buffer) -> Option<Position> {
        self.size = buffer.area;
        self.note_drawn_question();
        self.targets.clear();
        self.layouts.begin();
        let canvas = Canvas::new(buffer, self.theme, self.options.ascii);
        let mut canvas = canvas.with_simple_clusters(self.options.simple_clusters);
        view::draw(self, &mut canvas);
        self.draw_selection(&mut canvas);
        canvas.cursor()
    }

    pub fn team(&self) -> &[Member] {
        &self.model.team
    }

    pub(crate) fn team_ids(&self) -> Vec<AgentId> {
        self.model.team.iter().map(|member| member.id.clone()).collect()
    }

    pub(crate) fn submit(&mut self, op: Op) {
        if self.options.replay {
            self.refuse_in_recording();
        } else {
            self.effects.push(Effect::Submit(op));
        }
    }

    pub(crate) fn refuse_in_recording(&mut self) {
        self.toast = Some("this is a recording: it accepts no input".into());
    }

    pub(crate) fn leave(&mut self, exit: TuiExit) {
        self.effects.push(Effect::Leave(exit));
    }

    pub fn edited(&mut self, result: Result<String, String>) {
        match result {
            Ok(text) => self.put_into_input(text.trim_end_matches('\n')),
            Err(reason) => self.toast = Some(reason),
        }
    }

    pub fn notify(&mut self, word: String) {
        self.toast = Some(word);
    }
}
