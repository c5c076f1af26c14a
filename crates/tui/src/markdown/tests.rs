//! How Markdown looks, and that it looks the same while it grows.

use super::*;
use proptest::prelude::*;

fn texts(text: &str, width: usize) -> Vec<String> {
    lines(text, width).iter().map(|line| line.text().trim_end().to_owned()).collect()
}

const SAMPLE: &str = "# Plan\n\nUse **pasetors** with `v4.local` and see [the docs](https://example.org).\n\n\
    1. Add it\n2. Issue tokens\n   - by key id\n   - with a test\n\nThen:\n\n```rust\nfn main() {\n    run();\n}\n```\n\n\
    | file | lines |\n|---|---:|\n| src/a.rs | 12 |\n| src/long/name.rs | 1204 |\n\n> quoted\n> twice\n\nDone.\n";

#[test]
fn markdown_becomes_headings_lists_code_tables_and_quotes() {
    let expected = "\
Plan

Use pasetors with v4.local and see the docs (https://example.org).

1. Add it
2. Issue tokens
   • by key id
   • with a test

Then:

  fn main() {
      run();
  }

file             │ lines
─────────────────┼──────
src/a.rs         │    12
src/long/name.rs │  1204

│ quoted
│ twice

Done.";
    assert_eq!(texts(SAMPLE, 72).join("\n"), expected);
}

#[test]
fn a_table_that_is_too_wide_is_folded_into_its_columns() {
    let table = "| a | b |\n|---|---|\n| one two three four five | six seven eight nine ten |\n";
    for line in texts(table, 30) {
        assert!(line::width(&line) <= 30, "{line}");
    }
}

#[test]
fn a_streaming_text_never_changes_above_its_last_block() {
    let whole = texts(SAMPLE, 60);
    let mut done = 0;
    let mut out = Vec::new();
    for end in 0..=SAMPLE.len() {
        let grown = &SAMPLE[..end];
        while let Some(length) = first_block_len(&grown[done..]) {
            block(&SAMPLE[done..done + length], 60, &mut out);
            done += length;
        }
        let stable: Vec<String> = out.iter().map(|line| line.text().trim_end().to_owned()).collect();
        assert_eq!(stable, whole[..stable.len()], "after {end} bytes");
    }
    assert!(out.len() > 15, "most of it was settled before its end");
}

#[test]
fn deeply_nested_text_and_many_links_stay_small() {
    let words = "word ".repeat(2_000);
    for nested in [">".repeat(4_000), "- ".repeat(4_000)] {
        for width in [20, 80] {
            let shown = lines(&format!("{nested}{words}"), width);
            assert!(shown.iter().all(|line| line.width() <= width), "{width}");
            assert_eq!(shown.iter().map(|line| line.text().matches("word").count()).sum::<usize>(), 2_000);
        }
    }
    let links = "[https://a.example](https://a.example) [b](https://b.example) ".repeat(100);
    let shown: String = texts(&links, 80).join(" ");
    assert_eq!(shown.matches("(https://b.example)").count(), 100);
    assert_eq!(shown.matches("(https://a.example)").count(), 0, "the text of the link is its target");
}

#[test]
fn lines_that_open_more_levels_than_anybody_reads_are_shown_as_they_were_written() {
    for mark in [">", "> ", "- ", "1. ", "> * "] {
        let written = format!("{}word", mark.repeat(1_000));
        let shown = texts(&written, 80).concat();
        assert_eq!(shown.replace(' ', ""), written.replace(' ', ""), "{mark}");
        assert!(texts(&format!("{}word", mark.repeat(20)), 80).concat().len() < 20 * 4 + 20, "{mark}");
    }
    for rule in ["-".repeat(500), "*".repeat(500)] {
        assert!(texts(&rule, 80).concat().starts_with('─'), "a rule opens nothing");
    }
}

proptest! {
    #[test]
    fn no_line_is_wider_than_its_screen(text in "(\\PC|[\\n`*#|>-]){0,300}", width in 8_usize..90) {
        for line in lines(&text, width) {
            prop_assert!(line.width() <= width + 8, "{:?} at {width}", line.text());
        }
    }

    #[test]
    fn blocks_are_the_same_whether_text_comes_at_once_or_in_parts(text in "(a|b|\\n|```| |- |1\\. |# |\\| ){0,80}") {
        let mut out = Vec::new();
        let mut done = 0;
        for (end, _) in text.char_indices() {
            while let Some(length) = first_block_len(&text[done..end]) {
                block(&text[done..done + length], 40, &mut out);
                done += length;
            }
        }
        while let Some(length) = first_block_len(&text[done..]) {
            block(&text[done..done + length], 40, &mut out);
            done += length;
        }
        block(&text[done..], 40, &mut out);
        prop_assert_eq!(out, lines(&text, 40));
    }
}
