//! Recognizes the dialogs and the states of Gemini CLI on its screen.

use super::{AskPattern, Pattern, TerminalTraits};
use althing_protocol::AskKind;
use std::time::Duration;

pub(super) fn traits() -> TerminalTraits {
    TerminalTraits {
        ready: vec![Pattern::screen(r"(?ms)(?:Gemini CLI v\d|^✦ ).*^ >   Type your message")],
        ready_limit: Some(Duration::from_secs(60)),
        busy: vec![Pattern::screen(r"\(esc to cancel, \d"), Pattern::title(r"^✦ ")],
        troubles: vec![Pattern::screen(r"(?ms)^✕ (?P<text>\[API Error.*?)(?:\n\s*\n|\z)")],
        asks: vec![
            AskPattern::new(
                AskKind::Question,
                Pattern::screen(
                    r"(?ms)^│ Answer Questions +│$.*?^│ (?P<text>[^ │\n][^│\n]*?) +│$.*^│ Enter to select · ↑/↓ to navigate · Esc to cancel +│\n╰─+╯\z",
                ),
                &[],
            ),
            // If the beginning has scrolled off the screen or the options are others (second and third pattern), there are
            // no answers.
            AskPattern::new(
                AskKind::Permission,
                Pattern::screen(
                    r"(?m)^╭─+╮\n(?P<text>(?:│[^\n]*│\n)*│ (?:Allow execution of|Apply this change|Do you want to|Allow )[^\n]*\? +│\n(?:│[^\n]*│\n)*)\z",
                ),
                &[("allow", "Allow once", "1"), ("reject", "No", "\x1b")],
            )
            .with_options(
                r"│ [● ] 1\. Allow once +│\n(?:│ (?:[● ] \d\. | {4})[^\n]*│\n)+╰─+╯",
            ),
            AskPattern::new(
                AskKind::Permission,
                Pattern::screen(
                    r"(?ms)(?:\A\n*|^╭─+╮\n)(?P<text>(?:│[^\n]*│\n)*?│ (?:Allow execution of|Apply this change|Do you want to|Allow )[^│\n]*\?) +│$.*^│ [● ] \d\. [^\n]*│\n(?:│[^\n]*│\n)*╰─+╯\z",
                ),
                &[],
            ),
            AskPattern::new(
                AskKind::Permission,
                Pattern::screen(
                    r"(?ms)^ ?│ (?P<text>Do you trust the files in this folder\?) +│$.*^ ?│ [● ] \d\. [^\n]*│\n(?: ?│[^\n]*│\n)* ?╰─+╯\z",
                ),
                &[],
            ),
            AskPattern::new(
                AskKind::Auth,
                Pattern::screen(
                    r"(?ms)^│ \? Get started +│$.*^│ +(?P<text>How would you like to authenticate[^│\n]*?) +│$.*^│ +\(Use Enter to select\) +│$.*^╰─+╯\z",
                ),
                &[],
            ),
            AskPattern::new(AskKind::Permission, Pattern::title(r"^✋ +Action Required"), &[]),
        ],
        leave: Some("/quit".to_owned()),
        conversation: Some(r"gemini --resume ([0-9a-f]{8}-[0-9a-f-]{27})".to_owned()),
        ..TerminalTraits::default()
    }
}
