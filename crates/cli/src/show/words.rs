//! Numbers as people read them.

use althing_protocol::{AgentMode, Modes, Usage};

/// `812`, `12.4k`, `3.1M`.
fn short(n: u64) -> String {
    match n {
        0..1000 => n.to_string(),
        1000..1_000_000 => format!("{}.{}k", n / 1000, n % 1000 / 100),
        _ => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}

/// `1 round`, `2 rounds`.
pub fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The modes of a run, as the mode bar names them.
pub fn modes(modes: Modes) -> String {
    let agents = if modes.agent_mode == AgentMode::Multi { "Multi" } else { "Single" };
    let refinement = if modes.refinement { "Refine" } else { "Quick" };
    let plan = if modes.planning { "Plan · " } else { "" };
    format!("{plan}{agents} · {refinement}")
}

/// Tokens and, where there is a price, money.
pub fn tokens(usage: &Usage) -> String {
    let tokens = short(usage.input_tokens + usage.output_tokens);
    if usage.cost_usd > 0.0 {
        format!("{tokens} tokens · ${:.4}", usage.cost_usd)
    } else {
        format!("{tokens} tokens")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_shown_short() {
        assert_eq!([812, 12_431, 3_140_000].map(short), ["812", "12.4k", "3.1M"]);
    }
}
