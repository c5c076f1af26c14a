//! The event loop: keys and feed items in, ops and frames out.
//!
//! At most sixty frames per second, none if nothing changed, and no wake-up when idle.

use crate::app::{App, Effect};
use crate::outside::{TuiExit, TuiHost, TuiOptions};
use crate::plain;
use crate::terminal::{TerminalGuard, broken, clipboard, panicked};
use althing_protocol::{Engine, FeedItem, Interest, JournalError, Origin, Seq, Submission};
use crossterm::event::{Event as TerminalEvent, EventStream};
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use crossterm::{execute, queue};
use futures_util::StreamExt;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Minimum time between two frames that respond to keys.
const FRAME: Duration = Duration::from_micros(16_667);
/// Minimum time before a frame that does not respond to a key. Twice as long, so that a key can be answered at once
/// while agents stream, with at most 60 frames per second in total.
const UNASKED: Duration = Duration::from_micros(33_334);

/// How often clocks on the screen are updated.
const TICK: Duration = Duration::from_secs(1);

/// Limit on items folded between two frames, so that a long history does not delay keys.
const MOST_AT_ONCE: usize = 4096;

type Fed = Result<FeedItem, JournalError>;

/// Shows a session until the user leaves it or it is stopped.
pub async fn run(
    engine: Arc<dyn Engine>,
    options: TuiOptions,
    outside: Arc<dyn TuiHost>,
) -> io::Result<TuiExit> {
    if options.plain {
        return plain::run(engine, options, outside).await;
    }
    let guard = TerminalGuard::take()?;
    let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let app = App::new(options, Arc::clone(&outside));
    let mut screen = Loop {
        engine,
        outside,
        app,
        guard,
        terminal,
        keys: Keys::listen(),
        dirty: true,
        drawn: None,
        pressed: false,
        answered: None,
        signals: Signals::listen()?,
    };
    let result = screen.run().await;
    screen.guard.lend();
    result
}

/// Reads the feed in a separate task, because reading is not cancel-safe.
pub(crate) fn follow(
    engine: &Arc<dyn Engine>,
    outside: &Arc<dyn TuiHost>,
) -> (mpsc::Receiver<Fed>, tokio::task::JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel(MOST_AT_ONCE);
    let mut stream = engine.subscribe(Seq(0), Interest::Everything);
    let outside = Arc::clone(outside);
    let pump = tokio::spawn(async move {
        while let Some(item) = stream.next().await {
            outside.failpoint("feed");
            if sender.send(item).await.is_err() {
                break;
            }
        }
    });
    (receiver, pump)
}

/// Signals that end or suspend the screen.
pub(crate) struct Signals {
    term: Signal,
    hup: Signal,
    int: Signal,
    stop: Signal,
}

pub(crate) enum Signalled {
    End,
    Stop,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            hup: signal(SignalKind::hangup())?,
            int: signal(SignalKind::interrupt())?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
        })
    }

    pub(crate) async fn next(&mut self) -> Signalled {
        tokio::select! {
            _ = self.term.recv() => Signalled::End,
            _ = self.hup.recv() => Signalled::End,
            _ = self.int.recv() => Signalled::End,
            _ = self.stop.recv() => Signalled::Stop,
        }
    }
}

/// Reads terminal events in a separate task, because crossterm's stream must always be polled from the same task.
struct Keys {
    receiver: mpsc::Receiver<io::Result<TerminalEvent>>,
    pump: tokio::task::JoinHandle<()>,
}

impl Keys {
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

    /// Stops reading keys, because another program reads them now.
    async fn stop(&mut self) {
        self.pump.abort();
        let _ = (&mut self.pump).await;
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

struct Loop {
    engine: Arc<dyn Engine>,
    outside: Arc<dyn TuiHost>,
    app: App,
    guard: TerminalGuard,
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
    keys: Keys,
    dirty: bool,
    drawn: Option<Instant>,
    /// Whether a key was pressed since the last frame that responded to one, and when that frame was drawn.
    pressed: bool,
    answered: Option<Instant>,
    signals: Signals,
}

enum Woken {
    Key(Option<io::Result<TerminalEvent>>),
    Feed(Option<Fed>),
    Frame,
    Tick,
    /// An action of the screen is due.
    Due,
    Signal(Signalled),
}

impl Loop {
    async fn run(&mut self) -> io::Result<TuiExit> {
        let (mut feed, pump) = follow(&self.engine, &self.outside);
        let mut live = true;
        let first = self.app.take_effects();
        if let Some(exit) = self.carry_out(first).await? {
            return Ok(exit);
        }
        let result = loop {
            if !self.guard.is_taken() {
                break Err(broken());
            }
            if self.dirty && self.due() <= Instant::now() {
                self.draw()?;
            }
            let woken = self.wait(&mut feed, live).await;
            let effects = match woken {
                Woken::Key(None) => break Ok(TuiExit::Stopped),
                Woken::Key(Some(event)) => self.on_keys(&event?),
                Woken::Feed(None) => {
                    live = false;
                    self.dirty = true;
                    self.app.sync();
                    Vec::new()
                }
                Woken::Feed(Some(item)) => self.on_feed(item, &mut feed),
                Woken::Frame => Vec::new(),
                Woken::Tick => {
                    self.dirty = true;
                    Vec::new()
                }
                Woken::Due => {
                    self.dirty = true;
                    self.app.wake(self.outside.now())
                }
                Woken::Signal(Signalled::End) => break Ok(TuiExit::Stopped),
                Woken::Signal(Signalled::Stop) => vec![Effect::Suspend],
            };
            if let Some(exit) = self.carry_out(effects).await? {
                break Ok(exit);
            }
        };
        pump.abort();
        result
    }

    async fn wait(&mut self, feed: &mut mpsc::Receiver<Fed>, live: bool) -> Woken {
        let ticking = self.app.is_ticking() && !self.app.options.replay;
        let (due, dirty) = (self.due(), self.dirty);
        let wake = self.app.due().map(|due| due.since(self.outside.now()).duration());
        tokio::select! {
            biased;
            event = self.keys.receiver.recv() => Woken::Key(event),
            signal = self.signals.next() => Woken::Signal(signal),
            () = panicked() => Woken::Frame,
            () = tokio::time::sleep_until(due), if dirty => Woken::Frame,
            () = tokio::time::sleep(wake.unwrap_or_default()), if wake.is_some() => Woken::Due,
            item = feed.recv(), if live => Woken::Feed(item),
            () = tokio::time::sleep(TICK), if ticking => Woken::Tick,
        }
    }

    /// The earliest time of the next frame.
    fn due(&self) -> Instant {
        let (last, pause) = match (self.pressed, self.app.attached_task()) {
            (true, _) => (self.answered, FRAME),
            // An attached program responds to the keys, and its output arrives through the feed.
            (false, Some(_)) => (self.drawn, FRAME),
            (false, None) => (self.drawn, UNASKED),
        };
        last.map_or_else(Instant::now, |last| last + pause)
    }

    fn draw(&mut self) -> io::Result<()> {
        let now = if self.app.options.replay { self.app.model.at } else { self.outside.now() };
        self.app.tick(now);
        if let Some(task) = self.app.attached_task().cloned() {
            self.app.show_attached(self.engine.screen(&task));
        }
        let (app, outside) = (&mut self.app, &self.outside);
        queue!(io::stdout(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| {
            outside.failpoint("view");
            if let Some(position) = app.draw(frame.buffer_mut()) {
                frame.set_cursor_position(position);
            }
        })?;
        execute!(io::stdout(), EndSynchronizedUpdate)?;
        self.drawn = Some(Instant::now());
        if std::mem::take(&mut self.pressed) {
            self.answered = self.drawn;
        }
        self.dirty = false;
        Ok(())
    }

    fn on_keys(&mut self, first: &TerminalEvent) -> Vec<Effect> {
        self.outside.failpoint("keys");
        let now = self.outside.now();
        let mut effects = self.app.handle(first, now);
        // Handle all available keys before the next frame.
        while effects.is_empty() {
            let Ok(Ok(event)) = self.keys.receiver.try_recv() else { break };
            effects.extend(self.app.handle(&event, now));
        }
        self.dirty = true;
        self.pressed = self.app.attached_task().is_none();
        effects
    }

    fn on_feed(&mut self, first: Fed, feed: &mut mpsc::Receiver<Fed>) -> Vec<Effect> {
        let mut next = Some(first);
        let mut count = 0;
        while let Some(item) = next {
            self.outside.failpoint("update");
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

    async fn carry_out(&mut self, effects: Vec<Effect>) -> io::Result<Option<TuiExit>> {
        for effect in effects {
            match effect {
                Effect::Submit(op) => {
                    if !self.engine.submit(Submission::new(op, Origin::User)) {
                        self.app.notify("the session has ended: nothing more can be asked of it".into());
                    }
                }
                Effect::Copy(text) => {
                    let mut out = io::stdout();
                    out.write_all(clipboard(&text).as_bytes())?;
                    out.flush()?;
                }
                Effect::EditInput => {
                    let text = self.app.input.text().to_owned();
                    let edited = self.lent(move |outside| outside.edit(&text)).await?;
                    self.app.edited(edited);
                }
                Effect::EditPlan(plan) => {
                    if let Err(reason) = self.lent(move |outside| outside.edit_plan(&plan)).await? {
                        self.app.notify(reason);
                    }
                }
                Effect::Page(text) => {
                    if let Err(reason) = self.lent(move |outside| outside.page(&text)).await? {
                        self.app.notify(reason);
                    }
                }
                Effect::WriteConfig => match self.aside(|outside| outside.write_config()).await? {
                    Ok(_) if self.app.welcome.is_some() => return Ok(Some(TuiExit::Reload)),
                    Ok(path) => self.app.notify(format!("wrote {path}: the next session uses it")),
                    Err(reason) => self.app.notify(reason),
                },
                Effect::Undo(run) => {
                    let done = self.aside(move |outside| outside.undo(run.as_ref())).await?;
                    self.app.notify(done.unwrap_or_else(|reason| reason));
                }
                Effect::Bell => {
                    let mut out = io::stdout();
                    out.write_all(b"\x07")?;
                    out.flush()?;
                }
                Effect::Suspend => self.suspend().await?,
                Effect::Redraw => self.start_over()?,
                Effect::Leave(exit) => return Ok(Some(exit)),
            }
            self.dirty = true;
        }
        Ok(None)
    }

    /// Hands the terminal over to another program while it runs.
    async fn lent<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&dyn TuiHost) -> T + Send + 'static,
    ) -> io::Result<T> {
        self.keys.stop().await;
        self.guard.lend();
        let done = self.aside(work).await;
        self.guard.retake()?;
        self.keys = Keys::listen();
        self.start_over()?;
        done
    }

    /// Runs blocking work on a separate thread.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn TuiHost) -> T + Send + 'static,
    ) -> io::Result<T> {
        let outside = Arc::clone(&self.outside);
        tokio::task::spawn_blocking(move || work(&*outside)).await.map_err(io::Error::other)
    }

    /// Suspends the process as Ctrl+Z does, and restores the screen afterwards.
    async fn suspend(&mut self) -> io::Result<()> {
        self.keys.stop().await;
        self.guard.lend();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
        self.guard.retake()?;
        self.keys = Keys::listen();
        self.start_over()
    }

    /// Clears the screen and redraws. The terminal is not queried, because its response would mix with the keys.
    fn start_over(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        (self.drawn, self.answered, self.dirty) = (None, None, true);
        Ok(())
    }
}
