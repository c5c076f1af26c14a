//! How front ends show amounts of money. A cost that is not known is called unknown, never `$0`.

use althing_protocol::Usage;

/// The cost of calls: an amount, `unknown` if no call has a known cost, or both if some calls have none.
pub fn cost(usage: &Usage) -> String {
    match (usage.cost_usd > 0.0, usage.unpriced_calls > 0) {
        (false, true) => "unknown".into(),
        (true, true) => format!("{} + unknown", crate::labels::money(usage.cost_usd)),
        (_, false) => crate::labels::money(usage.cost_usd),
    }
}

pub fn has_cost(usage: &Usage) -> bool {
    usage.cost_usd > 0.0 || usage.unpriced_calls > 0
}

/// An exact amount, given in millionths of a US dollar, that can be compared with another amount.
pub fn exact_money(micro: u64) -> String {
    let (dollars, rest) = (micro / 1_000_000, micro % 1_000_000);
    if rest == 0 {
        return format!("${dollars}");
    }
    let digits = format!("{rest:06}");
    let digits = digits.trim_end_matches('0');
    format!("${dollars}.{digits:0<2}")
}

#[cfg(test)]
mod tests {
    use super::{Usage, cost, exact_money};

    #[test]
    fn an_unknown_cost_is_not_shown_as_nothing() {
        let usage =
            |cost_usd, unpriced_calls| Usage { cost_usd, unpriced_calls, calls: 3, ..Usage::default() };
        assert_eq!(cost(&usage(0.0, 0)), "$0");
        assert_eq!(cost(&usage(0.0, 3)), "unknown");
        assert_eq!(cost(&usage(0.42, 0)), "$0.42");
        assert_eq!(cost(&usage(0.42, 1)), "$0.42 + unknown");
    }

    #[test]
    fn amounts_that_differ_look_different() {
        let shown = [5_000_000, 20_000, 14_900, 15_000, 500_000, 1].map(exact_money);
        assert_eq!(shown, ["$5", "$0.02", "$0.0149", "$0.015", "$0.50", "$0.000001"]);
    }
}
