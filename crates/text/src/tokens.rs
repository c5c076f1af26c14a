//! Estimates the number of tokens in a text, for compacting conversations and for replies without a token count.

/// Estimates the tokens of a text: about four characters per token, as in English and code; every character from U+2E80
/// on (ideographs, Hangul, emoji) counts as one token.
pub fn estimate_tokens(text: &str) -> u64 {
    if text.is_ascii() {
        return (text.len() as u64).div_ceil(4);
    }
    let quarters: u64 = text.chars().map(|c| if (c as u32) < 0x2E80 { 1 } else { 4 }).sum();
    quarters.div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_letters_or_one_ideograph_count_as_a_token() {
        assert_eq!(estimate_tokens(""), 0);
        assert_eq!(estimate_tokens("abc"), 1);
        assert_eq!(estimate_tokens("abcdefgh"), 2);
        assert_eq!(estimate_tokens("größer als"), 3);
        assert_eq!(estimate_tokens("你好"), 2);
    }
}
