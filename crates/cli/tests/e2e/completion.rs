//! Completion of `@path` in a real terminal: similar names anywhere in the tree, without what `.gitignore` excludes;
//! `:w` is offered; a path that does not exist is marked.

use althing_testkit::{Althing, Terminal};

use super::support::{LIMIT, althing};

const DOWN: &str = "\x1b[B";

fn opened(althing: &Althing, cols: u16, rows: u16) -> Terminal {
    let terminal = althing.new_command().arg("--offline").terminal(cols, rows);
    terminal.wait_for("Type a message...", LIMIT);
    terminal
}

#[test]
fn a_path_is_found_by_letters_of_its_name_anywhere_in_the_tree() {
    let althing = althing();
    althing.file("docs/guide/getting-started.md", "text\n");
    althing.file("target/getting-started.o", "made\n");
    althing.file(".gitignore", "target/\n");
    let mut terminal = opened(&althing, 100, 30);
    terminal.keys("read @gtst");
    let screen = terminal.wait_for("@docs/guide/getting-started.md", LIMIT);
    assert!(!screen.contains("@target/"), "{screen}");
    terminal.keys("\t");
    terminal.wait_for("› read @docs/guide/getting-started.md", LIMIT);
}

#[test]
fn a_path_with_a_space_is_not_offered() {
    let althing = althing();
    althing.file("notes old.md", "text\n");
    althing.file("notes.md", "text\n");
    let mut terminal = opened(&althing, 100, 30);
    terminal.keys("read @no");
    let screen = terminal.wait_for("@notes.md", LIMIT);
    assert!(!screen.contains("@notes old"), "{screen}");
}

#[test]
fn completion_offers_to_write_a_path_and_adds_no_space() {
    for (cols, rows) in [(40, 12), (80, 24), (160, 45)] {
        let althing = althing();
        althing.file("plan.md", "the plan\n");
        let mut terminal = opened(&althing, cols, rows);
        terminal.keys("mend @pl\t");
        terminal.wait_for("@plan.md:w", LIMIT);
        // Tab keeps the path readable only; `:w` has to be chosen.
        terminal.keys("\t");
        terminal.wait_gone("@plan.md:w", LIMIT);
        terminal.wait_for("› mend @plan.md", LIMIT);
        terminal.keys(":");
        terminal.wait_for("@plan.md:w", LIMIT);
        terminal.keys("\t and then");
        terminal.wait_for("› mend @plan.md:w and then", LIMIT);
        terminal.keys("\x03mend @pl\t");
        terminal.wait_for("@plan.md:w", LIMIT);
        terminal.keys(DOWN).keys("\t!");
        terminal.wait_for("› mend @plan.md:w!", LIMIT);
    }
}

#[test]
fn a_mention_of_a_path_that_does_not_exist_is_marked_while_typing() {
    let althing = althing();
    althing.file("plan.md", "the plan\n");
    let mut terminal = opened(&althing, 100, 30);
    terminal.keys("read @plan.md and @nowhere.md:w now");
    terminal.wait_for("@nowhere.md:w: no such file", LIMIT);
    let screen = terminal.screen();
    assert!(!screen.contains("@plan.md: no such file"), "{screen}");
    terminal.keys("\x03read @plan.md now");
    terminal.wait_for("› read @plan.md now", LIMIT);
    terminal.wait_gone("no such file", LIMIT);
}
