//! Instructions for a planning run: describe an approach, and change nothing.

use crate::prompt::PromptInput;

pub(super) fn section(input: &PromptInput<'_>) -> Option<String> {
    input.planning.then(|| {
        "This is planning only. Do not execute anything: change no files, run nothing with side effects. Look at what you need to \
         see, then describe your approach as a plan: the tasks in order, what each depends on, and how to check that it is \
         done. An answer must contain the plan once, as a JSON block of this form, next to any explanation:\n\
         ```json\n{\"tasks\": [{\"id\": \"short-name\", \"description\": \"what to do\", \"depends_on\": [\"other-id\"], \
         \"verification\": \"how to see that it is done\"}]}\n```\n\
         Each task is one step that can be done and checked by itself; dependencies must not form a cycle."
            .to_owned()
    })
}
