//! `docs/config.md` matches the tables of keys and backend types.

use std::path::Path;

use althing_config::reference;

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may read and update the generated documentation")]
fn the_reference_in_the_docs_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    if std::env::var_os("ALTHING_UPDATE_DOCS").is_some() {
        std::fs::write(&path, reference()).expect("writable");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == reference(),
        "docs/config.md is stale; refresh it with: ALTHING_UPDATE_DOCS=1 cargo test -p althing-config docs"
    );
}
