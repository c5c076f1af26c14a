//! How to write the final answer.

use crate::prompt::{Scene, TurnKind};
use althing_protocol::FinalAnswerStrategy;

pub(super) fn say(scene: &Scene<'_>) -> Option<String> {
    let TurnKind::Present(strategy) = scene.turn else { return None };
    let how = match strategy {
        FinalAnswerStrategy::Synthesize => {
            "Several agents have answered the original message independently, and you were chosen to give the final \
             answer. Combine the strongest relevant parts of all the answers below into one; settle contradictions, leave \
             out what is weak or repeated."
        }
        FinalAnswerStrategy::WinnerPresent | FinalAnswerStrategy::WinnerReuse => {
            "Your answer was chosen by vote, and you give the final answer to the user. Present it at its best; take up \
             what the other answers and the voters' reasons rightly add."
        }
    };
    Some(format!(
        "{how} Write the final answer itself as plain text, addressed to the user. Do not mention agents, answers or votes."
    ))
}
