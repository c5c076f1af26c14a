//! The size of repeated tests: small for every change, large for nightly runs.

#[must_use]
pub fn scale(usual: usize, nightly: usize) -> usize {
    match std::env::var("ALTHING_TEST_SCALE").as_deref() {
        Ok("nightly") => nightly,
        Ok("pr") | Err(_) => usual,
        Ok(other) => panic!("ALTHING_TEST_SCALE is pr or nightly, not {other}"),
    }
}
