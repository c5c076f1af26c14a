//! Keeps one terminal: reads it, draws it, types into it, and tells what happens, on a thread of its own.
//!
//! A thread, so that a flood in one terminal costs neither the session nor the other terminals their turn. It never
//! waits without a limit, holds the model only while it draws, and ends by itself when the program's end is known.

use super::Terminal;
use super::limits::{
    BATCH, CALM, CLEAN_KEPT, DRAWN_EVERY, FLOOD, FLOOD_WAIT, GONE_FOR, LOOK_AFTER, LOOK_EVERY, RAW_KEPT,
    REST_AFTER, REST_EVERY, SHOWN_WITHIN,
};
use super::prompt::Prompt;
use super::pty::Got;
use super::reader::{Reader, Sight};
use crate::program::RawFile;
use althing_protocol::{Ask, Item, ProgramReport, ReportSink};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One terminal being kept.
pub(super) struct Keeper {
    terminal: Arc<Terminal>,
    /// Becomes readable when somebody wants something.
    woken: OwnedFd,
    reader: Reader,
    prompt: Option<Prompt>,
    /// The prompt as it was given, for the log.
    words: String,
    reports: ReportSink,
    raw: RawFile,
    buffer: Vec<u8>,
    /// Nobody holds the other end any more.
    closed: bool,
    sight: Sight,
    /// Since when the question that was told is not seen any more.
    gone: Option<Instant>,
    /// Since when it says that it waits, without showing for what.
    unshown: Option<Instant>,
    asked: bool,
    times: Times,
    /// How much of its output may still be told.
    raw_left: usize,
    clean_left: usize,
}

/// When what happened last, as far as it has not been dealt with.
#[derive(Debug, Default)]
struct Times {
    /// Since when there is output that was not looked at.
    unseen: Option<Instant>,
    /// Since when there is output at whose end the program has not rested.
    restless: Option<Instant>,
    last_output: Option<Instant>,
    drawn: Option<Instant>,
    undrawn: bool,
    /// The last moment of calm, and how much came since.
    calm: Option<Instant>,
    since_calm: usize,
}

impl Keeper {
    pub(super) fn new(
        terminal: Arc<Terminal>,
        woken: OwnedFd,
        reader: Reader,
        (prompt, words): (Option<Prompt>, String),
        reports: ReportSink,
        raw: RawFile,
    ) -> Self {
        Self {
            terminal,
            woken,
            reader,
            prompt,
            words,
            reports,
            raw,
            buffer: vec![0; BATCH],
            closed: false,
            sight: Sight::Unknown,
            gone: None,
            unshown: None,
            asked: false,
            times: Times::default(),
            raw_left: RAW_KEPT,
            clean_left: CLEAN_KEPT,
        }
    }

    /// Keeps the terminal until the program's end; gives its last words.
    pub(super) fn run(mut self) -> String {
        loop {
            self.wait();
            if !self.closed {
                self.take_in();
            }
            let now = Instant::now();
            self.look(now);
            self.type_prompt(now);
            self.terminal.type_answer(now);
            let typed = self.terminal.type_pending();
            self.tell_prompt(typed);
            self.tell_screen(now);
            if self.terminal.is_over(self.closed, now) {
                return self.finish();
            }
        }
    }

    /// Waits for output, for somebody's wish, or for the next thing that is due.
    fn wait(&self) {
        let now = Instant::now();
        let due = [
            self.times.unseen.map(|since| self.look_due(since)),
            self.times.restless.map(|since| self.rest_due(since)),
            self.gone.map(|since| since + GONE_FOR),
            self.unshown.map(|since| since + SHOWN_WITHIN),
            self.prompt.as_ref().and_then(Prompt::due),
            self.terminal.answer_due(),
            self.times.undrawn.then(|| self.times.drawn.map_or(now, |at| at + DRAWN_EVERY)),
            self.terminal.deadline(),
        ];
        let wait = due.into_iter().flatten().min().map(|at| at.saturating_duration_since(now));
        let mut wanted = PollFlags::IN;
        if self.terminal.has_pending() {
            wanted |= PollFlags::OUT;
        }
        let mut fds = vec![PollFd::from_borrowed_fd(self.woken.as_fd(), PollFlags::IN)];
        if !self.closed {
            fds.push(PollFd::from_borrowed_fd(self.terminal.pty.as_fd(), wanted));
        }
        // An interrupted wait only looks a little early.
        let _ = poll(&mut fds, wait.map(timespec).as_ref());
        let mut bytes = [0; 64];
        while matches!(rustix::io::read(&self.woken, &mut bytes), Ok(1..)) {}
    }

    fn look_due(&self, since: Instant) -> Instant {
        self.times.last_output.map_or(since, |last| (last + LOOK_AFTER).min(since + LOOK_EVERY))
    }

    fn rest_due(&self, since: Instant) -> Instant {
        self.times.last_output.map_or(since, |last| (last + REST_AFTER).min(since + REST_EVERY))
    }

    /// Reads what is there, in a flood as much as comes in a moment, and draws it.
    fn take_in(&mut self) {
        let begin = Instant::now();
        let mut length = 0;
        while let Some(room) = self.buffer.get_mut(length..).filter(|room| !room.is_empty()) {
            match self.terminal.pty.read(room) {
                Got::Bytes(more) => length += more,
                Got::Nothing => {
                    let left = FLOOD_WAIT.saturating_sub(begin.elapsed());
                    if length == 0 || left.is_zero() || self.times.since_calm + length < FLOOD {
                        break;
                    }
                    let mut fds = [PollFd::from_borrowed_fd(self.terminal.pty.as_fd(), PollFlags::IN)];
                    let _ = poll(&mut fds, Some(&timespec(left)));
                }
                Got::End => {
                    self.closed = true;
                    break;
                }
            }
        }
        if length > 0 {
            self.times.took(Instant::now(), length);
            self.draw(length);
        }
    }

    fn draw(&mut self, length: usize) {
        let bytes = self.buffer.get(..length).unwrap_or_default();
        self.raw.push(bytes);
        let taken = self.terminal.model().feed(bytes);
        self.terminal.type_in(&taken.answers);
        let raw = bytes.get(..length.min(self.raw_left)).unwrap_or_default().to_vec();
        self.raw_left -= raw.len();
        self.tell_output(raw, taken.clean);
    }

    fn tell_output(&mut self, raw: Vec<u8>, mut clean: String) {
        if clean.len() > self.clean_left {
            clean.truncate(clean.floor_char_boundary(self.clean_left));
        }
        self.clean_left -= clean.len();
        if !raw.is_empty() || !clean.is_empty() {
            (self.reports)(ProgramReport::Output { raw, clean });
        }
    }

    /// Looks at the screen once it holds still, or often enough where it does not.
    fn look(&mut self, now: Instant) {
        if self.times.unseen.is_some_and(|since| now >= self.look_due(since)) {
            self.times.unseen = None;
            self.sight = self.reader.read(&self.terminal.model());
            self.judge(now);
        } else if self.gone.is_some() || self.unshown.is_some() || self.terminal.is_unheard(now) {
            self.judge(now);
        }
        if self.times.restless.is_some_and(|since| now >= self.rest_due(since)) {
            self.times.restless = None;
            let clean = {
                let mut model = self.terminal.model();
                let model = &mut *model;
                model.transcript.at_rest(&model.emulator)
            };
            self.tell_output(Vec::new(), clean);
        }
    }

    /// Tells that the program waits, or that it does no more.
    fn judge(&mut self, now: Instant) {
        if let Sight::Asks(question) = &self.sight {
            self.gone = None;
            if !question.drawn && now < *self.unshown.get_or_insert(now) + SHOWN_WITHIN {
                return;
            }
            self.unshown = None;
            if let Some(native) = self.terminal.ask(question, now) {
                self.asked = true;
                let options: Vec<_> = question.answers.iter().map(|(option, _)| option.clone()).collect();
                let native = (!options.is_empty()).then_some(native);
                let ask = Ask { about: question.about, text: question.text.clone(), options, native };
                (self.reports)(ProgramReport::Waiting(ask));
            }
            return;
        }
        self.unshown = None;
        if self.asked {
            // A frame in the middle of being drawn has no dialog either.
            let since = *self.gone.get_or_insert(now);
            if now >= since + GONE_FOR {
                self.moved_on();
            }
        }
    }

    fn moved_on(&mut self) {
        (self.asked, self.gone) = (false, None);
        self.terminal.asks_no_more();
        (self.reports)(ProgramReport::MovedOn);
    }

    fn type_prompt(&mut self, now: Instant) {
        let Some(prompt) = &mut self.prompt else { return };
        // What was seen before a piece of output says nothing about what it shows now.
        let stale = self.times.unseen.is_some() && !matches!(self.sight, Sight::Asks(_));
        if stale {
            prompt.hold_return(now);
        }
        let sight = if stale { &Sight::Unknown } else { &self.sight };
        let brackets = self.terminal.model().emulator.bracketed_paste();
        let screen = || self.terminal.model().text();
        if let Some(bytes) = prompt.step(sight, &screen, brackets, now) {
            self.terminal.type_in(&bytes);
        }
    }

    /// Tells of the prompt once the terminal took all of it.
    fn tell_prompt(&mut self, all_taken: bool) {
        if all_taken && self.prompt.as_ref().is_some_and(Prompt::is_typed) {
            self.prompt = None;
            let text = std::mem::take(&mut self.words);
            (self.reports)(ProgramReport::Item(Item::PromptSent { text, error: None }));
        }
    }

    fn tell_screen(&mut self, now: Instant) {
        if self.times.undrawn && self.times.drawn.is_none_or(|at| now >= at + DRAWN_EVERY) {
            self.times.undrawn = false;
            self.times.drawn = Some(now);
            (self.reports)(ProgramReport::ScreenChanged);
        }
    }

    /// The program ended: whatever is left is told.
    fn finish(mut self) -> String {
        let (clean, words) = {
            let mut model = self.terminal.model();
            let model = &mut *model;
            let clean = model.transcript.at_end(&model.emulator);
            let lines: Vec<&str> = model.transcript.lines().collect();
            (clean, lines.join("\n"))
        };
        self.tell_output(Vec::new(), clean);
        self.raw.finish();
        if self.asked {
            self.moved_on();
        }
        if self.prompt.take().is_some() {
            let error = Some("the program ended before the prompt was typed".to_owned());
            let text = std::mem::take(&mut self.words);
            (self.reports)(ProgramReport::Item(Item::PromptSent { text, error }));
        }
        if let Some(id) = self.reader.conversation(&words) {
            (self.reports)(ProgramReport::Item(Item::Conversation { id }));
        }
        (self.reports)(ProgramReport::ScreenChanged);
        words
    }
}

impl Times {
    fn took(&mut self, now: Instant, bytes: usize) {
        self.unseen.get_or_insert(now);
        self.restless.get_or_insert(now);
        self.undrawn = true;
        let was_calm = self.last_output.is_none_or(|last| now >= last + CALM);
        if was_calm || self.calm.is_none_or(|calm| now >= calm + CALM) {
            self.since_calm = 0;
            self.calm = Some(now);
        }
        self.since_calm += bytes;
        self.last_output = Some(now);
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        // Rounded up, so that a wait does not end just before what it was for.
        tv_nsec: i64::from(duration.subsec_nanos().saturating_add(999_999).min(999_999_999)),
    }
}
