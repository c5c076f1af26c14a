//! Parses the prompt for the offline model by its markers: the task, the answers, the presenter's own answer, and tool
//! results. A prompt without markers is a plain message.

use althing_protocol::{Message, ModelRequest};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShownAnswer<'a> {
    /// The number in `agentN`.
    pub(super) agent: u32,
    /// The `k` in `agentN.k`.
    pub(super) version: u32,
    pub(super) text: &'a str,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OfflinePromptInput<'a> {
    pub(super) task: &'a str,
    /// The newest answer of each agent, ordered by agent.
    pub(super) answers: Vec<ShownAnswer<'a>>,
    /// The presenter's own answer. Meaningful only in the prompt of a presentation.
    pub(super) own: Option<ShownAnswer<'a>>,
    /// The results of successful tool calls. In a prompt without markers, only those since the last user message.
    pub(super) results: Vec<&'a str>,
    /// The user's messages in a conversation to summarize; empty if the prompt has a task of its own.
    pub(super) conversation: Vec<&'a str>,
    /// The number of failed tool calls. In a prompt without markers, only those since the last user message.
    pub(super) errors: usize,
}

impl<'a> OfflinePromptInput<'a> {
    pub(super) fn read(request: &'a ModelRequest) -> Self {
        let mut prompt_input = Self::default();
        for message in &request.messages {
            match message {
                Message::User(text) => {
                    if let Some((_, task)) = marked(text, "<ORIGINAL MESSAGE").next() {
                        prompt_input.task = task;
                        prompt_input.own = None;
                    } else if !text.trim_start().starts_with('<') && !prompt_input.is_marked(request) {
                        prompt_input.task = text.trim();
                        prompt_input.results.clear();
                        prompt_input.errors = 0;
                    }
                    if prompt_input.task.is_empty() || !prompt_input.is_marked(request) {
                        let users = marked(text, "<user ").map(|(_, message)| message);
                        prompt_input.conversation.extend(users);
                    }
                    prompt_input.take_answers(text);
                }
                Message::Tool { is_error: true, .. } => prompt_input.errors += 1,
                Message::Tool { content, .. } => prompt_input.results.push(content),
                Message::Assistant { .. } => {}
            }
        }
        prompt_input
    }

    /// In a request with a marked task, a message without markers does not replace the task.
    fn is_marked(&self, request: &ModelRequest) -> bool {
        !self.task.is_empty()
            && request
                .messages
                .iter()
                .any(|message| matches!(message, Message::User(text) if text.contains("<ORIGINAL MESSAGE ")))
    }

    /// A newer answer replaces its agent's earlier one. A presenter is shown its own answer last. A judge is shown its
    /// own at any place, so `compose::own` searches for that.
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

/// The `<agentN.k CODE> … <end of agentN.k CODE>` blocks of a text.
fn answers(text: &str) -> Vec<ShownAnswer<'_>> {
    let shown = |(label, text): (&str, _)| {
        let (agent, version) = label.strip_prefix("agent")?.split_once('.')?;
        Some(ShownAnswer { agent: agent.parse().ok()?, version: version.parse().ok()?, text })
    };
    marked(text, "<").filter_map(shown).collect()
}

/// Blocks between marker lines with the same name and code, as pairs of name and content. `start` is the beginning of
/// the opening line.
fn marked<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (line, after) = rest.split_once('\n')?;
            rest = after;
            let marker = Some(line).filter(|line| line.starts_with(start));
            let Some((name, code)) =
                marker.and_then(|line| line.strip_prefix('<')?.strip_suffix('>')?.rsplit_once(' '))
            else {
                continue;
            };
            let end = if name.starts_with(char::is_uppercase) { "END OF" } else { "end of" };
            let Some((inside, after)) = after.split_once(&format!("\n<{end} {name} {code}>")) else {
                continue;
            };
            rest = after;
            return Some((name, inside.trim()));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(messages: Vec<Message>) -> ModelRequest {
        ModelRequest { messages, ..ModelRequest::default() }
    }

    #[test]
    fn task_answers_and_the_own_answer_are_found_and_newer_answers_replace_older_ones() {
        let first = "<ORIGINAL MESSAGE 7a>\nDo x\n<END OF ORIGINAL MESSAGE 7a>\n\nThe agents' current answers:\n\
            <agent1.1 7a>\none\n<end of agent1.1 7a>\n<agent3.1 7a>\nthree\n<end of agent3.1 7a>\n\
            <agent2.1 7a>\ntwo, which speaks of <agent9.x> and a > b\n<end of agent2.1 7a>";
        let newer =
            "Newer answers of the agents:\n<agent3.2 7a>\nthree again\n<end of agent3.2 7a>\nJudge again.";
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
            conversation: Vec::new(),
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
        let marked = "<ORIGINAL MESSAGE 7a>\nDo x\n<END OF ORIGINAL MESSAGE 7a>";
        let request = request(vec![Message::User(marked.into()), Message::User("Use a tool.".into())]);
        assert_eq!(OfflinePromptInput::read(&request).task, "Do x");
    }
}
