//! Hashes that are the same in every version of Althing and on every machine, for values that are stored or replayed.

/// The 64-bit FNV-1a hash of a text.
pub fn fnv1a(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The pseudo-random number with this index for a seed (SplitMix64).
pub fn pseudo_random(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A token of eight hexadecimal digits that occurs in none of the texts, so a text between marker lines with this token
/// cannot contain its closing line. Deterministic for the same seed and texts.
pub fn unused_token<'a>(seed: u64, texts: &(impl Iterator<Item = &'a str> + Clone)) -> String {
    let mut index = 0;
    loop {
        let token = format!("{:08x}", pseudo_random(seed, index) >> 32);
        if !texts.clone().any(|text| text.contains(&token)) {
            return token;
        }
        index += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_occurs_in_no_text_even_if_the_texts_predict_it() {
        let predicted: Vec<String> = (0..500).map(|n| format!("{:08x}", pseudo_random(7, n) >> 32)).collect();
        let text = predicted.join(" ");
        let token = unused_token(7, &[text.as_str(), "x"].into_iter());
        assert_eq!(token, format!("{:08x}", pseudo_random(7, 500) >> 32));
        assert!(!text.contains(&token));
        assert_ne!(unused_token(8, &std::iter::empty()), unused_token(7, &std::iter::empty()));
    }
}
