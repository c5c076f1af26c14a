//! Tests that terminal output becomes readable plain text, no matter how it is split into reads.

use super::{Cleaner, clean};
use proptest::prelude::*;

fn in_pieces(bytes: &[u8], size: usize) -> String {
    let mut cleaner = Cleaner::default();
    let mut text = String::new();
    for piece in bytes.chunks(size) {
        text.push_str(cleaner.push(piece));
    }
    text + cleaner.flush()
}

#[track_caller]
fn assert_clean(bytes: impl AsRef<[u8]>, text: &str) {
    let bytes = bytes.as_ref();
    for size in [bytes.len().max(1), 1, 2, 3, 7] {
        assert_eq!(in_pieces(bytes, size), text, "in pieces of {size}");
    }
}

// spec: core/output-sanitization/ansi-stripping
#[test]
fn colors_cursor_codes_titles_and_device_strings_are_removed_from_the_text() {
    assert_clean("\x1b[1;31merror\x1b[0m: \x1b[38;2;1;2;3mno\x1b[m\n", "error: no\n");
    assert_clean("\x1b[?25l\x1b[2J\x1b[Hready\x1b[?25h\n", "ready\n");
    assert_clean("\x1b]0;a title\x07x\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\\n", "xlink\n");
    assert_clean("\x1bP1$r0m\x1b\\a\x1b_apc\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd");
    assert_clean("\x1b(B\x1b=\x1b>\x1bMtext", "text");
    assert_clean("a\x07b\x00c\x0ed\x7fe\tf", "abcde\tf");
}

#[test]
fn eight_bit_control_characters_are_recognized_in_both_encodings() {
    assert_clean("a\u{9b}31mb\u{9d}title\x07c\u{90}dcs\x1b\\d\u{85}e", "abcde");
    assert_clean(b"a\x9b31mb\x9dtitle\x07c", "abc");
    assert_clean("\u{a9} \u{bf} é", "© ¿ é");
}

#[test]
fn a_redrawn_line_appears_once_in_its_last_form() {
    assert_clean("10%\r50%\r100%\ndone\r\n", "100%\ndone\n");
    assert_clean("downloading\r\x1b[Kready\n", "ready\n");
    assert_clean("downloading\x1b[2K\x1b[1Gready\n", "ready\n");
    assert_clean("one\r\ntwo\r\n", "one\ntwo\n");
    assert_clean("spin|\x08/\x08-\n", "spin-\n");
    assert_clean("\x08\x08a", "a");
}

#[test]
fn cursor_movements_to_the_right_become_spaces() {
    assert_clean("Do\x1b[Cyou\x1b[2Cwant", "Do you  want");
    assert_clean("one\x1b[5;1Htwo", "one\ntwo");
}

#[test]
fn characters_split_between_reads_are_joined_and_invalid_bytes_are_replaced() {
    assert_clean("ä✓🎉\n", "ä✓🎉\n");
    assert_clean(b"a\xffb\xe2\x9cc\n", "a\u{fffd}b\u{fffd}c\n");
    let mut cleaner = Cleaner::default();
    assert_eq!(cleaner.push(b"\xf0\x9f"), "");
    assert_eq!(cleaner.push(b"\x8e\x89\n"), "🎉\n");
}

#[test]
fn the_current_line_is_held_back_until_it_ends_or_is_flushed() {
    let mut cleaner = Cleaner::default();
    assert_eq!(cleaner.push(b"one\ntw"), "one\n");
    assert!(cleaner.holds());
    assert_eq!(cleaner.flush(), "tw");
    assert!(!cleaner.holds());
    assert_eq!(cleaner.push(b"o\n"), "o\n");
    assert_eq!(cleaner.push(b"10%"), "");
    assert_eq!(cleaner.flush(), "10%");
    assert_eq!(cleaner.push(b"\r20%\n"), "\n20%\n", "returned text cannot be replaced");
}

#[test]
fn a_sequence_that_never_ends_does_not_swallow_what_follows() {
    assert_clean("\x1b]0;no end\nnext\n", "\nnext\n");
    let mut flood = b"\x1bPno end".to_vec();
    flood.extend(vec![b'x'; 2 * super::LONGEST_STRING]);
    flood.extend(b"\nnext\n");
    assert!(in_pieces(&flood, 64 * 1024).ends_with("\nnext\n"));
}

#[test]
fn an_endless_line_is_returned_in_pieces() {
    let mut cleaner = Cleaner::default();
    let mut given = 0;
    for _ in 0..100 {
        given += cleaner.push(&[b'x'; 4096]).len();
        assert!(cleaner.text.capacity() < 1024 * 1024);
    }
    assert_eq!(given + cleaner.flush().len(), 100 * 4096);
}

#[test]
fn cleaning_plain_text_does_not_reallocate() {
    let text = "a line of plain text\n".repeat(100);
    let mut cleaner = Cleaner::default();
    cleaner.push(text.as_bytes());
    let room = cleaner.text.capacity();
    for _ in 0..1000 {
        assert_eq!(cleaner.push(text.as_bytes()), text);
    }
    assert_eq!(cleaner.text.capacity(), room);
}

proptest! {
    #[test]
    fn read_boundaries_make_no_difference(
        bytes in prop::collection::vec(prop_oneof![
            Just(0x1b_u8), Just(b'['), Just(b']'), Just(b'\r'), Just(b'\n'), Just(8), Just(0xc2), Just(0x9b),
            Just(b'm'), Just(b'K'), Just(b'P'), Just(b'\\'), any::<u8>()], 0..60),
        size in 1_usize..9,
    ) {
        prop_assert_eq!(in_pieces(&bytes, size), in_pieces(&bytes, 60));
    }

    #[test]
    fn bulk_removal_of_colors_equals_byte_by_byte_removal(
        words in prop::collection::vec(prop::sample::select(vec![
            "\x1b[1m", "\x1b[0m", "\x1b[m", "\x1b[38;5;123m", "\x1b[38;2;1;22;133m", "\x1b[?25l", "\x1b[ m", "\x1b[\nm",
            "\x1b[K", "\x1b[2C", "\x1b[1;31", "\x1b", "\r\n", "\r", "\n", "\n ", "\t", "\x08", "\x7f", "\u{9b}1m", "ä", "✓",
            "word", "a", " ", "~", "fifteen letters", "exactly sixteen!", "a line that goes on for more than two words",
        ]), 0..80),
        size in 16_usize..200,
    ) {
        let bytes = words.concat().into_bytes();
        let slow = in_pieces(&bytes, 1);
        prop_assert_eq!(in_pieces(&bytes, size), slow.as_str());
        prop_assert_eq!(in_pieces(&bytes, bytes.len().max(1)), slow);
    }

    #[test]
    fn clean_text_contains_no_control_characters(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = in_pieces(&bytes, 17);
        let bad = |c: &char| c.is_control() && *c != '\n' && *c != '\t';
        prop_assert_eq!(text.chars().find(bad), None);
    }

    #[test]
    fn plain_text_is_unchanged(text in "[a-zA-Z0-9 äöü✓🎉\t\n]{0,200}") {
        prop_assert_eq!(clean(&text), text);
    }
}
