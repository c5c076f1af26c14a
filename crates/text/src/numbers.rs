//! Formats numbers for people.

/// A large number in a few characters: `812`, `12.4k`, `3.1M`.
pub fn short_number(n: u64) -> String {
    match n {
        0..1000 => n.to_string(),
        1000..1_000_000 => format!("{}.{}k", n / 1000, n % 1000 / 100),
        _ => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}

/// A number with its noun: `1 round`, `2 rounds`.
pub fn count(n: u64, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_shortened_and_nouns_are_pluralized() {
        assert_eq!([812, 12_431, 3_140_000].map(short_number), ["812", "12.4k", "3.1M"]);
        assert_eq!([count(1, "file"), count(2, "file")], ["1 file", "2 files"]);
    }
}
