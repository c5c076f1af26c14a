//! Encoded forms of a secret: base64, hexadecimal, URL-encoded.

use althing_text::hex;
use std::fmt::Write;

/// The minimum length of a value, and of each encoded form, in bytes. Shorter forms are not searched for, because
/// they would match ordinary text by chance.
const MIN_BYTES: usize = 8;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The encoded forms of a value that are long enough to be searched for.
pub(crate) fn encoded(value: &str) -> Vec<String> {
    if value.len() < MIN_BYTES {
        return Vec::new();
    }
    let hex = hex(value.as_bytes());
    let mut forms = vec![hex.to_ascii_uppercase(), hex];
    for alphabet in [STANDARD, URL_SAFE] {
        for before in 0..3 {
            let text = in_base64(value.as_bytes(), before, alphabet);
            // Some JSON writers escape slashes.
            forms.push(text.replace('/', "\\/"));
            forms.push(text);
        }
    }
    let url = in_url(value);
    // HTML forms encode a space as a plus; hexadecimal digits may be upper or lower case.
    forms.extend([url.replace("%20", "+"), lower_escapes(&url), url]);
    forms.retain(|form| form.len() >= MIN_BYTES);
    forms.sort();
    forms.dedup();
    forms
}

/// The base64 characters that depend on the value alone, at any position in a longer encoded text. `before` is
/// the number of bytes that precede the value in the group of three bytes in which the value begins.
fn in_base64(value: &[u8], before: usize, alphabet: &[u8; 64]) -> String {
    let bit = |at: usize| value.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
    // The number of the value's first bits that share a base64 character with the preceding bytes.
    let skip = (6 - before * 8 % 6) % 6;
    let count = (value.len() * 8).saturating_sub(skip) / 6;
    (0..count)
        .map(|n| {
            let index = (0..6).fold(0, |index, at| index << 1 | usize::from(bit(skip + n * 6 + at)));
            char::from(alphabet.get(index).copied().unwrap_or_default())
        })
        .collect()
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
