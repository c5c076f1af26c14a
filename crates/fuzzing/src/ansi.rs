//! Cleaning of program output from pipes: the result contains no control code that a terminal acts on, however the
//! reads are split.

use crate::cut::{choice, pieces};
use althing_runner::{Cleaner, clean};

pub(crate) fn check(bytes: &[u8]) {
    let (how, bytes) = choice(bytes);
    let text = cleaned(&[bytes]);
    assert_eq!(cleaned(&pieces(bytes, how)), text, "cut another way it means something else");
    let acts = |c: &char| c.is_control() && *c != '\n' && *c != '\t';
    assert_eq!(text.chars().find(acts), None, "{text:?}");
    assert_eq!(clean(&text), text, "plain text is changed");
    // A short cursor-right sequence may become many spaces; nothing else grows.
    assert!(text.len() <= bytes.len() * 500 + 16, "{} bytes became {}", bytes.len(), text.len());
}

fn cleaned(pieces: &[&[u8]]) -> String {
    let mut cleaner = Cleaner::default();
    let mut text: String = pieces.iter().map(|piece| cleaner.push(piece).to_owned()).collect();
    text.push_str(cleaner.flush());
    assert!(!cleaner.holds(), "something is held back after the end");
    text
}
