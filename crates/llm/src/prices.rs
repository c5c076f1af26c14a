//! The prices of models in US dollars per million tokens, and the cost of a reply. List prices as published up to 2026-04;
//! those of the newest OpenAI and Anthropic models up to 2026-11. Unknown models have no price rather than a guessed
//! one.

use althing_protocol::{Price, Usage, reported_tokens};
use std::collections::BTreeMap;

/// A name also matches with a provider's suffix (`gpt-5-2025-08-07`).
#[derive(Clone, Debug, Default)]
pub struct PriceTable {
    own: BTreeMap<String, Price>,
}

impl PriceTable {
    /// Prices of `own`, the user's prices, take precedence.
    pub fn new(own: &BTreeMap<String, Price>) -> Self {
        Self { own: own.iter().map(|(model, price)| (model.to_ascii_lowercase(), *price)).collect() }
    }

    /// The model may be named with its provider (`openai/gpt-5-mini`). A name that ends in `:free` costs nothing,
    /// unless the user's prices include it.
    pub fn price(&self, model: &str) -> Option<Price> {
        let full = model.trim().to_ascii_lowercase();
        let bare = full.rsplit('/').next().unwrap_or(&full);
        let own = |name: &str| longest(self.own.iter().map(|(known, price)| (known.as_str(), *price)), name);
        let listed = |name: &str| {
            longest(
                BUILT_IN_PRICES.iter().map(|(known, input, cached, output)| {
                    let price = Price {
                        input_per_million: *input,
                        output_per_million: *output,
                        cached_input_per_million: Some(*cached),
                    };
                    (*known, price)
                }),
                name,
            )
        };
        if let Some(price) = own(&full).or_else(|| own(bare)) {
            return Some(price);
        }
        if full.ends_with(":free") {
            return Some(Price {
                input_per_million: 0.0,
                output_per_million: 0.0,
                cached_input_per_million: None,
            });
        }
        listed(bare)
    }

    pub fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        self.price(model).map(|price| cost(&price, usage))
    }
}

/// Whether a name is in the built-in table, or seems to be a version or variant of such a model. A name that differs
/// in one letter counts as a typo, not as a variant.
pub fn is_known_model(name: &str) -> bool {
    let full = name.trim().to_ascii_lowercase();
    let bare = full.rsplit('/').next().unwrap_or(&full);
    let mut names = BUILT_IN_PRICES.iter().map(|(known, ..)| *known);
    let is_typo = |known: &str| althing_text::edit_distance(bare, known) == 1;
    names.clone().any(|known| known == bare)
        || (PriceTable::default().price(bare).is_some() && !names.any(is_typo))
}

pub fn similar_model(name: &str) -> Option<&'static str> {
    althing_text::nearest(&name.to_ascii_lowercase(), BUILT_IN_PRICES.iter().map(|(known, ..)| *known))
}

/// Token counts that the provider reported, or estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenCounts {
    /// The input tokens, including cache reads and writes.
    pub(crate) input: u64,
    /// The input tokens that were read from the cache.
    pub(crate) cached: u64,
    /// The input tokens that were written to the cache, which some providers charge extra for.
    pub(crate) cache_written: u64,
    /// The output tokens, including reasoning.
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
}

/// The price of a token written to Anthropic's five-minute cache, relative to an input token. Other providers report
/// no cache writes.
const CACHE_WRITE: f64 = 1.25;

impl TokenCounts {
    /// The counts that a provider reported, cut to what can be true.
    pub(crate) fn plausible(self) -> Self {
        Self {
            input: reported_tokens(self.input),
            cached: reported_tokens(self.cached),
            cache_written: reported_tokens(self.cache_written),
            output: reported_tokens(self.output),
            reasoning: reported_tokens(self.reasoning),
        }
    }

    pub(crate) fn priced(self, price: Option<&Price>) -> Usage {
        let usage = Usage {
            input_tokens: self.input,
            output_tokens: self.output,
            cached_input_tokens: self.cached,
            reasoning_tokens: self.reasoning,
            ..Usage::default()
        };
        let extra = |price: &Price| {
            let written = self.cache_written.min(self.input);
            written as f64 * (CACHE_WRITE - 1.0) * price.input_per_million / 1e6
        };
        Usage { cost_usd: price.map_or(0.0, |price| cost(price, &usage) + extra(price)), ..usage }
    }
}

fn cost(price: &Price, usage: &Usage) -> f64 {
    let cached = usage.cached_input_tokens.min(usage.input_tokens);
    let fresh = usage.input_tokens - cached;
    let cached_price = price.cached_input_per_million.unwrap_or(price.input_per_million);
    (fresh as f64 * price.input_per_million
        + cached as f64 * cached_price
        + usage.output_tokens as f64 * price.output_per_million)
        / 1e6
}

fn longest<'a>(table: impl Iterator<Item = (&'a str, Price)>, name: &str) -> Option<Price> {
    table
        .filter(|(known, _)| name.strip_prefix(known).is_some_and(same_version))
        .max_by_key(|(known, _)| known.len())
        .map(|(_, price)| price)
}

/// Any other word in a suffix may name a variant that costs many times as much (`-pro`, `-deep-research`, `-fast`,
/// `-audio`).
const SAME_PRICE: &[&str] = &[
    "latest",
    "preview",
    "exp",
    "experimental",
    "beta",
    "chat",
    "codex",
    "instruct",
    "it",
    "thinking",
    "reasoning",
    "non",
    "versatile",
];

fn same_version(rest: &str) -> bool {
    let Some(mark) = rest.chars().next() else { return true };
    let tail = rest.get(mark.len_utf8()..).unwrap_or_default();
    let digits = tail.chars().take_while(char::is_ascii_digit).count();
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    match mark {
        ':' | '@' => true,
        '-' if (1..=2).contains(&digits) => false,
        '-' => tail.split('-').all(|part| is_number(part) || SAME_PRICE.contains(&part)),
        _ => false,
    }
}

type PriceRow = (&'static str, f64, f64, f64);

#[rustfmt::skip]
static BUILT_IN_PRICES: &[PriceRow] = &[
    // OpenAI
    ("gpt-6.1-sol", 2.0, 0.1, 10.0), ("gpt-6.1-terra", 1.0, 0.05, 5.0),
    ("gpt-6-sol", 2.0, 0.2, 10.0), ("gpt-6-luna", 0.1, 0.01, 0.5),
    ("gpt-5.6-terra", 2.0, 0.2, 12.0), ("gpt-5.6-luna", 0.2, 0.02, 1.2),
    ("gpt-5.5", 5.0, 0.5, 30.0),
    ("gpt-5.4", 2.5, 0.25, 15.0), ("gpt-5.4-mini", 0.75, 0.075, 4.5), ("gpt-5.4-nano", 0.2, 0.02, 1.25),
    ("gpt-5.3", 1.75, 0.175, 14.0), ("gpt-5.2", 1.75, 0.175, 14.0), ("gpt-5.2-pro", 21.0, 21.0, 168.0),
    ("gpt-5.1", 1.25, 0.125, 10.0), ("gpt-5.1-codex-mini", 0.25, 0.025, 2.0),
    ("gpt-5", 1.25, 0.125, 10.0), ("gpt-5-mini", 0.25, 0.025, 2.0), ("gpt-5-nano", 0.05, 0.005, 0.4),
    ("gpt-5-pro", 15.0, 15.0, 120.0),
    ("gpt-4.1", 2.0, 0.5, 8.0), ("gpt-4.1-mini", 0.4, 0.1, 1.6), ("gpt-4.1-nano", 0.1, 0.025, 0.4),
    ("gpt-4o", 2.5, 1.25, 10.0), ("gpt-4o-mini", 0.15, 0.075, 0.6),
    ("gpt-4-turbo", 10.0, 10.0, 30.0), ("gpt-3.5-turbo", 0.5, 0.5, 1.5),
    ("o3", 2.0, 0.5, 8.0), ("o3-mini", 1.1, 0.55, 4.4), ("o3-pro", 20.0, 20.0, 80.0),
    ("o4-mini", 1.1, 0.275, 4.4), ("o1", 15.0, 7.5, 60.0),
    ("gpt-oss-120b", 0.15, 0.15, 0.6), ("gpt-oss-20b", 0.075, 0.075, 0.3),
    // Anthropic, in Anthropic's and in OpenRouter's spelling
    ("claude-fable-5-1", 10.0, 0.25, 50.0), ("claude-fable-5", 10.0, 1.0, 50.0),
    ("claude-mythos-5-1", 10.0, 0.25, 50.0), ("claude-mythos-5", 10.0, 1.0, 50.0),
    ("claude-opus-5-5", 4.0, 0.2, 20.0), ("claude-opus-5.5", 4.0, 0.2, 20.0), ("claude-opus-5", 5.0, 0.5, 25.0),
    ("claude-sonnet-5-5", 2.0, 0.1, 10.0), ("claude-sonnet-5.5", 2.0, 0.1, 10.0), ("claude-sonnet-5", 2.0, 0.2, 10.0),
    ("claude-opus-4-8", 5.0, 0.5, 25.0), ("claude-opus-4.8", 5.0, 0.5, 25.0),
    ("claude-opus-4-7", 5.0, 0.5, 25.0), ("claude-opus-4.7", 5.0, 0.5, 25.0),
    ("claude-opus-4-6", 5.0, 0.5, 25.0), ("claude-opus-4.6", 5.0, 0.5, 25.0),
    ("claude-opus-4-5", 5.0, 0.5, 25.0), ("claude-opus-4.5", 5.0, 0.5, 25.0),
    ("claude-opus-4-1", 15.0, 1.5, 75.0), ("claude-opus-4.1", 15.0, 1.5, 75.0), ("claude-opus-4", 15.0, 1.5, 75.0),
    ("claude-sonnet-4-6", 3.0, 0.3, 15.0), ("claude-sonnet-4.6", 3.0, 0.3, 15.0),
    ("claude-sonnet-4-5", 3.0, 0.3, 15.0), ("claude-sonnet-4.5", 3.0, 0.3, 15.0), ("claude-sonnet-4", 3.0, 0.3, 15.0),
    ("claude-haiku-4-5", 1.0, 0.1, 5.0), ("claude-haiku-4.5", 1.0, 0.1, 5.0),
    ("claude-3-7-sonnet", 3.0, 0.3, 15.0), ("claude-3.7-sonnet", 3.0, 0.3, 15.0),
    ("claude-3-5-sonnet", 3.0, 0.3, 15.0), ("claude-3.5-sonnet", 3.0, 0.3, 15.0),
    ("claude-3-5-haiku", 0.8, 0.08, 4.0), ("claude-3.5-haiku", 0.8, 0.08, 4.0), ("claude-3-haiku", 0.25, 0.03, 1.25),
    // Google, for prompts up to 200,000 tokens
    ("gemini-3.5-flash", 1.5, 0.15, 9.0), ("gemini-3.1-pro", 2.0, 0.2, 12.0), ("gemini-3-pro", 2.0, 0.2, 12.0), ("gemini-3-flash", 0.5, 0.05, 3.0),
    ("gemini-2.5-pro", 1.25, 0.125, 10.0), ("gemini-2.5-flash", 0.3, 0.03, 2.5),
    ("gemini-2.5-flash-lite", 0.1, 0.01, 0.4), ("gemini-2.0-flash", 0.1, 0.025, 0.4),
    // xAI
    ("grok-4", 3.0, 0.75, 15.0), ("grok-4-fast", 0.2, 0.05, 0.5), ("grok-4-1-fast", 0.2, 0.05, 0.5),
    ("grok-4.1-fast", 0.2, 0.05, 0.5), ("grok-code-fast-1", 0.2, 0.02, 1.5),
    ("grok-3", 3.0, 0.75, 15.0), ("grok-3-mini", 0.3, 0.075, 0.5),
    // Open models, at common hosts
    ("deepseek-chat", 0.28, 0.028, 0.42), ("deepseek-reasoner", 0.28, 0.028, 0.42),
    ("llama-3.3-70b", 0.59, 0.59, 0.79), ("llama-3.1-8b", 0.05, 0.05, 0.08),
    ("qwen-max", 1.6, 0.64, 6.4), ("qwen-plus", 0.4, 0.16, 1.2), ("qwen3-coder", 2.0, 2.0, 2.0),
    ("kimi-k2", 0.6, 0.15, 2.5), ("kimi-k2.5", 0.6, 0.1, 3.0), ("moonshot-v1-128k", 2.0, 2.0, 5.0),
    ("glm-4.6", 0.6, 0.11, 2.2), ("glm-4.5", 0.6, 0.11, 2.2), ("glm-4.5-air", 0.2, 0.03, 1.1),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn input_price(table: &PriceTable, model: &str) -> Option<f64> {
        table.price(model).map(|price| price.input_per_million)
    }

    #[test]
    fn the_longest_name_that_is_the_same_version_gives_the_price() {
        let table = PriceTable::default();
        for (model, price) in [
            ("gpt-5", Some(1.25)),
            ("gpt-5-2025-08-07", Some(1.25)),
            ("gpt-5-mini-2025-08-07", Some(0.25)),
            ("openai/gpt-5-mini", Some(0.25)),
            ("OpenAI/GPT-5-Mini", Some(0.25)),
            ("gpt-5.9", None),
            ("gpt-6-luna", Some(0.1)),
            ("gpt-6", None),
            ("gpt-50", None),
            ("claude-opus-4-20250514", Some(15.0)),
            ("claude-opus-4-5-20251101", Some(5.0)),
            ("claude-opus-4-9", None),
            ("claude-sonnet-5-5", Some(2.0)),
            ("anthropic/claude-sonnet-4.5", Some(3.0)),
            ("grok-4-0709", Some(3.0)),
            ("grok-4-1-fast-reasoning", Some(0.2)),
            ("gemini-3-flash-preview", Some(0.5)),
            ("meta/llama-3.3-70b-versatile:free", Some(0.0)),
            ("my-own-model", None),
            ("gpt-5-chat-latest", Some(1.25)),
            ("gpt-5-pro", Some(15.0)),
            ("gpt-5.4-pro", None),
            ("gpt-5-deep-research", None),
            ("gpt-5-realtime-preview", None),
            ("claude-opus-4-5-fast", None),
            ("", None),
        ] {
            assert_eq!(input_price(&table, model), price, "{model}");
        }
    }

    #[test]
    fn the_users_prices_take_precedence_and_cover_new_models() {
        let price = |input| Price {
            input_per_million: input,
            output_per_million: 0.0,
            cached_input_per_million: None,
        };
        let own =
            BTreeMap::from([("gpt-5-mini".to_owned(), price(9.0)), ("My-Model".to_owned(), price(7.0))]);
        let table = PriceTable::new(&own);
        assert_eq!(input_price(&table, "openai/gpt-5-mini"), Some(9.0));
        assert_eq!(input_price(&table, "gpt-5"), Some(1.25));
        assert_eq!(input_price(&table, "my-model"), Some(7.0));
    }

    #[test]
    fn cached_input_is_cheaper_and_never_counted_twice() {
        let usage = Usage {
            input_tokens: 1_000_000,
            cached_input_tokens: 400_000,
            output_tokens: 100_000,
            ..Usage::default()
        };
        let cost = PriceTable::default().cost("gpt-5", &usage).unwrap();
        assert!((cost - (0.6 * 1.25 + 0.4 * 0.125 + 0.1 * 10.0)).abs() < 1e-9, "{cost}");
        assert_eq!(PriceTable::default().cost("my-own-model", &usage), None);
    }
}
