//! Recognizes weak answers, so that they can be rejected: texts of small models that are no answers (empty texts,
//! copied prompt markup, refusals, offers to help, announcements, talk about the answers), and versions that lost the
//! code of the answer they replace. Phrases are recognized in English only. Pure, so that a replay of a log gives the
//! same result.

mod code;
mod markup;
mod phrases;
mod words;

use super::state::{AttemptTurn, MemberAttempt, MemberState, RunState};
use althing_protocol::{Answer, Purpose, Reply, Revision};

const MAX_SHORT_CHARS: usize = 600;

const MAX_ANNOUNCEMENT_CHARS: usize = 160;

/// A text that lost the code of its basis is accepted if it takes its content from another answer of at least this many
/// bytes.
const MIN_OTHER_BYTES: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakness {
    Empty,
    /// Contains marker lines of our prompts, or consists only of tokens of a chat template.
    Markup,
    ToolCall,
    /// Asks what to do, or says that its author is ready.
    Offer,
    Refusal,
    Announcement,
    LostCode,
    AboutAnswers,
    AboutInstructions,
}

impl Weakness {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Empty => "is empty",
            Self::Markup => "repeats the markup of the prompt",
            Self::ToolCall => "is a tool call written as text",
            Self::Offer => "offers help instead of answering",
            Self::Refusal => "apologizes or refuses instead of answering",
            Self::Announcement => "announces an answer but does not contain one",
            Self::LostCode => "has lost the code of the answer that it should replace",
            Self::AboutAnswers => "talks about the agents' answers instead of answering",
            Self::AboutInstructions => "talks about the tools and the prompt instead of answering",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sources<'a> {
    pub(crate) task: &'a str,
    /// The answer that the text should present or improve; empty if there is none.
    pub(crate) basis: &'a str,
    pub(crate) others: Vec<&'a str>,
}

impl Sources<'_> {
    fn contain(&self, fragment: &str) -> bool {
        self.all().any(|source| source.contains(fragment))
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        [self.task, self.basis].into_iter().chain(self.others.iter().copied())
    }
}

/// Why a presentation is weak; `None` if it is accepted. If the author `acts` (has tools), its text may refer to files
/// and report failures, so refusals, announcements, missing code and talk about answers are accepted.
pub(crate) fn of_presentation(text: &str, sources: &Sources<'_>, acts: bool) -> Option<Weakness> {
    let no_answer = no_answer(text, sources);
    if acts {
        return no_answer.filter(|weakness| !matches!(weakness, Weakness::Refusal | Weakness::Announcement));
    }
    no_answer.or_else(|| lost_code(text, sources)).or_else(|| about_answers(text, sources))
}

pub(crate) fn of_improvement(text: &str, sources: &Sources<'_>, acts: bool) -> Option<Weakness> {
    of_presentation(text, sources, acts).or_else(|| {
        // This finds a critique of another agent's code, by an agent whose own answer had no code.
        let loses = |other: &&str| code::is_lost(other, text);
        (!acts && is_about_agents(text, sources) && sources.others.iter().any(loses))
            .then_some(Weakness::AboutAnswers)
    })
}

/// A first answer may be a refusal.
pub(crate) fn of_first_answer(text: &str, sources: &Sources<'_>) -> Option<Weakness> {
    no_answer(text, sources).filter(|weakness| *weakness != Weakness::Refusal)
}

fn no_answer(text: &str, sources: &Sources<'_>) -> Option<Weakness> {
    let weakness = form(text, sources)?;
    let is_chosen = !sources.basis.trim().is_empty() && form(sources.basis, sources) == Some(weakness);
    let has_content = match weakness {
        Weakness::Offer | Weakness::Refusal | Weakness::Announcement => {
            code::has_fenced(text) || words::draws_on(text, sources)
        }
        _ => false,
    };
    (!is_chosen && !has_content).then_some(weakness)
}

fn form(text: &str, sources: &Sources<'_>) -> Option<Weakness> {
    let is_short = text.chars().take(MAX_SHORT_CHARS + 1).count() <= MAX_SHORT_CHARS;
    if markup::is_only_markup(text) || markup::has_marker(text, sources) {
        Some(Weakness::Markup)
    } else if !text.chars().any(char::is_alphanumeric) {
        // A symbol such as "∅" is accepted if the basis is a symbol, too.
        let is_symbol = |text: &str| !text.trim().is_empty() && !text.chars().any(char::is_alphanumeric);
        (!is_symbol(text) || !is_symbol(sources.basis)).then_some(Weakness::Empty)
    } else if markup::is_tool_call(text, sources) {
        Some(Weakness::ToolCall)
    } else if is_short && phrases::is_offer(text) {
        Some(Weakness::Offer)
    } else if is_short && phrases::is_refusal(text) {
        Some(Weakness::Refusal)
    } else if text.chars().take(MAX_ANNOUNCEMENT_CHARS + 1).count() <= MAX_ANNOUNCEMENT_CHARS
        && phrases::is_announcement(text)
    {
        Some(Weakness::Announcement)
    } else {
        None
    }
}

fn lost_code(text: &str, sources: &Sources<'_>) -> Option<Weakness> {
    let follows = |other: &&str| {
        let is_substantial = other.len() >= MIN_OTHER_BYTES && text.len() * 2 >= other.len();
        is_substantial && words::carries(text, other, sources.task)
    };
    (code::is_lost(sources.basis, text) && !sources.others.iter().any(follows)).then_some(Weakness::LostCode)
}

fn about_answers(text: &str, sources: &Sources<'_>) -> Option<Weakness> {
    let is_shorter = text.chars().count() * 2 < sources.basis.chars().count();
    (is_about_agents(text, sources) && is_shorter && !words::carries(text, sources.basis, sources.task))
        .then_some(Weakness::AboutAnswers)
}

fn is_about_agents(text: &str, sources: &Sources<'_>) -> bool {
    markup::names_agent(text) && !code::has_fenced(text) && !sources.all().any(markup::names_agent)
}

impl RunState {
    pub(super) fn weakness_of_presentation(&self, member: &MemberState, text: &str) -> Option<Weakness> {
        let (index, _) = self.find_member(&member.agent.id)?;
        let post_vote = &self.post_vote;
        let author = post_vote.presenter.as_ref().or(post_vote.winner.as_ref())?;
        let (_, author) = self.find_member(author)?;
        let basis = self.answers.get(*author.answers.last()?)?;
        let shown = self.newest(index, Revision(0), self.revision());
        let (sources, acts) = (self.sources(Some(basis), &shown), member.agent.has_tools);
        let about_instructions = !acts && markup::shows_instructions(text, &sources);
        of_presentation(text, &sources, acts)
            .or_else(|| about_instructions.then_some(Weakness::AboutInstructions))
    }

    pub(super) fn weakness_of_answer(
        &self,
        member: &MemberState,
        attempt: &MemberAttempt,
        text: &str,
    ) -> Option<Weakness> {
        let (index, _) = self.find_member(&member.agent.id)?;
        let acts = member.agent.has_tools;
        let own = member.answers.last().and_then(|own| self.answers.get(*own));
        match attempt.purpose {
            Purpose::Judge { .. } => {
                let shown = self.newest(index, Revision(0), attempt.knows);
                let sources = self.sources(own, &shown);
                if own.is_some() {
                    of_improvement(text, &sources, acts)
                } else {
                    of_first_answer(text, &sources)
                }
            }
            _ => of_first_answer(text, &self.sources(None, &[])),
        }
    }

    /// The answer to store. If an agent without other tools did not give it in a native tool call, this is the content
    /// without markers of the prompt and without a call around it. An error if that content must never be taken: it is
    /// about the run's tools, repeats the markup of the prompt, or is the placeholder of an example in the prompt.
    pub(super) fn content_of_answer(
        &self,
        member: &MemberState,
        attempt: &MemberAttempt,
        reply: &Reply,
        answer: &str,
    ) -> Result<String, Weakness> {
        let is_native = !reply.tool_calls.is_empty() && reply.calls_from.is_none();
        if is_native || member.agent.has_tools {
            return Ok(answer.to_owned());
        }
        // What other agents answered may be used.
        let shown: Vec<&Answer> =
            self.answers.iter().filter(|given| given.revision <= attempt.knows).collect();
        let sources = self.sources(None, &shown);
        let called = markup::called_answer(answer, &sources);
        let content = self.without_markers(called.as_deref().unwrap_or(answer));
        let content = content.ok_or(Weakness::AboutInstructions)?;
        if markup::shows_instructions(&content, &sources) {
            return Err(Weakness::AboutInstructions);
        }
        if markup::is_placeholder(&content) && !sources.contain(content.trim()) {
            return Err(Weakness::Empty);
        }
        Ok(content)
    }

    pub(super) fn without_markers(&self, answer: &str) -> Option<String> {
        markup::without_markers(answer, &self.sources(None, &[]))
    }

    /// A presentation without the markers that have a token; None if nothing is left. A marker without a token may be
    /// content: `of_presentation` accepts it only if the chosen answer has one, too.
    pub(super) fn without_copied_markers(&self, presentation: &str) -> Option<String> {
        markup::without_copied_markers(presentation, &self.sources(None, &[]))
    }

    /// Returns the last plain text or, if it has no content (a model may reply to a reminder with "I have answered
    /// above."), the longest earlier plain text that has content; if there is none, the last one.
    pub(super) fn plain_text_answer(&self, attempt: &MemberAttempt, last: &str) -> String {
        let sources = self.sources(None, &[]);
        let has_content = |text: &&str| {
            no_answer(text, &sources).is_none()
                && !phrases::points_back(text)
                && !markup::shows_instructions(text, &sources)
        };
        if has_content(&last) {
            return last.to_owned();
        }
        let texts = attempt.turns.iter().filter_map(|turn| match turn {
            AttemptTurn::Reply(reply) if reply.tool_calls.is_empty() => Some(reply.text.as_str()),
            _ => None,
        });
        texts.filter(has_content).max_by_key(|text| text.len()).unwrap_or(last).to_owned()
    }

    fn sources<'a>(&'a self, basis: Option<&'a Answer>, shown: &[&'a Answer]) -> Sources<'a> {
        let spec = &self.spec;
        let others = shown.iter().filter(|answer| basis.is_none_or(|basis| basis.label != answer.label));
        let history = spec.history.iter().flat_map(|past| [past.user.as_str(), past.assistant.as_str()]);
        let others = others.map(|answer| answer.content.as_str()).chain(spec.context.as_deref());
        Sources {
            task: &spec.task,
            basis: basis.map_or("", |basis| basis.content.as_str()),
            others: others.chain(history).collect(),
        }
    }
}
