//! The briefing of an agent with tools about its environment: what it may write and read, and where other members'
//! work is.

use super::markers::enclose_alone;
use althing_protocol::{ContextAccess, ContextPath};
use althing_text::fnv1a;
use std::fmt::Write;

/// The briefing of a run's member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceBriefing {
    /// The agent's workspace.
    pub workspace: String,
    /// The directory of the views of other members' work.
    pub views: String,
    /// The run's context paths.
    pub context: Vec<ContextPath>,
    /// Whether the agent can run commands.
    pub commands: bool,
    /// The directory of the project's deliverables, if the run belongs to a project.
    pub deliverables: Option<String>,
}

impl WorkspaceBriefing {
    /// The briefing as prompt text.
    pub fn text(&self, access: ContextAccess) -> String {
        let mut text = format!(
            "You work with files. Your workspace is {}; write there, and name files by their full paths in your answer. \
             The files of other agents whose answers you have seen are under {} (read only).",
            self.workspace, self.views
        );
        if !self.context.is_empty() {
            text.push_str("\nThe request is about these paths:");
            for path in &self.context {
                let right = match (path.writable, access) {
                    (false, _) => "read only",
                    (true, ContextAccess::Writable) => "you may write here: this is where the result belongs",
                    (true, ContextAccess::ReadOnly) => {
                        "read only for now; the agent that gives the final answer can write here, so prepare changes in \
                         your workspace"
                    }
                };
                let _ = write!(text, "\n- {} ({right})", path.path);
            }
        }
        if let Some(deliverables) = &self.deliverables {
            let _ = write!(
                text,
                "\nThis is part of a project. Put result files into {}/deliverables; those of the final answer are \
                 copied to {deliverables}, which contains earlier deliverables.",
                self.workspace
            );
        }
        if self.commands {
            text.push_str(
                "\nYou can run commands. Commands see only these paths and the system's programs; their processes end \
                 with the call.",
            );
        }
        text.push_str("\nCall several tools at once where they do not depend on each other.");
        text
    }
}

/// The briefing of the chat agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectBriefing {
    /// The project's directory, or without a project the working directory. Relative paths are resolved against it.
    pub project: String,
    /// Whether the agent may write to the project.
    pub writable: bool,
    /// Other paths that the agent may read.
    pub context: Vec<String>,
    /// The directory of the files of the conversation's runs.
    pub runs: String,
    /// Whether the agent is a CLI agent, with its own file tools.
    pub is_cli_agent: bool,
}

impl ProjectBriefing {
    /// The briefing as prompt text, with a description of the project workspace, if the conversation has one.
    pub fn text(&self, known: Option<&str>) -> String {
        let mut text = match (self.is_cli_agent, self.writable) {
            (true, true) => format!(
                "You work in {} with your own tools: you may change files there, and nowhere else.",
                self.project
            ),
            (true, false) => {
                format!("The project is {}. You may read it, and change nothing there.", self.project)
            }
            (false, true) => format!(
                "The project is {}; relative paths begin there. You can read, write and edit its files yourself, and \
                 nothing outside the project. You cannot run commands: launch a run for that.",
                self.project
            ),
            (false, false) => format!(
                "The project is {}; relative paths begin there. You can look at its files and change nothing there.",
                self.project
            ),
        };
        let _ = write!(
            text,
            " The files of runs (answers, logs, workspaces) are under {} (read only).",
            self.runs
        );
        for (n, path) in self.context.iter().enumerate() {
            let head = if n == 0 { "\nYou may also read:" } else { "" };
            let _ = write!(text, "{head}\n- {path}");
        }
        if let Some(known) = known {
            let _ = write!(
                text,
                "\n{} is a project workspace that outlives this conversation. Keep it current: when something is \
                 decided or done, record it in CONTEXT.md (update_project_context), and describe important files and \
                 directories (describe_path). Runs put their results into deliverables/, and you may correct the \
                 files there. For new work after a long conversation, a new run with the right context is better than \
                 a long history.\n",
                self.project
            );
            enclose_alone(&mut text, fnv1a(&self.project), "PROJECT", known);
            text.truncate(text.trim_end().len());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writable_path_is_offered_for_writing_only_when_it_is() {
        let path = ContextPath { path: "/project".into(), writable: true, protected: Vec::new() };
        let briefing = WorkspaceBriefing {
            workspace: "/w".into(),
            views: "/v".into(),
            context: vec![path],
            commands: true,
            deliverables: None,
        };
        assert!(briefing.text(ContextAccess::ReadOnly).contains("/project (read only for now"));
        assert!(briefing.text(ContextAccess::Writable).contains("/project (you may write here"));
        assert!(briefing.text(ContextAccess::Writable).len() < 1000, "short: it is sent with every call");
    }
}
