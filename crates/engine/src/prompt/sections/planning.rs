//! What planning asks of an agent: an approach, and no act.

use crate::prompt::Scene;

pub(super) fn say(scene: &Scene<'_>) -> Option<String> {
    scene.planning.then(|| {
        "This is planning only. Do not carry anything out: change no files, run nothing that acts. Look at what you need to see, \
         then describe your approach as a plan: the tasks in order, what each depends on, and how one will know that it is \
         done."
            .to_owned()
    })
}
