//! Slash commands.

use super::{App, Effect, Modal, ModeToggle, Picker};
use crate::host::TuiExit;
use crate::modes::PlanMode;
use crate::theme::Theme;
use althing_protocol::{AgentMode, ChatState, Op, TaskId};
use althing_text::nearest;

pub const COMMANDS: &[(&str, &str)] = &[
    ("/help", "keys and commands"),
    ("/agents", "list the agents"),
    ("/tasks", "all tasks, and those that wait for you"),
    ("/run", "open the newest run"),
    ("/cancel", "stop the run, or the agent's turn"),
    ("/plan", "switch plan mode on or off"),
    ("/multi", "several agents"),
    ("/single", "one agent: /single NAME"),
    ("/refine", "refine and vote"),
    ("/quick", "quick mode: no refining"),
    ("/override", "choose who presents"),
    ("/pin", "keep the newest message verbatim"),
    ("/compact", "shorten the conversation now"),
    ("/copy", "copy the newest answer"),
    ("/cost", "show the cost so far"),
    ("/find", "search the conversation: /find WORDS"),
    ("/model", "the models in use, and how to change them"),
    ("/sessions", "resume, rename or delete sessions (/resume)"),
    ("/rename", "give this session a title: /rename TITLE"),
    ("/projects", "switch to another project"),
    ("/new", "start a new session (/clear)"),
    ("/config", "write a starter config here"),
    ("/undo", "restore the files that were changed last"),
    ("/theme", "colors: /theme dark, light or mono"),
    ("/mouse", "on or off; off: the terminal selects text"),
    ("/edit", "write the message in your editor"),
    ("/quit", "leave"),
];

const KEYS: &[(&str, &str)] = &[
    ("/help", "^G"),
    ("/tasks", "^T"),
    ("/run", "^R"),
    ("/cancel", "^C"),
    ("/plan", "⇧tab"),
    ("/multi", "alt+a"),
    ("/single", "alt+a"),
    ("/refine", "alt+r"),
    ("/quick", "alt+r"),
    ("/override", "^O"),
    ("/edit", "^X"),
    ("/quit", "^D"),
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
    ("vim", "Ctrl+X writes the message in your editor"),
];

/// The commands that match the typed text (with its slash), with descriptions and keys: first those that begin with it,
/// then those that contain its letters in order, then those whose description contains it.
pub fn matching(typed: &str) -> Vec<(String, String)> {
    let letters = typed.trim_start_matches('/').to_lowercase();
    let rank = |name: &str, about: &str| {
        if name.starts_with(typed) {
            Some(0)
        } else if has_letters_in_order(name, &letters) {
            Some(1)
        } else {
            (letters.len() > 2 && about.contains(&letters)).then_some(2)
        }
    };
    let mut found: Vec<(u8, (String, String))> = Vec::new();
    for (name, about) in COMMANDS {
        if let Some(rank) = rank(name, about) {
            let key = KEYS.iter().find(|(command, _)| command == name);
            let about = key.map_or_else(|| (*about).to_owned(), |(_, key)| format!("{about} · {key}"));
            found.push((rank, ((*name).to_owned(), about)));
        }
    }
    if found.iter().any(|(rank, _)| *rank == 0) {
        found.retain(|(rank, _)| *rank < 2);
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, offer)| offer).collect()
}

fn has_letters_in_order(name: &str, letters: &str) -> bool {
    let mut rest = name.chars();
    letters.chars().all(|letter| rest.any(|c| c == letter))
}

impl App {
    pub(crate) fn command(&mut self, line: &str) {
        let (name, argument) = line.split_once(' ').unwrap_or((line, ""));
        let argument = argument.trim();
        match name.trim() {
            "help" | "?" => self.modal = Some(Modal::Help),
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
            "find" | "search" if argument.is_empty() => self.start_find(),
            "find" | "search" => self.find_in_conversation(argument, 1),
            "mouse" => self.set_mouse(argument),
            "model" | "models" => {
                self.modal = Some(Modal::Agents);
                self.toast = Some(
                    "models are set in the config (`backend.model`) or with --model at the start".into(),
                );
            }
            "copy" => match self.newest_text() {
                Some(text) => self.copy(text),
                None => self.toast = Some("there is nothing to copy yet".into()),
            },
            "cost" | "usage" | "stats" | "status" | "context" => self.modal = Some(Modal::Cost),
            "sessions" | "resume" | "continue" => self.pick_session(),
            "rename" => self.rename_this_session(argument),
            "projects" => self.pick(
                self.host.projects().map(Picker::Projects),
                "you have no projects yet; `althing --project DIR` creates one",
            ),
            "new" | "clear" | "reset" => self.leave(TuiExit::NewSession),
            "config" => self.effects.push(Effect::WriteConfig),
            "undo" => self.effects.push(Effect::Undo(None)),
            "theme" => self.set_theme(argument),
            "edit" | "editor" => self.effects.push(Effect::EditInput),
            "quit" | "exit" | "q" => self.leave(TuiExit::Quit),
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
        let nearest = nearest(&written, COMMANDS.iter().map(|(name, _)| *name)).unwrap_or("/help");
        self.toast = Some(format!(
            "{written} is not a command: did you mean {nearest}? /{written} sends it as a message"
        ));
    }

    fn cancel_live(&mut self) {
        match self.model.live_run().map(|run| run.id.clone()) {
            Some(task) => self.submit(Op::Cancel { task }),
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
