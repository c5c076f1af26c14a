//! Encoded forms of a secret that masking searches for: base64, base32, hexadecimal, URL-encoded, and escaped as in
//! JSON or HTML.

use althing_text::hex;
use std::fmt::Write;

/// The minimum length of a value and of its encoded forms, in bytes; shorter forms would match ordinary text by chance.
const MIN_BYTES: usize = 8;

/// The maximum length, in bytes, of a value that is searched for with escapes and base64 tails. These forms of longer
/// values, such as certificates, would slow down the search.
const MAX_ESCAPED: usize = 256;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// The alphabet of RFC 4648.
const BASE_32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

pub(crate) fn encoded(value: &str) -> Vec<String> {
    if value.len() < MIN_BYTES {
        return Vec::new();
    }
    let with_tails = value.len() <= MAX_ESCAPED;
    let hex = hex(value.as_bytes());
    let mut forms = vec![hex.to_ascii_uppercase(), hex];
    for alphabet in [STANDARD, URL_SAFE] {
        for before in 0..3 {
            let (text, tail) = in_digits(value.as_bytes(), before, 6, alphabet);
            forms.extend(tail.into_iter().filter(|_| with_tails).flat_map(|tail| {
                let whole = format!("{text}{tail}");
                [whole.replace('/', "\\/"), whole]
            }));
            // Some JSON writers escape slashes.
            forms.push(text.replace('/', "\\/"));
            forms.push(text);
        }
    }
    for before in 0..5 {
        let (text, tail) = in_digits(value.as_bytes(), before, 5, BASE_32);
        forms.extend(tail.into_iter().filter(|_| with_tails).flat_map(|tail| {
            let whole = format!("{text}{tail}");
            [whole.to_ascii_lowercase(), whole]
        }));
        forms.extend([text.to_ascii_lowercase(), text]);
    }
    if value.len() <= MAX_ESCAPED {
        forms.extend(escaped_characters(value));
    }
    let url = in_url(value);
    // The URL encoding of web forms writes a space as a plus, and its hexadecimal digits may be upper or lower case.
    forms.extend([url.replace("%20", "+"), lower_escapes(&url), url]);
    forms.retain(|form| form.len() >= MIN_BYTES);
    forms.sort();
    forms.dedup();
    forms
}

/// The base64 (`width` 6) or base32 (5) digits that depend on the value alone if `before` bytes precede it in its group
/// of bytes; and the possible next digits, if the value's last bits share a digit with what follows.
fn in_digits(value: &[u8], before: usize, width: usize, alphabet: &[u8]) -> (String, Vec<char>) {
    let bit = |at: usize| value.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
    // The number of the value's first bits that share a digit with the preceding bytes.
    let skip = (width - before * 8 % width) % width;
    let bits = (value.len() * 8).saturating_sub(skip);
    let (count, left) = (bits / width, bits % width);
    let index =
        |n: usize| (0..width).fold(0, |index, at| index << 1 | usize::from(bit(skip + n * width + at)));
    let letter = |index: usize| char::from(alphabet.get(index).copied().unwrap_or_default());
    let tail = if left == 0 { 0..0 } else { index(count)..index(count) + (1 << (width - left)) };
    ((0..count).map(|n| letter(index(n))).collect(), tail.map(letter).collect())
}

/// The value with everything escaped, in several spellings, and with only the characters escaped that HTML reserves.
fn escaped_characters(value: &str) -> Vec<String> {
    let units = |write: fn(u16) -> String| value.encode_utf16().map(write).collect::<String>();
    let chars = |write: fn(char) -> String| value.chars().map(write).collect::<String>();
    let bytes = |write: fn(u8) -> String| value.bytes().map(write).collect::<String>();
    let reserved = |quote: &str, apostrophe: &str| {
        let amp = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        amp.replace('"', quote).replace('\'', apostrophe)
    };
    vec![
        units(|unit| format!("\\u{unit:04x}")),
        units(|unit| format!("\\u{unit:04X}")),
        bytes(|byte| format!("\\x{byte:02x}")),
        bytes(|byte| format!("\\x{byte:02X}")),
        bytes(|byte| format!("%{byte:02x}")),
        bytes(|byte| format!("%{byte:02X}")),
        chars(|c| format!("&#{};", u32::from(c))),
        chars(|c| format!("&#x{:x};", u32::from(c))),
        chars(|c| format!("&#x{:X};", u32::from(c))),
        reserved("&quot;", "&#39;"),
        reserved("&quot;", "&#x27;"),
        reserved("&quot;", "&apos;"),
        reserved("\"", "'"),
    ]
}

fn in_url(value: &str) -> String {
    let mut url = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            url.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(url, "%{byte:02X}");
        }
    }
    url
}

fn lower_escapes(url: &str) -> String {
    let mut lower = String::with_capacity(url.len());
    let mut escape = 0_u8;
    for c in url.chars() {
        escape = if c == '%' { 3 } else { escape };
        lower.push(if escape > 0 { c.to_ascii_lowercase() } else { c });
        escape = escape.saturating_sub(1);
    }
    lower
}
