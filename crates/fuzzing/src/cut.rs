//! Splits bytes into pieces, deterministically for a given number.

pub(crate) fn choice(bytes: &[u8]) -> (u8, &[u8]) {
    bytes.split_first().map_or((0, bytes), |(first, rest)| (*first, rest))
}

/// Pieces of pseudo-random lengths from 1 to `how` + 1; single bytes if `how` is 0.
pub(crate) fn pieces(bytes: &[u8], how: u8) -> Vec<&[u8]> {
    if how == 0 {
        return bytes.chunks(1).collect();
    }
    let mut state = u64::from(how);
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = 1 + (state >> 33) as usize % (1 + usize::from(how));
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
