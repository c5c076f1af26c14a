//! The event loop: keys and feed items in, ops and frames out.
//!
//! The loop draws at most sixty frames per second, draws none if nothing changed, and does not wake up while idle.

mod released;

use crate::app::{App, Effect, TrustChoice};
use crate::background::{BackgroundQuery, Keys};
use crate::host::{TuiExit, TuiHost, TuiOptions};
use crate::plain;
use crate::signals::{SignalAction, Signals};
use crate::terminal::{TerminalGuard, clipboard, notification, panic_error, panicked, send_background_query};
use althing_protocol::{
    Engine, FeedItem, InteractionId, Interest, JournalError, Origin, Seq, Submission, Timestamp,
};
use althing_text::sanitize;
use crossterm::event::{Event as TerminalEvent, EventStream};
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use crossterm::{execute, queue};
use futures_util::StreamExt;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

const KEY_FRAME: Duration = Duration::from_micros(16_667);
/// The minimum time between the last frame and a frame that does not respond to a key. Twice `KEY_FRAME`, so that a key
/// can be answered at once while agents stream, with at most 60 frames per second in total.
const UNPROMPTED_FRAME: Duration = Duration::from_micros(33_334);

const TICK: Duration = Duration::from_secs(1);

/// The maximum number of feed items folded at a time, so that a long history does not delay keys. Also the capacity of
/// the channels for feed items and keys.
const MOST_AT_ONCE: usize = 4096;

type FeedResult = Result<FeedItem, JournalError>;

/// Shows a session until the user leaves it, a signal arrives or the input ends. With the option `plain`, the session
/// is shown as lines, and the end of a workflow ends this function too.
pub async fn run(
    engine: Arc<dyn Engine>,
    options: TuiOptions,
    host: Arc<dyn TuiHost>,
) -> io::Result<TuiExit> {
    if options.plain {
        return plain::run(engine, options, host).await;
    }
    let guard = TerminalGuard::acquire(options.mouse)?;
    let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let background = ask_background(&options)?;
    let app = App::new(options, Arc::clone(&host));
    let mut screen = EventLoop {
        engine,
        host,
        app,
        guard,
        terminal,
        keys: KeyReader::listen(),
        background,
        dirty: true,
        last_frame: None,
        pressed: false,
        last_key_frame: None,
        drawn_box: None,
        signals: Signals::listen()?,
    };
    let result = screen.run().await;
    screen.guard.release();
    result
}

fn ask_background(options: &TuiOptions) -> io::Result<BackgroundQuery> {
    if !options.ask_background {
        return Ok(BackgroundQuery::default());
    }
    send_background_query()?;
    Ok(BackgroundQuery::started(Instant::now()))
}

/// Handles a terminal event, unless it is part of the terminal's reply about its background.
fn handle(
    app: &mut App,
    background: &mut BackgroundQuery,
    event: TerminalEvent,
    now: Timestamp,
) -> Vec<Effect> {
    let Keys { events, theme } = background.take(event, Instant::now());
    // A theme that the user chose in the meantime stays.
    if let Some(theme) = theme.filter(|_| app.theme == app.options.theme) {
        app.theme = theme;
    }
    events.iter().flat_map(|event| app.handle(event, now)).collect()
}

/// Asks on a screen of its own whether something that was found may be used. A signal or the end of the input means no.
pub async fn ask_trust(
    would: Vec<String>,
    options: TuiOptions,
    host: Arc<dyn TuiHost>,
) -> io::Result<TrustChoice> {
    let guard = TerminalGuard::acquire(false)?;
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let mut keys = KeyReader::listen();
    let mut signals = Signals::listen()?;
    let mut background = ask_background(&options)?;
    let mut app = App::new(options, Arc::clone(&host));
    let mut draw = |app: &mut App| {
        app.tick(host.now());
        terminal.draw(|frame| {
            app.draw(frame.buffer_mut());
        })?;
        io::Result::Ok(())
    };
    app.ask_trust(would);
    draw(&mut app)?;
    app.note_question_shown(host.now());
    let choice = loop {
        draw(&mut app)?;
        // When a letter that waits for another key acts.
        let wake = app.due().map(|due| due.since(host.now()).duration());
        let event = tokio::select! {
            biased;
            event = keys.receiver.recv() => event.map(Some),
            _ = signals.next() => None,
            () = panicked() => None,
            () = tokio::time::sleep(wake.unwrap_or_default()), if wake.is_some() => Some(None),
        };
        let effects = match event {
            None => break TrustChoice::No,
            Some(None) => app.wake(host.now()),
            Some(Some(event)) => handle(&mut app, &mut background, event?, host.now()),
        };
        if effects.iter().any(|effect| matches!(effect, Effect::Leave(_))) {
            break TrustChoice::No;
        }
        if let Some(choice) = app.trust_choice() {
            break choice;
        }
    };
    keys.stop().await;
    guard.release();
    Ok(choice)
}

/// Reads the feed in a separate task, because reading is not cancel-safe.
pub(crate) fn follow(
    engine: &Arc<dyn Engine>,
    host: &Arc<dyn TuiHost>,
) -> (mpsc::Receiver<FeedResult>, tokio::task::JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel(MOST_AT_ONCE);
    let mut stream = engine.subscribe(Seq(0), Interest::Everything);
    let host = Arc::clone(host);
    let pump = tokio::spawn(async move {
        while let Some(item) = stream.next().await {
            host.failpoint("feed");
            if sender.send(item).await.is_err() {
                break;
            }
        }
    });
    (receiver, pump)
}

/// Reads terminal events in a separate task, because crossterm's stream must always be polled from the same task.
struct KeyReader {
    receiver: mpsc::Receiver<io::Result<TerminalEvent>>,
    pump: tokio::task::JoinHandle<()>,
}

impl KeyReader {
    fn listen() -> Self {
        let (sender, receiver) = mpsc::channel(MOST_AT_ONCE);
        let pump = tokio::spawn(async move {
            let mut stream = EventStream::new();
            while let Some(event) = stream.next().await {
                if sender.send(event).await.is_err() {
                    break;
                }
            }
        });
        Self { receiver, pump }
    }

    /// Stops reading keys, because another program or the shell reads them from now on.
    async fn stop(&mut self) {
        self.pump.abort();
        let _ = (&mut self.pump).await;
    }
}

impl Drop for KeyReader {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

struct EventLoop {
    engine: Arc<dyn Engine>,
    host: Arc<dyn TuiHost>,
    app: App,
    guard: TerminalGuard,
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
    keys: KeyReader,
    background: BackgroundQuery,
    dirty: bool,
    last_frame: Option<Instant>,
    /// Whether a key was pressed since the last frame, while no program was attached.
    pressed: bool,
    last_key_frame: Option<Instant>,
    /// The question whose dialog is in the last frame.
    drawn_box: Option<InteractionId>,
    signals: Signals,
}

enum WakeReason {
    Key(Option<io::Result<TerminalEvent>>),
    Feed(Option<FeedResult>),
    Frame,
    Tick,
    Due,
    Signal(SignalAction),
}

impl EventLoop {
    async fn run(&mut self) -> io::Result<TuiExit> {
        let (mut feed, pump) = follow(&self.engine, &self.host);
        let mut live = true;
        let first = self.app.take_effects();
        if let Some(exit) = self.execute(first).await? {
            return Ok(exit);
        }
        let result = loop {
            if !self.guard.is_owned() {
                break Err(panic_error());
            }
            if self.dirty && self.due() <= Instant::now() {
                self.draw()?;
                // Drawing a finished selection copies it.
                let effects = self.app.take_effects();
                if let Some(exit) = self.execute(effects).await? {
                    break Ok(exit);
                }
            }
            let woken = self.wait(&mut feed, live).await;
            let effects = match woken {
                WakeReason::Key(None) => break Ok(TuiExit::Stopped),
                WakeReason::Key(Some(event)) => self.on_keys(event?),
                WakeReason::Feed(None) => {
                    live = false;
                    self.dirty = true;
                    self.app.sync();
                    Vec::new()
                }
                WakeReason::Feed(Some(item)) => self.on_feed(item, &mut feed),
                WakeReason::Frame => Vec::new(),
                WakeReason::Tick => {
                    self.dirty = true;
                    Vec::new()
                }
                WakeReason::Due => {
                    self.dirty = true;
                    self.app.wake(self.host.now())
                }
                WakeReason::Signal(SignalAction::End) => break Ok(TuiExit::Stopped),
                WakeReason::Signal(SignalAction::Stop) => vec![Effect::Suspend],
            };
            if let Some(exit) = self.execute(effects).await? {
                break Ok(exit);
            }
        };
        pump.abort();
        result
    }

    async fn wait(&mut self, feed: &mut mpsc::Receiver<FeedResult>, live: bool) -> WakeReason {
        let ticking = self.app.is_ticking() && !self.app.options.replay;
        let (due, dirty) = (self.due(), self.dirty);
        let wake = self.app.due().map(|due| due.since(self.host.now()).duration());
        tokio::select! {
            biased;
            event = self.keys.receiver.recv() => WakeReason::Key(event),
            signal = self.signals.next() => WakeReason::Signal(signal),
            () = panicked() => WakeReason::Frame,
            () = tokio::time::sleep_until(due), if dirty => WakeReason::Frame,
            () = tokio::time::sleep(wake.unwrap_or_default()), if wake.is_some() => WakeReason::Due,
            item = feed.recv(), if live => WakeReason::Feed(item),
            () = tokio::time::sleep(TICK), if ticking => WakeReason::Tick,
        }
    }

    fn due(&self) -> Instant {
        let (last, pause) = match (self.pressed, self.app.attached_task()) {
            (true, _) => (self.last_key_frame, KEY_FRAME),
            // An attached program answers keys through the feed, so its output is drawn as fast as answers to keys.
            (false, Some(_)) => (self.last_frame, KEY_FRAME),
            (false, None) => (self.last_frame, UNPROMPTED_FRAME),
        };
        last.map_or_else(Instant::now, |last| last + pause)
    }

    fn draw(&mut self) -> io::Result<()> {
        let now = if self.app.options.replay { self.app.model.at } else { self.host.now() };
        self.app.tick(now);
        if let Some(task) = self.app.attached_task().cloned() {
            self.app.show_attached(self.engine.screen(&task));
        }
        let (app, host) = (&mut self.app, &self.host);
        queue!(io::stdout(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| {
            host.failpoint("view");
            if let Some(position) = app.draw(frame.buffer_mut()) {
                frame.set_cursor_position(position);
            }
        })?;
        execute!(io::stdout(), EndSynchronizedUpdate)?;
        self.drawn_box = self.app.question_in_box().cloned();
        self.last_frame = Some(Instant::now());
        if std::mem::take(&mut self.pressed) {
            self.last_key_frame = self.last_frame;
        }
        self.dirty = false;
        Ok(())
    }

    fn on_keys(&mut self, first: TerminalEvent) -> Vec<Effect> {
        self.host.failpoint("keys");
        let now = self.host.now();
        // Keys that arrive before a dialog was drawn were not pressed to answer it.
        self.app.box_is_unseen =
            self.app.question_in_box().is_some_and(|id| self.drawn_box.as_ref() != Some(id));
        let mut effects = handle(&mut self.app, &mut self.background, first, now);
        // All available keys are handled before the next frame, up to the first key that has effects.
        while effects.is_empty() {
            let Ok(Ok(event)) = self.keys.receiver.try_recv() else { break };
            effects.extend(handle(&mut self.app, &mut self.background, event, now));
        }
        self.dirty = true;
        self.pressed = self.app.attached_task().is_none();
        effects
    }

    fn on_feed(&mut self, first: FeedResult, feed: &mut mpsc::Receiver<FeedResult>) -> Vec<Effect> {
        let mut next = Some(first);
        let mut count = 0;
        while let Some(item) = next {
            self.host.failpoint("update");
            match item {
                Ok(item) => self.app.apply(&item),
                Err(error) => self.app.notify(error.to_string()),
            }
            count += 1;
            next = if count < MOST_AT_ONCE { feed.try_recv().ok() } else { None };
        }
        self.app.sync();
        self.dirty = true;
        self.app.take_effects()
    }

    async fn execute(&mut self, effects: Vec<Effect>) -> io::Result<Option<TuiExit>> {
        for effect in effects {
            match effect {
                Effect::Submit(op) => {
                    if !self.engine.submit(Submission::new(op, Origin::User)) {
                        self.app.notify("the session has ended and accepts no more input".into());
                    }
                }
                Effect::Copy(text) => self.copy(text).await?,
                Effect::EditInput => {
                    let text = self.app.input.whole();
                    let edited =
                        self.with_terminal_released(move |host, suspend| host.edit(&text, suspend)).await?;
                    self.app.edited(edited);
                }
                Effect::EditPlan(plan) => {
                    let edited = self
                        .with_terminal_released(move |host, suspend| host.edit_plan(&plan, suspend))
                        .await?;
                    if let Err(reason) = edited {
                        self.app.notify(reason);
                    }
                }
                Effect::Page(text) => {
                    let paged =
                        self.with_terminal_released(move |host, suspend| host.page(&text, suspend)).await?;
                    if let Err(reason) = paged {
                        self.app.notify(reason);
                    }
                }
                Effect::WriteConfig => match self.run_blocking(|host| host.write_config()).await? {
                    Ok(_) if self.app.welcome.is_some() => return Ok(Some(TuiExit::Reload)),
                    Ok(path) => self.app.notify(format!("wrote {path}: the next session uses it")),
                    Err(reason) => self.app.notify(reason),
                },
                Effect::Undo(run) => {
                    let done = self.run_blocking(move |host| host.undo(&run)).await?;
                    self.app.notify(done.unwrap_or_else(|reason| reason));
                    self.app.find_undone_changes();
                }
                Effect::RemoveSession(id) => {
                    let removed = id.clone();
                    let result = self.run_blocking(move |host| host.remove_session(&removed)).await?;
                    self.app.session_removed(&id, result);
                }
                Effect::Bell => {
                    let mut out = io::stdout();
                    out.write_all(b"\x07")?;
                    out.flush()?;
                }
                Effect::Notify(text) => {
                    if let Some(how) = self.app.options.notifications {
                        let mut out = io::stdout();
                        out.write_all(notification(how, &text).as_bytes())?;
                        out.flush()?;
                    }
                    self.notify_user(&text);
                }
                Effect::NotifyUser(text) => self.notify_user(&text),
                Effect::Say(text) => self.app.notify(text),
                Effect::Mouse(on) => self.guard.set_mouse(on)?,
                Effect::Suspend => self.suspend().await?,
                Effect::Redraw => self.clear_and_redraw()?,
                Effect::Leave(exit) => return Ok(Some(exit)),
            }
            self.dirty = true;
        }
        Ok(None)
    }

    fn notify_user(&mut self, text: &str) {
        if let Err(reason) = self.host.notify_user(text) {
            self.app.notify(reason);
        }
    }

    /// Copies a text through tmux, if the screen is in tmux, or asks the terminal to copy it; and says what was copied.
    /// The copy contains no control sequences: they would act in the terminal where the user pastes the text.
    async fn copy(&mut self, text: String) -> io::Result<()> {
        let text = sanitize::output(&text).into_owned();
        let whole = text.clone();
        let done = match self.run_blocking(move |host| host.copy(&whole)).await? {
            Some(Ok(())) => "copied, also to tmux's buffer".to_owned(),
            by_tmux => {
                let (sequence, what) = clipboard(&text);
                let mut out = io::stdout();
                out.write_all(sequence.as_bytes())?;
                out.flush()?;
                match by_tmux {
                    Some(Err(reason)) => format!("{what} (tmux did not copy: {reason})"),
                    _ => what,
                }
            }
        };
        self.app.notify(done);
        Ok(())
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn TuiHost) -> T + Send + 'static,
    ) -> io::Result<T> {
        let host = Arc::clone(&self.host);
        tokio::task::spawn_blocking(move || work(&*host)).await.map_err(io::Error::other)
    }

    /// Clears the terminal and draws everything again. Does not ask the terminal for the cursor position, because its
    /// reply would mix with the keys.
    fn clear_and_redraw(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        (self.last_frame, self.last_key_frame, self.dirty) = (None, None, true);
        Ok(())
    }
}
