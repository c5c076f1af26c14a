//! What the interactive agent is shown: its system prompt, the conversation, its tools; and what a run is given of the
//! conversation.

use super::compaction::Earlier;
use super::state::{Child, Launching, Step};
use super::{InteractiveSession, tokens};
use crate::launch::{self, LAUNCH_RUN, beginning};
use crate::prompt::interactive::{Talk, system_prompt};
use althing_protocol::{ChatSpec, Desk, Exchange, Message, ModelRequest, Purpose, RunResult, ToolSpec};
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

/// How much of one earlier answer a run is given, and of all of them together, in bytes.
const ANSWER_IN_HISTORY: usize = 8 * 1024;
const HISTORY: usize = 128 * 1024;

/// What is the same in every call of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    system: Arc<str>,
    tools: Vec<ToolSpec>,
    /// Its size.
    pub(super) tokens: u64,
}

impl Frame {
    pub(super) fn new(spec: &ChatSpec) -> Self {
        let Some(agent) = &spec.agent else {
            return Self { system: "".into(), tools: Vec::new(), tokens: 0 };
        };
        let system = system_prompt(&Talk { agent, team: &spec.team, project: spec.project.as_deref() });
        let tool = launch::launch_run_spec(&spec.team);
        let tokens =
            [&system, &tool.description, &tool.parameters.to_string()].map(|text| tokens::estimate(text));
        Self { system: system.into(), tools: vec![tool], tokens: tokens.iter().sum() }
    }
}

impl InteractiveSession {
    /// The model call that the attempt under way is waiting for.
    pub fn request(&self) -> Option<ModelRequest> {
        let attempt = self.turn.as_ref()?.attempt.as_ref()?;
        let compacts = attempt.purpose == Purpose::Compact;
        let request = if compacts { self.summing_request() } else { self.conversation() };
        let desk = Desk {
            work: self.task.clone(),
            attempt: attempt.number,
            // The summary is made outside the conversation.
            native: self.native.clone().filter(|_| !compacts),
            workspace: None,
            shared: false,
            readable: Vec::new(),
            writable: Vec::new(),
        };
        Some(ModelRequest { desk: Some(desk), ..request })
    }

    /// Whether the call under way is one of the agent's own, with its place and tools; a summary is made without them.
    pub fn is_at_work(&self) -> bool {
        let attempt = self.turn.as_ref().and_then(|turn| turn.attempt.as_ref());
        attempt.is_some_and(|attempt| attempt.purpose == Purpose::Converse)
    }

    /// The conversation as the agent is shown it.
    fn conversation(&self) -> ModelRequest {
        let messages = self.messages();
        ModelRequest {
            system: self.frame.system.clone(),
            messages,
            tools: self.frame.tools.clone(),
            desk: None,
        }
    }

    pub(super) fn messages(&self) -> Vec<Message> {
        let mut messages: Vec<Message> = self.earlier.iter().map(|earlier| self.before(earlier)).collect();
        for past in &self.past {
            messages.push(Message::User(past.message.text.clone()));
            push_steps(&mut messages, &past.steps, past.cut_short.as_deref());
            if let Some(result) = &past.direct {
                let text = direct_words(result, self.most_of_a_result());
                messages.push(Message::Assistant { text, tool_calls: Vec::new() });
            }
        }
        if let Some(turn) = &self.turn {
            messages.extend(turn.message.iter().map(|message| Message::User(message.text.clone())));
            push_steps(&mut messages, &turn.steps, None);
        }
        messages
    }

    /// What came before the turns that are shown whole.
    fn before(&self, earlier: &Earlier) -> Message {
        let mut text = format!(
            "<EARLIER CONVERSATION, SUMMED UP>\n{}\n<END OF SUMMARY>\n\n<KEPT WORD FOR WORD>\n",
            earlier.summary
        );
        for kept in &earlier.kept {
            let goal = self.goal.as_ref().is_some_and(|goal| goal.seq == kept.seq);
            let who = match (goal, kept.by_user) {
                (true, _) => "User (the first message)",
                (false, true) => "User",
                (false, false) => "Assistant",
            };
            let _ = writeln!(text, "{who}: {}", kept.text);
        }
        for marker in &earlier.markers {
            let _ = writeln!(text, "- {marker}");
        }
        text.push_str("<END OF WHAT IS KEPT>");
        Message::User(text)
    }

    /// How much of a run's result enters the conversation, in bytes: an eighth of what it may hold, within reason.
    pub(super) fn most_of_a_result(&self) -> usize {
        let threshold = self.spec.agent.as_ref().map_or(100_000, |agent| agent.compaction.threshold_tokens);
        (threshold / 8).clamp(500, 4000) as usize * 4
    }

    /// The result of a launch as the agent is told it.
    pub(super) fn told(&self, launching: &Launching) -> String {
        let result = |run: &Option<Child>| run.as_ref().and_then(|run| run.result.clone());
        let most = self.most_of_a_result();
        match (result(&launching.run), result(&launching.execution)) {
            (Some(run), execution) => launch::told(&run, execution.as_ref(), most),
            (None, _) => String::new(),
        }
    }

    /// The conversation so far, as a run is given it: the newest of it, where it is too much.
    pub(super) fn history(&self) -> Vec<Exchange> {
        let mut room = HISTORY;
        let mut history = Vec::new();
        for past in self.past.iter().rev() {
            let (user, _) = beginning(&past.message.text, ANSWER_IN_HISTORY);
            let (assistant, _) = beginning(past.answer(), ANSWER_IN_HISTORY);
            let Some(left) = room.checked_sub(user.len() + assistant.len()) else { break };
            room = left;
            history.push(Exchange { user, assistant });
        }
        if let Some(earlier) = &self.earlier {
            let goal = self.goal.as_ref().map(|goal| goal.text.clone()).unwrap_or_default();
            history.push(Exchange { user: goal, assistant: format!("[summed up] {}", earlier.summary) });
        }
        history.reverse();
        history
    }
}

/// What was said in a turn. Every call gets a result: providers refuse a conversation in which one has none.
fn push_steps(messages: &mut Vec<Message>, steps: &[Step], cut_short: Option<&str>) {
    let mut open: Vec<String> = Vec::new();
    let close = |messages: &mut Vec<Message>, open: &mut Vec<String>| {
        messages.extend(open.drain(..).map(|call| Message::Tool {
            call,
            content: "[stopped before there was a result]".into(),
            is_error: true,
        }));
    };
    for step in steps {
        match step {
            Step::Reply { reply, .. } => {
                close(messages, &mut open);
                let mut seen = HashSet::new();
                open.extend(
                    reply.tool_calls.iter().map(|call| call.id.clone()).filter(|id| seen.insert(id.clone())),
                );
                messages.push(Message::Assistant {
                    text: reply.text.clone(),
                    tool_calls: reply.tool_calls.clone(),
                });
            }
            Step::Result { call, content, is_error } => {
                open.retain(|id| id != call);
                messages.push(Message::Tool {
                    call: call.clone(),
                    content: content.clone(),
                    is_error: *is_error,
                });
            }
            Step::Reminder(text) => messages.push(Message::User(text.clone())),
        }
    }
    if let Some(words) = cut_short {
        close(messages, &mut open);
        messages.push(Message::Assistant { text: words.to_owned(), tool_calls: Vec::new() });
    }
}

/// What the agent is told of a run that a message was by itself.
fn direct_words(result: &RunResult, most: usize) -> String {
    let (answer, cut) =
        beginning(result.final_answer.as_deref().or(result.error.as_deref()).unwrap_or_default(), most);
    let rest = if cut {
        format!("\n[cut here; the whole text is in {}/final_answer.md]", result.log_dir)
    } else {
        String::new()
    };
    format!(
        "[This message went to a run directly, without {LAUNCH_RUN}: run {}, {}. Its result:]\n{answer}{rest}",
        result.run_id,
        if result.modes.planning { "a plan" } else { "not a plan" }
    )
}
