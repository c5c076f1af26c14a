//! The terminal's reply to the question for its background color (OSC 11), by which the theme is chosen. The terminal may
//! reply late or never, so nothing waits for the reply. crossterm reports the reply as keys; it is removed from the keys here.

use crate::theme::Theme;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::time::Duration;
use tokio::time::Instant;

const REPLY: &str = "11;";
/// A reply is shorter, for example `11;rgb:ffff/ffff/ffff`.
const MAX_REPLY: usize = 40;
/// Later, Alt+] is always a key that the user pressed.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct BackgroundQuery {
    until: Option<Instant>,
    /// Keys that may be the start of a reply.
    held: Vec<Event>,
    text: String,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Keys {
    /// The events that are no part of a reply, in their order.
    pub(crate) events: Vec<Event>,
    /// The theme that fits the background, if a reply is complete.
    pub(crate) theme: Option<Theme>,
}

impl BackgroundQuery {
    pub(crate) fn started(now: Instant) -> Self {
        Self { until: Some(now + PATIENCE), ..Self::default() }
    }

    pub(crate) fn take(&mut self, event: Event, now: Instant) -> Keys {
        // Other events may come in the middle of a reply. They are no part of it and do not end it.
        if !matches!(&event, Event::Key(key) if key.kind != KeyEventKind::Release) {
            return Keys { events: vec![event], theme: None };
        }
        let key = match &event {
            Event::Key(KeyEvent { code: KeyCode::Char(letter), modifiers, .. }) => {
                Some((*letter, *modifiers))
            }
            _ => None,
        };
        let is_starting =
            key == Some((']', KeyModifiers::ALT)) && self.until.is_some_and(|until| now < until);
        if self.held.is_empty() && !is_starting {
            return Keys { events: vec![event], theme: None };
        }
        let is_end = matches!(key, Some(('\\', KeyModifiers::ALT) | ('g', KeyModifiers::CONTROL)));
        self.held.push(event);
        match key {
            _ if self.held.len() == 1 => return Keys::default(),
            _ if is_end && self.text.starts_with(REPLY) => {
                self.held.clear();
                self.until = None;
                return Keys { events: Vec::new(), theme: fitting(&std::mem::take(&mut self.text)) };
            }
            Some((letter, modifiers)) if modifiers.difference(KeyModifiers::SHIFT).is_empty() => {
                self.text.push(letter);
                let common = self.text.len().min(REPLY.len());
                if self.text.len() < MAX_REPLY && self.text.get(..common) == REPLY.get(..common) {
                    return Keys::default();
                }
            }
            _ => {}
        }
        // It is no reply.
        self.text.clear();
        Keys { events: std::mem::take(&mut self.held), theme: None }
    }
}

/// The theme for a reply such as `11;rgb:1e1e/1e1e/2e2e`. Each number has one to four hexadecimal digits.
fn fitting(reply: &str) -> Option<Theme> {
    let (_, colors) = reply.split_once(':')?;
    let part = |text: &str| {
        let most =
            16_u32.checked_pow(u32::try_from(text.len()).ok()?)?.checked_sub(1).filter(|most| *most > 0)?;
        Some(f64::from(u32::from_str_radix(text, 16).ok()?) / f64::from(most))
    };
    let parts: Vec<f64> = colors.split('/').map_while(part).collect();
    let [red, green, blue, ..] = parts.as_slice() else { return None };
    let brightness = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    Some(if brightness > 0.5 { Theme::Light } else { Theme::Dark })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::event::{MouseEvent, MouseEventKind};

    fn key(letter: char, modifiers: KeyModifiers) -> Event {
        Event::Key(KeyEvent::new(KeyCode::Char(letter), modifiers))
    }

    fn reply(text: &str) -> Vec<Event> {
        let letters = text.chars().map(|letter| key(letter, KeyModifiers::NONE));
        let (start, end) = (key(']', KeyModifiers::ALT), key('\\', KeyModifiers::ALT));
        std::iter::once(start).chain(letters).chain([end]).collect()
    }

    fn taken(query: &mut BackgroundQuery, events: &[Event], now: Instant) -> Keys {
        let mut all = Keys::default();
        for event in events {
            let keys = query.take(event.clone(), now);
            all.events.extend(keys.events);
            all.theme = all.theme.or(keys.theme);
        }
        all
    }

    #[test]
    fn a_reply_names_the_theme_and_is_not_typed() {
        let now = Instant::now();
        for (text, theme) in [
            ("11;rgb:ffff/ffff/ffff", Some(Theme::Light)),
            ("11;rgb:fd/f6/e3", Some(Theme::Light)),
            ("11;rgb:1e1e/1e1e/2e2e", Some(Theme::Dark)),
            ("11;rgba:0000/0000/0000/ffff", Some(Theme::Dark)),
            ("11;rgb:zz/00/00", None),
            ("11;rgb:", None),
            ("11;rgb://", None),
        ] {
            let mut query = BackgroundQuery::started(now);
            assert_eq!(taken(&mut query, &reply(text), now), Keys { events: Vec::new(), theme }, "{text}");
        }
    }

    #[test]
    fn other_events_in_the_middle_of_a_reply_pass_and_the_reply_is_still_not_typed() {
        let now = Instant::now();
        let click =
            MouseEvent { kind: MouseEventKind::Moved, column: 1, row: 1, modifiers: KeyModifiers::NONE };
        let others = [
            Event::Resize(80, 24),
            Event::FocusLost,
            Event::FocusGained,
            Event::Mouse(click),
            Event::Paste("11;".to_owned()),
        ];
        let reply = reply("11;rgb:ffff/ffff/ffff");
        for at in 0..=reply.len() {
            let (start, end) = reply.split_at(at);
            let events = [start, &others, end].concat();
            let keys = taken(&mut BackgroundQuery::started(now), &events, now);
            assert_eq!(keys, Keys { events: others.to_vec(), theme: Some(Theme::Light) }, "{at}");
        }
    }

    #[test]
    fn keys_that_only_begin_like_a_reply_are_typed() {
        let now = Instant::now();
        for text in ["1x", "[", "12;rgb:ffff/ffff/ffff", &"1".repeat(60), &format!("11;{}", "0".repeat(60))] {
            let mut query = BackgroundQuery::started(now);
            let events = reply(text);
            assert_eq!(taken(&mut query, &events, now), Keys { events, theme: None }, "{text}");
        }
    }

    #[test]
    fn without_a_query_and_long_after_it_nothing_is_held() {
        let now = Instant::now();
        let events = reply("11;rgb:ffff/ffff/ffff");
        let typed = Keys { events: events.clone(), theme: None };
        assert_eq!(taken(&mut BackgroundQuery::default(), &events, now), typed);
        assert_eq!(taken(&mut BackgroundQuery::started(now), &events, now + PATIENCE), typed);
    }
}
