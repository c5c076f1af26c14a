//! The tests of the test kit in one binary.
#![expect(clippy::disallowed_methods, reason = "tests of the kit measure time and read files")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod client;
mod faults;
mod gates;
mod processes;
mod replies;
mod server;
mod wires;

#[test]
fn no_test_file_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let declared = include_str!("main.rs").contains(&format!("mod {name};"));
        assert!(declared || name == "main", "{} is not part of the suite", path.display());
    }
}
