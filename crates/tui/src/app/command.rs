//! Slash commands.

use super::{App, ConfirmedAction, Effect, Modal, ModeToggle, Picker};
use crate::host::TuiExit;
use crate::modes::PlanMode;
use crate::theme::Theme;
use althing_protocol::{AgentMode, ChatState, Op, TaskId};
use althing_text::nearest;

/// A command of the input. This table is the only list of commands and of their other names.
#[derive(Debug)]
pub struct SlashCommand {
    pub name: &'static str,
    /// Other names of the command.
    pub aliases: &'static [&'static str],
    pub about: &'static str,
    /// The key that does the same, if there is one.
    key: &'static str,
    /// Whether the command does nothing useful in plain mode.
    pub screen_only: bool,
    /// Whether Enter takes the command only if its whole name was typed or the user moved to it in the list: it ends,
    /// discards or writes something.
    whole_word: bool,
}

impl SlashCommand {
    const fn key(self, key: &'static str) -> Self {
        Self { key, ..self }
    }

    const fn also(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    const fn on_the_screen(self) -> Self {
        Self { screen_only: true, ..self }
    }

    const fn whole_word(self) -> Self {
        Self { whole_word: true, ..self }
    }

    /// The command with this name or alias. `written` starts with a slash.
    pub fn named(written: &str) -> Option<&'static Self> {
        COMMANDS.iter().find(|command| command.name == written || command.aliases.contains(&written))
    }
}

const fn command(name: &'static str, about: &'static str) -> SlashCommand {
    SlashCommand { name, aliases: &[], about, key: "", screen_only: false, whole_word: false }
}

pub const COMMANDS: &[SlashCommand] = &[
    command("/help", "keys and commands").key("^G").also(&["/?"]),
    command("/agents", "list the agents"),
    command("/tasks", "all tasks, and those that wait for you").key("^T").on_the_screen(),
    command("/run", "open the newest run").key("^R").on_the_screen(),
    command("/cancel", "stop the run, or the agent's turn").key("^C").whole_word(),
    command("/plan", "switch plan mode on or off").key("⇧tab"),
    command("/multi", "several agents").key("alt+a"),
    command("/single", "one agent: /single NAME").key("alt+a"),
    command("/refine", "refine and vote").key("alt+r"),
    command("/quick", "quick mode: no refining").key("alt+r"),
    command("/override", "choose who presents").key("^O").on_the_screen(),
    command("/pin", "keep the newest message verbatim"),
    command("/compact", "shorten the conversation now").whole_word(),
    command("/copy", "copy the newest answer").on_the_screen(),
    command("/cost", "show the cost so far").also(&["/usage", "/stats", "/status", "/context"]),
    command("/find", "search the conversation: /find WORDS").also(&["/search"]).on_the_screen(),
    command("/model", "the models in use, and how to change them").also(&["/models"]).on_the_screen(),
    command("/sessions", "resume, rename or delete sessions (/resume)")
        .also(&["/resume", "/continue"])
        .on_the_screen(),
    command("/rename", "give this session a title: /rename TITLE"),
    command("/projects", "switch to another project").on_the_screen(),
    command("/new", "start a new session (/clear)").also(&["/clear", "/reset"]).whole_word(),
    command("/config", "write a starter config here").whole_word(),
    command("/undo", "restore the files that were changed last").whole_word(),
    command("/theme", "colors: /theme dark, light or mono").on_the_screen(),
    command("/mouse", "on or off; off: the terminal selects text").on_the_screen(),
    command("/edit", "write the message in your editor").key("^X").also(&["/editor"]).on_the_screen(),
    command("/quit", "leave").key("^D").also(&["/exit", "/q"]).whole_word(),
];

/// Commands of other tools that people may try, with what to do here instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("init", "/config writes a starter config"),
    ("login", "set the API key of the provider in the environment; `althing agents` shows what is missing"),
    ("logout", "API keys are read from the environment; nothing is stored here"),
    ("permissions", "the config says what agents may do; you approve each run"),
    ("mcp", "MCP servers are in the config, at each agent"),
    ("memory", "put lasting facts into the project's CONTEXT.md"),
    ("doctor", "`althing agents` shows what is usable here, `althing config check` checks a config"),
    ("rewind", "/undo restores the files that the last run changed"),
    ("export", "`althing sessions show ID --markdown` prints a session"),
    ("add-dir", "write @path in a message to let a run read a directory, @path:w to let it write"),
    ("review", "write it as a message, with @path for what to review"),
    ("vim", "Ctrl+X opens the message in your editor"),
];

/// The commands that match the typed text (with its slash), with descriptions and keys: first the one with this name or
/// alias, then those that begin with it, then those with another name that begins with it (under that name), then those
/// that contain its letters in order, then those whose description contains it.
pub fn matching(typed: &str) -> Vec<(String, String)> {
    let letters = typed.trim_start_matches('/').to_lowercase();
    let rank = |command: &SlashCommand| {
        if command.name == typed || command.aliases.contains(&typed) {
            Some((0, command.name))
        } else if command.name.starts_with(typed) {
            Some((1, command.name))
        } else if let Some(alias) = command.aliases.iter().find(|alias| alias.starts_with(typed)) {
            Some((2, *alias))
        } else if has_letters_in_order(command.name, &letters) {
            Some((3, command.name))
        } else {
            (letters.len() > 2 && command.about.contains(&letters)).then_some((4, command.name))
        }
    };
    let mut found: Vec<(u8, (String, String))> = Vec::new();
    for command in COMMANDS {
        if let Some((rank, name)) = rank(command) {
            let about = match command.key {
                "" => command.about.to_owned(),
                key => format!("{} · {key}", command.about),
            };
            found.push((rank, (name.to_owned(), about)));
        }
    }
    if found.iter().any(|(rank, _)| *rank < 3) {
        found.retain(|(rank, _)| *rank < 4);
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, offer)| offer).collect()
}

/// Whether Enter takes this offer for the typed text, if the user did not move to it.
pub fn takes_by_itself(typed: &str, offer: &str) -> bool {
    SlashCommand::named(typed).is_some_and(|command| command.name == offer)
        || offer.starts_with(typed) && !needs_whole_word(offer)
}

pub fn needs_whole_word(offer: &str) -> bool {
    SlashCommand::named(offer).is_some_and(|command| command.whole_word)
}

fn has_letters_in_order(name: &str, letters: &str) -> bool {
    let mut rest = name.chars();
    letters.chars().all(|letter| rest.any(|c| c == letter))
}

impl App {
    /// Whether a text of the input is a command. A text that begins with a path is a message, and so is one with two
    /// slashes or several lines.
    pub(crate) fn is_command(&self, text: &str) -> bool {
        let word = text.split_whitespace().next().unwrap_or_default();
        let Some(name) = word.strip_prefix('/').filter(|_| text.starts_with('/')) else { return false };
        let is_known =
            || SlashCommand::named(word).is_some() || ELSEWHERE.iter().any(|(known, _)| *known == name);
        text.lines().count() == 1
            && !name.contains('/')
            && (name.is_empty() || is_known() || self.host.path_exists(word) != Some(true))
    }

    pub(crate) fn command(&mut self, line: &str) {
        let (name, argument) = line.split_once(' ').unwrap_or((line, ""));
        let argument = argument.trim();
        let name = name.trim();
        let named =
            SlashCommand::named(&format!("/{name}")).and_then(|command| command.name.strip_prefix('/'));
        match named.unwrap_or(name) {
            "help" => self.modal = Some(Modal::Help),
            "agents" => self.modal = Some(Modal::Agents),
            "tasks" => self.toggle_tasks(),
            "run" => self.open_newest_run(),
            "cancel" => self.cancel_live(),
            "plan" => self.toggle_mode(ModeToggle::Plan),
            "multi" if self.modes.agent_mode == AgentMode::Single => self.toggle_mode(ModeToggle::Agents),
            "single" => self.single(argument),
            "refine" if !self.modes.refinement => self.toggle_mode(ModeToggle::Refine),
            "quick" if self.modes.refinement => self.toggle_mode(ModeToggle::Refine),
            "multi" | "refine" | "quick" => {}
            "override" => self.open_override(),
            "pin" => self.pin_newest(),
            "compact" => self.submit(Op::Compact),
            "find" if argument.is_empty() => self.start_find(),
            "find" => self.find_in_conversation(argument, 1),
            "mouse" => self.set_mouse(argument),
            "model" => {
                self.modal = Some(Modal::Agents);
                self.toast = Some(
                    "models are set in the config (`backend.model`) or with --model at the start".into(),
                );
            }
            "copy" => match self.newest_text() {
                Some(text) => self.copy(text),
                None => self.toast = Some("there is nothing to copy yet".into()),
            },
            "cost" => self.modal = Some(Modal::Cost),
            "sessions" => self.pick_session(),
            "rename" => self.rename_this_session(argument),
            "projects" => self.pick(
                self.host.projects().map(Picker::Projects),
                "you have no projects yet; `althing --project DIR` creates one",
            ),
            "new" => self.leave_or_ask(TuiExit::NewSession),
            "config" => self.effects.push(Effect::WriteConfig),
            "undo" => match self.host.last_changed() {
                Ok(task) if self.host.is_undone(&task) => {
                    self.toast = Some("every change of files is already undone".into());
                }
                Ok(task) => self.confirm(ConfirmedAction::Undo(task)),
                Err(reason) => self.toast = Some(reason),
            },
            "theme" => self.set_theme(argument),
            "edit" => self.effects.push(Effect::EditInput),
            "quit" => self.leave_or_ask(TuiExit::Quit),
            other => self.unknown(other),
        }
        if self.modes.plan_mode == PlanMode::Plan && name == "plan" {
            self.toast = Some("plan mode: what you ask next becomes a plan for approval".into());
        }
    }

    fn unknown(&mut self, name: &str) {
        let written = format!("/{name}");
        if let Some((_, instead)) = ELSEWHERE.iter().find(|(known, _)| *known == name) {
            self.toast = Some(format!("{written}: {instead}"));
            return;
        }
        let names = COMMANDS.iter().flat_map(|command| std::iter::once(&command.name).chain(command.aliases));
        let nearest = nearest(&written, names.copied()).unwrap_or("/help");
        self.toast = Some(format!(
            "{written} is not a command: did you mean {nearest}? /{written} sends it as a message"
        ));
    }

    fn cancel_live(&mut self) {
        match self.model.live_run().map(|run| run.id.clone()) {
            Some(task) => self.confirm(ConfirmedAction::Cancel(task)),
            None if self.model.state != ChatState::Idle => self.submit(Op::Cancel { task: TaskId::chat() }),
            None => self.toast = Some("nothing is running".into()),
        }
    }

    fn single(&mut self, name: &str) {
        let team = self.team_ids();
        if name.is_empty() {
            if self.modes.agent_mode == AgentMode::Multi {
                self.toggle_mode(ModeToggle::Agents);
            }
        } else if let Some(member_index) = team.iter().position(|id| id.as_str() == name) {
            self.choose_agent(member_index);
        } else {
            let names: Vec<&str> = team.iter().map(althing_protocol::AgentId::as_str).collect();
            self.toast = Some(format!("there is no agent {name}; the agents are: {}", names.join(", ")));
        }
    }

    fn pin_newest(&mut self) {
        let spoken = self.model.entries.iter().rev().find(|entry| {
            matches!(entry.body, althing_view::EntryBody::User { .. } | althing_view::EntryBody::Agent { .. })
        });
        let queued = self.model.queue.last().map(|message| message.seq);
        match queued.or_else(|| spoken.map(|entry| entry.seq)) {
            Some(seq) => {
                let name = self.message_name(seq);
                self.submit(Op::Pin { message: Some(seq) });
                self.toast.get_or_insert_with(|| format!("pinned: {name}"));
            }
            None => self.toast = Some("there is no message to pin yet".into()),
        }
    }

    fn pick(&mut self, picker: Result<Picker, String>, empty: &str) {
        match picker {
            Ok(picker) if picker.is_empty() => self.toast = Some(empty.to_owned()),
            Ok(picker) => self.modal = Some(Modal::Pick { picker, chosen: 0 }),
            Err(error) => self.toast = Some(error),
        }
    }

    fn set_theme(&mut self, name: &str) {
        if let Some(theme) = Theme::by_name(name) {
            self.theme = theme;
        } else {
            let chosen = Theme::ALL.iter().position(|theme| *theme == self.theme).unwrap_or_default();
            self.modal = Some(Modal::Pick { picker: Picker::Themes(self.theme), chosen });
        }
    }
}
