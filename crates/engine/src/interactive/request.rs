//! The chat agent's model requests: system prompt, conversation, tools.

use super::InteractiveSession;
use super::compaction::CompactedHistory;
use super::state::{ChatStep, LaunchState, LaunchedRun, PastTurn};
use crate::launch::{self, LAUNCH_RUN};
use crate::prompt::interactive::{ChatPromptInput, system_prompt};
use crate::prompt::markers::{Markers, with_markers};
use crate::summary::structural_summary;
use althing_protocol::{
    CallContext, ChatSpec, Exchange, Grant, LateNotices, Message, ModelRequest, Purpose, RunResult, ToolSpec,
};
use althing_text::{estimate_tokens, fnv1a};
use std::collections::HashSet;
use std::sync::Arc;

/// The part of a request that is the same in every call of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BasePrompt {
    system: Arc<str>,
    tools: Vec<ToolSpec>,
    /// The estimated size of this part.
    pub(super) tokens: u64,
}

impl BasePrompt {
    pub(super) fn new(spec: &ChatSpec) -> Self {
        let Some(agent) = &spec.agent else {
            return Self { system: "".into(), tools: Vec::new(), tokens: 0 };
        };
        let system =
            system_prompt(&ChatPromptInput { agent, team: &spec.team, project: spec.project.as_deref() });
        let tool = launch::launch_run_spec(&spec.team);
        let tokens =
            [&system, &tool.description, &tool.parameters.to_string()].map(|text| estimate_tokens(text));
        Self { system: system.into(), tools: vec![tool], tokens: tokens.iter().sum() }
    }
}

/// The history of the session that this conversation continues.
pub(super) fn inherited_messages(spec: &ChatSpec) -> Vec<Message> {
    let exchange = |exchange: &Exchange| {
        let text = exchange.assistant.clone();
        [Message::User(exchange.user.clone()), Message::Assistant { text, tool_calls: Vec::new() }]
    };
    spec.history.iter().flat_map(exchange).collect()
}

impl InteractiveSession {
    /// The model request that the running attempt needs.
    pub fn request(&self) -> Option<ModelRequest> {
        let attempt = self.turn.as_ref()?.attempt.as_ref()?;
        let compacts = attempt.purpose == Purpose::Compact;
        let request = if compacts { self.summary_request() } else { self.conversation() };
        let call_context = CallContext {
            work: self.task.clone(),
            attempt: attempt.number,
            // The summary is made outside the backend's own conversation.
            native: self.native.clone().filter(|_| !compacts),
            workspace: None,
            grant: Grant::default(),
            late_notices: LateNotices::default(),
        };
        Some(ModelRequest { call_context: Some(call_context), ..request })
    }

    /// Whether the running attempt replies to the user, with environment and tools. A summary is made without them.
    pub fn is_conversing(&self) -> bool {
        let attempt = self.turn.as_ref().and_then(|turn| turn.attempt.as_ref());
        attempt.is_some_and(|attempt| attempt.purpose == Purpose::Converse)
    }

    fn conversation(&self) -> ModelRequest {
        let messages = self.messages();
        ModelRequest {
            system: self.base_prompt.system.clone(),
            messages,
            tools: self.base_prompt.tools.clone(),
            call_context: None,
        }
    }

    pub(super) fn messages(&self) -> Vec<Message> {
        let mut messages = inherited_messages(&self.spec);
        messages.extend(self.earlier.iter().map(|earlier| self.summary_message(earlier)));
        messages.extend(self.past.iter().flat_map(|past| self.past_messages(past)));
        if let Some(turn) = &self.turn {
            messages.extend(turn.message.iter().map(|message| {
                let mut text = message.text.clone();
                if turn.replaced_replies > 0 {
                    text.push_str("\n\n[Your first steps for this message are part of the summary above.]");
                }
                Message::User(text)
            }));
            push_steps(&mut messages, &turn.steps, None);
        }
        messages
    }

    pub(super) fn past_messages(&self, past: &PastTurn) -> Vec<Message> {
        let mut messages = vec![Message::User(past.message.text.clone())];
        push_steps(&mut messages, &past.steps, past.cut_short.as_deref());
        if let Some(result) = &past.direct {
            let text = direct_result_text(result, self.result_limit());
            messages.push(Message::Assistant { text, tool_calls: Vec::new() });
        }
        messages
    }

    pub(super) fn summary_message(&self, earlier: &CompactedHistory) -> Message {
        let build = |markers: Markers<'_>| {
            let mut text = "The earlier conversation, summarized:\n".to_owned();
            markers.enclose(&mut text, "summary", &earlier.summary);
            text.push_str("These messages and facts of the earlier conversation are kept word for word:\n");
            for message in &earlier.preserved {
                let goal = self.goal.as_ref().is_some_and(|goal| goal.seq == message.seq);
                let who = match (goal, message.by_user) {
                    (true, _) => "first user message",
                    (false, true) => "user",
                    (false, false) => "assistant",
                };
                markers.enclose(&mut text, who, &message.text);
            }
            if !earlier.markers.is_empty() {
                markers.enclose(&mut text, "facts", &format!("- {}", earlier.markers.join("\n- ")));
            }
            vec![Message::User(text.trim_end().to_owned())]
        };
        let seed = fnv1a(self.session.as_str());
        with_markers(seed, build).into_iter().next().unwrap_or_else(|| Message::User(String::new()))
    }

    /// The maximum size of a run's answer in the conversation, in bytes: an eighth of the compaction threshold at four
    /// bytes per token, within fixed bounds.
    pub(super) fn result_limit(&self) -> usize {
        let threshold = self.spec.agent.as_ref().map_or(100_000, |agent| agent.compaction.threshold_tokens);
        (threshold / 8).clamp(500, 4000) as usize * 4
    }

    pub(super) fn launch_result(&self, launching: &LaunchState) -> String {
        let result = |run: &Option<LaunchedRun>| run.as_ref().and_then(|run| run.result.clone());
        let most = self.result_limit();
        match (result(&launching.run), result(&launching.execution)) {
            (Some(run), execution) => launch::result_text(&run, execution.as_ref(), most),
            (None, _) => String::new(),
        }
    }
}

pub(super) fn step_messages(steps: &[ChatStep]) -> Vec<Message> {
    let mut messages = Vec::new();
    push_steps(&mut messages, steps, None);
    messages
}

/// Providers reject a conversation with an unanswered tool call, so such a call gets a result if a reply follows it or
/// the turn was cut short.
fn push_steps(messages: &mut Vec<Message>, steps: &[ChatStep], cut_short: Option<&str>) {
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
            ChatStep::Reply { reply, .. } => {
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
            ChatStep::Result { call, content, is_error, .. } => {
                open.retain(|id| id != call);
                messages.push(Message::Tool {
                    call: call.clone(),
                    content: content.clone(),
                    is_error: *is_error,
                });
            }
            ChatStep::Reminder { text, .. } => messages.push(Message::User(text.clone())),
        }
    }
    if let Some(reason) = cut_short {
        close(messages, &mut open);
        messages.push(Message::Assistant { text: reason.to_owned(), tool_calls: Vec::new() });
    }
}

fn direct_result_text(result: &RunResult, most: usize) -> String {
    let (answer, file) = match &result.final_answer {
        Some(answer) => (answer.as_str(), "final_answer.md"),
        None => (result.error.as_deref().unwrap_or_default(), "result.json"),
    };
    let answer = structural_summary(answer, most, &format!("the whole text is in {}/{file}", result.log_dir));
    format!(
        "[This message started the run {} directly, without {LAUNCH_RUN}. {}:]\n{answer}",
        result.run_id,
        if result.modes.planning { "The plan that the run made" } else { "The result of the run" }
    )
}
