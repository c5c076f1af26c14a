//! Reads the last message of a CLI agent that ran in a terminal, which becomes the output of its task. The
//! source is the CLI agent's stored conversation, or a second start of the CLI agent that prints the message; not the
//! screen, which also shows banners, frames and spinners.

use super::conversation_id::{is_conversation_id, notice_of_refused};
use crate::adapter::{AgentAdapter, LastMessage};
use crate::guard_protocol::{GuardedCommand, Input};
use crate::guarded::{CommandTimes, GuardLauncher};
use crate::output::OutputCollector;
use althing_protocol::{Item, ProgramReport, ReportSink};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How many bytes of the end of a stored conversation are read.
const MAX_READ: u64 = 16 * 1024 * 1024;
const MAX_DEPTH: usize = 4;
const KEPT: &str = "-0";
const TIMES: CommandTimes = CommandTimes {
    limit: Duration::from_secs(30),
    grace: Duration::from_secs(1),
    drain: Duration::from_millis(200),
};
const MAX_PRINTED: usize = 4 * 1024 * 1024;

#[derive(Clone, Debug, Default)]
pub(super) struct KnownConversation(Arc<Mutex<Option<String>>>);

impl KnownConversation {
    /// Passes reports of the program `name` on, except for ids that are not accepted, and keeps the id that was
    /// reported last.
    pub(super) fn listen(&self, known: Option<&str>, name: &str, reports: ReportSink) -> ReportSink {
        let (conversation, name) = (self.clone(), name.to_owned());
        conversation.set(known);
        Arc::new(move |report| {
            if let ProgramReport::Item(Item::Conversation { id }) = &report {
                if !is_conversation_id(id) {
                    return reports(ProgramReport::Notice(notice_of_refused(&name, id)));
                }
                conversation.set(Some(id));
            }
            reports(report);
        })
    }

    fn set(&self, id: Option<&str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = id.map(str::to_owned);
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(super) struct EndedProgram<'a> {
    pub(super) adapter: &'a dyn AgentAdapter,
    /// The command that was run, and the number of the program's own arguments at its end.
    pub(super) command: (GuardedCommand, usize),
    pub(super) dir: &'a Path,
    pub(super) launcher: GuardLauncher,
}

impl EndedProgram<'_> {
    pub(super) async fn last_message(self, conversation: &KnownConversation) -> Option<String> {
        let (mut command, own_args) = self.command;
        let found = self.adapter.last_message(&conversation.get()?, &|name: &str| command.variable(name))?;
        let message = match found {
            LastMessage::Stored { dir, name_end, message } => {
                let read = move || stored(&dir, &name_end, message);
                tokio::task::spawn_blocking(read).await.ok().flatten()?
            }
            LastMessage::Printed(args) => {
                command.args.truncate(command.args.len().saturating_sub(own_args));
                command.args.extend(args.into_iter().map(Into::into));
                command.input = Input::Nothing;
                command.cwd = PathBuf::from("/");
                let mut output =
                    OutputCollector::new(MAX_PRINTED, MAX_PRINTED as u64, self.dir.join("last-message"));
                self.launcher.run(&command, TIMES, &mut output).await.ok()?;
                printed(&output.finish())?
            }
        };
        Some(message).filter(|message| !message.trim().is_empty())
    }
}

/// The program may print other lines before and after the JSON value.
fn printed(output: &str) -> Option<String> {
    let start = output.lines().position(|line| line.starts_with('['))?;
    let rest: Vec<&str> = output.lines().skip(start).collect();
    let rest = rest.join("\n");
    let first = serde_json::Deserializer::from_str(&rest).into_iter::<Value>().next()?.ok()?;
    first.pointer("/0/text")?.as_str().map(str::to_owned)
}

/// Gives the files whose names end like this other names, so that a program does not overwrite them. A file that cannot
/// be renamed keeps its name.
pub(super) fn keep_from_overwriting(dir: &Path, name_end: &str) {
    let mut found = Vec::new();
    find(dir, name_end, MAX_DEPTH, &mut found);
    for (_, path) in found {
        let name =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(name_end));
        let Some(name) = name.filter(|name| !name.ends_with(KEPT)) else { continue };
        let kept = path.with_file_name(format!("{name}{KEPT}{name_end}"));
        if !kept.exists() {
            let _ = std::fs::rename(&path, &kept);
        }
    }
}

fn stored(dir: &Path, name_end: &str, message: fn(&Value) -> Option<String>) -> Option<String> {
    let mut found = Vec::new();
    find(dir, name_end, MAX_DEPTH, &mut found);
    let (_, path) = found.into_iter().max()?;
    let bytes = althing_disk::read_end(&path, MAX_READ).ok()?;
    let lines = bytes.split(|byte| *byte == b'\n').rev();
    let messages = lines.filter_map(|line| message(&serde_json::from_slice(line).ok()?));
    messages.into_iter().find(|message| !message.trim().is_empty())
}

fn find(dir: &Path, name_end: &str, depth: usize, found: &mut Vec<(SystemTime, PathBuf)>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            find(&entry.path(), name_end, depth - 1, found);
        } else if kind.is_file() && entry.file_name().to_str().is_some_and(|name| name.ends_with(name_end)) {
            let changed = entry.metadata().and_then(|data| data.modified());
            found.extend(changed.ok().map(|changed| (changed, entry.path())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_is_that_of_the_newest_file_of_the_conversation() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/b/other.jsonl", "{\"said\":\"wrong\"}\n");
        write(
            "a/b/x-id.jsonl",
            "{\"said\":\"first\"}\n{\"said\":\"last\"}\n{\"said\":\" \"}\nnonsense\n{\"tool\":1}\n{\"sa",
        );
        let said = |line: &Value| line.pointer("/said").and_then(Value::as_str).map(str::to_owned);
        assert_eq!(stored(dir.path(), "-id.jsonl", said).as_deref(), Some("last"));
        assert_eq!(stored(dir.path(), "-nobody.jsonl", said), None);
    }

    #[test]
    fn a_stored_conversation_is_renamed_once_and_replaces_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let chats = dir.path().join("project/chats");
        std::fs::create_dir_all(&chats).unwrap();
        let names = || {
            let entries = std::fs::read_dir(&chats).unwrap();
            let mut names: Vec<_> = entries
                .map(|entry| entry.unwrap().path())
                .map(|path| (path.file_name().unwrap().to_owned(), std::fs::read_to_string(path).unwrap()))
                .collect();
            names.sort();
            names
        };
        let renamed = |before: &[(&str, &str)]| {
            for (name, text) in before {
                std::fs::write(chats.join(name), text).unwrap();
            }
            keep_from_overwriting(dir.path(), "-id.jsonl");
            names().into_iter().map(|(name, text)| (name.into_string().unwrap(), text)).collect::<Vec<_>>()
        };
        let expect = |files: &[(&str, &str)]| {
            files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect::<Vec<_>>()
        };
        let first = renamed(&[("s-12-30-id.jsonl", "said"), ("s-12-30-other.jsonl", "o")]);
        assert_eq!(first, expect(&[("s-12-30-0-id.jsonl", "said"), ("s-12-30-other.jsonl", "o")]));
        // What the program has begun in the same minute does not replace what was kept.
        let second = renamed(&[("s-12-30-id.jsonl", "")]);
        let expected =
            [("s-12-30-0-id.jsonl", "said"), ("s-12-30-id.jsonl", ""), ("s-12-30-other.jsonl", "o")];
        assert_eq!(second, expect(&expected));
    }

    #[test]
    fn a_printed_message_is_found_between_other_lines() {
        let output = "Loading\n[\n  {\n    \"text\": \"all [of] it\"\n  }\n]\nDone";
        assert_eq!(printed(output).as_deref(), Some("all [of] it"));
        assert_eq!(printed("[]"), None);
        assert_eq!(printed("no database"), None);
    }
}
