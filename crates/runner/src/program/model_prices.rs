//! Computes the cost of a CLI agent that reports tokens but no cost, such as Codex and Gemini CLI.

use crate::adapter::ModelUsage;
use althing_protocol::Usage;
use std::fmt;
use std::sync::Arc;

type CostOf = dyn Fn(&str, &Usage) -> Option<f64> + Send + Sync;

/// Computes the cost of a model's tokens. Without a function, no price is known.
#[derive(Clone, Default)]
pub struct ModelPrices(Option<Arc<CostOf>>);

impl ModelPrices {
    /// `cost_of` gets the name of a model, or of a kind of CLI agent (`codex`), and its tokens. It returns the cost in
    /// US dollars, or `None` if the price is not known.
    pub fn new(cost_of: impl Fn(&str, &Usage) -> Option<f64> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(cost_of)))
    }

    /// Adds the cost if the agent reported tokens but no cost: from the models that the agent reported, if all their
    /// prices are known, and otherwise from the first of `names` that has a price. Without tokens or without a price,
    /// the cost stays 0, and the calls count as calls of unknown cost.
    pub(crate) fn priced(&self, usage: Usage, by_model: &[ModelUsage], names: &[&str]) -> Usage {
        if usage.cost_usd > 0.0 {
            return usage;
        }
        let has_tokens = usage.input_tokens.saturating_add(usage.output_tokens) > 0;
        let unpriced = Usage { unpriced_calls: usage.calls.max(1), ..usage };
        let Some(cost_of) = self.0.as_ref().filter(|_| has_tokens) else { return unpriced };
        let used =
            by_model.iter().filter(|row| row.usage.input_tokens.saturating_add(row.usage.output_tokens) > 0);
        let costs: Option<Vec<f64>> = used.map(|row| cost_of(&row.model, &row.usage)).collect();
        let by_model = costs.filter(|costs| !costs.is_empty()).map(|costs| costs.iter().sum());
        let cost = by_model.or_else(|| names.iter().find_map(|name| cost_of(name, &usage)));
        cost.map_or(unpriced, |cost_usd| Usage { cost_usd, ..usage })
    }
}

impl fmt::Debug for ModelPrices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ModelPrices").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input_tokens: u64) -> Usage {
        Usage { input_tokens, ..Usage::default() }
    }

    fn row(model: &str, input_tokens: u64) -> ModelUsage {
        ModelUsage { model: model.to_owned(), usage: tokens(input_tokens) }
    }

    #[test]
    fn tokens_without_a_cost_are_priced_by_the_reported_models_or_else_by_name() {
        let per_token = |model: &str| match model {
            "small" => Some(1.0),
            "large" => Some(10.0),
            "codex" => Some(100.0),
            _ => None,
        };
        let prices =
            ModelPrices::new(move |model, usage| per_token(model).map(|one| one * usage.input_tokens as f64));
        let cents = |usage: Usage| (usage.cost_usd * 100.0).round() as i64;
        let cost = |usage, rows: &[ModelUsage], names: &[&str]| cents(prices.priced(usage, rows, names));
        assert_eq!(cost(tokens(3), &[row("small", 1), row("large", 2)], &["small"]), 2100);
        assert_eq!(cost(tokens(3), &[row("small", 1), row("new", 2)], &["large"]), 3000);
        assert_eq!(cost(tokens(3), &[row("small", 3), row("new", 0)], &[]), 300);
        assert_eq!(cost(tokens(3), &[], &["new", "codex"]), 30_000);
        assert_eq!(cost(tokens(3), &[], &["new"]), 0);
        let reported = Usage { cost_usd: 0.5, ..tokens(3) };
        assert_eq!(cost(reported, &[], &["small"]), 50);
        assert_eq!(cents(ModelPrices::default().priced(tokens(3), &[], &["small"])), 0);
    }
}
