//! Who the agent is, in the user's own words.

use crate::prompt::Scene;

pub(super) fn say(scene: &Scene<'_>) -> Option<String> {
    words(scene.identity)
}

/// The user's words, where there are any.
pub(in crate::prompt) fn words(identity: Option<&str>) -> Option<String> {
    identity.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}
