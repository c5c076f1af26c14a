//! Instructions on when to start subagents.

use crate::prompt::PromptInput;

pub(super) fn section(input: &PromptInput<'_>) -> Option<String> {
    input.subagents.then(|| {
        "Where parts of the work are large and independent of each other, hand them to subagents with `spawn_subagents`; \
         do small things yourself. You answer for the result: check what they give you."
            .to_owned()
    })
}
