//! The libFuzzer entry point of `crates/fuzzing/src/terminal.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| althing_fuzzing::check("terminal", bytes));
