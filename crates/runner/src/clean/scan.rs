//! Scans terminal output for special bytes in bulk, with code that the compiler vectorizes.

const BLOCK: usize = 32;
const ASCII_BLOCK: usize = 128;
/// How many bytes are scanned at once: few enough that they are still in the cache when they are copied.
const NEAR: usize = 16 * 1024;

pub(super) const COPY: usize = 8 * 1024;
const PAIR: usize = 16;
/// After this many bytes without a color sequence, the bulk scan is faster than `copy_colored`.
const LONG_RUN: usize = 16 * PAIR;
/// `ESC [` as the low bytes of a little-endian word.
const CONTROL_SEQUENCE: u64 = 0x5b1b;
/// `\r\n` as the low bytes of a little-endian word.
const LINE_END: u64 = 0x0a0d;

/// How many bytes from the start are text, newlines and tabs. May stop early in long ASCII text. Stops at the byte
/// 0xc2, which may begin a two-byte control character (U+0080 to U+009F).
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    // In colored output there are rarely more than a few words between two color sequences, so large blocks are
    // checked only if these first bytes contain nothing special.
    let (start, rest) = bytes.split_at(bytes.len().min(2 * BLOCK));
    let length = memchr::memchr(b'\x1b', start).unwrap_or(start.len());
    let run = start.get(..length).unwrap_or_default();
    if run.iter().fold(false, |found, byte| found | is_special(*byte)) {
        return in_small_steps(run);
    }
    if length < start.len() {
        return length;
    }
    let (blocks, _) = rest.get(..NEAR).unwrap_or(rest).as_chunks::<ASCII_BLOCK>();
    let unusual =
        |block: &[u8; ASCII_BLOCK]| block.iter().fold(false, |found, byte| found | is_unusual(*byte));
    let usual = blocks.iter().take_while(|block| !unusual(block)).count();
    let length = length + ASCII_BLOCK * usual;
    if ASCII_BLOCK * usual == NEAR {
        return length;
    }
    length + in_small_steps(bytes.get(length..).unwrap_or_default())
}

#[inline]
fn in_small_steps(bytes: &[u8]) -> usize {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let mut length = 0;
    for block in blocks {
        if block.iter().fold(false, |found, byte| found | is_special(*byte)) {
            return length + block.iter().position(|byte| is_special(*byte)).unwrap_or(BLOCK);
        }
        length += BLOCK;
    }
    length + rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len())
}

#[inline]
#[expect(clippy::needless_bitwise_bool, reason = "branch-free code can be vectorized")]
fn is_special(byte: u8) -> bool {
    let control = (byte < 0x20) & (byte != b'\n') & (byte != b'\t');
    control | (byte == 0x7f) | (byte == 0xc2)
}

#[inline]
#[expect(clippy::needless_bitwise_bool, reason = "branch-free code can be vectorized")]
fn is_unusual(byte: u8) -> bool {
    (byte.wrapping_sub(0x20) > 0x5e) & (byte != b'\n') & (byte != b'\t')
}

/// Copies ASCII text without its color sequences and without the `\r` of `\r\n`. Stops at anything else, at a long
/// run without colors, or near the end of `bytes` or of `copy`. Returns the number of bytes read and the number
/// copied.
pub(super) fn copy_colored(bytes: &[u8], copy: &mut [u8; COPY]) -> (usize, usize) {
    let (mut read, mut copied) = (0, 0);
    while let (Some(from), Some(to)) = (chunk(bytes, read), chunk_mut(copy, copied)) {
        *to = *from;
        let plain = usual_bytes(*from);
        (read, copied) = (read + plain, copied + plain);
        if plain < PAIR {
            let skipped = color_length(bytes, read);
            if skipped == 0 {
                break;
            }
            read += skipped;
            continue;
        }
        let run = copied;
        while let (Some(from), Some(to)) = (chunk::<PAIR>(bytes, read), chunk_mut(copy, copied))
            && !from.iter().fold(false, |found, byte| found | is_unusual(*byte))
        {
            *to = *from;
            (read, copied) = (read + PAIR, copied + PAIR);
            if copied - run == LONG_RUN {
                return (read, copied);
            }
        }
    }
    (read, copied)
}

/// The length of the color sequence at `at`; 1 for the `\r` of a `\r\n`. 0 if there is neither, if the sequence is
/// longer than a machine word, or if fewer bytes than a machine word are left.
#[inline]
fn color_length(bytes: &[u8], at: usize) -> usize {
    let Some(word) = chunk(bytes, at).map(|word| u64::from_le_bytes(*word)) else { return 0 };
    match word & 0xffff {
        LINE_END => return 1,
        CONTROL_SEQUENCE => {}
        _ => return 0,
    }
    let arguments = word >> 16;
    let last = (arguments & 0xc0c0_c0c0_c0c0).trailing_zeros() as usize / 8;
    let before = (1_u64 << (8 * last).min(63)) - 1;
    let are_numbers = arguments & before & 0x2020_2020_2020 == before & 0x2020_2020_2020;
    if last < 6 && are_numbers && (arguments >> (8 * last)) as u8 == b'm' { last + 3 } else { 0 }
}

#[inline]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

#[inline]
fn chunk_mut<const N: usize>(bytes: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    bytes.get_mut(at..)?.first_chunk_mut()
}

#[inline]
fn usual_bytes(bytes: [u8; PAIR]) -> usize {
    let both = u128::from_le_bytes(bytes);
    let (first, second) = (unusual_in(both as u64), unusual_in((both >> 64) as u64));
    let usual = if first == 0 { 64 + second.trailing_zeros() } else { first.trailing_zeros() };
    usual as usize / 8
}

/// Sets the highest bit of each byte for which `is_unusual` holds. No carry crosses bytes: each sum stays below 256.
#[inline]
fn unusual_in(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const LOW: u64 = 0x7f * ONES;
    let low = word & LOW;
    let is_other_than = |byte: u64| ((word ^ (byte * ONES)) & LOW) + LOW;
    let is_low = !(low + 0x60 * ONES) & is_other_than(0x0a) & is_other_than(0x09);
    let is_high = (low + ONES) | word;
    (is_low | is_high) & !LOW
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Ends,
    Escape,
    Inside,
}

pub(super) fn skip_string(bytes: &[u8], is_command: bool) -> (Step, usize) {
    // A command (OSC) is one line, so a newline means that it was never terminated. Other strings, such as images,
    // may contain newlines.
    let found = if is_command {
        memchr::memchr3(b'\x1b', b'\x07', b'\n', bytes)
    } else {
        memchr::memchr2(b'\x1b', b'\x18', bytes)
    };
    let Some(at) = found else { return (Step::Inside, bytes.len()) };
    match bytes.get(at) {
        Some(b'\x1b') => (Step::Escape, at + 1),
        // The newline itself is text, so it is not skipped.
        Some(b'\n') => (Step::Ends, at),
        _ => (Step::Ends, at + 1),
    }
}
