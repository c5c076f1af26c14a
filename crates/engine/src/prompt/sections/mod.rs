//! The sections of a system prompt, one file each. A section that does not apply is omitted.

mod evaluating;
pub(super) mod family;
mod first_version;
pub(super) mod identity;
mod judging;
pub(super) mod orchestrator;
mod parliament;
mod planning;
mod presenting;
mod subagents;

use super::PromptInput;
use super::markers::EXPLANATION;

/// A section of a system prompt; the function returns None if it does not apply.
pub(crate) struct Section(fn(&PromptInput<'_>) -> Option<String>);

impl Section {
    pub(crate) fn contributor(version: u32) -> &'static [Self] {
        if version == 1 { Self::FIRST_VERSION } else { Self::CONTRIBUTOR }
    }

    /// The sections that change least come first.
    const CONTRIBUTOR: &'static [Self] = &[
        Self(identity::section),
        Self(parliament::section),
        Self(planning::section),
        Self(subagents::section),
        Self(judging::judge_prompt),
        Self(presenting::section),
        Self(evaluating::section),
        Self(|_| Some(EXPLANATION.to_owned())),
        Self(|input| input.today.as_ref().map(|today| format!("Today is {today}."))),
    ];

    const FIRST_VERSION: &'static [Self] = &[
        Self(identity::section),
        Self(first_version::answering),
        Self(planning::section),
        Self(subagents::section),
        Self(first_version::judging),
        Self(first_version::presenting),
        Self(evaluating::section),
        Self(|_| Some(EXPLANATION.to_owned())),
    ];
}

pub(crate) fn render(sections: &[Section], input: &PromptInput<'_>) -> String {
    let texts: Vec<String> = sections.iter().filter_map(|section| (section.0)(input)).collect();
    texts.join("\n\n")
}
