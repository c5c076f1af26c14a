//! Escapes prompts, so that no CLI agent takes a prompt for one of its own commands (`!`, `/`, `#`, `exit` …), or
//! `@path` in a prompt for a file to send to its model. A prompt may contain text of other agents, so it must always
//! be read as prose.

use crate::adapter::Mentions;

const FIRST_LINE: &str = "Task:\n";

/// Punctuation that has no special meaning to any CLI agent at the beginning of a prompt.
const HARMLESS: &str = "([{\"'`«“‘„<*-";

/// Words that some CLI agent takes as a command if the whole prompt is only this word.
const COMMAND_WORDS: [&str; 7] = ["exit", "quit", "bye", "clear", "help", "logout", "q"];

pub(super) fn escape_prompt(prompt: &str, mentions: Mentions) -> String {
    let mut text = if is_command(prompt) { format!("{FIRST_LINE}{prompt}") } else { prompt.to_owned() };
    if captures_return(prompt) {
        text = format!("{} ", text.trim_end());
    }
    escape_mentions(&text, mentions)
}

/// Puts a backslash before each `@` that the CLI agent would read as the beginning of a path.
fn escape_mentions(prompt: &str, mentions: Mentions) -> String {
    let mut text = String::with_capacity(prompt.len());
    let mut before = None;
    for letter in prompt.chars() {
        let is_mention = match mentions {
            Mentions::None => false,
            // Programs disagree about white space, so every character that is neither alphanumeric nor ASCII
            // punctuation counts.
            Mentions::AfterSpace => {
                before.is_none_or(|before: char| !before.is_alphanumeric() && !before.is_ascii_punctuation())
            }
            Mentions::Anywhere => before != Some('\\'),
        };
        if letter == '@' && is_mention {
            text.push('\\');
        }
        text.push(letter);
        before = Some(letter);
    }
    text
}

/// Whether the prompt's last word changes the meaning of the carriage return that submits a typed prompt: after a
/// backslash the return inserts a line break; after `@name`, `$name` or `/name` it picks a completion. A trailing
/// space prevents both.
fn captures_return(prompt: &str) -> bool {
    let last = prompt.split_whitespace().next_back().unwrap_or_default();
    last.ends_with('\\') || last.contains(['@', '$']) || last.starts_with('/')
}

/// Whether a CLI agent could read the prompt as a command, ignoring leading whitespace, and control characters, which
/// are not typed.
fn is_command(prompt: &str) -> bool {
    let typed: String = prompt.chars().filter(|c| c.is_whitespace() || !c.is_control()).collect();
    let typed = typed.trim();
    let Some(first) = typed.chars().next() else { return false };
    let begins_as_prose = first.is_alphanumeric() || HARMLESS.contains(first);
    !begins_as_prose || COMMAND_WORDS.iter().any(|word| typed.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::{Mentions, escape_prompt};

    fn escaped(prompt: &str) -> String {
        escape_prompt(prompt, Mentions::None)
    }

    #[test]
    fn a_prompt_that_begins_like_a_command_gets_a_first_line_of_prose() {
        let commands = [
            "!touch x",
            "/clear it",
            "@file it",
            "#note",
            "&later",
            "?",
            ":q",
            "\\x",
            "$skill it",
            "%x",
            "~x",
            ";x",
            "！x",
            "／x",
            "\u{feff}/clear it",
            "\u{200b}!x",
            "exit",
            " Quit \n",
        ];
        for command in commands {
            for blanks in ["", " ", "\t", "\n\n", "\r\n", "\u{a0}", "\u{7}", "\u{1b}"] {
                let prompt = format!("{blanks}{command}");
                assert_eq!(escaped(&prompt), format!("Task:\n{prompt}"), "{prompt:?}");
            }
        }
    }

    #[test]
    fn prose_is_unchanged() {
        for prompt in [
            "",
            " \n",
            "Do it",
            " Do it!",
            "3 files",
            "Ändere es",
            "修正して",
            "(see /etc) first",
            "[Your call]",
            "- one\n- two",
            "`x` is wrong",
            "exit the loop early",
            "Read @a and run /b now",
        ] {
            assert_eq!(escaped(prompt), prompt);
        }
    }

    #[test]
    fn the_last_word_does_not_capture_the_return_after_it() {
        for prompt in ["Keep this \\", "Look at @src", "Use $skill.", "Then run /clear"] {
            assert_eq!(escaped(prompt), format!("{prompt} "));
            assert_eq!(escaped(&format!("!{prompt}\n")), format!("Task:\n!{prompt} "));
        }
        assert_eq!(escaped("Compare a/b"), "Compare a/b");
    }

    #[test]
    fn no_word_is_a_mention_of_a_file() {
        let prompt = "@a, see @b\n@c\u{3000}@d \u{feff}@e (@f) mail g@h \\@i \u{7}@j @\"k\"";
        let claude =
            "Task:\n\\@a, see \\@b\n\\@c\u{3000}\\@d \u{feff}\\@e (@f) mail g@h \\@i \u{7}\\@j \\@\"k\" ";
        assert_eq!(escape_prompt(prompt, Mentions::AfterSpace), claude);
        let gemini =
            "Task:\n\\@a, see \\@b\n\\@c\u{3000}\\@d \u{feff}\\@e (\\@f) mail g\\@h \\@i \u{7}\\@j \\@\"k\" ";
        assert_eq!(escape_prompt(prompt, Mentions::Anywhere), gemini);
        assert_eq!(escaped("see @b now"), "see @b now");
    }
}
