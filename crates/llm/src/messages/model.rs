//! What each Claude generation accepts: how thinking is requested, and the output limit. Derived from the version in
//! the name, as documented in 2026-11; a name without a version counts as the newest.

use crate::params::Section;
use serde_json::{Value, json};

/// Thinking budgets in tokens, for models that think with a budget.
const EFFORT_BUDGETS: &[(&str, u64)] = &[
    ("minimal", 1024),
    ("low", 4096),
    ("medium", 10_000),
    ("high", 24_000),
    ("xhigh", 32_000),
    ("max", 32_000),
];
/// The API accepts no smaller budget.
const LEAST_BUDGET: u64 = 1024;
/// The budget in tokens if thinking is enabled without a budget or an effort, and after a model rejected adaptive
/// thinking.
const DEFAULT_BUDGET: u64 = 10_000;
/// The output limit in tokens for models that could write more.
const DEFAULT_OUTPUT: u64 = 32_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// No field is sent, so the model's default applies.
    Unset,
    Off,
    /// The model chooses how much it thinks. `shown` requests summaries, which newer models omit by default.
    Adaptive {
        shown: bool,
    },
    Budget(u64),
}

impl Thinking {
    pub(crate) fn field(self) -> Option<Value> {
        match self {
            Self::Unset => None,
            Self::Off => Some(json!({"type": "disabled"})),
            Self::Adaptive { shown: false } => Some(json!({"type": "adaptive"})),
            Self::Adaptive { shown: true } => Some(json!({"type": "adaptive", "display": "summarized"})),
            Self::Budget(tokens) => Some(json!({"type": "enabled", "budget_tokens": tokens})),
        }
    }

    pub(crate) fn is_on(self) -> bool {
        matches!(self, Self::Adaptive { .. } | Self::Budget(_))
    }

    /// What to send instead after this rejection; `None` if the rejection is not about this form of thinking.
    pub(crate) fn learn(self, refusal: &str) -> Option<Self> {
        let message = refusal.to_ascii_lowercase();
        let refused = message.contains("thinking")
            && (message.contains("not supported") || message.contains("does not support"));
        match self {
            Self::Budget(_) if refused && message.contains("adaptive") => {
                Some(Self::Adaptive { shown: true })
            }
            Self::Adaptive { .. } if refused && message.contains("adaptive") => {
                Some(Self::Budget(DEFAULT_BUDGET))
            }
            Self::Off | Self::Budget(_) if refused => Some(Self::Unset),
            Self::Unset | Self::Off | Self::Adaptive { .. } | Self::Budget(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claude {
    version: (u32, u32),
    opus: bool,
}

impl Claude {
    pub(crate) fn from_name(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let mut numbers = name
            .split(['-', '.', '@', '/', '_'])
            .skip_while(|word| !is_version(word))
            .take_while(|word| is_version(word))
            .filter_map(|word| word.parse().ok());
        let version = numbers.next().map_or((u32::MAX, 0), |major| (major, numbers.next().unwrap_or(0)));
        Self { version, opus: name.contains("opus") }
    }

    fn is_adaptive(self) -> bool {
        self.version >= (4, 6)
    }

    fn accepts_budgets(self) -> bool {
        (3, 7) <= self.version && self.version < (4, 7)
    }

    fn accepts_effort(self) -> bool {
        self.version >= if self.opus { (4, 5) } else { (4, 6) }
    }

    pub(crate) fn accepts_sampling(self) -> bool {
        self.version < (4, 7)
    }

    fn longest_output(self) -> u64 {
        match self.version {
            (..=2, _) | (3, 0) => 4096,
            (3, ..=6) => 8192,
            (4, ..=1) if self.opus => 32_000,
            (3, _) | (4, ..=5) => 64_000,
            _ => 128_000,
        }
    }

    /// Includes thinking: exceeds a thinking budget by at least 8192 tokens, unless the model's maximum is lower.
    pub(crate) fn output_limit(self, thinking: Thinking) -> u64 {
        let wanted = match thinking {
            Thinking::Budget(tokens) => DEFAULT_OUTPUT.max(tokens + 8192),
            Thinking::Unset | Thinking::Off | Thinking::Adaptive { .. } => DEFAULT_OUTPUT,
        };
        wanted.min(self.longest_output())
    }

    /// The value of `output_config.effort`, if the model accepts one.
    pub(crate) fn effort(self, section: Section<'_>) -> Option<&'static str> {
        if !self.accepts_effort() {
            return None;
        }
        match section.effort()? {
            "minimal" | "low" => Some("low"),
            "medium" => Some("medium"),
            "high" => Some("high"),
            "xhigh" if self.version < (4, 7) => Some("high"),
            "xhigh" => Some("xhigh"),
            "max" => Some("max"),
            _ => None,
        }
    }

    pub(crate) fn thinking(self, section: Section<'_>) -> Thinking {
        let switch = section
            .field("thinking", "type")
            .or_else(|| section.field("reasoning", "type"))
            .and_then(Value::as_str);
        let flag = section
            .get("thinking")
            .filter(|value| value.is_boolean())
            .or_else(|| section.get("enable_thinking"))
            .or_else(|| section.field("reasoning", "enabled"))
            .and_then(Value::as_bool);
        let effort = section.effort();
        let budget = section.thinking_budget().and_then(|tokens| u64::try_from(tokens).ok());
        if switch == Some("disabled") || flag == Some(false) || effort == Some("none") || budget == Some(0) {
            // Older models do not think by default.
            return if self.version >= (5, 0) { Thinking::Off } else { Thinking::Unset };
        }
        if switch.is_none() && flag.is_none() && effort.is_none() && budget.is_none() {
            return Thinking::Unset;
        }
        if self.is_adaptive() && (budget.is_none() || !self.accepts_budgets()) {
            // Newer models omit their thoughts unless asked for summaries.
            return Thinking::Adaptive { shown: self.version >= (4, 7) };
        }
        if !self.accepts_budgets() {
            return Thinking::Unset;
        }
        let by_effort =
            EFFORT_BUDGETS.iter().find(|(word, _)| Some(*word) == effort).map(|(_, tokens)| *tokens);
        Thinking::Budget(budget.or(by_effort).unwrap_or(DEFAULT_BUDGET).max(LEAST_BUDGET))
    }
}

fn is_version(word: &str) -> bool {
    (1..=2).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinking(model: &str, params: &Value) -> Thinking {
        Claude::from_name(model).thinking(Section(params.as_object().unwrap()))
    }

    #[test]
    fn the_version_is_read_out_of_every_form_of_name() {
        for (name, version) in [
            ("claude-opus-4-7", (4, 7)),
            ("claude-opus-4-20250514", (4, 0)),
            ("claude-sonnet-4-5-20250929", (4, 5)),
            ("claude-3-7-sonnet-20250219", (3, 7)),
            ("claude-opus-5", (5, 0)),
            ("anthropic/claude-opus-4.6", (4, 6)),
            ("claude-mythos-preview", (u32::MAX, 0)),
        ] {
            assert_eq!(Claude::from_name(name).version, version, "{name}");
        }
    }

    #[test]
    fn each_generation_gets_its_own_thinking_parameters() {
        let effort = json!({"reasoning": {"effort": "high"}});
        let budget = json!({"thinking": {"type": "enabled", "budget_tokens": 2000}});
        assert_eq!(thinking("claude-sonnet-4-5", &effort), Thinking::Budget(24_000));
        assert_eq!(thinking("claude-sonnet-4-6", &effort), Thinking::Adaptive { shown: false });
        assert_eq!(thinking("claude-opus-5", &effort), Thinking::Adaptive { shown: true });
        assert_eq!(thinking("claude-sonnet-4-6", &budget), Thinking::Budget(2000));
        assert_eq!(thinking("claude-opus-4-8", &budget), Thinking::Adaptive { shown: true });
        assert_eq!(thinking("claude-3-5-haiku-latest", &effort), Thinking::Unset);
        assert_eq!(thinking("claude-opus-5", &json!({"reasoning": {"effort": "none"}})), Thinking::Off);
        assert_eq!(thinking("claude-opus-5", &json!({})), Thinking::Unset);
        assert_eq!(thinking("claude-haiku-4-5", &json!({"thinking_budget": 5})), Thinking::Budget(1024));
    }

    #[test]
    fn the_output_limit_is_the_models_and_leaves_room_after_thinking() {
        let limit = |name, thinking| Claude::from_name(name).output_limit(thinking);
        assert_eq!(limit("claude-3-haiku-20240307", Thinking::Unset), 4096);
        assert_eq!(limit("claude-3-5-sonnet-latest", Thinking::Unset), 8192);
        assert_eq!(limit("claude-sonnet-4-5", Thinking::Unset), 32_000);
        assert_eq!(limit("claude-sonnet-4-5", Thinking::Budget(32_000)), 40_192);
    }

    #[test]
    fn a_rejected_form_of_thinking_selects_the_other() {
        let message =
            "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\"";
        assert_eq!(Thinking::Budget(2000).learn(message), Some(Thinking::Adaptive { shown: true }));
        let message = "adaptive thinking is not supported on this model";
        assert_eq!(Thinking::Adaptive { shown: true }.learn(message), Some(Thinking::Budget(DEFAULT_BUDGET)));
        assert_eq!(Thinking::Budget(2000).learn("max_tokens is too large"), None);
    }
}
