//! Finds the next byte that means something, many at a time.

/// Looked at together; the compiler makes vector instructions of it.
const BLOCK: usize = 32;
/// The same for text that is nothing but ASCII, as most is.
const ASCII_BLOCK: usize = 128;
/// What is looked at in one go: it is still near when it is looked at again.
const NEAR: usize = 16 * 1024;

/// How much text with colours is copied in one go.
pub(super) const COPY: usize = 8 * 1024;
/// Two words, which are looked at together.
const PAIR: usize = 16;
/// So much without a colour is not worth looking for colours any more.
const LONG_RUN: usize = 16 * PAIR;
/// `ESC [` and `\r\n` as the low bytes of a word.
const CONTROL_SEQUENCE: u64 = 0x5b1b;
const LINE_END: u64 = 0x0a0d;

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

/// Copies text of nothing but ASCII and leaves out its colours, which is what most programs write. Stops where there is
/// anything else, or a long run without colours, or too little to look at. Gives how many bytes were read and how many were
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
        // A long word, or no colours at all.
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

/// The length of what is left out here: a colour, or the first half of the end of a line. 0 where it is neither, or longer
/// than a word.
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

/// How many bytes come before the first unusual one.
#[inline]
fn usual_bytes(bytes: [u8; PAIR]) -> usize {
    let both = u128::from_le_bytes(bytes);
    let (first, second) = (unusual_in(both as u64), unusual_in((both >> 64) as u64));
    let usual = if first == 0 { 64 + second.trailing_zeros() } else { first.trailing_zeros() };
    usual as usize / 8
}

/// The highest bit of each byte that is `is_unusual`. No carry goes from one byte to the next: each sum stays below 256.
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
