//! ASCII substitutes for the symbols of the screen.

/// The closest ASCII text for a symbol, with the same width.
pub(crate) fn ascii(symbol: &str, width: usize) -> &'static str {
    let one = match symbol {
        "●" | "•" | "■" => "*",
        "▸" | "▶" | "›" | "→" | "»" => ">",
        "▾" | "▼" | "↓" => "v",
        "▴" | "↑" | "⇧" => "^",
        "‹" | "←" | "«" => "<",
        "─" | "━" | "–" | "—" | "−" | "·" => "-",
        "│" | "┃" | "▏" | "▎" => "|",
        "┌" | "┐" | "└" | "┘" | "├" | "┤" | "┬" | "┴" | "┼" | "✓" => "+",
        "✗" | "×" => "x",
        "█" | "▓" => "#",
        "░" | "▒" => ".",
        "…" => "~",
        "⏎" => "<",
        "“" | "”" | "„" => "\"",
        "‘" | "’" => "'",
        _ => "?",
    };
    if width > 1 { "??" } else { one }
}
