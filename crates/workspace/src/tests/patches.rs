//! `apply_patch`: what the format means, and that a patch is applied whole or not at all.

use super::yard::{Yard, tree};
use crate::Refusal;
use serde_json::json;

fn apply(yard: &Yard, body: &str) -> Result<String, Refusal> {
    yard.call("apply_patch", &json!({"patch": format!("*** Begin Patch\n{body}*** End Patch\n")}))
}

fn text(yard: &Yard, path: &str) -> String {
    std::fs::read_to_string(yard.workspace().join(path)).unwrap()
}

#[test]
fn a_patch_adds_updates_moves_and_deletes() {
    let yard = Yard::new();
    yard.write("a.txt", "one\ntwo\nthree\nfour\n").unwrap();
    yard.write("old.txt", "gone\n").unwrap();
    yard.write("from.txt", "here\n").unwrap();
    let told = apply(
        &yard,
        "*** Add File: new/n.txt\n+first\n+\n+third\n\
         *** Update File: a.txt\n@@\n one\n-two\n+TWO\n three\n\
         *** Update File: from.txt\n*** Move to: moved/to.txt\n@@\n-here\n+there\n\
         *** Delete File: old.txt\n",
    )
    .unwrap();
    assert_eq!(told.lines().count(), 4, "{told}");
    assert_eq!(text(&yard, "new/n.txt"), "first\n\nthird\n");
    assert_eq!(text(&yard, "a.txt"), "one\nTWO\nthree\nfour\n");
    assert_eq!(text(&yard, "moved/to.txt"), "there\n");
    assert!(!yard.workspace().join("old.txt").exists() && !yard.workspace().join("from.txt").exists());
}

#[test]
fn hunks_are_found_in_order_and_by_the_line_that_they_name() {
    let yard = Yard::new();
    yard.write("a.rs", "fn a() {\n    x();\n}\n\nfn b() {\n    x();\n}\n").unwrap();
    apply(&yard, "*** Update File: a.rs\n@@ fn b() {\n-    x();\n+    y();\n").unwrap();
    assert_eq!(text(&yard, "a.rs"), "fn a() {\n    x();\n}\n\nfn b() {\n    y();\n}\n");
    yard.write("b.txt", "1\n2\n1\n2\n").unwrap();
    apply(&yard, "*** Update File: b.txt\n@@\n 1\n-2\n+two\n@@\n 1\n-2\n+TWO\n").unwrap();
    assert_eq!(text(&yard, "b.txt"), "1\ntwo\n1\nTWO\n");
    apply(&yard, "*** Update File: b.txt\n@@\n-TWO\n+end\n*** End of File\n").unwrap();
    assert_eq!(text(&yard, "b.txt"), "1\ntwo\n1\nend\n");
    apply(&yard, "*** Update File: b.txt\n@@ two\n+inserted\n").unwrap();
    assert_eq!(text(&yard, "b.txt"), "1\ntwo\ninserted\n1\nend\n");
}

#[test]
fn spaces_at_line_ends_do_not_matter_and_kept_lines_stay_as_they_are() {
    let yard = Yard::new();
    yard.write("a.txt", "one  \r\ntwo\r\nthree").unwrap();
    apply(&yard, "*** Update File: a.txt\n@@\n one\n-two\n+2\n").unwrap();
    assert_eq!(text(&yard, "a.txt"), "one  \r\n2\r\nthree");
}

#[test]
fn a_patch_of_which_one_part_fails_changes_nothing() {
    let good = "*** Add File: made/new.txt\n+x\n*** Update File: ok.txt\n@@\n-fine\n+changed\n";
    for (bad, told) in [
        ("*** Update File: sub/deep.txt\n@@\n-not there\n+x\n", "are not in the file"),
        ("*** Update File: missing.txt\n@@\n-a\n+b\n", "there is no"),
        ("*** Delete File: missing.txt\n", "there is no"),
        ("*** Add File: sub/deep.txt\n+x\n", "there already"),
        ("*** Add File: ../other/new.txt\n+x\n", "Althing's own state"),
        ("*** Delete File: ../../views/me/agent2/shown.txt\n", "read-only"),
        ("*** Add File: made/new.txt\n+y\n", "changed twice"),
        ("*** Add File: ok.txt/below.txt\n+y\n", "no directory"),
        ("*** Rename File: a\n", "expected"),
        ("*** Update File: sub/deep.txt\n@@\n deep\n", "changes nothing"),
        ("*** Update File: sub/deep.txt\n@@\ndeep\n", "begins with a space"),
        // Everything is checked by then: a directory stands where the file is to go.
        ("*** Add File: sub\n+x\n", "a directory"),
    ] {
        let yard = Yard::new();
        let before = tree(&yard.base);
        let error = apply(&yard, &format!("{good}{bad}")).unwrap_err().to_string();
        assert!(error.contains(told), "{bad:?}: {error}");
        assert_eq!(tree(&yard.base), before, "{bad:?}");
    }
}

#[test]
fn a_failure_while_files_are_put_in_place_takes_back_what_was_placed() {
    let yard = Yard::new();
    let before = tree(&yard.base);
    // The second file needs a directory of the name that the first file has: nothing to be seen before it is tried.
    let told = apply(
        &yard,
        "*** Update File: ok.txt\n@@\n-fine\n+x\n*** Add File: both\n+x\n*** Add File: both/below\n+x\n",
    );
    assert!(told.is_err(), "{told:?}");
    assert_eq!(tree(&yard.base), before);
    assert!(!yard.workspace().join("both").exists(), "directories made on the way are gone too");
}

#[test]
fn what_is_no_patch_is_refused_with_the_line() {
    let yard = Yard::new();
    for (patch, told) in [
        ("", "line 1: must be `*** Begin Patch`"),
        ("--- a\n+++ b\n", "line 1: must be `*** Begin Patch`"),
        ("*** Begin Patch\n*** End Patch", "line 2: the patch changes nothing"),
        ("*** Begin Patch\n*** Add File: a\n+x", "line 3: `*** End Patch` is missing"),
        ("*** Begin Patch\n*** Update File: ok.txt\n*** End Patch", "no hunk follows"),
        ("*** Begin Patch\n*** Delete File: ok.txt\n*** End Patch\nmore", "nothing may follow"),
    ] {
        let error = yard.call("apply_patch", &json!({"patch": patch})).unwrap_err().to_string();
        assert!(error.contains(told), "{patch:?}: {error}");
    }
}
