//! What a terminal would show is what comes out.

use super::{Cleaner, clean};
use proptest::prelude::*;

/// The same bytes in reads of every size must mean the same.
fn in_pieces(bytes: &[u8], size: usize) -> String {
    let mut cleaner = Cleaner::default();
    let mut text = String::new();
    for piece in bytes.chunks(size) {
        text.push_str(cleaner.push(piece));
    }
    text + cleaner.flush()
}

#[track_caller]
fn becomes(bytes: impl AsRef<[u8]>, text: &str) {
    let bytes = bytes.as_ref();
    for size in [bytes.len().max(1), 1, 2, 3, 7] {
        assert_eq!(in_pieces(bytes, size), text, "in pieces of {size}");
    }
}

// spec: core/output-sanitization/ansi-stripping
#[test]
fn colours_cursor_codes_titles_and_device_strings_vanish_and_the_text_stays() {
    becomes("\x1b[1;31merror\x1b[0m: \x1b[38;2;1;2;3mno\x1b[m\n", "error: no\n");
    becomes("\x1b[?25l\x1b[2J\x1b[Hready\x1b[?25h\n", "ready\n");
    becomes("\x1b]0;a title\x07x\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\\n", "xlink\n");
    becomes("\x1bP1$r0m\x1b\\a\x1b_apc\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd");
    becomes("\x1b(B\x1b=\x1b>\x1bMtext", "text");
    becomes("a\x07b\x00c\x0ed\x7fe\tf", "abcde\tf");
}

#[test]
fn control_characters_of_eight_bits_are_control_characters_in_either_form() {
    becomes("a\u{9b}31mb\u{9d}title\x07c\u{90}dcs\x1b\\d\u{85}e", "abcde");
    becomes(b"a\x9b31mb\x9dtitle\x07c", "abc");
    becomes("\u{a9} \u{bf} é", "© ¿ é");
}

#[test]
fn a_line_that_is_drawn_again_comes_out_as_it_was_last() {
    becomes("10%\r50%\r100%\ndone\r\n", "100%\ndone\n");
    becomes("downloading\r\x1b[Kready\n", "ready\n");
    becomes("downloading\x1b[2K\x1b[1Gready\n", "ready\n");
    becomes("one\r\ntwo\r\n", "one\ntwo\n");
    becomes("spin|\x08/\x08-\n", "spin-\n");
    becomes("\x08\x08a", "a");
}

#[test]
fn spaces_that_are_written_as_cursor_moves_are_spaces() {
    becomes("Do\x1b[Cyou\x1b[2Cwant", "Do you  want");
    becomes("one\x1b[5;1Htwo", "one\ntwo");
}

#[test]
fn characters_cut_by_a_read_are_put_together_and_bytes_that_are_none_are_marked() {
    becomes("ä✓🎉\n", "ä✓🎉\n");
    becomes(b"a\xffb\xe2\x9cc\n", "a\u{fffd}b\u{fffd}c\n");
    let mut cleaner = Cleaner::default();
    assert_eq!(cleaner.push(b"\xf0\x9f"), "");
    assert_eq!(cleaner.push(b"\x8e\x89\n"), "🎉\n");
}

#[test]
fn the_line_being_written_is_held_back_until_it_ends_or_is_asked_for() {
    let mut cleaner = Cleaner::default();
    assert_eq!(cleaner.push(b"one\ntw"), "one\n");
    assert!(cleaner.holds());
    assert_eq!(cleaner.flush(), "tw");
    assert!(!cleaner.holds());
    assert_eq!(cleaner.push(b"o\n"), "o\n");
    assert_eq!(cleaner.push(b"10%"), "");
    assert_eq!(cleaner.flush(), "10%");
    assert_eq!(cleaner.push(b"\r20%\n"), "\n20%\n", "what was handed out cannot be taken back");
}

#[test]
fn a_sequence_that_never_ends_does_not_swallow_what_follows() {
    becomes("\x1b]0;no end\nnext\n", "\nnext\n");
    let mut flood = b"\x1bPno end".to_vec();
    flood.extend(vec![b'x'; 2 * super::LONGEST_STRING]);
    flood.extend(b"\nnext\n");
    assert!(in_pieces(&flood, 64 * 1024).ends_with("\nnext\n"));
}

#[test]
fn a_line_without_end_is_handed_out_as_it_comes() {
    let mut cleaner = Cleaner::default();
    let mut given = 0;
    for _ in 0..100 {
        given += cleaner.push(&[b'x'; 4096]).len();
        assert!(cleaner.text.capacity() < 1024 * 1024);
    }
    assert_eq!(given + cleaner.flush().len(), 100 * 4096);
}

#[test]
fn plain_text_is_cleaned_without_allocating_again() {
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
    fn where_reads_are_cut_makes_no_difference(
        bytes in prop::collection::vec(prop_oneof![
            Just(0x1b_u8), Just(b'['), Just(b']'), Just(b'\r'), Just(b'\n'), Just(8), Just(0xc2), Just(0x9b),
            Just(b'm'), Just(b'K'), Just(b'P'), Just(b'\\'), any::<u8>()], 0..60),
        size in 1_usize..9,
    ) {
        prop_assert_eq!(in_pieces(&bytes, size), in_pieces(&bytes, 60));
    }

    #[test]
    fn colours_are_left_out_in_large_steps_as_they_are_byte_by_byte(
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
    fn nothing_comes_out_that_a_terminal_would_act_on(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = in_pieces(&bytes, 17);
        let bad = |c: &char| c.is_control() && *c != '\n' && *c != '\t';
        prop_assert_eq!(text.chars().find(bad), None);
    }

    #[test]
    fn plain_text_stays_as_it_is(text in "[a-zA-Z0-9 äöü✓🎉\t\n]{0,200}") {
        prop_assert_eq!(clean(&text), text);
    }
}
