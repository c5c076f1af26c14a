//! Parses the prompt for the offline model: the task, the answers, the agent's own answer, and tool results.
//!
//! Depends only on the markers in the prompt. Accepts any text: a prompt without markers is a plain message.

use althing_protocol::{Message, ModelRequest};

/// An answer in the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShownAnswer<'a> {
    /// The number in `agentN`.
    pub(super) agent: u32,
    /// The version of the answer: the `k` in `agentN.k`.
    pub(super) version: u32,
    pub(super) text: &'a str,
}

/// What a request contains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OfflinePromptInput<'a> {
    /// The task, or the last user message if the prompt has no markers.
    pub(super) task: &'a str,
    /// The newest answer of each agent, ordered by agent.
    pub(super) answers: Vec<ShownAnswer<'a>>,
    /// The agent's own answer.
    pub(super) own: Option<ShownAnswer<'a>>,
    /// The results of successful tool calls. In a prompt without markers, only those since the last user message.
    pub(super) results: Vec<&'a str>,
    /// A conversation to summarize.
    pub(super) conversation: Option<&'a str>,
    /// The number of failed tool calls. In a prompt without markers, only those since the last user message.
    pub(super) errors: usize,
}

impl<'a> OfflinePromptInput<'a> {
    pub(super) fn read(request: &'a ModelRequest) -> Self {
        let mut prompt_input = Self::default();
        for message in &request.messages {
            match message {
                Message::User(text) => {
                    if let Some(task) = between(text, "<ORIGINAL MESSAGE>", "<END OF ORIGINAL MESSAGE>") {
                        prompt_input.task = task;
                        prompt_input.own = None;
                    } else if !text.trim_start().starts_with('<') && !prompt_input.is_marked(request) {
                        prompt_input.task = text.trim();
                        prompt_input.results.clear();
                        prompt_input.errors = 0;
                    }
                    prompt_input.conversation = between(text, "<CONVERSATION>\n", "<END OF CONVERSATION>")
                        .or(prompt_input.conversation);
                    prompt_input.take_answers(text);
                }
                Message::Tool { is_error: true, .. } => prompt_input.errors += 1,
                Message::Tool { content, .. } => prompt_input.results.push(content),
                Message::Assistant { .. } => {}
            }
        }
        prompt_input
    }

    /// Whether any message marks its task; then no other text is the task.
    fn is_marked(&self, request: &ModelRequest) -> bool {
        !self.task.is_empty()
            && request
                .messages
                .iter()
                .any(|message| matches!(message, Message::User(text) if text.contains("<ORIGINAL MESSAGE>")))
    }

    /// Takes the answers from a text; a newer answer replaces its agent's earlier one. The last answer of the first
    /// text that shows answers is the reader's own.
    fn take_answers(&mut self, text: &'a str) {
        let found = answers(text);
        let first_list = self.answers.is_empty();
        let last = found.last().copied();
        for answer in found {
            match self.answers.iter_mut().find(|known| known.agent == answer.agent) {
                Some(known) => *known = answer,
                None => self.answers.push(answer),
            }
        }
        self.answers.sort_by_key(|answer| answer.agent);
        if first_list {
            self.own = last;
        } else if let Some(own) = self.own {
            self.own = self.answers.iter().find(|answer| answer.agent == own.agent).copied();
        }
    }
}

/// The `<agentN.k> … <end of agentN.k>` blocks of a text, in order.
fn answers(text: &str) -> Vec<ShownAnswer<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("<agent") {
        rest = after;
        let Some((label, body)) = after.split_once('>') else { break };
        let Some((agent, version)) = label.split_once('.') else { continue };
        let (Ok(agent), Ok(version)) = (agent.parse(), version.parse()) else { continue };
        let Some((text, after)) = body.split_once(&format!("<end of agent{label}>")) else { continue };
        found.push(ShownAnswer { agent, version, text: text.trim() });
        rest = after;
    }
    found
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(start)?;
    Some(after.split_once(end).map_or(after, |(inside, _)| inside).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(messages: Vec<Message>) -> ModelRequest {
        ModelRequest { messages, ..ModelRequest::default() }
    }

    #[test]
    fn task_answers_and_the_own_answer_are_found_and_newer_answers_replace_older_ones() {
        let first = "<ORIGINAL MESSAGE>\nDo x\n<END OF ORIGINAL MESSAGE>\n\n<CURRENT ANSWERS from the agents>\n\
            <agent1.1>\none\n<end of agent1.1>\n<agent3.1>\nthree\n<end of agent3.1>\n\
            <agent2.1>\ntwo, which speaks of <agent9.x> and a > b\n<end of agent2.1>\n<END OF CURRENT ANSWERS>";
        let newer = "<NEWER ANSWERS from the agents>\n<agent3.2>\nthree again\n<end of agent3.2>\n<END OF NEWER ANSWERS>";
        let request = request(vec![Message::User(first.into()), Message::User(newer.into())]);
        let own = ShownAnswer { agent: 2, version: 1, text: "two, which speaks of <agent9.x> and a > b" };
        let expected = OfflinePromptInput {
            task: "Do x",
            answers: vec![
                ShownAnswer { agent: 1, version: 1, text: "one" },
                own,
                ShownAnswer { agent: 3, version: 2, text: "three again" },
            ],
            own: Some(own),
            results: Vec::new(),
            conversation: None,
            errors: 0,
        };
        assert_eq!(OfflinePromptInput::read(&request), expected);
    }

    #[test]
    fn without_marks_the_last_message_is_the_task() {
        let tool = Message::Tool { call: "1".into(), content: "result".into(), is_error: false };
        let request = request(vec![
            Message::User("hello".into()),
            tool.clone(),
            Message::User("build it".into()),
            tool,
        ]);
        let prompt_input = OfflinePromptInput::read(&request);
        assert_eq!((prompt_input.task, prompt_input.results), ("build it", vec!["result"]));
    }

    #[test]
    fn a_reminder_is_not_taken_for_the_task() {
        let marked = "<ORIGINAL MESSAGE>\nDo x\n<END OF ORIGINAL MESSAGE>";
        let request = request(vec![Message::User(marked.into()), Message::User("Use a tool.".into())]);
        assert_eq!(OfflinePromptInput::read(&request).task, "Do x");
    }
}
