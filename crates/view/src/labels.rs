//! Modes and token counts as people read them.

use althing_protocol::{AgentMode, Modes, Usage};
use althing_text::short_number;

/// The modes of a run, as the mode bar names them.
pub fn modes(modes: Modes) -> String {
    let agents = if modes.agent_mode == AgentMode::Multi { "Multi" } else { "Single" };
    let refinement = if modes.refinement { "Refine" } else { "Quick" };
    let plan = if modes.planning { "Plan · " } else { "" };
    format!("{plan}{agents} · {refinement}")
}

/// Tokens and, where there is a price, money.
pub fn tokens(usage: &Usage) -> String {
    let tokens = short_number(usage.input_tokens + usage.output_tokens);
    if usage.cost_usd > 0.0 {
        format!("{tokens} tokens · ${:.4}", usage.cost_usd)
    } else {
        format!("{tokens} tokens")
    }
}
