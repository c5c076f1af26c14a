//! Finds the next byte that means something, many at a time.

/// Looked at together; the compiler makes vector instructions of it.
const BLOCK: usize = 32;
/// The same for text that is nothing but ASCII, as most is.
const ASCII_BLOCK: usize = 128;

/// How many bytes from the start are text, newlines and tabs. A byte that may begin a control character of two bytes
/// (U+0080 and up) is not among them.
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    // Between two colours there are seldom more than a few words, so large steps are only worth it after a small one.
    let (start, rest) = bytes.split_at(bytes.len().min(2 * BLOCK));
    let length = memchr::memchr(b'\x1b', start).unwrap_or(start.len());
    let run = start.get(..length).unwrap_or_default();
    if run.iter().fold(false, |found, byte| found | is_special(*byte)) {
        return in_small_steps(run);
    }
    if length < start.len() {
        return length;
    }
    let (blocks, _) = rest.as_chunks::<ASCII_BLOCK>();
    let unusual =
        |block: &[u8; ASCII_BLOCK]| block.iter().fold(false, |found, byte| found | is_unusual(*byte));
    let length = length + ASCII_BLOCK * blocks.iter().take_while(|block| !unusual(block)).count();
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
#[expect(clippy::needless_bitwise_bool, reason = "without branches many can be looked at together")]
fn is_special(byte: u8) -> bool {
    let control = (byte < 0x20) & (byte != b'\n') & (byte != b'\t');
    control | (byte == 0x7f) | (byte == 0xc2)
}

/// Neither a printable character of ASCII nor a newline nor a tab.
#[inline]
#[expect(clippy::needless_bitwise_bool, reason = "without branches many can be looked at together")]
fn is_unusual(byte: u8) -> bool {
    (byte.wrapping_sub(0x20) > 0x5e) & (byte != b'\n') & (byte != b'\t')
}

/// Where a string sequence goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It ended.
    Ends,
    /// An escape: perhaps its end.
    Escape,
    /// It goes on.
    Inside,
}

/// Skips a string sequence, and says how it stands after that many bytes.
pub(super) fn skip_string(bytes: &[u8], is_command: bool) -> (Step, usize) {
    // A command is one line, so a newline means that it was never ended; other strings may hold pictures.
    let found = if is_command {
        memchr::memchr3(b'\x1b', b'\x07', b'\n', bytes)
    } else {
        memchr::memchr2(b'\x1b', b'\x18', bytes)
    };
    let Some(at) = found else { return (Step::Inside, bytes.len()) };
    match bytes.get(at) {
        Some(b'\x1b') => (Step::Escape, at + 1),
        // The newline itself is text.
        Some(b'\n') => (Step::Ends, at),
        _ => (Step::Ends, at + 1),
    }
}
