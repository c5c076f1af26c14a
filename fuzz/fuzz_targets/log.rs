//! The libFuzzer entry point of `crates/fuzzing/src/log.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| althing_fuzzing::check("log", bytes));
