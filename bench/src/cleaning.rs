//! Measures how fast `Cleaner` removes escape sequences from program output, compared to the crate `strip-ansi-escapes`
//! and to `memcpy`.

use crate::build_log::block;
use crate::measure::{median, timed};
use crate::verdict::speed;
use althing_runner::Cleaner;
use std::hint::black_box;

const MEBIBYTES: usize = 32;
const PIECE: usize = 256 * 1024;

pub fn all(rounds: usize) {
    let colored = block(true).repeat(MEBIBYTES);
    let plain = block(false).repeat(MEBIBYTES);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        theirs.push(timed(|| black_box(strip_ansi_escapes::strip(black_box(&colored)))).0);
        ours.push(timed(|| cleaned(&colored)).0);
    }
    speed("a colored log, beside strip-ansi-escapes", median(ours), median(theirs), 8.0);
    let (mut ours, mut copied) = (Vec::new(), Vec::new());
    let mut copy = vec![0; PIECE];
    for _ in 0..rounds {
        copied.push(timed(|| copies(&plain, &mut copy)).0);
        ours.push(timed(|| cleaned(&plain)).0);
    }
    speed("plain text, beside memcpy", median(ours), median(copied), 0.5);
}

fn cleaned(bytes: &[u8]) -> usize {
    let mut cleaner = Cleaner::default();
    let mut given = 0;
    for piece in bytes.chunks(PIECE) {
        given += black_box(cleaner.push(black_box(piece))).len();
    }
    given + cleaner.flush().len()
}

fn copies(bytes: &[u8], copy: &mut [u8]) {
    for piece in bytes.chunks(PIECE) {
        copy[..piece.len()].copy_from_slice(black_box(piece));
        black_box(&mut *copy);
    }
}
