//! `apply_patch`: the meaning of the format, and atomicity.

use super::fixture::{Fixture, tree};
use crate::Refusal;
use serde_json::json;

fn apply(fixture: &Fixture, body: &str) -> Result<String, Refusal> {
    fixture.call("apply_patch", &json!({"patch": format!("*** Begin Patch\n{body}*** End Patch\n")}))
}

fn text(fixture: &Fixture, path: &str) -> String {
    std::fs::read_to_string(fixture.workspace().join(path)).unwrap()
}

#[test]
fn a_patch_adds_updates_moves_and_deletes() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "one\ntwo\nthree\nfour\n").unwrap();
    fixture.write("old.txt", "gone\n").unwrap();
    fixture.write("from.txt", "here\n").unwrap();
    let output = apply(
        &fixture,
        "*** Add File: new/n.txt\n+first\n+\n+third\n\
         *** Update File: a.txt\n@@\n one\n-two\n+TWO\n three\n\
         *** Update File: from.txt\n*** Move to: moved/to.txt\n@@\n-here\n+there\n\
         *** Delete File: old.txt\n",
    )
    .unwrap();
    assert_eq!(output.lines().count(), 4, "{output}");
    assert_eq!(text(&fixture, "new/n.txt"), "first\n\nthird\n");
    assert_eq!(text(&fixture, "a.txt"), "one\nTWO\nthree\nfour\n");
    assert_eq!(text(&fixture, "moved/to.txt"), "there\n");
    assert!(!fixture.workspace().join("old.txt").exists() && !fixture.workspace().join("from.txt").exists());
}

#[test]
fn hunks_match_in_order_and_after_their_anchor_line() {
    let fixture = Fixture::new();
    fixture.write("a.rs", "fn a() {\n    x();\n}\n\nfn b() {\n    x();\n}\n").unwrap();
    apply(&fixture, "*** Update File: a.rs\n@@ fn b() {\n-    x();\n+    y();\n").unwrap();
    assert_eq!(text(&fixture, "a.rs"), "fn a() {\n    x();\n}\n\nfn b() {\n    y();\n}\n");
    fixture.write("b.txt", "1\n2\n1\n2\n").unwrap();
    apply(&fixture, "*** Update File: b.txt\n@@\n 1\n-2\n+two\n@@\n 1\n-2\n+TWO\n").unwrap();
    assert_eq!(text(&fixture, "b.txt"), "1\ntwo\n1\nTWO\n");
    apply(&fixture, "*** Update File: b.txt\n@@\n-TWO\n+end\n*** End of File\n").unwrap();
    assert_eq!(text(&fixture, "b.txt"), "1\ntwo\n1\nend\n");
    apply(&fixture, "*** Update File: b.txt\n@@ two\n+inserted\n").unwrap();
    assert_eq!(text(&fixture, "b.txt"), "1\ntwo\ninserted\n1\nend\n");
}

#[test]
fn trailing_spaces_are_ignored_and_unchanged_lines_stay_as_they_are() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "one  \r\ntwo\r\nthree").unwrap();
    apply(&fixture, "*** Update File: a.txt\n@@\n one\n-two\n+2\n").unwrap();
    assert_eq!(text(&fixture, "a.txt"), "one  \r\n2\r\nthree");
}

#[test]
fn a_patch_with_one_failing_part_changes_nothing() {
    let good = "*** Add File: made/new.txt\n+x\n*** Update File: ok.txt\n@@\n-fine\n+changed\n";
    for (bad, output) in [
        ("*** Update File: sub/deep.txt\n@@\n-not there\n+x\n", "do not occur together"),
        ("*** Update File: missing.txt\n@@\n-a\n+b\n", "does not exist"),
        ("*** Delete File: missing.txt\n", "does not exist"),
        ("*** Add File: sub/deep.txt\n+x\n", "already there"),
        ("*** Add File: ../other/new.txt\n+x\n", "Althing's own state"),
        ("*** Delete File: ../../views/me/agent2/shown.txt\n", "read-only"),
        ("*** Add File: made/new.txt\n+y\n", "changed twice"),
        ("*** Add File: ok.txt/below.txt\n+y\n", "not a directory"),
        ("*** Rename File: a\n", "expected"),
        ("*** Update File: sub/deep.txt\n@@\n deep\n", "changes nothing"),
        ("*** Update File: sub/deep.txt\n@@\ndeep\n", "must begin with a space"),
        ("*** Add File: sub\n+x\n", "a directory"),
    ] {
        let fixture = Fixture::new();
        let before = tree(&fixture.base);
        let error = apply(&fixture, &format!("{good}{bad}")).unwrap_err().to_string();
        assert!(error.contains(output), "{bad:?}: {error}");
        assert_eq!(tree(&fixture.base), before, "{bad:?}");
    }
}

#[test]
fn a_failure_during_commit_reverts_the_files_already_written() {
    let fixture = Fixture::new();
    let before = tree(&fixture.base);
    // `both` is to become a file and a directory, so renaming its temporary file fails, after `ok.txt` was changed.
    let output = apply(
        &fixture,
        "*** Update File: ok.txt\n@@\n-fine\n+x\n*** Add File: both\n+x\n*** Add File: both/below\n+x\n",
    );
    assert!(output.is_err(), "{output:?}");
    assert_eq!(tree(&fixture.base), before);
    assert!(!fixture.workspace().join("both").exists(), "directories created for the patch are removed, too");
}

#[test]
fn an_invalid_patch_is_refused_with_its_line() {
    let fixture = Fixture::new();
    for (patch, output) in [
        ("", "line 1: must be `*** Begin Patch`"),
        ("--- a\n+++ b\n", "line 1: must be `*** Begin Patch`"),
        ("*** Begin Patch\n*** End Patch", "line 2: the patch changes nothing"),
        ("*** Begin Patch\n*** Add File: a\n+x", "line 3: `*** End Patch` is missing"),
        ("*** Begin Patch\n*** Update File: ok.txt\n*** End Patch", "no hunk follows"),
        ("*** Begin Patch\n*** Delete File: ok.txt\n*** End Patch\nmore", "nothing may follow"),
    ] {
        let error = fixture.call("apply_patch", &json!({"patch": patch})).unwrap_err().to_string();
        assert!(error.contains(output), "{patch:?}: {error}");
    }
}
