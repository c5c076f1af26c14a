//! The sections of a system prompt, one file each. A role is a list of sections; each decides for itself whether it
//! has something to say.

mod evaluating;
pub(super) mod family;
pub(super) mod identity;
mod judging;
pub(super) mod orchestrator;
mod parliament;
mod planning;
mod presenting;
mod subagents;

use super::PromptInput;

/// A section: says its part for a scene, or nothing.
pub(crate) struct Section(fn(&PromptInput<'_>) -> Option<String>);

impl Section {
    /// What a member of a run is told, most lasting first.
    pub(crate) const CONTRIBUTOR: &'static [Self] = &[
        Self(identity::section),
        Self(parliament::section),
        Self(planning::section),
        Self(subagents::section),
        Self(judging::section),
        Self(presenting::section),
        Self(evaluating::section),
    ];
}

/// The sections' texts, joined.
pub(crate) fn render(sections: &[Section], input: &PromptInput<'_>) -> String {
    let texts: Vec<String> = sections.iter().filter_map(|section| (section.0)(input)).collect();
    texts.join("\n\n")
}
