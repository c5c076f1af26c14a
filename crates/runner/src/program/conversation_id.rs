//! Which ids of conversations are accepted. A program chooses what it reports, and the author of a found session what
//! the log says, but the id becomes an argument of the program.

use super::pipes::ProgramEvent;
use crate::adapter::{OutputEvent, Trouble};
use althing_protocol::{Item, Notice, NoticeLevel};

const MAX_LENGTH: usize = 200;
const MAX_SHOWN: usize = 80;

/// Whether the id cannot be an option, a path or a pattern.
pub(crate) fn is_conversation_id(id: &str) -> bool {
    id.len() <= MAX_LENGTH
        && id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.chars().all(|each| each.is_ascii_alphanumeric() || matches!(each, '_' | '-'))
}

/// Replaces the report of an id that is not accepted by a problem that the user is told; drops an empty id.
pub(super) fn without_refused_id(event: ProgramEvent<'_>) -> Option<ProgramEvent<'_>> {
    match event {
        ProgramEvent::Parsed(OutputEvent::Item(Item::Conversation { id })) if !is_conversation_id(&id) => {
            let trouble = || Trouble { text: refusal(&id), is_final: false };
            (!id.is_empty()).then(|| ProgramEvent::Parsed(OutputEvent::Trouble(trouble())))
        }
        event => Some(event),
    }
}

/// The notice that a program's conversation is not resumed because of its id.
pub(super) fn notice_of_refused(name: &str, id: &str) -> Notice {
    let hint = Some("the program starts a new conversation".to_owned());
    Notice { level: NoticeLevel::Warning, text: format!("{name}: {}", refusal(id)), hint }
}

pub(super) fn refusal(id: &str) -> String {
    let shown = althing_text::truncate_bytes(crate::clean(id).lines().next().unwrap_or_default(), MAX_SHOWN);
    format!(
        "the conversation id `{shown}` is not accepted, because an id must begin with a letter or digit and contain \
         only letters, digits, `_` and `-`; the conversation cannot be resumed"
    )
}

#[cfg(test)]
mod tests {
    use super::is_conversation_id;

    #[test]
    fn ids_of_the_cli_agents_are_accepted_and_options_paths_and_patterns_are_not() {
        for id in ["f1d447c0-6ab9-45cd-b047-248fcddae5a7", "ses_e21c51433ffew3s9ghjmaqeiRu", "s-1", "7", "s"]
        {
            assert!(is_conversation_id(id), "{id}");
        }
        let long = "a".repeat(201);
        for id in
            ["", "-", "--last", "_x", "a b", "a/b", "../a", "a*", "a.b", "a=b", "é", "a\n", "a\0", &long]
        {
            assert!(!is_conversation_id(id), "{id:?}");
        }
    }
}
