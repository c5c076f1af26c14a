//! Searching: in the conversation, in an opened text and in the timeline of a run.

use super::screen::timeline_text;
use super::{App, TuiScreen};
use crate::view::entry::ConversationList;
use crate::view::reader::Parts;
use crossterm::event::{KeyCode, KeyEvent};

impl App {
    pub(crate) fn start_find(&mut self) {
        self.finding = Some(String::new());
    }

    pub(crate) fn find_key(&mut self, key: KeyEvent) {
        let Some(text) = &mut self.finding else { return };
        match key.code {
            KeyCode::Char(c) if !super::dialog_typing::is_chord(key) => text.push(c),
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Enter => {
                let text = self.finding.take().unwrap_or_default();
                self.find_in_conversation(&text, 1);
            }
            KeyCode::Esc => self.finding = None,
            _ => {}
        }
    }

    pub(crate) fn find_in_conversation(&mut self, text: &str, step: isize) {
        if text.trim().is_empty() {
            return;
        }
        let items = ConversationList { model: &self.model, now: self.now, esc_stops: false };
        self.scroll.find(text, &items, step);
        match self.scroll.found_item().filter(|item| *item < self.model.entries.len()) {
            Some(item) => {
                self.browsing = true;
                self.scroll.selected = Some(item);
            }
            None if self.scroll.found_item().is_some() => self.browsing = true,
            None => {
                self.scroll.end_search();
                self.toast = Some(format!("nothing matches: {}", text.trim()));
            }
        }
        text.trim().clone_into(&mut self.found);
    }

    pub(crate) fn find_again(&mut self, step: isize) {
        let text = self.found.clone();
        self.find_in_conversation(&text, step);
    }

    pub(crate) fn find_in_text(&mut self, step: isize) {
        let Some(TuiScreen::TextReader(reader)) = self.screens.last_mut() else { return };
        let Some(wanted) = reader.search.clone().filter(|wanted| !wanted.trim().is_empty()) else { return };
        let mut scroll = std::mem::take(&mut reader.scroll);
        scroll.find(&wanted, &Parts(reader), step);
        if scroll.found_item().is_none() {
            scroll.end_search();
            self.toast = Some(format!("not found: {wanted}"));
        }
        reader.scroll = scroll;
    }

    /// Selects the next or previous timeline entry that contains the search text, also in the part that is shown only
    /// when the entry is opened. On the tab of the final answer, goes to a match in the answer.
    pub(crate) fn find_timeline_entry(&mut self, step: isize) {
        let Some(TuiScreen::Run(screen)) = self.screens.last_mut() else { return };
        let Some(run) = self.model.runs.get(&screen.id) else { return };
        let Some(wanted) = screen.search.clone().filter(|wanted| !wanted.trim().is_empty()) else { return };
        let Some(scroll) = screen.scrolls.get_mut(screen.tab) else { return };
        let lower = wanted.trim().to_lowercase();
        match run.agents.get(screen.tab) {
            Some(agent) => {
                let entries = agent.timeline.iter().enumerate();
                let found = entries.filter(|(_, entry)| {
                    let (title, text) = timeline_text(entry);
                    title.to_lowercase().contains(&lower) || text.to_lowercase().contains(&lower)
                });
                scroll.find_items(&wanted, found.map(|(at, _)| at), step);
            }
            None => scroll.find(&wanted, &crate::view::run::FinalAnswerItem(run), step),
        }
        if scroll.found_item().is_none() {
            scroll.end_search();
            self.toast = Some(format!("not found: {wanted}"));
        }
    }
}
