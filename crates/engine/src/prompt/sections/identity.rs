//! Who the agent is, in the user's own words.

use crate::prompt::Scene;

pub(super) fn say(scene: &Scene<'_>) -> Option<String> {
    scene.identity.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}
