//! Amounts of memory as Docker writes them: `512m`, `2g`, or a number of bytes.

use crate::tree::Node;

/// Docker accepts no smaller limit.
const MIN_BYTES: u64 = 6 << 20;

/// The number of bytes of an amount such as `512m`; `None` if the text is no amount, or if the amount is less than
/// Docker's minimum or more than 1 PiB.
pub fn memory_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * (1_u64 << shift) as f64;
    // The cast saturates.
    Some(bytes as u64).filter(|bytes| (MIN_BYTES..=1 << 50).contains(bytes))
}

pub(crate) fn amount(node: &Node) -> Option<String> {
    let text =
        node.as_text().map(str::to_owned).or_else(|| node.as_integer().map(|bytes| bytes.to_string()))?;
    memory_bytes(&text).map(|_| text.trim().to_ascii_lowercase())
}
