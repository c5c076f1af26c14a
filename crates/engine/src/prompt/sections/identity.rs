//! The user's system message for the agent.

use crate::prompt::PromptInput;

pub(super) fn section(input: &PromptInput<'_>) -> Option<String> {
    from_config(input.identity)
}

pub(in crate::prompt) fn from_config(identity: Option<&str>) -> Option<String> {
    identity.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}
