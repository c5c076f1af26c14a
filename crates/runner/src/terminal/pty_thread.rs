//! The thread of one terminal: reads the program's output, updates the screen, types input and reports events. A
//! flood in one terminal delays neither the session nor other terminals.

use super::Terminal;
use super::limits::{
    BATCH, FLOOD, FLOOD_WAIT, FLOOD_WINDOW, MAX_REPORTED_CLEAN, MAX_REPORTED_RAW, QUESTION_DRAWN_WITHIN,
    QUESTION_GONE_AFTER, READ_AFTER_QUIET, READ_AT_LEAST_EVERY, SCREEN_REPORT_INTERVAL, SETTLE_AFTER_QUIET,
    SETTLE_AT_LEAST_EVERY,
};
use super::prompt::PromptTyper;
use super::pty::PtyRead;
use super::screen_reader::{ScreenReader, ScreenState};
use super::turn::TurnWatch;
use super::wait_detector::WaitDetector;
use crate::program::{RawOutputFile, ReportedTroubles};
use althing_protocol::{Ask, Item, ProgramReport, ReportSink};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) struct PtyThread {
    terminal: Arc<Terminal>,
    woken: OwnedFd,
    reader: ScreenReader,
    prompt: Option<PromptTyper>,
    doubtful: Option<PromptTyper>,
    prompt_text: String,
    reports: ReportSink,
    raw: RawOutputFile,
    buffer: Vec<u8>,
    closed: bool,
    state: ScreenState,
    by_patterns: ScreenState,
    waits: WaitDetector,
    turn: TurnWatch,
    question_gone_since: Option<Instant>,
    blocked_undrawn_since: Option<Instant>,
    asked: bool,
    /// The adapter's name, for notices.
    name: String,
    troubles: ReportedTroubles,
    times: PtyTimes,
    raw_left: usize,
    clean_left: usize,
}

pub(super) struct PtyEnd {
    pub(super) history: String,
    pub(super) is_unasked: bool,
}

#[derive(Debug, Default)]
struct PtyTimes {
    unread_since: Option<Instant>,
    unsettled_since: Option<Instant>,
    last_output: Option<Instant>,
    screen_reported_at: Option<Instant>,
    screen_unreported: bool,
    flood_window_start: Option<Instant>,
    bytes_in_window: usize,
}

impl PtyThread {
    pub(super) fn new(
        terminal: Arc<Terminal>,
        woken: OwnedFd,
        (reader, waits, turn): (ScreenReader, WaitDetector, TurnWatch),
        (prompt, prompt_text): (Option<PromptTyper>, String),
        (reports, name): (ReportSink, String),
        raw: RawOutputFile,
    ) -> Self {
        Self {
            terminal,
            woken,
            reader,
            prompt,
            doubtful: None,
            prompt_text,
            reports,
            raw,
            buffer: vec![0; BATCH],
            closed: false,
            state: ScreenState::Unknown,
            by_patterns: ScreenState::Unknown,
            waits,
            turn,
            question_gone_since: None,
            blocked_undrawn_since: None,
            asked: false,
            name,
            troubles: ReportedTroubles::default(),
            times: PtyTimes::default(),
            raw_left: MAX_REPORTED_RAW,
            clean_left: MAX_REPORTED_CLEAN,
        }
    }

    pub(super) fn run(mut self) -> PtyEnd {
        loop {
            self.wait();
            if !self.closed {
                self.read_output();
            }
            let now = Instant::now();
            self.read_screen(now);
            self.type_prompt(now);
            self.type_answer(now);
            self.terminal.type_leaving(now);
            if self.terminal.has_pending() {
                self.waits.stirred(now);
            }
            let typed = self.terminal.write_pending();
            self.report_prompt(typed, now);
            self.report_screen(now);
            if self.terminal.is_over(self.closed, now) {
                return self.finish();
            }
        }
    }

    fn wait(&self) {
        let now = Instant::now();
        let due = [
            self.times.unread_since.map(|since| self.read_due(since)),
            self.times.unsettled_since.map(|since| self.settle_due(since)),
            self.question_gone_since.map(|since| since + QUESTION_GONE_AFTER),
            self.blocked_undrawn_since.map(|since| since + QUESTION_DRAWN_WITHIN),
            self.prompt.as_ref().and_then(PromptTyper::due),
            self.terminal.answer_due(),
            self.terminal.leaving_due(),
            self.waits.due().filter(|_| !self.closed),
            self.turn.due().filter(|_| !self.closed),
            self.times
                .screen_unreported
                .then(|| self.times.screen_reported_at.map_or(now, |at| at + SCREEN_REPORT_INTERVAL)),
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
        // If the wait is interrupted, the loop only runs a little early.
        let _ = poll(&mut fds, wait.map(timespec).as_ref());
        let mut bytes = [0; 64];
        while matches!(rustix::io::read(&self.woken, &mut bytes), Ok(1..)) {}
    }

    fn read_due(&self, since: Instant) -> Instant {
        self.times
            .last_output
            .map_or(since, |last| (last + READ_AFTER_QUIET).min(since + READ_AT_LEAST_EVERY))
    }

    fn settle_due(&self, since: Instant) -> Instant {
        self.times
            .last_output
            .map_or(since, |last| (last + SETTLE_AFTER_QUIET).min(since + SETTLE_AT_LEAST_EVERY))
    }

    /// Reads the available output, and during a flood also the output that follows within a few milliseconds, and
    /// draws it.
    fn read_output(&mut self) {
        let begin = Instant::now();
        let mut length = 0;
        while let Some(room) = self.buffer.get_mut(length..).filter(|room| !room.is_empty()) {
            match self.terminal.pty.read(room) {
                PtyRead::Bytes(more) => length += more,
                PtyRead::Nothing => {
                    let left = FLOOD_WAIT.saturating_sub(begin.elapsed());
                    if length == 0 || left.is_zero() || self.times.bytes_in_window + length < FLOOD {
                        break;
                    }
                    let mut fds = [PollFd::from_borrowed_fd(self.terminal.pty.as_fd(), PollFlags::IN)];
                    let _ = poll(&mut fds, Some(&timespec(left)));
                }
                PtyRead::End => {
                    self.closed = true;
                    break;
                }
            }
        }
        if length > 0 {
            let now = Instant::now();
            self.times.record_read(now, length);
            self.waits.stirred(now);
            self.draw(length);
        }
    }

    fn draw(&mut self, length: usize) {
        let bytes = self.buffer.get(..length).unwrap_or_default();
        self.raw.push(bytes);
        let output = self.terminal.model().feed(bytes);
        self.terminal.queue_input(&output.answers);
        let raw = bytes.get(..length.min(self.raw_left)).unwrap_or_default().to_vec();
        self.raw_left -= raw.len();
        self.report_output(raw, output.clean);
    }

    fn report_output(&mut self, raw: Vec<u8>, mut clean: String) {
        if clean.len() > self.clean_left {
            clean.truncate(clean.floor_char_boundary(self.clean_left));
        }
        self.clean_left -= clean.len();
        if !raw.is_empty() || !clean.is_empty() {
            (self.reports)(ProgramReport::Output { raw, clean });
        }
    }

    /// Tells the user once what the program says about its model service. A program that repeats its request may
    /// remove the text from its screen meanwhile.
    fn report_trouble(&mut self, trouble: Option<String>) {
        self.turn.see_trouble(trouble.as_deref());
        if let Some(notice) = trouble.and_then(|trouble| self.troubles.notice(&self.name, trouble)) {
            (self.reports)(ProgramReport::Notice(notice));
        }
    }

    /// Reads the screen as soon as it has stopped changing, and at intervals while it keeps changing.
    fn read_screen(&mut self, now: Instant) {
        let is_answered = self.terminal.has_due_answer(now);
        if self.times.unread_since.is_some_and(|since| is_answered || now >= self.read_due(since)) {
            self.times.unread_since = None;
            let (by_patterns, is_reported, trouble) = {
                let model = self.terminal.model();
                let trouble = self.reader.trouble(&model);
                (self.reader.read(&model), model.emulator.status().is_some(), trouble)
            };
            self.report_trouble(trouble);
            self.by_patterns = by_patterns.clone();
            self.resolve_doubt();
            let view = || self.terminal.model().emulator.cursor_view();
            let state = self.waits.drawn(by_patterns, is_reported, &view, &self.terminal.pty);
            self.state = self.turn.state(state, now);
            self.update_question(now);
        } else if self.turn.due().is_some_and(|due| now >= due) && !self.closed {
            self.state = self.turn.state(self.by_patterns.clone(), now);
            self.update_question(now);
        } else if self.waits.due().is_some_and(|due| now >= due) && !self.closed {
            self.look_for_waiting(now);
        } else if self.question_gone_since.is_some()
            || self.blocked_undrawn_since.is_some()
            || self.terminal.answer_was_ignored(now)
        {
            self.update_question(now);
        }
        if self.times.unsettled_since.is_some_and(|since| now >= self.settle_due(since)) {
            self.times.unsettled_since = None;
            let clean = {
                let mut model = self.terminal.model();
                let model = &mut *model;
                model.transcript.at_rest(&model.emulator)
            };
            self.report_output(Vec::new(), clean);
        }
    }

    fn resolve_doubt(&mut self) {
        match self.by_patterns {
            ScreenState::Unknown => {}
            ScreenState::Busy | ScreenState::Asks(_) => self.doubtful = None,
            ScreenState::Ready => {
                let is_lost = |prompt: &PromptTyper| prompt.occurrences(&self.terminal.model().text()) == 0;
                if let Some(prompt) = self.doubtful.take().filter(is_lost) {
                    self.prompt = Some(prompt);
                }
            }
        }
    }

    fn look_for_waiting(&mut self, now: Instant) {
        let view = || self.terminal.model().emulator.cursor_view();
        let prompt_is_due = self.prompt.is_some();
        let state = self.waits.look(&self.by_patterns, &view, &self.terminal.pty, prompt_is_due, now);
        if let Some(state) = state {
            self.state = state;
        }
        self.update_question(now);
    }

    fn update_question(&mut self, now: Instant) {
        if let ScreenState::Asks(question) = &self.state {
            self.question_gone_since = None;
            if !question.drawn && now < *self.blocked_undrawn_since.get_or_insert(now) + QUESTION_DRAWN_WITHIN
            {
                return;
            }
            self.blocked_undrawn_since = None;
            if let Some(native) = self.terminal.ask(question, now) {
                self.asked = true;
                let options: Vec<_> = question.answers.iter().map(|(option, _)| option.clone()).collect();
                let native = (!options.is_empty()).then_some(native);
                let ask = Ask { about: question.about, text: question.text.clone(), options, native };
                (self.reports)(ProgramReport::Waiting(ask));
            }
            return;
        }
        self.blocked_undrawn_since = None;
        if self.asked {
            // A half-drawn screen may also lack the dialog, so the question must be absent for a while.
            let since = *self.question_gone_since.get_or_insert(now);
            if now >= since + QUESTION_GONE_AFTER {
                self.report_moved_on();
            }
        }
    }

    fn report_moved_on(&mut self) {
        (self.asked, self.question_gone_since) = (false, None);
        self.terminal.clear_question();
        (self.reports)(ProgramReport::MovedOn);
    }

    fn type_prompt(&mut self, now: Instant) {
        let Some(prompt) = &mut self.prompt else { return };
        // A state that was read before the latest output is outdated; only a question is assumed to be still there.
        let stale = self.times.unread_since.is_some() && !matches!(self.state, ScreenState::Asks(_));
        if stale {
            prompt.delay_return(now);
        }
        let state = if stale { &ScreenState::Unknown } else { &self.state };
        let brackets = self.terminal.model().emulator.bracketed_paste();
        let screen = || self.terminal.model().text();
        if let Some(bytes) = prompt.step(state, &screen, brackets, now) {
            self.terminal.queue_input(&bytes);
        }
    }

    /// Types an answer only while the screen, read after the last output, shows the question that it is for.
    fn type_answer(&mut self, now: Instant) {
        if !self.terminal.has_due_answer(now) {
            return;
        }
        match &self.state {
            ScreenState::Asks(question) if self.times.unread_since.is_none() => {
                self.terminal.type_due_answer(question, now);
            }
            // If the question stays away, it is reported as gone, which drops the answer.
            _ => self.terminal.delay_answer(now),
        }
    }

    /// Reports the prompt as sent once the terminal accepted all of it; not again if it is typed a second time.
    fn report_prompt(&mut self, all_taken: bool, now: Instant) {
        if let Some(prompt) = self.prompt.take_if(|prompt| all_taken && prompt.is_typed()) {
            self.doubtful = prompt.again(now);
            let text = std::mem::take(&mut self.prompt_text);
            if !text.is_empty() {
                (self.reports)(ProgramReport::Item(Item::PromptSent { text, error: None }));
            }
            self.turn.prompt_sent();
        }
    }

    fn report_screen(&mut self, now: Instant) {
        if self.times.screen_unreported
            && self.times.screen_reported_at.is_none_or(|at| now >= at + SCREEN_REPORT_INTERVAL)
        {
            self.times.screen_unreported = false;
            self.times.screen_reported_at = Some(now);
            (self.reports)(ProgramReport::ScreenChanged);
        }
    }

    fn finish(mut self) -> PtyEnd {
        let (clean, history) = {
            let mut model = self.terminal.model();
            let model = &mut *model;
            let clean = model.transcript.at_end(&model.emulator);
            let lines: Vec<&str> = model.transcript.lines().collect();
            (clean, lines.join("\n"))
        };
        self.report_output(Vec::new(), clean);
        self.raw.finish();
        if self.asked {
            self.report_moved_on();
        }
        let untyped = self.prompt.take();
        if untyped.is_some() && !self.prompt_text.is_empty() {
            let error = Some("the program ended before the prompt was typed".to_owned());
            let text = std::mem::take(&mut self.prompt_text);
            (self.reports)(ProgramReport::Item(Item::PromptSent { text, error }));
        }
        if let Some(id) = self.reader.conversation(&history) {
            (self.reports)(ProgramReport::Item(Item::Conversation { id }));
        }
        (self.reports)(ProgramReport::ScreenChanged);
        let is_unasked = untyped.is_some_and(|prompt| !prompt.is_begun());
        PtyEnd { history, is_unasked }
    }
}

impl PtyTimes {
    fn record_read(&mut self, now: Instant, bytes: usize) {
        self.unread_since.get_or_insert(now);
        self.unsettled_since.get_or_insert(now);
        self.screen_unreported = true;
        let was_quiet = self.last_output.is_none_or(|last| now >= last + FLOOD_WINDOW);
        if was_quiet || self.flood_window_start.is_none_or(|start| now >= start + FLOOD_WINDOW) {
            self.bytes_in_window = 0;
            self.flood_window_start = Some(now);
        }
        self.bytes_in_window += bytes;
        self.last_output = Some(now);
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos().saturating_add(999_999).min(999_999_999)),
    }
}
