//! Writing and sending messages, and browsing the conversation.

use super::answer::wants_newline;
use super::letters::plain_letter;
use super::{App, Completion, ConfirmedAction, Effect, Modal, ModeToggle, TextReader, TuiScreen};
use crate::app::command::{self, SlashCommand};
use crate::host::TuiExit;
use crate::line;
use althing_protocol::{AgentMode, FileDiff, Op, Seq};
use althing_view::EntryBody;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

impl App {
    /// Enter in the input: completes a partial command, and executes a command or sends the message. In an empty input
    /// it keeps the winner of a vote that can be overridden; after a backslash it inserts a newline.
    pub(crate) fn enter(&mut self) {
        if let Some(completion) = self.completion.take() {
            // Enter completes only commands, not paths. An offer that does not begin with the typed text is taken only
            // if the user moved to it.
            let typed = self.input.text();
            if typed.starts_with('/')
                && !typed.contains(' ')
                && let Some((offer, _)) = completion.offers.get(completion.chosen)
            {
                if completion.moved || command::takes_by_itself(typed, offer) {
                    self.input.set(offer);
                } else if offer.starts_with(typed) && SlashCommand::named(typed).is_none() {
                    self.toast = Some(format!("write {offer} in full, or choose it with ↑↓ or tab"));
                    self.completion = Some(completion);
                    return;
                }
            }
        }
        if self.input.text().trim().is_empty() {
            self.input.take();
            if self.model.override_question().is_some() && !self.is_enter_left_over() {
                self.keep_winner();
            }
            return;
        }
        if self.input.before().ends_with('\\') {
            self.input.key(crate::editor::Motion::Backspace);
            self.input.insert("\n");
            return;
        }
        let text = self.input.take();
        self.recalled = None;
        if self.history.last() != Some(&text) {
            self.history.push(text.clone());
            self.host.remember(&text);
        }
        if let Some(line) = text.strip_prefix('/').filter(|_| self.is_command(&text)) {
            return self.command(line);
        }
        let message = text.strip_prefix('/').filter(|rest| rest.starts_with('/')).unwrap_or(&text);
        match self.resending.take() {
            Some(before) => self.leave(TuiExit::Branch { before, text: message.trim().to_owned() }),
            None => self.send_message(message),
        }
    }

    pub(crate) fn send_message(&mut self, text: &str) {
        self.welcome = None;
        self.touched = true;
        self.scroll.go_end();
        let modes = self.modes.choice();
        let (text, grants) = self.host.mentions(text.trim());
        self.submit(Op::SendMessage { text, modes, grants });
    }

    pub(crate) fn write_key(&mut self, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::BackTab => return self.toggle_mode(ModeToggle::Plan),
            KeyCode::Tab => return self.complete_or_browse(),
            KeyCode::Char('a') if alt => return self.toggle_mode(ModeToggle::Agents),
            KeyCode::Char('r') if alt => return self.toggle_mode(ModeToggle::Refine),
            KeyCode::Char(digit @ '1'..='9') if alt => {
                return self.choose_agent(digit as usize - '1' as usize);
            }
            KeyCode::Char('d') if control && self.input.is_empty() => return self.leave_by_key(),
            KeyCode::Char('d') if control => {
                self.input.key(crate::editor::Motion::Delete);
            }
            KeyCode::Char('x') if control => return self.effects.push(Effect::EditInput),
            KeyCode::Char('r') if control => return self.open_newest_run(),
            KeyCode::PageUp => return self.scroll.by(-self.page()),
            KeyCode::PageDown => return self.scroll.by(self.page()),
            KeyCode::Home if control => return self.scroll.go_top(),
            KeyCode::End if control => return self.scroll.go_end(),
            KeyCode::Delete if self.input.is_empty() => return self.unqueue(),
            KeyCode::Esc => {
                if self.esc_stops_reply() {
                    self.stop_reply();
                } else if self.completion.take().is_none() && !self.stop_resending() {
                    self.scroll.go_end();
                }
                return;
            }
            KeyCode::Up | KeyCode::Down if self.completion.is_some() => {
                return self.move_completion(key.code);
            }
            KeyCode::Up => {
                if !self.input.vertical(-1, self.input_width()) {
                    self.recall(-1);
                }
                return;
            }
            KeyCode::Down => {
                if !self.input.vertical(1, self.input_width()) {
                    self.recall(1);
                }
                return;
            }
            KeyCode::Enter if wants_newline(key) => self.input.insert("\n"),
            _ => {
                let width = self.input_width();
                super::keys::apply_editor_key(&mut self.input, key, width);
            }
        }
        self.update_completion();
    }

    pub(crate) fn input_width(&self) -> usize {
        let width = if self.is_split() { crate::view::split_width(self.size.width) } else { self.size.width };
        usize::from(crate::view::input_text_width(width)).max(2)
    }

    /// A pasted text may be somebody else's, and a long one is not shown, so a `@path` in it must not give access to the
    /// path: it gets a backslash, which the user can remove.
    fn without_grants(&mut self, text: &str) -> String {
        let text = crate::editor::without_controls(text);
        let grants = |word: &str| word.starts_with('@') && !self.host.mentions(word.trim_end()).1.is_empty();
        let words = text.split_inclusive(char::is_whitespace);
        let kept: String = words.flat_map(|word| [if grants(word) { "\\" } else { "" }, word]).collect();
        if kept != text {
            self.toast = Some("a pasted @path gives no access; without its \\ it does".into());
        }
        kept
    }

    pub(crate) fn on_paste(&mut self, text: &str) {
        if let Some(TuiScreen::Attached(task)) = self.screens.last() {
            let task = task.clone();
            let wrapped = self.attached.as_ref().is_some_and(|screen| screen.bracketed_paste);
            let bytes = crate::attach::paste(text, wrapped);
            return self.submit(Op::Input { task, bytes });
        }
        if let Some(Modal::Sessions(picker)) = &mut self.modal {
            return picker.paste(text);
        }
        let text = &self.without_grants(text);
        if let Some(field) = self.modal.as_mut().and_then(Modal::text_field) {
            return field.insert(text);
        }
        // Unless a text field of a dialog has the focus, pasted text goes to the input.
        self.type_pending_letter();
        self.browsing = false;
        self.panel_has_keys = false;
        self.input.paste(text);
        self.note_typed();
        // The dialog that is open gets no key that follows the paste at once.
        self.stray_key = Some((KeyCode::Null, self.now));
        self.completion = None;
    }

    fn recall(&mut self, step: isize) {
        let (at, draft) = match self.recalled.take() {
            Some(recalled) => recalled,
            None => (self.history.len(), self.input.whole()),
        };
        let Some(next) = at.checked_add_signed(step).filter(|next| *next <= self.history.len()) else {
            self.recalled = Some((at, draft));
            return;
        };
        match self.history.get(next) {
            Some(text) => {
                let text = text.clone();
                self.input.set(&text);
                self.recalled = Some((next, draft));
            }
            None => self.input.set(&draft),
        }
    }

    pub(crate) fn update_completion(&mut self) {
        let before = self.input.before();
        let from = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let word = before.get(from..).unwrap_or_default();
        let (offers, chosen) = if let Some(mention) = word.strip_prefix('@') {
            self.mention_offers(mention)
        } else if from == 0 && word.starts_with('/') && !word.is_empty() {
            (command::matching(word), 0)
        } else {
            (Vec::new(), 0)
        };
        let exact = offers.len() == 1 && offers.first().is_some_and(|(offer, _)| offer == word);
        self.completion =
            (!offers.is_empty() && !exact).then_some(Completion { from, offers, chosen, moved: false });
    }

    fn move_completion(&mut self, code: KeyCode) {
        if let Some(completion) = &mut self.completion {
            let count = completion.offers.len().max(1);
            let step = if code == KeyCode::Up { count - 1 } else { 1 };
            completion.chosen = (completion.chosen + step) % count;
            completion.moved = true;
        }
    }

    fn complete_or_browse(&mut self) {
        if let Some(completion) = self.completion.take() {
            if let Some((offer, _)) = completion.offers.get(completion.chosen) {
                let is_new = self.input.before().get(completion.from..) != Some(offer);
                self.input.complete(completion.from, offer);
                // After a path, completion continues inside the directory or with `:w`, so no space is added.
                if !offer.starts_with('@') {
                    self.input.insert(" ");
                } else if is_new {
                    self.update_completion();
                }
            }
            return;
        }
        if !self.model.entries.is_empty() {
            self.browsing = true;
            self.scroll.select(self.model.entries.len() - 1);
        }
    }

    /// Modes cannot be changed while agents work. Interactive mode cannot be toggled at all: a message says how the
    /// config changes it.
    pub(crate) fn toggle_mode(&mut self, word: ModeToggle) {
        if self.model.is_busy() {
            self.toast = Some("modes locked while agents work".into());
            return;
        }
        self.touched = true;
        match word {
            ModeToggle::Plan => self.modes.toggle_plan(),
            ModeToggle::Agents => {
                let team = self.team_ids();
                self.modes.toggle_agent_mode(&team);
            }
            ModeToggle::Refine => self.modes.toggle_refinement(),
            ModeToggle::Interactive => {
                let word = if self.modes.interactive_mode { "on" } else { "off" };
                self.toast = Some(format!(
                    "interactive mode is {word}: `orchestrator.interactive_mode.enabled` in the config changes it"
                ));
            }
        }
    }

    pub(crate) fn choose_agent(&mut self, member_index: usize) {
        if self.model.is_busy() {
            self.toast = Some("modes locked while agents work".into());
            return;
        }
        self.touched = true;
        if let Some(member) = self.model.team.get(member_index) {
            let id = member.id.clone();
            if self.modes.agent_mode == AgentMode::Multi {
                self.modes.selected_agent = Some(id.clone());
                let team = self.team_ids();
                self.modes.toggle_agent_mode(&team);
            }
            self.modes.select_agent(&id);
        }
    }

    /// In single-agent mode, this also selects the agent, unless agents are working.
    pub(crate) fn choose_tab(&mut self, tab: usize) {
        if let Some(TuiScreen::Run(screen)) = self.screens.last_mut() {
            screen.tab = tab;
        }
        if self.modes.agent_mode == AgentMode::Single
            && !self.model.is_busy()
            && let Some(agent) = self.shown_agent()
        {
            self.modes.select_agent(&agent);
        }
    }

    pub(crate) fn open_newest_run(&mut self) {
        match self.model.newest_run().map(|run| run.id.clone()) {
            Some(id) => self.open_run(&id),
            None => self.toast = Some("there is no run yet".into()),
        }
    }

    /// A key while the person goes through the conversation. Letters that act on the selected entry wait for the next
    /// key; every other letter begins a message.
    pub(crate) fn browse_key(&mut self, key: KeyEvent) {
        if self.is_stray_in_panel(key) {
            return;
        }
        let (at, last) = (self.selected_entry(), self.model.entries.len().saturating_sub(1));
        if let Some(letter @ ('a' | 'c' | 'd' | 'e' | 'o' | 'p' | 'u' | 'x')) = plain_letter(key) {
            return self.hold_entry_letter(letter, at);
        }
        match key.code {
            KeyCode::Up => self.scroll.select(at.saturating_sub(1)),
            KeyCode::Down if at == last => self.stop_browsing(),
            KeyCode::Down => self.scroll.select(at + 1),
            KeyCode::Home => self.scroll.select(0),
            KeyCode::End => self.scroll.select(last),
            KeyCode::PageUp => self.scroll.by(-self.page()),
            KeyCode::PageDown => self.scroll.by(self.page()),
            KeyCode::Enter => self.open_entry(at),
            KeyCode::Char('/') => self.start_find(),
            KeyCode::Char('n') if self.scroll.search_label().is_some() => self.find_again(1),
            KeyCode::Char('N') if self.scroll.search_label().is_some() => self.find_again(-1),
            KeyCode::Delete => self.unqueue(),
            KeyCode::Esc | KeyCode::Tab => self.stop_browsing(),
            KeyCode::BackTab => self.toggle_mode(ModeToggle::Plan),
            KeyCode::Char(_) => {
                self.stop_browsing();
                self.write_key(key);
            }
            _ => {}
        }
    }

    /// The selected entry of the conversation, or the last one.
    pub(crate) fn selected_entry(&self) -> usize {
        let last = self.model.entries.len().saturating_sub(1);
        self.scroll.selected.unwrap_or(last).min(last)
    }

    /// What a letter does with an entry of the conversation.
    pub(crate) fn entry_key(&mut self, letter: KeyCode, at: usize) {
        let run = match self.model.entries.get(at).map(|entry| &entry.body) {
            Some(EntryBody::Final(run) | EntryBody::Run(run)) => Some(run.clone()),
            _ => None,
        };
        match (letter, run) {
            (KeyCode::Char('c'), _) => {
                if let Some(text) = self.entry_text(at) {
                    self.copy(text);
                }
            }
            (KeyCode::Char('o'), _) => {
                if let Some(text) = self.entry_text(at) {
                    self.effects.push(Effect::Page(text));
                }
            }
            (KeyCode::Char('p'), _) => {
                if let Some(entry) = self.model.entries.get(at) {
                    self.submit(Op::Pin { message: Some(entry.seq) });
                }
            }
            (KeyCode::Char('e'), _) => self.edit_sent(at),
            (KeyCode::Char('x'), _) => self.cancel_entry(at),
            (KeyCode::Char('a'), _) => self.open_question(),
            (KeyCode::Char('d'), Some(run)) => self.run_diff(&run),
            (KeyCode::Char('u'), Some(run)) => self.confirm(ConfirmedAction::Undo(run)),
            _ => {}
        }
    }

    /// Empties the input. What was edited there or called back from the history is given up.
    pub(crate) fn clear_input(&mut self) {
        self.input.clear();
        (self.completion, self.resending, self.recalled) = (None, None, None);
    }

    /// Replaces what is in the input.
    pub(crate) fn put_into_input(&mut self, text: &str) {
        self.input.set(text);
        (self.completion, self.recalled) = (None, None);
    }

    pub(crate) fn stop_browsing(&mut self) {
        self.browsing = false;
        self.scroll.end_search();
        self.scroll.selected = None;
        self.scroll.go_end();
    }

    pub(crate) fn open_entry(&mut self, at: usize) {
        let Some(entry) = self.model.entries.get(at) else { return };
        match &entry.body {
            EntryBody::Run(id) | EntryBody::Final(id) => {
                let id = id.clone();
                self.open_run(&id);
            }
            EntryBody::Program(id) => {
                let id = id.clone();
                self.open_task(&id);
            }
            EntryBody::Tool { name, edits, .. } if !edits.is_empty() => {
                let lines = edits.iter().flat_map(FileDiff::lines).collect();
                let reader = TextReader::diff_lines(name, lines);
                self.open_reader(reader);
            }
            EntryBody::Tool { name, arguments, result, .. } => {
                let result = result.as_ref().map_or("still running", |(text, _)| text);
                let reader = TextReader::plain(name, &format!("{arguments}\n\n{result}"));
                self.open_reader(reader);
            }
            EntryBody::Agent { text } => {
                let reader = TextReader::markdown("Althing", text);
                self.open_reader(reader);
            }
            EntryBody::User { text, .. } => {
                let reader = TextReader::plain("You", text);
                self.open_reader(reader);
            }
            EntryBody::Notice { text, .. } => {
                let reader = TextReader::plain("Notice", text);
                self.open_reader(reader);
            }
            EntryBody::Rejected { task, .. } => {
                let reader = TextReader::plain("Rejected run", task);
                self.open_reader(reader);
            }
            EntryBody::Stopped { partial } => {
                let reader = TextReader::markdown("Stopped by you", partial);
                self.open_reader(reader);
            }
            EntryBody::Compacted { summary, .. } => {
                let reader = TextReader::markdown("Summary of the older conversation", summary);
                self.open_reader(reader);
            }
        }
    }

    pub(crate) fn entry_text(&self, at: usize) -> Option<String> {
        let text = match &self.model.entries.get(at)?.body {
            EntryBody::User { text, .. } | EntryBody::Agent { text } | EntryBody::Notice { text, .. } => {
                text.clone()
            }
            EntryBody::Tool { result, .. } => result.as_ref()?.0.clone(),
            EntryBody::Run(id) | EntryBody::Final(id) => {
                let run = self.model.runs.get(id)?;
                let answer = run.result.as_ref().and_then(|result| result.final_answer.clone());
                answer.unwrap_or_else(|| run.task.clone())
            }
            EntryBody::Program(id) => self.model.task(id)?.output.clone(),
            EntryBody::Compacted { summary, .. } => summary.clone(),
            EntryBody::Rejected { task, .. } => task.clone(),
            EntryBody::Stopped { partial } => partial.clone(),
        };
        Some(text)
    }

    pub(crate) fn cancel_entry(&mut self, at: usize) {
        let task = match self.model.entries.get(at).map(|entry| &entry.body) {
            Some(EntryBody::Run(id) | EntryBody::Program(id)) => id.clone(),
            _ => return,
        };
        self.cancel_task(task);
    }

    /// The newest text for `/copy`: a reply of the chat agent, or a final answer in the conversation.
    pub(crate) fn newest_text(&self) -> Option<String> {
        let spoken = |body: &EntryBody| matches!(body, EntryBody::Agent { .. } | EntryBody::Final(_));
        let at = self.model.entries.iter().rposition(|entry| spoken(&entry.body))?;
        self.entry_text(at)
    }

    pub(crate) fn message_name(&self, seq: Seq) -> String {
        let entry = self.model.entries.iter().find(|entry| entry.seq == seq);
        match entry.map(|entry| &entry.body) {
            Some(EntryBody::User { text, .. } | EntryBody::Agent { text }) => {
                line::cut(line::first_line(text), 30)
            }
            _ => match self.model.queue.iter().find(|message| message.seq == seq) {
                Some(message) => line::cut(line::first_line(&message.text), 30),
                None => "message".into(),
            },
        }
    }
}
