//! Every test file is declared.

use std::path::Path;

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may read its own source")]
fn every_file_of_the_suite_is_declared() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let main = std::fs::read_to_string(tests.join("main.rs")).expect("readable");
    for entry in tests.join("suite").read_dir().expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        assert!(main.contains(&format!("mod {name};")), "{name}.rs is not in main.rs");
    }
}
