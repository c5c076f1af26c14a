//! Long and repetitive secrets are masked like others, and the work grows linearly with their length.

use crate::search::Search;
use crate::{Masker, MaskingStream};
use althing_protocol::MaskStream;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Letters and digits without a visible order, from a linear congruential generator.
fn random(count: usize) -> String {
    let numbers =
        std::iter::successors(Some(1_u32), |n| Some(n.wrapping_mul(1_664_525).wrapping_add(12_345)));
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    numbers.skip(1).take(count).map(|n| char::from(digits[n as usize / 7 % digits.len()])).collect()
}

fn streamed(masker: &Arc<Masker>, text: &str) -> String {
    let mut stream = MaskingStream::new(masker.clone());
    let mut out = Vec::new();
    for piece in text.as_bytes().chunks(64 * 1024) {
        out.extend_from_slice(stream.push(piece));
    }
    out.extend_from_slice(stream.finish());
    String::from_utf8(out).unwrap()
}

#[test]
fn long_and_repetitive_secrets_are_masked_without_endless_work() {
    for size in [400, 10_000, 100_000] {
        for secret in ["x".repeat(size), "ab1".repeat(size / 3), random(size)] {
            let (done, result) = channel();
            std::thread::spawn(move || {
                let masker = Arc::new(Masker::new([&secret]));
                let hex = althing_text::hex(secret.as_bytes());
                let (cut, _) = secret.split_at(secret.len() - 1);
                let text = format!("<{secret}|{hex}|{cut}>");
                let masked = (masker.mask_text(&text).into_owned(), streamed(&masker, &text));
                let _ = done.send((masked, format!("<[secret]|[secret]|{cut}>")));
            });
            // Before, this took hours.
            let ((whole, streamed), wanted) = result.recv_timeout(Duration::from_secs(120)).unwrap();
            assert!(whole == wanted && streamed == wanted, "{size} bytes");
        }
    }
}

proptest! {
    #[test]
    fn the_search_finds_what_a_comparison_at_each_place_finds(
        forms in proptest::collection::btree_set(("[ab]{1,3}", 3_usize..60, "[ab]{0,2}"), 1..4),
        places in proptest::collection::vec(("[ab]{0,2}", 0_usize..4, 1_usize..200), 0..6),
    ) {
        let forms: BTreeSet<String> =
            forms.into_iter().map(|(part, count, end)| part.repeat(count) + &end).collect();
        let all: Vec<&String> = forms.iter().collect();
        let text: String = places
            .into_iter()
            .map(|(before, form, count)| {
                let form = all[form % all.len()];
                before + &form[..count.min(form.len())]
            })
            .collect();
        let is_in = |form: &&String, at: usize| text[at..].starts_with(form.as_str());
        let mut covered = vec![false; text.len()];
        for at in 0..text.len() {
            for form in all.iter().filter(|form| is_in(form, at)) {
                covered[at..at + form.len()].fill(true);
            }
        }
        let begins = |at: &usize| all.iter().any(|form| {
            form.len() > text.len() - at && form.starts_with(&text[*at..])
        });
        let unfinished = (0..text.len()).find(begins).map_or(0, |at| text.len() - at);
        let search = Search::new(forms.clone());
        let spans = search.spans(text.as_bytes());
        let mut found = vec![false; text.len()];
        for (start, end) in &spans {
            found[*start..*end].fill(true);
        }
        prop_assert_eq!(found, covered);
        prop_assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{:?}", spans);
        prop_assert_eq!(search.unfinished(text.as_bytes()), unfinished);
        prop_assert!(spans.is_empty() || search.may_match(text.as_bytes()));
    }
}
