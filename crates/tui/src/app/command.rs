//! Slash commands.

use super::{App, Effect, Modal, ModeToggle, Picker};
use crate::host::TuiExit;
use crate::modes::PlanMode;
use crate::theme::Theme;
use althing_protocol::{AgentMode, ChatState, Op, TaskId};
use althing_text::nearest;

/// All commands, with a short description.
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
    ("/sessions", "resume another session"),
    ("/projects", "switch to another project"),
    ("/new", "start a new session"),
    ("/config", "write a starter config here"),
    ("/undo", "restore the files that were changed last"),
    ("/theme", "colors: /theme dark, light or mono"),
    ("/edit", "write the message in your editor"),
    ("/quit", "leave"),
];

/// The commands that start with a prefix (which includes the slash), with their descriptions.
pub fn matching(prefix: &str) -> Vec<(String, String)> {
    COMMANDS
        .iter()
        .filter(|(name, _)| name.starts_with(prefix))
        .map(|(name, about)| ((*name).to_owned(), (*about).to_owned()))
        .collect()
}

impl App {
    /// Executes a command line, given without its slash.
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
            "copy" => match self.newest_text() {
                Some(text) => self.copy(text),
                None => self.toast = Some("there is nothing to copy yet".into()),
            },
            "cost" => self.modal = Some(Modal::Cost),
            "sessions" => self
                .pick(self.host.sessions().map(Picker::Sessions), "there is no other conversation to open"),
            "projects" => self.pick(
                self.host.projects().map(Picker::Projects),
                "you have no projects yet; `althing --project DIR` creates one",
            ),
            "new" => self.leave(TuiExit::NewSession),
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
        let nearest = nearest(&written, COMMANDS.iter().map(|(name, _)| *name)).unwrap_or("/help");
        self.toast = Some(format!(
            "{written} is not a command: did you mean {nearest}? /{written} sends it as a message"
        ));
    }

    fn cancel_live(&mut self) {
        match self.model.live_run().map(|run| run.id.clone()) {
            Some(task) => self.submit(Op::Cancel { task }),
            // Without a run, the chat agent's turn is cancelled, whether it is replying or waiting for an approval.
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
        match spoken.map(|entry| entry.seq) {
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
