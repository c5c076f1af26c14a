//! Recognizes texts that are no answers, as small models write them: empty texts, copied markup, refusals, offers to
//! help, talk about the answers, and versions without the code of what they replace.
//!
//! The checks are cautious. A text that carries the content of the answers passes whatever its words are, and so does a
//! text that has the same form as the answer that it replaces: a vote may choose a refusal. Words are compared in
//! English only; a refusal in another language passes.
//!
//! Pure: the same texts always give the same result, so a replay of a log decides as the run did.

mod code;
mod markup;
mod phrases;
mod words;

use super::state::{AttemptTurn, MemberAttempt, MemberState, RunState};
use althing_protocol::{Answer, Purpose, Revision};

/// The maximum length of a text that can count as a refusal or as talk about answers. Longer texts have content.
const MAX_SHORT_CHARS: usize = 600;

/// The maximum length of a text that can count as a mere announcement.
const MAX_ANNOUNCEMENT_CHARS: usize = 160;

/// The minimum size of another answer that a text can follow instead of the one that it should replace, in bytes.
const MIN_OTHER_BYTES: usize = 300;

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakness {
    /// There is no letter and no digit.
    Empty,
    /// It contains marker lines of our prompts, or only tokens of a chat template.
    Markup,
    /// It is a tool call, written as text.
    ToolCall,
    /// It asks what to do, or says that its author is ready.
    Offer,
    /// It apologizes or refuses.
    Refusal,
    /// It announces an answer that does not follow.
    Announcement,
    /// It lacks the code of the answer that it replaces.
    LostCode,
    /// It is about the agents' answers.
    AboutAnswers,
}

impl Weakness {
    /// What is wrong, as the predicate of a sentence about the text.
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
        }
    }
}

/// The texts with which a text is compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources<'a> {
    /// The task.
    pub(crate) task: &'a str,
    /// The answer that the text should present or improve; empty for a first answer.
    pub(crate) basis: &'a str,
    /// What else the author of the text was shown.
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

/// What is wrong with a presentation; None if it can be the final answer. If its author `acts` (works on files), the
/// text may refer to files and report failures, so that only texts without any content are wrong.
pub(crate) fn of_presentation(text: &str, sources: &Sources<'_>, acts: bool) -> Option<Weakness> {
    let no_answer = no_answer(text, sources);
    if acts {
        return no_answer.filter(|weakness| !matches!(weakness, Weakness::Refusal | Weakness::Announcement));
    }
    no_answer.or_else(|| lost_code(text, sources)).or_else(|| about_answers(text, sources))
}

/// What is wrong with an answer that should improve its author's earlier answer, or another one if it has none.
pub(crate) fn of_improvement(text: &str, sources: &Sources<'_>, acts: bool) -> Option<Weakness> {
    of_presentation(text, sources, acts).or_else(|| {
        // A critique of another agent's code, by an agent whose own answer had no code.
        let loses = |other: &&str| code::is_lost(other, text);
        (!acts && is_about_agents(text, sources) && sources.others.iter().any(loses))
            .then_some(Weakness::AboutAnswers)
    })
}

/// What is wrong with an answer for which there is nothing to compare it with. A refusal may be the right answer.
pub(crate) fn of_first_answer(text: &str, sources: &Sources<'_>) -> Option<Weakness> {
    no_answer(text, sources).filter(|weakness| *weakness != Weakness::Refusal)
}

/// Whether a text has no content of its own.
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

/// The form of a text, without regard to its content.
fn form(text: &str, sources: &Sources<'_>) -> Option<Weakness> {
    let is_short = text.chars().take(MAX_SHORT_CHARS + 1).count() <= MAX_SHORT_CHARS;
    if markup::is_only_markup(text) || markup::has_marker(text, sources) {
        Some(Weakness::Markup)
    } else if !text.chars().any(char::is_alphanumeric) {
        // A symbol can be an answer.
        let is_symbol = |text: &str| !text.trim().is_empty() && !text.chars().any(char::is_alphanumeric);
        (!is_symbol(text) || !is_symbol(sources.basis)).then_some(Weakness::Empty)
    } else if markup::is_tool_call(text) {
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

/// The code of the basis is missing, and the text does not follow another answer instead.
fn lost_code(text: &str, sources: &Sources<'_>) -> Option<Weakness> {
    let follows = |other: &&str| {
        let is_substantial = other.len() >= MIN_OTHER_BYTES && text.len() * 2 >= other.len();
        is_substantial && words::carries(text, other, sources.task)
    };
    (code::is_lost(sources.basis, text) && !sources.others.iter().any(follows)).then_some(Weakness::LostCode)
}

/// The text names agents by their numbers, is much shorter than the basis, and has little of the content of the basis.
fn about_answers(text: &str, sources: &Sources<'_>) -> Option<Weakness> {
    let is_shorter = text.chars().count() * 2 < sources.basis.chars().count();
    (is_about_agents(text, sources) && is_shorter && !words::carries(text, sources.basis, sources.task))
        .then_some(Weakness::AboutAnswers)
}

/// Whether a text without code names agents by their numbers, and nothing that its author was shown does.
fn is_about_agents(text: &str, sources: &Sources<'_>) -> bool {
    markup::names_agent(text) && !code::has_fenced(text) && !sources.all().any(markup::names_agent)
}

impl RunState {
    /// Why the presentation of a member is rejected; None if it can be the final answer.
    pub(super) fn weakness_of_presentation(&self, member: &MemberState, text: &str) -> Option<Weakness> {
        let (index, _) = self.find_member(&member.agent.id)?;
        let post_vote = &self.post_vote;
        let author = post_vote.presenter.as_ref().or(post_vote.winner.as_ref())?;
        let (_, author) = self.find_member(author)?;
        let basis = self.answers.get(*author.answers.last()?)?;
        let shown = self.newest(index, Revision(0), self.revision());
        of_presentation(text, &self.sources(Some(basis), &shown), member.agent.has_tools)
    }

    /// What is wrong with an answer of a member, compared with the answers that the member knows; None if it can be
    /// stored.
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

    /// An answer without the markers of our prompts; None if nothing is left.
    pub(super) fn without_markers(&self, answer: &str) -> Option<String> {
        markup::without_markers(answer, &self.sources(None, &[]))
    }

    /// A presentation without the markers that have a token; None if nothing is left. A marker without a token may be
    /// content: `of_presentation` accepts it only if the chosen answer has one, too.
    pub(super) fn without_copied_markers(&self, presentation: &str) -> Option<String> {
        markup::without_copied_markers(presentation, &self.sources(None, &[]))
    }

    /// The text among an agent's plain texts that is its answer: the last one or, if that one has no content (a model
    /// may reply to a reminder with "I have answered above."), the longest earlier one that has.
    pub(super) fn plain_text_answer(&self, attempt: &MemberAttempt, last: &str) -> String {
        let sources = self.sources(None, &[]);
        let has_content = |text: &&str| no_answer(text, &sources).is_none() && !phrases::points_back(text);
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
