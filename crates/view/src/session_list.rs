//! What lists of sessions show of a session: its title, and a preview of what was said.

use althing_protocol::{Item, SessionKind, SessionSummary};
use althing_text::truncate_chars;

/// A first message with fewer words than this, such as a greeting, does not say what a conversation is about.
const TITLE_WORDS: usize = 3;

/// The maximum length of a title, in characters.
const TITLE_CHARS: usize = 200;

/// How many messages at the beginning and how many at the end a preview contains.
const PREVIEW_ENDS: usize = 2;

/// The maximum length of a message in a preview, in characters.
const PREVIEW_CHARS: usize = 400;

/// A message in a preview of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewMessage {
    pub by_user: bool,
    /// The beginning of the message.
    pub text: String,
    /// The number of messages before this one that the preview leaves out.
    pub omitted: usize,
}

/// The title of a session. It is the title that the user gave the session; otherwise the session's goal, which is the
/// first message of a conversation. If that message says little, the beginning of the reply follows.
pub fn title(session: &SessionSummary) -> String {
    if let Some(title) = &session.title {
        return title.clone();
    }
    let Some(checkpoint) = &session.checkpoint else { return String::new() };
    let goal = checkpoint.goal.lines().next().unwrap_or_default().trim();
    let is_short = goal.split_whitespace().count() < TITLE_WORDS;
    let reply = messages(&checkpoint.history).find(|(by_user, _)| !by_user);
    let reply = reply.and_then(|(_, text)| first_text_line(text));
    let title = match reply.filter(|_| is_short && checkpoint.kind == SessionKind::Chat) {
        Some(reply) if goal.is_empty() => reply.to_owned(),
        Some(reply) => format!("{goal} – {reply}"),
        None => goal.to_owned(),
    };
    title.chars().take(TITLE_CHARS).collect()
}

/// The first and the last messages of a session.
pub fn preview(session: &SessionSummary) -> Vec<PreviewMessage> {
    let Some(checkpoint) = &session.checkpoint else { return Vec::new() };
    let all: Vec<(bool, &str)> = messages(&checkpoint.history).collect();
    let tail = all.len().saturating_sub(PREVIEW_ENDS).max(PREVIEW_ENDS);
    let is_shown = |at: usize| at < PREVIEW_ENDS || at >= tail;
    let shown = all.iter().enumerate().filter(|(at, _)| is_shown(*at));
    let message = |(at, (by_user, text)): (usize, &(bool, &str))| PreviewMessage {
        by_user: *by_user,
        text: truncate_chars(text.trim(), PREVIEW_CHARS),
        omitted: if at == tail { tail - PREVIEW_ENDS } else { 0 },
    };
    shown.map(message).collect()
}

/// The messages of a history, each with whether the user wrote it.
fn messages(history: &[Item]) -> impl Iterator<Item = (bool, &str)> {
    history.iter().filter_map(|item| match item {
        Item::PromptSent { text, .. } => Some((true, text.as_str())),
        Item::Said { text } => Some((false, text.as_str())),
        Item::Reply(reply) => Some((false, reply.text.as_str())),
        _ => None,
    })
}

/// The first line that says something, without Markdown at its start. A line in brackets is a label, such as that of the
/// offline model.
fn first_text_line(text: &str) -> Option<&str> {
    let is_markup = |c: char| c.is_whitespace() || matches!(c, '#' | '>' | '*' | '`' | '-');
    let is_label = |line: &str| line.starts_with('[') && line.ends_with(']');
    let lines = text.lines().map(|line| line.trim_start_matches(is_markup).trim_end());
    lines.into_iter().find(|line| !line.is_empty() && !is_label(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::{Checkpoint, Seq, SessionState, Timestamp};

    fn session(messages: &[&str]) -> SessionSummary {
        let item = |(at, text): (usize, &&str)| match at % 2 {
            0 => Item::PromptSent { text: (*text).to_owned(), error: None },
            _ => Item::Said { text: (*text).to_owned() },
        };
        let checkpoint = Checkpoint {
            id: "s1".into(),
            kind: SessionKind::Chat,
            goal: messages.first().map(|text| (*text).to_owned()).unwrap_or_default(),
            cwd: String::new(),
            state: SessionState::Idle,
            current_stage_index: 0,
            stages: Vec::new(),
            history: messages.iter().enumerate().map(item).collect(),
            seq: Seq(1),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        };
        SessionSummary {
            id: "s1".into(),
            checkpoint: Some(checkpoint),
            title: None,
            size: 0,
            is_owned: false,
            damage: None,
            updated_at: Timestamp(0),
        }
    }

    #[test]
    fn a_title_is_made_from_the_first_exchange_unless_the_user_gave_one() {
        let asked = session(&["Compare three caches\nin detail", "Sure."]);
        assert_eq!(title(&asked), "Compare three caches");
        let greeted = session(&["hi", "\n[a label]\n## Hello\nWhat can I do?"]);
        assert_eq!(title(&greeted), "hi – Hello");
        assert_eq!(title(&session(&["hi"])), "hi");
        assert_eq!(title(&SessionSummary { title: Some("Mine".into()), ..greeted }), "Mine");
    }

    #[test]
    fn a_preview_has_the_first_and_the_last_messages_and_counts_the_others() {
        let texts = |session: &SessionSummary| -> Vec<(String, usize)> {
            preview(session).into_iter().map(|message| (message.text, message.omitted)).collect()
        };
        let expect = |pairs: &[(&str, usize)]| -> Vec<(String, usize)> {
            pairs.iter().map(|(text, omitted)| ((*text).to_owned(), *omitted)).collect()
        };
        let all = ["1", "2", "3", "4", "5", "6"];
        assert_eq!(texts(&session(&all)), expect(&[("1", 0), ("2", 0), ("5", 2), ("6", 0)]));
        assert_eq!(texts(&session(&all[..3])), expect(&[("1", 0), ("2", 0), ("3", 0)]));
        assert_eq!(texts(&session(&[])), expect(&[]));
    }
}
