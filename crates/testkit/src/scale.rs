//! How large tests are: small enough for every change, or as large as the night allows.

/// The size of a repeated test: `usual`, or `nightly` where `ALTHING_TEST_SCALE=nightly`.
#[must_use]
pub fn scale(usual: usize, nightly: usize) -> usize {
    match std::env::var("ALTHING_TEST_SCALE").as_deref() {
        Ok("nightly") => nightly,
        Ok("pr") | Err(_) => usual,
        Ok(other) => panic!("ALTHING_TEST_SCALE is pr or nightly, not {other}"),
    }
}
