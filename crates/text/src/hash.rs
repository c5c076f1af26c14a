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

const TOKEN_DIGITS: usize = 8;

/// A token of eight hexadecimal digits that occurs in none of the texts, so a text between marker lines with this token
/// cannot contain its closing line. Deterministic for the same seed and texts. A text may predict the tokens, so the
/// texts are read at most twice.
pub fn unused_token<'a>(seed: u64, texts: &(impl Iterator<Item = &'a str> + Clone)) -> String {
    let candidate = |index| u32::try_from(pseudo_random(seed, index) >> 32).unwrap_or_default();
    let written = |token: u32| format!("{token:08x}");
    let first = written(candidate(0));
    if !texts.clone().any(|text| text.contains(&first)) {
        return first;
    }
    let mut used: Vec<u32> = texts.clone().flat_map(tokens_in).collect();
    used.sort_unstable();
    let mut index = 1;
    while used.binary_search(&candidate(index)).is_ok() {
        index += 1;
    }
    written(candidate(index))
}

/// Every sequence of eight hexadecimal digits in a text, also those that overlap.
fn tokens_in(text: &str) -> impl Iterator<Item = u32> {
    let (mut token, mut digits) = (0_u32, 0_usize);
    text.bytes().filter_map(move |byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => {
                digits = 0;
                return None;
            }
        };
        token = (token << 4) | u32::from(digit);
        digits += 1;
        (digits >= TOKEN_DIGITS).then_some(token)
    })
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

    #[test]
    fn a_list_of_predicted_tokens_is_not_read_again_for_each_of_them() {
        let predicted: Vec<String> =
            (0..5000).map(|n| format!("{:08x}", pseudo_random(0, n) >> 32)).collect();
        // Without spaces, the tokens also overlap with the windows between them.
        for text in [predicted.join(" "), predicted.concat()] {
            let reads = std::cell::Cell::new(0);
            let texts = std::iter::repeat_n(text.as_str(), 1).inspect(|_| reads.set(reads.get() + 1));
            assert_eq!(unused_token(0, &texts), format!("{:08x}", pseudo_random(0, 5000) >> 32));
            assert!(reads.get() <= 2, "the text was read {} times", reads.get());
        }
    }

    #[test]
    fn only_a_token_within_one_text_and_in_lower_case_is_used() {
        let token = |n| format!("{:08x}", pseudo_random(3, n) >> 32);
        let (first, second) = (token(0), token(1));
        let (half, rest) = first.split_at(4);
        let found = |texts: &[&str]| unused_token(3, &texts.iter().copied());
        assert_eq!(found(&[half, rest, &first.to_uppercase(), "\u{e9}"]), first);
        assert_eq!(found(&[&format!("0{first}f"), half]), second);
        assert_eq!(found(&[&format!("{first}{half}"), &format!("\u{e9}{second}\u{e9}")]), token(2));
    }
}
